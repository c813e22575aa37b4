"""The tree of an object: what is below it, in which order, and how it is written as JSON (SEE-1)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, ref_of
from purekube.apimachinery.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    HELM_CHART,
    HELM_RELEASE,
    HELM_REPOSITORY,
    JOB,
    OCI_REPOSITORY,
    POD,
    SERVICE,
)
from purekube.boxes.box import MARKS as BOXES
from purekube.composites.parent import MARKS as CONTROLLERS
from purekube.controller.shard import Shard
from tests.support.builders import instance_manifest, operation_manifest
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import INSTANCE_UID, OPERATION_UID
from vworkspace_core.overview.box_tree import tree_of_marked
from vworkspace_core.overview.pods import HELM_INSTANCE
from vworkspace_core.overview.summary import OverviewState, Summary
from vworkspace_core.overview.tree import (
    RELEASE_NAME,
    RELEASE_NAMESPACE,
    AtWork,
    Branch,
    branch_data,
    refs_of,
    shard_data,
    state_counts,
    summary_data,
    tree_of,
)

NS = "team"
SHOP = Kind("shops.example.com", "v1", "Shop", "shops")
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
OURS = {INSTANCE_UID: "u-1"}


def made(kind: Kind, name: str, namespace: str = NS, **more: Any) -> tuple[Kind, Manifest]:
    """An object; `of` is its owner's uid, `labels` are its labels, and what else is said are its other fields."""
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "uid": f"u-{name}", "labels": more.pop("labels", {})}
    if (owner := more.pop("of", None)) is not None:
        meta["ownerReferences"] = [{"uid": "another"}, {"uid": owner}]
    return kind, {**kind.manifest(name, namespace), "metadata": meta, **more}


def run(name: str, target: str, namespace: str = NS) -> tuple[Kind, Manifest]:
    manifest = operation_manifest(name, namespace, target=target)
    manifest["metadata"]["uid"] = f"u-{name}"
    return OPERATION, manifest


def names(*objects: tuple[Kind, Manifest], uid: str = "u-1") -> list[Any]:
    """What is below an instance, each as its kind and name, and what is below that."""
    instance = instance_manifest("shop", NS)
    instance["metadata"]["uid"] = uid
    return below(tree_of(APPLICATION_INSTANCE, instance, {ref_of(live, kind): live for kind, live in objects}))


def below(branch: Branch) -> list[Any]:
    found = []
    for each in branch.children:
        name = f"{each.summary.ref.kind.kind} {each.summary.ref.name}"
        found.append((name, below(each)) if each.children else name)
    return found


def test_below_an_instance_are_sources_then_releases_then_the_rest_by_name() -> None:
    kinds = (CONFIG_MAP, HELM_RELEASE, OCI_REPOSITORY, HELM_CHART, HELM_REPOSITORY)
    objects = [made(kind, name, labels=OURS) for kind in kinds for name in ("b", "a")]

    assert names(run("b", "shop"), *objects, run("a", "shop")) == [
        *("HelmRepository a", "HelmRepository b", "OCIRepository a", "OCIRepository b", "HelmChart a", "HelmChart b"),
        *("HelmRelease a", "HelmRelease b", "Operation a", "Operation b", "ConfigMap a", "ConfigMap b"),
    ]


def test_an_instance_has_what_carries_its_uid_and_the_operations_on_it() -> None:
    assert names(
        made(CONFIG_MAP, "ours", labels=OURS),
        made(CONFIG_MAP, "of-a-run", labels={**OURS, OPERATION_UID: "u-run"}),
        made(CONFIG_MAP, "other", labels={INSTANCE_UID: "u-2"}),
        made(CONFIG_MAP, "odd", labels={INSTANCE_UID: 1}),
        made(CONFIG_MAP, "bare"),
        run("run", "shop"),
        run("elsewhere", "shop", "elsewhere"),
        run("of-another", "another"),
        made(JOB, "of-run", labels={OPERATION_UID: "u-run"}),
    ) == [("Operation run", ["ConfigMap of-a-run", "Job of-run"]), "ConfigMap ours"]


