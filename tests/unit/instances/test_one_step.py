"""D21, REC-3: chart and values change in one step, the HelmRelease's one apply; nothing stands between them.

Whatever stops that apply, Flux goes on with what was, whole: never with the new chart and the old values.
"""

import copy
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from kubelab.flux import SourceFault
from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.meta import APPLIED_HASH
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE, HELM_REPOSITORY, NAMESPACE, OCI_REPOSITORY
from purekube.controller.drift import stamp
from purekube.ports import KubeRequest, Send
from tests.support.instance_oracle import check_confirmed, claims_ready, releases
from tests.support.instance_stories import copy_of
from tests.support.instance_turmoil import Interrupted, LiveSourceRule, Turmoil, cut_off, died, intent
from tests.support.simulation import FRAGMENT, HELM, INSTANCE, NS, OCI, REPOSITORY
from tests.support.source_names import source_ref
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER
from vworkspace_core.instances.context import Context, InstanceObserved
from vworkspace_core.instances.foreign_objects import slim_release
from vworkspace_core.instances.reconcile import reconcile

pytestmark = pytest.mark.slow

OLD, NEW = ("6.6.0", "six"), ("7.0.0", "seven")
SOURCES = (OCI_REPOSITORY, HELM_REPOSITORY)
KINDS = pytest.mark.parametrize("source_type", ["oci", "helm"])


def wanted(request: tuple[str, str], source_type: str = "oci") -> dict[str, Any]:
    """Chart and values that belong together."""
    version, title = request
    return intent(version=version, source_type=source_type, values={"source": "inline", "inline": {"title": title}})


def installed(source_type: str = "oci") -> Turmoil:
    world = Turmoil()
    world.submit(wanted(OLD, source_type))
    world.run(30)
    assert claims_ready(world.look(INSTANCE))
    return world


def ever_deployed(world: Turmoil) -> set[tuple[str, str]]:
    """Version and title of every release that Helm has on record."""
    return {(release.chart_version.partition("+")[0], str(release.config.get("title"))) for release in releases(world)}


def sources(world: Turmoil) -> set[ObjectRef]:
    return set(world.everything(*SOURCES))


@attrs.define
class RefusingReleases:
    """The API server answers 503 to the applies of HelmReleases for a while."""

    left: int

    async def send(self, request: KubeRequest, proceed: Send) -> Manifest:
        if request.action == "apply" and request.kind == HELM_RELEASE and self.left:
            self.left -= 1
            raise Unavailable("503: etcdserver: leader changed")
        return await proceed(request)


@KINDS
def test_a_held_field_stops_the_upgrade_before_anything_is_changed_REC_3(source_type: str) -> None:
    """The source was applied first: Flux ran 7.0.0 with the values of 6.6.0, for good, and the instance said Ready."""
    world = installed(source_type)
    world.edit(HELM, {"spec": {"interval": "1h"}})
    world.run(30)
    before, release = sources(world), world.look(HELM)

    world.submit(wanted(NEW, source_type))
    world.run(600)

    assert ever_deployed(world) == {OLD}
    assert world.condition(INSTANCE, "Blocked") == ("True", "FieldConflict")
    assert get_path(world.look(INSTANCE), "status", "lastAppliedChart", "version") == "6.6.0"
    assert sources(world) == before, "nothing was made for what cannot be used"
    assert get_path(world.look(HELM), "spec") == get_path(release, "spec")

    assert world.hand_back()
    world.run(120)

    assert ever_deployed(world) == {OLD, NEW}
    assert claims_ready(world.look(INSTANCE))
    check_confirmed(world, copy_of(world))


@KINDS
@pytest.mark.parametrize("times", [1, 3])
def test_a_503_on_the_release_keeps_chart_and_values_together(source_type: str, times: int) -> None:
    world = installed(source_type)
    whole, face = world.api, RefusingReleases(times)
    world.api = world.api.through(face.send)
    world.submit(wanted(NEW, source_type))
    while face.left:
        world.run(20)
        assert ever_deployed(world) <= {OLD, NEW}
    world.api = whole
    world.run(120)

    assert ever_deployed(world) == {OLD, NEW}
    assert len(releases(world)) == 2, "one upgrade for one change"
    check_confirmed(world, copy_of(world))


