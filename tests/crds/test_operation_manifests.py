"""Every manifest of every engine, for any parameters, is accepted by the real CRDs (OPS-6, REC-4)."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelab.downstream.crds import downstream_crds
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import PERSISTENT_VOLUME_CLAIM
from purekube.ports import PatchType
from tests.support.effort import effort
from tests.support.furnished import furnish
from tests.support.instance_worlds import NOW
from tests.support.operation_worlds import (
    CONTEXT,
    GOOD,
    NS,
    RESTRICTED,
    SIMULATED,
    gated,
    observed,
    operation,
    recorded,
)
from tests.support.operation_worlds import hook as chart_hook
from tests.support.projects_crds import projects_crds
from tests.support.strategies import dns_labels, dns_subdomains
from vworkspace_core.operations.preconditions import Start, start_or_unmet

FILES = (
    "velero.io_backups",
    "velero.io_restores",
    "argoproj.io_workflows",
    "volsync.backube_replicationsources",
    "volsync.backube_replicationdestinations",
    "snapshot.storage.k8s.io_volumesnapshots",
)

names = dns_subdomains()
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
arguments = st.dictionaries(
    st.from_regex(r"\A[A-Za-z0-9_][-A-Za-z0-9_]{0,20}\Z"),
    st.booleans() | st.integers() | st.from_regex(r"\A[ -z]{0,20}\Z"),
    max_size=4,
)
counts = st.integers(0, 1000)


def records(required: dict[str, Any], **optional: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


modes = st.lists(
    st.sampled_from(["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"]), min_size=1, max_size=3, unique=True
)
workflows = records({"workflowTemplate": names}, workflowTemplateParameters=arguments)
PARAMETERS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "backup.velero": records(
        {},
        retention=st.sampled_from(["30d", "720h", "1d12h", "90s"]),
        storageLocation=names,
        snapshotClassName=st.just("csi"),
        includeNamespaces=st.lists(st.sampled_from(["org-a", "org-b"]), min_size=1, max_size=3),
        includedResources=st.lists(st.sampled_from(["*", "pods", "deployments.apps"]), max_size=3),
        excludedResources=st.lists(st.sampled_from(["secrets", "events.events.k8s.io"]), max_size=3),
        snapshotVolumes=st.booleans(),
    ),
    "restore.velero": records(
        {"backupName": st.just("b-1")},
        namespaceMapping=st.dictionaries(st.just(NS), st.sampled_from(["org-a", "org-b"]), min_size=1),
        restorePVs=st.booleans(),
        existingResourcePolicy=st.sampled_from(["none", "update"]),
    ),
    "migration.helmHookJob": st.just(GOOD["migration.helmHookJob"]),  # what differs is the hook: see `hooks`
    "migration.workflow": workflows,
    "runbook.workflow": workflows,
    "runCommand.job": records(
        {"image": st.from_regex(r"\A[a-z0-9][a-zA-Z0-9._/:@-]{0,80}\Z")},
        command=st.lists(texts, max_size=3),
        args=st.lists(texts, max_size=3),
        env=st.dictionaries(st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,20}\Z"), texts, max_size=3)
        | st.lists(st.fixed_dictionaries({"name": st.sampled_from(["A", "B"]), "value": texts}), max_size=4),
        timeoutSeconds=st.integers(1, 31_536_000),
        backoffLimit=st.integers(0, 10),
        envFrom=st.lists(
            st.fixed_dictionaries({"secretRef": records({"name": names}, optional=st.booleans())}), max_size=16
        ),
        resources=st.sampled_from([{"limits": {"memory": "1Gi"}}, {"requests": {"cpu": "100m"}}]),
    ),
    "backup.volsync": records(
        {"source": names, "repository": names},
        copyMethod=st.sampled_from(["Direct", "Clone", "Snapshot"]),
        schedule=st.sampled_from(["0 3 * * *", "*/5 1-3 * * 1", "@daily"]),
        retain=records(
            {}, hourly=counts, daily=counts, weekly=counts, monthly=counts, yearly=counts, within=st.just("3d")
        )
        | records({}, last=st.just("7")),
    ),
    "restore.volsync": records(
        {"destination": names, "repository": names}, copyMethod=st.sampled_from(["Direct", "Snapshot"])
    ),
    "backup.snapshot": records({"pvc": names}, snapshotClassName=names),
    "restore.snapshot": records(
        {"snapshotName": st.just("s-1"), "size": st.sampled_from(["1Gi", "10G", "500M", "1.5Ti"])},
        storageClassName=names,
        accessModes=modes,
    ),
}


def server_with(definitions: Any) -> InProcessKube:
    kube = InProcessKube(ApiServer(now=lambda: NOW))
    furnish(kube, definitions, NS, "velero")
    return kube


@cache
def real() -> InProcessKube:
    return server_with(crd for name in FILES for crd in projects_crds(f"{name}.yaml").values())


@cache
def small() -> InProcessKube:
    return server_with(downstream_crds())


keys = st.from_regex(r"\A(helm[.]sh/|example[.]com/)?[a-z]([-a-z0-9]{0,10}[a-z0-9])?\Z")


def container(image: str) -> dict[str, Any]:
    return {"name": "migrate", "image": image, "securityContext": RESTRICTED}


hooks = st.fixed_dictionaries(
    {
        "template": st.builds(
            lambda labels, annotations, policy, image: {
                "metadata": {"labels": {**labels, "controller-uid": "1"}, "annotations": annotations},
                "spec": {"restartPolicy": policy, "containers": [container(image)]},
            },
            st.dictionaries(keys, dns_labels(), max_size=3),
            st.dictionaries(keys, texts, max_size=3),
            st.sampled_from(["Never", "OnFailure"]),
            st.sampled_from(["nextcloud:30", "registry.example/a@sha256:" + "0" * 64]),
        )
    },
    optional={
        "backoffLimit": st.integers(0, 10),
        "activeDeadlineSeconds": st.integers(1, 10_000),
        "parallelism": st.just(1),
        "completions": st.just(1),
        "ttlSecondsAfterFinished": st.integers(0, 10),
        "suspend": st.booleans(),
    },
)
"""Specs of Jobs that a chart may have for a hook."""


def made(of: str, parameters: dict[str, Any], name: str, hook: dict[str, Any]) -> tuple[Kind, Manifest]:
    """What is created for an Operation of that template."""
    objects = dict([gated("org-a"), gated("org-b"), *recorded(chart_hook(hook)).items()])
    seen = observed(of, objects=objects)
    start = start_or_unmet(operation(of, name=name, parameters=parameters), seen, CONTEXT)
    assert isinstance(start, Start), start
    (desired,) = start.objects
    return desired.kind, desired.manifest


def accept(kube: InProcessKube, kind: Kind, manifest: Manifest) -> None:
    """Strictly: a field the schema does not know is refused."""
    answer = run_sync(kube.create(manifest, kind=kind, field_manager="test"))
    assert manifest["metadata"]["labels"].items() <= answer["metadata"]["labels"].items()
    meta = manifest["metadata"]
    run_sync(kube.delete(_ref(kind, meta)))
    left = run_sync(kube.list(kind, namespace=meta["namespace"])).items
    if left:  # what protects a claim in use
        assert kind == PERSISTENT_VOLUME_CLAIM
        patch = {"metadata": {"finalizers": None}}
        run_sync(kube.patch(_ref(kind, meta), patch, patch_type=PatchType.MERGE, field_manager="test"))


def _ref(kind: Kind, meta: Any) -> ObjectRef:
    return ObjectRef(kind, meta["namespace"], meta["name"])


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [real, small], ids=["real CRDs", "CRDs of the fake"])
@pytest.mark.parametrize("of", PARAMETERS)
@settings(max_examples=effort(0.625))
@given(data=st.data())
def test_every_manifest_is_accepted(of: str, cluster: Any, data: Any) -> None:
    parameters = data.draw(PARAMETERS[of])
    name = data.draw(dns_labels() | dns_subdomains())

    kind, manifest = made(of, parameters, name, data.draw(hooks))

    accept(cluster(), kind, manifest)


def test_the_table_above_leaves_no_template_out() -> None:
    assert set(PARAMETERS) == set(SIMULATED) - {"upgrade.helm"}, "an upgrade creates nothing"
