"""Which objects of an instance are looked up, read and applied, under which names (REC-3, REC-4)."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.meta import APPLIED_HASH
from purekube.apimachinery.resources import CONFIG_MAP, HELM_CHART, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY
from purekube.controller.drift import stamp
from tests.support.instance_worlds import SETTINGS, instance_manifest
from vworkspace_core.api.application_instance import ReleaseOverride
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.instances.desired import desired_objects, helm_chart_of, read_refs, source_kind, watched_refs

NS = "org-myteam"
RELEASE = ObjectRef(HELM_RELEASE, NS, "nextcloud")
HELM = {"sourceType": "helm", "url": "https://charts.example", "name": "nextcloud", "version": "6.6.0"}
INTEGRATIONS = {"ingress": {"enabled": True, "host": "a.example"}}
SECRET = {"source": "secretRef", "secretRef": {"name": "s", "key": "values.yaml"}}
NEWER = ReleaseOverride("up", "o", "h", version="6.7.0")


def source(**spec: Any) -> Any:
    return read_application_instance(instance_manifest(**spec))


def test_an_oci_chart_is_looked_up_by_release_and_source() -> None:
    found = watched_refs(source())

    assert [ref.kind for ref in found] == [HELM_RELEASE, OCI_REPOSITORY]
    assert found[0] == RELEASE
    assert found[1].name.startswith("nextcloud-")


def test_a_chart_of_a_repository_has_its_helm_chart_too() -> None:
    found = watched_refs(source(chart=HELM))

    assert [ref.kind for ref in found] == [HELM_RELEASE, HELM_CHART, HELM_REPOSITORY]
    assert found[1] == helm_chart_of(RELEASE) == ObjectRef(HELM_CHART, NS, f"{NS}-nextcloud")
    assert [source_kind(source(**spec).spec.chart) for spec in ({}, {"chart": HELM})] == [
        OCI_REPOSITORY,
        HELM_REPOSITORY,
    ]


@pytest.mark.parametrize(
    ("integrations", "values", "has_map"),
    [
        (INTEGRATIONS, SECRET, True),
        (INTEGRATIONS, {"source": "inline", "inline": {}}, False),
        (INTEGRATIONS, None, False),
        (None, SECRET, False),
    ],
)
def test_integrations_beneath_values_that_are_never_read_have_a_config_map(
    integrations: Any, values: Any, has_map: bool
) -> None:
    instance = source(integrations=integrations, values=values)
    desired = desired_objects(instance, None, {}, SETTINGS)

    assert (CONFIG_MAP in {ref.kind for ref in watched_refs(instance)}) is has_map
    assert (CONFIG_MAP in {ref.kind for ref in desired.refs}) is has_map
    assert set(watched_refs(instance)) == set(desired.refs)


def test_nothing_is_looked_up_without_chart_or_release() -> None:
    assert watched_refs(source(chart=None)) == watched_refs(source(release=None)) == ()
    assert read_refs(source(release=None), {}) == read_refs(source(), {}) == ()


def test_every_version_that_is_asked_for_has_its_source() -> None:
    instance = source()
    standing = attrs.evolve(instance, status=attrs.evolve(instance.status, release_override=NEWER))
    plain, asked = watched_refs(instance), watched_refs(instance, NEWER)

    assert asked == watched_refs(standing) == watched_refs(standing, NEWER)
    assert (asked[:2], len(asked)) == (plain, 3)
    third = attrs.evolve(NEWER, version="6.8.0")
    assert len(watched_refs(standing, third)) == 4
    assert watched_refs(instance, attrs.evolve(NEWER, version=None)) == plain


def test_the_objects_are_applied_one_after_the_other_with_the_version_in_force() -> None:
    desired = desired_objects(source(integrations=INTEGRATIONS, values=SECRET), NEWER, {}, SETTINGS)

    assert [apply.kind for apply in desired.applies] == [OCI_REPOSITORY, CONFIG_MAP, HELM_RELEASE]
    assert [len(apply.after) for apply in desired.applies] == [0, 1, 2]
    assert (desired.release, desired.version, desired.retry) == (RELEASE, "6.7.0", "")
    assert desired.source == desired.applies[0].ref
    assert desired.applies[0].manifest["spec"]["ref"] == {"tag": "6.7.0"}
    assert desired.chart == helm_chart_of(RELEASE)


def former_world(instance: Any) -> dict[ObjectRef, Any]:
    """The objects as an earlier version of the operator has left them."""
    renamed: dict[ObjectRef, Any] = {}
    for apply in desired_objects(instance, None, {}, SETTINGS).applies:
        text = apply.manifest
        name = "nextcloud"
        spec = dict(text["spec"])
        if apply.kind == HELM_RELEASE:
            spec["chartRef"] = {**spec["chartRef"], "name": name}
        bare = {key: value for key, value in text["metadata"].items() if key != "annotations"}
        renamed[ObjectRef(apply.kind, NS, name)] = {**text, "metadata": {**bare, "name": name}, "spec": spec}
    return {ref: stamp(live, APPLIED_HASH) for ref, live in renamed.items()}


def test_a_release_that_reads_a_source_of_a_former_name_keeps_it_while_nothing_changes() -> None:
    instance = source()
    former = former_world(instance)

    kept = desired_objects(instance, None, former, SETTINGS)
    assert kept.source == ObjectRef(OCI_REPOSITORY, NS, "nextcloud")
    changed = desired_objects(source(suspend=True), None, former, SETTINGS)
    assert changed.source.name.startswith("nextcloud-")
    assert desired_objects(instance, None, {}, SETTINGS).source.name.startswith("nextcloud-")


def test_what_the_live_release_reads_is_found_whatever_is_wanted_now() -> None:
    values = [
        {"kind": "ConfigMap", "name": "nextcloud-integrations-0123abcd"},
        {"kind": "ConfigMap", "name": "of-the-user"},
        {"kind": "Secret", "name": "nextcloud-integrations"},
        "x",
    ]
    oci = {"spec": {"chartRef": {"kind": "OCIRepository", "name": "o"}, "valuesFrom": values}}
    chart = {"spec": {"chart": {"spec": {"sourceRef": {"kind": "HelmRepository", "name": "h"}}}, "valuesFrom": "x"}}
    other = {"spec": {"chartRef": {"kind": "HelmChart", "name": "o"}}}

    beneath = ObjectRef(CONFIG_MAP, NS, "nextcloud-integrations-0123abcd")
    assert read_refs(source(), {RELEASE: oci}) == (ObjectRef(OCI_REPOSITORY, NS, "o"), beneath)
    assert read_refs(source(), {RELEASE: chart}) == (ObjectRef(HELM_REPOSITORY, NS, "h"),)
    assert read_refs(source(), {RELEASE: other}) == ()