@KINDS
@pytest.mark.parametrize("happens", [True, False])
@pytest.mark.parametrize("error", [died, cut_off])
def test_a_process_that_ends_at_any_call_keeps_chart_and_values_together(
    source_type: str, happens: bool, error: Any
) -> None:
    for calls in range(14):
        world = installed(source_type)
        world.submit(wanted(NEW, source_type))
        world.interrupted(INSTANCE, Interrupted(calls, happens, error, lasting=True))
        while world.flux.next_work() is not None:  # nobody but Flux is at work
            world.pass_time(60)
        assert ever_deployed(world) <= {OLD, NEW}, calls
        world.run(120)
        assert ever_deployed(world) == {OLD, NEW}
        assert len(releases(world)) == 2, "one upgrade for one change"


def test_an_upgrade_asks_for_nothing_extra_where_nobody_holds_a_field_REC_3() -> None:
    world = installed()
    world.server.audit.clear()
    world.submit(wanted(NEW))
    world.run(60)

    assert claims_ready(world.look(INSTANCE))
    assert not world.server.audit.select(lambda entry: entry.dry_run)


def test_what_others_hold_that_we_never_write_asks_for_nothing_extra_REC_3() -> None:
    world = installed()
    world.edit(HELM, {"metadata": {"annotations": {"team": "blue"}}, "spec": {"test": {"enable": False}}})
    world.server.audit.clear()
    world.submit(wanted(NEW))
    world.run(60)

    assert ever_deployed(world) == {OLD, NEW}
    assert not world.server.audit.select(lambda entry: entry.dry_run)