def test_below_what_an_operation_made_is_what_that_owns() -> None:
    objects = [
        run("run", "shop"),
        made(JOB, "job", labels={OPERATION_UID: "u-run"}),
        made(POD, "pod", labels={OPERATION_UID: "u-run"}, of="u-job"),
        made(CONFIG_MAP, "map", of="u-job"),
        made(CONFIG_MAP, "other", of="u-other"),
    ]

    assert names(*objects) == [("Operation run", [("Job job", ["ConfigMap map", "Pod pod"])])]


@pytest.mark.parametrize("owners", ["u-1", {"uid": "u-1"}, None, [], [{}], ["u-1"]])
def test_odd_owners_own_nothing_and_an_object_without_a_uid_neither(owners: Any) -> None:
    child = CONFIG_MAP.manifest("a", NS)
    child["metadata"]["ownerReferences"] = owners
    objects = refs_of(CONFIG_MAP, [child])

    for uid in ("u-1", "", None):
        parent = {**JOB.manifest("job", NS), "metadata": {"name": "job", "namespace": NS, "uid": uid}}
        assert tree_of(JOB, parent, objects).children == ()


def test_a_crashing_pod_that_an_object_owns_is_degraded() -> None:
    waiting = {"containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}
    objects = refs_of(POD, [made(POD, "pod", of="u-job", status={"phase": "Running", **waiting})[1]])

    (pod,) = tree_of(JOB, made(JOB, "job")[1], objects).children
    assert (pod.summary.state, pod.summary.reason) == (OverviewState.DEGRADED, "CrashLoopBackOff")


def test_below_a_release_are_what_flux_labelled_its_pods_and_its_hooks_by_name() -> None:
    flux = {RELEASE_NAME: "shop", RELEASE_NAMESPACE: NS}
    pods = {HELM_INSTANCE: "shop"}
    hooks = {"test-b": {"phase": "Succeeded"}, "test-a": {"phase": "Running"}}
    objects = [
        made(HELM_RELEASE, "shop", labels=OURS, status={"history": [{"testHooks": hooks}]}),
        made(SERVICE, "svc", labels=flux),
        made(DEPLOYMENT, "web", labels=flux),
        made(SERVICE, "other-name", labels={**flux, RELEASE_NAME: "other"}),
        made(SERVICE, "other-place", labels={**flux, RELEASE_NAMESPACE: "elsewhere"}),
        made(POD, "lost", labels=pods),
        made(POD, "test-a", labels=pods),
        made(POD, "flux", labels={**pods, **flux}),
        made(POD, "other", labels={HELM_INSTANCE: "other"}),
    ]

    assert names(*objects) == [
        (
            "HelmRelease shop",
            ["Pod flux", "Pod lost", "Pod test-a", "Pod test-b", "Service svc", "Deployment web"],
        )
    ]


@pytest.mark.parametrize(
    ("hook", "state", "since"),
    [
        ({"phase": "Succeeded", "lastStarted": "2026-07-01T12:00:00Z"}, OverviewState.SUCCEEDED, NOON),
        ({"phase": "Failed"}, OverviewState.FAILED, None),
        ({"phase": "Running"}, OverviewState.RUNNING, None),
        ({}, OverviewState.RUNNING, None),
        ("odd", OverviewState.RUNNING, None),
    ],
)
def test_a_test_hook_has_the_result_that_helm_recorded(hook: Any, state: OverviewState, since: Any) -> None:
    release = made(HELM_RELEASE, "shop", labels=OURS, status={"history": [{"testHooks": {"test": hook}}]})[1]
    instance = instance_manifest("shop", NS, metadata={"uid": "u-1"})

    (branch,) = tree_of(APPLICATION_INSTANCE, instance, {ObjectRef(HELM_RELEASE, NS, "shop"): release}).children
    (found,) = branch.children
    assert found.summary == Summary(ObjectRef(POD, NS, "test"), state, "TestHook", since=since)


@pytest.mark.parametrize(
    ("history", "runs"),
    [
        ([], ""),
        ([{"status": "failed", "chartName": "a", "chartVersion": "2"}], ""),
        (
            [
                {"status": "failed", "chartName": "a", "chartVersion": "3"},
                {"status": "deployed", "chartName": "a", "chartVersion": "2"},
                {"status": "deployed", "chartName": "a", "chartVersion": "1"},
            ],
            "a 2",
        ),
    ],
)
def test_a_release_runs_the_chart_that_helm_records_as_deployed(history: Any, runs: str) -> None:
    release = made(HELM_RELEASE, "shop", labels=OURS, status={"history": history})[1]
    instance = instance_manifest("shop", NS, metadata={"uid": "u-1"})

    (branch,) = tree_of(APPLICATION_INSTANCE, instance, {ObjectRef(HELM_RELEASE, NS, "shop"): release}).children
    assert branch.runs == runs


@pytest.mark.parametrize("marks", [BOXES, CONTROLLERS])
def test_the_children_of_a_parent_are_known_by_its_marks_and_named_by_their_node(marks: Any) -> None:
    parent = {**SHOP.manifest("s", NS), "metadata": {"name": "s", "namespace": NS, "uid": "u-1"}}
    objects = [
        made(CONFIG_MAP, "b", labels={marks.owner_uid: "u-1", marks.node: "parts", marks.item: "x"})[1],
        made(CONFIG_MAP, "a", labels={marks.owner_uid: "u-1", marks.node: "web"})[1],
        made(CONFIG_MAP, "c", labels={marks.owner_uid: "u-1"})[1],
        made(CONFIG_MAP, "other", labels={marks.owner_uid: "u-2", marks.node: "web"})[1],
        made(CONFIG_MAP, "bare")[1],
    ]

    tree = tree_of_marked(SHOP, parent, refs_of(CONFIG_MAP, objects))

    assert tree.summary.ref == ObjectRef(SHOP, NS, "s")
    assert [(each.summary.ref.name, each.node) for each in tree.children] == [
        ("a", "web"),
        ("b", "parts[x]"),
        ("c", ""),
    ]


SUMMARY = Summary(
    ObjectRef(OPERATION, NS, "run"), OverviewState.STALLED, "Odd", "why", NOON, ("fix it",), "ask", "2", "1", True
)
WRITTEN = {
    "apiVersion": OPERATION.api_version,
    "kind": "Operation",
    "namespace": NS,
    "name": "run",
    "state": "Stalled",
    "reason": "Odd",
    "message": "why",
    "suspended": True,
    "wantedVersion": "2",
    "deployedVersion": "1",
    "since": "2026-07-01T12:00:00Z",
    "nextLook": SUMMARY.next_look,
    "remedies": ["fix it"],
    "advice": "ask",
}


def test_a_summary_is_written_with_every_field_that_is_known() -> None:
    assert summary_data(SUMMARY) == WRITTEN
    assert WRITTEN["nextLook"]
    bare = Summary(ObjectRef(CONFIG_MAP, None, "a"), OverviewState.SUCCEEDED)
    assert summary_data(bare) == {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "state": "Succeeded"}


def test_a_branch_is_written_with_its_children() -> None:
    leaf = Branch(Summary(ObjectRef(CONFIG_MAP, NS, "a"), OverviewState.READY))
    branch = Branch(SUMMARY, (leaf,), "node", ("web", "db"), "shop 1")

    assert branch_data(leaf) == summary_data(leaf.summary)
    assert branch_data(branch) == {
        **summary_data(SUMMARY),
        "node": "node",
        "deployed": "shop 1",
        "waitsFor": ["web", "db"],
        "children": [summary_data(leaf.summary)],
    }


def test_a_shard_is_written_with_what_is_known_of_its_leader() -> None:
    assert shard_data(AtWork(Shard(1, 3))) == {"shard": "1/3"}
    assert shard_data(AtWork(Shard(1, 3), "pod", NOON)) == {
        "shard": "1/3",
        "holder": "pod",
        "heard": "2026-07-01T12:00:00Z",
    }


def test_states_are_counted_the_most_frequent_first_and_then_by_name() -> None:
    states = [OverviewState.WAITING, *[OverviewState.READY] * 2, OverviewState.STALLED, OverviewState.FAILED]
    counts = state_counts(Summary(ObjectRef(CONFIG_MAP, NS, "a"), state) for state in states)

    assert list(counts.items()) == [("Ready", 2), ("Failed", 1), ("Stalled", 1), ("Waiting", 1)]
    assert state_counts([]) == {}
