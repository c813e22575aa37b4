"""M9, RUN-11: what strangers store costs the operator next to nothing, and what is ours is kept as it is."""

import tracemalloc
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelab.clock import ManualClock
from purekube.apimachinery.manifest import Kind, get_path, metadata
from purekube.apimachinery.resources import CONFIG_MAP, HELM_CHART, HELM_RELEASE, OCI_REPOSITORY, VELERO_BACKUP
from purekube.controller.informer.store import ObjectStore
from purekube.controller.ownership import controller_of
from purekube.ports import KubeApi
from vworkspace_app.manager.operator_caches import _SLIM, informers_of
from vworkspace_core.api.kinds import APPLICATION_INSTANCE as OWNER
from vworkspace_core.api.labels import (
    MANAGED_BY,
    MANAGED_BY_VALUE,
    OPERATION_UID,
)
from vworkspace_core.instances.foreign_objects import (
    slim_chart,
    slim_config_map,
    slim_engine_object,
    slim_release,
    slim_source,
)
from vworkspace_core.overview.origin import origin_of

BIG = "x" * 1_000_000
OWNED = {"apiVersion": OWNER.api_version, "kind": OWNER.kind, "name": "a", "uid": "u-1", "controller": True}
ANOTHER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u-2", "controller": True}
LABELS = {MANAGED_BY: MANAGED_BY_VALUE}


@pytest.mark.parametrize("number", [0, 1])
def test_caches_keep_the_writer_of_a_spec_for_the_page_SEE_3(number: int) -> None:
    """Our own two kinds come first."""
    runner = list(informers_of(cast(KubeApi, None), ManualClock(), lambda: 0.0))[number]
    entry = {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:chart": {"f:version": {}}}}}
    manifest = made(runner.kind)
    runner.store.put({**manifest, "metadata": {**manifest["metadata"], "managedFields": [entry]}})
    cached = runner.store.get("n", "n0")
    assert cached is not None
    assert str(origin_of(cached)) == "applied directly (kubectl)"
    assert cached["metadata"]["managedFields"] == [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]


def made(kind: Kind, number: int = 0, *, owners: Any = (), labels: Any = None, **fields: Any) -> dict[str, Any]:
    meta = {
        "name": f"n{number}",
        "namespace": "n",
        "uid": f"uid-{number}",
        "resourceVersion": "7",
        "labels": {**(labels or {}), "other": "label"},
        "annotations": {"note": BIG[:200_000]},
        "ownerReferences": list(owners),
    }
    return {**kind.manifest(f"n{number}", "n"), "metadata": meta, **fields}


@pytest.mark.parametrize(("kind", "slim"), list(_SLIM.items()), ids=lambda one: getattr(one, "kind", ""))
@pytest.mark.parametrize("owners", [(), (ANOTHER,)], ids=["nobody's", "another's"])
def test_of_a_stranger_only_who_it_is_is_kept(kind: Kind, slim: Any, owners: Any) -> None:
    manifest = slim(made(kind, owners=owners, spec={"values": {"a": BIG}}))

    assert len(str(manifest)) < 2_000
    for name in ("name", "namespace", "uid", "resourceVersion"):
        assert metadata(manifest)[name] == made(kind)["metadata"][name]
    assert controller_of(manifest) == controller_of(made(kind, owners=owners))


@pytest.mark.parametrize("mark", [None, "", 7, ["u"]])
def test_only_what_is_marked_as_made_for_an_operation_is_kept_whole(mark: Any) -> None:
    ours = made(VELERO_BACKUP, labels={OPERATION_UID: "u"}, status={"phase": "Completed"})
    assert slim_engine_object(ours) == ours
    assert "status" not in slim_engine_object(made(VELERO_BACKUP, labels={OPERATION_UID: mark}, status={"phase": BIG}))


@pytest.mark.slow
@given(
    st.sampled_from([((OWNED,), {}), ((), LABELS), ((OWNED,), LABELS)]),
    st.dictionaries(st.sampled_from(["spec", "status"]), st.dictionaries(st.text(max_size=5), st.integers())),
)
def test_what_may_be_an_instances_is_kept_whole(whose: Any, fields: Any) -> None:
    owners, labels = whose
    for kind, slim in ((HELM_RELEASE, slim_release), (OCI_REPOSITORY, slim_source)):
        manifest = made(kind, owners=owners, labels=labels, **fields)
        assert slim(manifest) == manifest


def test_of_a_ConfigMap_the_data_is_kept_where_it_is_ours_and_small() -> None:
    small = {"values.yaml": "ingress:\n  enabled: true\n"}
    ours = made(CONFIG_MAP, owners=(OWNED,), labels=LABELS, data=small)
    assert slim_config_map(ours) == ours
    assert "data" not in slim_config_map(made(CONFIG_MAP, labels=LABELS, data=small))
    large, other = ({"values.yaml": text} for text in (BIG, BIG[:-1] + "y"))
    hashes = [slim_config_map(made(CONFIG_MAP, owners=(OWNED,), data=data))["data"] for data in (large, other)]
    assert hashes[0] != hashes[1]
    assert len(str(hashes)) < 400


def test_of_a_HelmChart_what_Flux_says_is_kept_and_no_long_text() -> None:
    condition = {"type": "Ready", "status": "False", "reason": "X", "message": BIG[:32_768]}
    spec = {"chart": "nextcloud", "version": "6.6.0", "valuesFiles": [BIG], "sourceRef": {"kind": "HelmRepository"}}
    status = {"observedGeneration": 3, "observedSourceArtifactRevision": "r", "conditions": [condition]}
    manifest = slim_chart(made(HELM_CHART, spec=spec, status=status))

    assert get_path(manifest, "spec") == {name: spec[name] for name in ("chart", "version", "sourceRef")}
    assert get_path(manifest, "status", "observedSourceArtifactRevision") == "r"
    assert get_path(manifest, "status", "conditions", 0, "reason") == "X"
    assert len(str(manifest)) < 4_000


@pytest.mark.parametrize(
    ("kind", "slim", "field"),
    [(CONFIG_MAP, slim_config_map, "data"), (HELM_RELEASE, slim_release, "spec"), (HELM_CHART, slim_chart, "spec")],
)
def test_hundreds_of_megabytes_of_strangers_are_a_few_hundred_kilobytes(kind: Kind, slim: Any, field: str) -> None:
    """300 ConfigMaps of 1 MB took the process from 80 to 252 MB."""
    store = ObjectStore(kind, transform=slim)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(300):
        store.buffer([made(kind, number, labels=LABELS if kind == CONFIG_MAP else None, **{field: {"a": BIG}})])
    for _change in store.replace("9"):
        pass
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(store) == 300
    assert after - before < 1_000_000