def test_caches_keep_who_holds_what_of_a_release_and_as_a_rule_nothing_REC_3() -> None:
    world = installed()
    release = copy.deepcopy(world.look(HELM))
    assert release is not None
    assert len(release["metadata"]["managedFields"]) > 1, "ours and Flux's"
    assert "managedFields" not in slim_release(release)["metadata"]

    world.edit(HELM, {"spec": {"interval": "1h"}})
    edited = slim_release(world.look(HELM) or {})
    assert edited["metadata"]["managedFields"] == [
        {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": {"f:interval": {}}}}
    ]
    unlabelled = {**edited, "metadata": {**edited["metadata"], "labels": {}}}
    assert "managedFields" not in slim_release(unlabelled)["metadata"]


def test_a_field_that_others_hold_at_our_value_is_tried_and_is_no_conflict_REC_3() -> None:
    world = installed()
    body = {**HELM_RELEASE.manifest(HELM.name, NS), "spec": {"interval": "5m"}}
    run_sync(world.admin.apply(body, kind=HELM_RELEASE, field_manager="gitops"))
    world.server.audit.clear()
    world.submit(wanted(NEW))
    world.run(60)

    assert ever_deployed(world) == {OLD, NEW}
    assert len(world.server.audit.select(lambda entry: entry.dry_run)) == 1


@KINDS
def test_the_old_source_goes_when_the_new_one_is_in_use_and_not_before_REC_14(source_type: str) -> None:
    world = installed(source_type)
    (old,) = sources(world)
    spec = {**wanted(NEW, source_type)["spec"]["chart"], "secretRef": {"name": "regcred"}}
    manifest = wanted(NEW, source_type)
    manifest["spec"]["chart"] = spec
    world.submit(manifest)
    world.run(60)
    new = source_ref(NS, "nextcloud", spec)
    assert sources(world) == {old, new}, "its credentials are missing: what was is still there"

    world.put_secret("regcred", "a: 1")
    world.run(900)

    assert claims_ready(world.look(INSTANCE))
    assert sources(world) == {new}


def test_sources_do_not_pile_up_where_no_version_is_ever_ready_REC_14() -> None:
    """The same class: what is made anew for each version, and pruned only when one is in use."""
    world = installed()
    world.source_rules.append(LiveSourceRule(world, SourceFault.NOT_FOUND, None, None))
    world.script()
    for patch in range(20):
        world.submit(wanted((f"7.0.{patch}", "seven")))
        world.run(20)

    assert len(sources(world)) <= 6
    world.behave()
    world.run(1200)
    assert claims_ready(world.look(INSTANCE))
    assert len(sources(world)) == 1


def test_integrations_beneath_foreign_values_change_with_the_chart() -> None:
    """The same class: the ConfigMap was changed in place, and Flux watches it."""
    world = Turmoil()
    values = {"source": "secretRef", "secretRef": {"name": "values-a", "key": "values.yaml"}}
    world.put_secret("values-a", "a: 1")
    world.submit(intent(values=values, integrations={"ingress": {"enabled": True, "host": "one.example"}}))
    world.run(30)
    held = world.look(FRAGMENT)
    world.edit(HELM, {"spec": {"interval": "1h"}})

    world.submit(
        intent(version="7.0.0", values=values, integrations={"ingress": {"enabled": True, "host": "two.example"}})
    )
    world.run(60)

    assert held is not None
    assert world.look(FRAGMENT) == held
    assert len(releases(world)) == 1
    world.hand_back()
    world.run(60)
    assert claims_ready(world.look(INSTANCE))
    assert len([ref for ref in world.everything(CONFIG_MAP) if "integrations" in ref.name]) == 1
    assert len(releases(world)) == 2


# --- a cluster whose sources have the names of before ---------------------------------------------------------------

_FRAGMENT_FORMER = "nextcloud-integrations"


def formerly(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """An object of ours as it was made before: a source of the release's name, and a ConfigMap of its own."""
    names = {"HelmRelease": "nextcloud", "ConfigMap": _FRAGMENT_FORMER}
    meta = {key: value for key, value in manifest["metadata"].items() if key != "annotations"}
    spec = dict(manifest.get("spec") or {})
    if "chartRef" in spec:
        spec["chartRef"] = {**spec["chartRef"], "name": "nextcloud"}
    if "chart" in spec:
        source = {**spec["chart"]["spec"]["sourceRef"], "name": "nextcloud"}
        spec["chart"] = {"spec": {**spec["chart"]["spec"], "sourceRef": source}}
    if "valuesFrom" in spec:
        spec["valuesFrom"] = [
            {**one, "name": _FRAGMENT_FORMER} if "-integrations-" in one["name"] else one for one in spec["valuesFrom"]
        ]
    body = {**manifest, **({"spec": spec} if spec else {})}
    return stamp({**body, "metadata": {**meta, "name": names.get(manifest["kind"], "nextcloud")}}, APPLIED_HASH)


def made_before(**asked: Any) -> Turmoil:
    """A cluster in which an operator of before had installed that instance."""
    world = Turmoil()
    world.put_secret("values-a", "a: 1")
    made = world.submit(intent(**asked))
    world.edit(INSTANCE, {"metadata": {"finalizers": [FINALIZER]}}, manager=FIELD_MANAGER)
    observed = InstanceObserved(world.look(ObjectRef(NAMESPACE, None, NS)))
    fresh = reconcile(read_application_instance(made), observed, Context(world.settings, world.now))
    for apply in fresh.applies:
        body = formerly(apply.manifest)
        run_sync(world.api.apply(body, kind=apply.kind, field_manager=FIELD_MANAGER))
    world.pass_time(60)
    world.run(60)
    return world


VALUES = {"source": "secretRef", "secretRef": {"name": "values-a", "key": "values.yaml"}}
BEFORE = pytest.mark.parametrize(
    "asked",
    [
        {"source_type": "oci"},
        {"source_type": "helm"},
        {"values": VALUES, "integrations": {"ingress": {"enabled": True, "host": "one.example"}}},
    ],
    ids=["oci", "helm", "integrations"],
)


@BEFORE
def test_what_was_made_under_the_former_names_goes_on_without_a_word_REC_6(asked: dict[str, Any]) -> None:
    world = made_before(**asked)
    assert claims_ready(world.look(INSTANCE))
    release = world.look(HELM)

    world.run(700)

    assert world.look(HELM)["metadata"]["generation"] == release["metadata"]["generation"]  # type: ignore[index]
    assert {ref.name for ref in sources(world)} == {"nextcloud"}
    assert len(releases(world)) == 1, "not installed anew"


@BEFORE
def test_the_next_version_moves_to_the_new_names_in_one_step_without_a_reinstall_REC_14(
    asked: dict[str, Any],
) -> None:
    world = made_before(**asked)
    former = next(iter(sources(world)))

    world.submit(intent(version="7.0.0", **asked))
    while not claims_ready(world.look(INSTANCE)):
        world.run(1)
        assert len(world.flux.workloads) == 1, "it runs all the time"
        if not claims_ready(world.look(INSTANCE)):
            assert former in sources(world), "REC-14: not before the new one is in use"
    world.run(60)

    (used,) = sources(world)
    assert used != former
    assert len(releases(world)) == 2, "one upgrade"
    assert not [ref for ref in world.everything(CONFIG_MAP) if ref.name == _FRAGMENT_FORMER]
    assert get_path(
        world.look(OCI if used.kind == OCI_REPOSITORY else REPOSITORY), "metadata", "annotations", APPLIED_HASH
    )
    check_confirmed(world, copy_of(world))


def test_a_conflict_on_a_release_of_the_former_naming_changes_nothing() -> None:
    world = made_before()
    world.edit(HELM, {"spec": {"interval": "1h"}})
    before = sources(world)
    world.submit(intent(version="7.0.0"))
    world.run(600)

    assert sources(world) == before
    assert len(releases(world)) == 1
    assert world.condition(INSTANCE, "Blocked") == ("True", "FieldConflict")
