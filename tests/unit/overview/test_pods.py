"""SEE-1, SEE-3: pods below a release: which are its own, and what they say."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, ref_of
from purekube.apimachinery.resources import (
    DAEMON_SET,
    DEPLOYMENT,
    HELM_CHART,
    HELM_RELEASE,
    HELM_REPOSITORY,
    JOB,
    OCI_REPOSITORY,
    POD,
    SERVICE,
)
from tests.support.builders import instance_manifest
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import INSTANCE_UID
from vworkspace_core.overview.object_graph import graph_of_tree
from vworkspace_core.overview.origin import ObjectOrigin
from vworkspace_core.overview.pods import HELM_INSTANCE, pod_selections, summary_of_pod, workload_of
from vworkspace_core.overview.severity import Severity
from vworkspace_core.overview.summary import OverviewState
from vworkspace_core.overview.tree import RELEASE_NAME, RELEASE_NAMESPACE, Branch, tree_of

NS = "team"
READY: dict[str, Any] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
CRASHING: dict[str, Any] = {
    "phase": "Running",
    "containerStatuses": [{"name": "web", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}],
}


def pod(name: str, status: dict[str, Any], release: str = "shop", owner: str = "shop-7d9") -> Manifest:
    made = {"kind": "ReplicaSet", "name": owner, "controller": True}
    meta = {
        "name": name, "namespace": NS, "labels": {HELM_INSTANCE: release, "pod-template-hash": "7d9"},
        "ownerReferences": [made],
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status}


def release(**status: Any) -> Manifest:
    return {
        **HELM_RELEASE.manifest("shop", NS),
        "metadata": {"name": "shop", "namespace": NS, "labels": {INSTANCE_UID: "u-1"}},
        "status": status,
    }


def tree(*objects: tuple[Kind, Manifest]) -> Branch:
    instance = instance_manifest("shop", NS)
    instance["metadata"]["uid"] = "u-1"
    return tree_of(APPLICATION_INSTANCE, instance, {ref_of(live, kind): live for kind, live in objects})


def below(branch: Branch) -> list[tuple[str, str, list[Any]]]:
    return [(each.summary.ref.kind.kind, each.summary.ref.name, below(each)) for each in branch.children]


def made(kind: Kind, name: str, namespace: str = NS, **spec: Any) -> tuple[Kind, Manifest]:
    meta = {"name": name, "namespace": namespace, "labels": {INSTANCE_UID: "u-1"}}
    return kind, {**kind.manifest(name, namespace), "metadata": meta, "spec": spec}


CHART = made(HELM_CHART, "team-shop", sourceRef={"kind": "HelmRepository", "name": "repo"})
SOURCES = [
    *(made(HELM_REPOSITORY, name) for name in ("repo", "team-shop", "other")),
    made(OCI_REPOSITORY, "repo"),
    made(HELM_REPOSITORY, "repo", "elsewhere"),
]
NAMED = {"kind": "HelmRepository", "name": "repo"}


@pytest.mark.parametrize(
    ("objects", "spec", "sources"),
    [
        ([], {"chartRef": NAMED}, [(HELM_REPOSITORY, "repo")]),
        ([], {"sourceRef": NAMED}, [(HELM_REPOSITORY, "repo")]),
        ([], {"chart": {"spec": {"sourceRef": NAMED}}}, [(HELM_REPOSITORY, "repo")]),
        ([], {"chartRef": {"kind": "OCIRepository", "name": "repo"}}, [(OCI_REPOSITORY, "repo")]),
        ([], {"chartRef": {"kind": "HelmRepository", "name": "absent"}}, []),
        ([], {}, []),
        ([CHART], {"chart": {"spec": {"sourceRef": NAMED}}}, [(HELM_CHART, "team-shop")]),
        ([CHART], {}, [(HELM_CHART, "team-shop")]),
        ([made(HELM_CHART, "shop"), made(HELM_CHART, "team-shop", "elsewhere")], {}, []),
    ],
)
def test_a_release_is_made_from_its_chart_or_else_from_the_source_that_it_names_SEE_3(
    objects: list[tuple[Kind, Manifest]], spec: dict[str, Any], sources: list[tuple[Kind, str]]
) -> None:
    found = tree(*SOURCES, *objects, (HELM_RELEASE, {**release(), "spec": spec}))

    (branch,) = (each for each in found.children if each.summary.ref.kind == HELM_RELEASE)
    assert branch.made_from == tuple(ObjectRef(kind, NS, name) for kind, name in sources)


def test_a_chart_is_made_from_its_repository_SEE_3() -> None:
    (branch,) = (each for each in tree(*SOURCES, CHART).children if each.summary.ref.kind == HELM_CHART)
    assert branch.made_from == (ObjectRef(HELM_REPOSITORY, NS, "repo"),)


def test_the_pods_of_a_release_are_those_with_its_name_in_its_namespace_SEE_1() -> None:
    made = [(POD, pod("a", READY)), (POD, pod("b", CRASHING)), (POD, pod("c", READY, release="other"))]
    assert below(tree((HELM_RELEASE, release()), *made)) == [
        ("HelmRelease", "shop", [("Pod", "a", []), ("Pod", "b", [])])
    ]


def test_a_pod_is_below_the_workload_that_made_it_where_that_can_be_seen_SEE_1() -> None:
    labels = {RELEASE_NAME: "shop", RELEASE_NAMESPACE: NS}
    workload = {**DEPLOYMENT.manifest("shop", NS), "metadata": {"name": "shop", "namespace": NS, "labels": labels}}
    found = tree((HELM_RELEASE, release()), (DEPLOYMENT, workload), (POD, pod("a", READY)))
    assert below(found) == [("HelmRelease", "shop", [("Deployment", "shop", [("Pod", "a", [])])])]


def test_a_test_hook_whose_pod_still_exists_is_shown_once_SEE_1() -> None:
    history = [{"testHooks": {"hook": {"phase": "Failed", "lastStarted": "2026-01-01T00:00:00Z"}}}]
    found = tree((HELM_RELEASE, release(history=history)), (POD, pod("hook", READY)))
    assert below(found) == [("HelmRelease", "shop", [("Pod", "hook", [])])]
    (hook,) = found.children[0].children
    assert hook.summary.state is OverviewState.FAILED, "what Helm says of it counts"


def test_helm_s_record_says_under_which_name_and_where_a_release_runs_SEE_1() -> None:
    live = release(history=[{"name": "shop-release", "namespace": "elsewhere"}])
    job = {**JOB.manifest("run-1", NS)}
    objects = {ref_of(live, HELM_RELEASE): live, ref_of(job, JOB): job, ObjectRef(SERVICE, NS, "s"): {}}
    assert [(one.namespace, one.selector) for one in pod_selections(objects)] == [
        ("elsewhere", "app.kubernetes.io/instance=shop-release"),
        (NS, "batch.kubernetes.io/job-name=run-1"),
    ]


@pytest.mark.parametrize(
    ("kind", "name", "found"),
    [
        ("ReplicaSet", "shop-7d9", (DEPLOYMENT, "shop")),
        ("DaemonSet", "logs", (DAEMON_SET, "logs")),
        ("Node", "n-1", None),
    ],
)
def test_a_replica_set_stands_for_its_deployment(kind: str, name: str, found: object) -> None:
    made = pod("a", READY)
    made["metadata"]["ownerReferences"][0] |= {"kind": kind, "name": name}
    assert workload_of(made) == found


def test_a_pod_that_something_holds_up_is_a_fault_and_one_that_starts_is_none_SEE_3() -> None:
    crashing = summary_of_pod(pod("a", CRASHING))
    assert (crashing.state, crashing.reason) == (OverviewState.DEGRADED, "CrashLoopBackOff")
    assert summary_of_pod(pod("a", {"phase": "Pending"})).state is OverviewState.PROGRESSING
    assert summary_of_pod(pod("a", READY)).state is OverviewState.READY


@pytest.mark.parametrize("failing", [1, 9])
def test_a_graph_folds_pods_that_are_well_and_none_that_fails_SEE_3(failing: int) -> None:
    pods = [(POD, pod(f"p-{at:02}", CRASHING if at < failing else READY)) for at in range(30)]
    graph = graph_of_tree(tree((HELM_RELEASE, release()), *pods), ObjectOrigin())
    shown = [node for node in graph.nodes if node.kind == "Pod"]
    assert sum(node.severity is Severity.BAD for node in shown) == failing
    (rest,) = [node for node in graph.nodes if node.kind == "Pods of shop"]
    assert rest.name == f"and {30 - len(shown)} more"
    assert (rest.severity, rest.message) == (Severity.GOOD, f"{30 - len(shown)} of them are ready")
