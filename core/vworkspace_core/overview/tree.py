"""The tree of an object of the operator's kinds, with every object created for it, and its form as JSON (SEE-1).

The operator replicas that are at work in a cluster are found by their Leases: one leader for each shard (RUN-13). A
shard is a part of the namespaces, which one replica reconciles. An operator without leader election takes no Lease: the
heartbeat of its Cluster object shows that it runs.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.resources import HELM_CHART, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY, POD
from purekube.apimachinery.timestamps import format_time, time_at, time_or_none
from purekube.controller.lease.record import holder_of, lease_duration, lease_name, shard_count_of
from purekube.controller.shard import Shard
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import INSTANCE_UID, OPERATION_UID
from vworkspace_core.instances.observed_release import deployed_chart
from vworkspace_core.overview.pods import selection_of, summary_of_pod, workload_of
from vworkspace_core.overview.summary import OverviewState, Summary, summary_of, summary_of_child

_HELD: Final = timedelta(seconds=60)
"""The time after its last renewal for which a Lease counts as held, unless its own duration is longer; it has a margin
for clock skew between machines.
"""
_BEATING: Final = timedelta(seconds=150)
"""The time for which an operator counts as alive after a heartbeat: two heartbeats, and a margin for clock skew."""
RELEASE_NAME: Final = "helm.toolkit.fluxcd.io/name"
RELEASE_NAMESPACE: Final = "helm.toolkit.fluxcd.io/namespace"
"""The label that Flux sets on every object of a release, with the namespace of the HelmRelease."""
_OF_HOOKS: Final = {"Succeeded": OverviewState.SUCCEEDED, "Failed": OverviewState.FAILED}
_ORDER: Final = (HELM_REPOSITORY, OCI_REPOSITORY, HELM_CHART, HELM_RELEASE, OPERATION)


@attrs.frozen
class AtWork:
    """One shard (a part of the namespaces) with its leader, and when the leader last renewed its Lease.

    `holder` is empty if there is no leader.
    """

    shard: Shard
    holder: str = ""
    heard: datetime | None = None
    """The time of the Lease's last renewal; None if the shard has no Lease, or its time cannot be read."""


@attrs.frozen
class Workers:
    """The signs of running operators: the leader of each shard, and the newest heartbeat of a Cluster object.

    A shard is a part of the namespaces, which one replica of the operator reconciles.
    """

    shards: tuple[AtWork, ...] = ()
    heartbeat: datetime | None = None


def is_held(lease: Manifest | None, now: datetime) -> bool:
    """Report whether the Lease shows that a replica is leader at the time `now`.

    It was renewed in the minute before, or in the Lease's own duration, if that is longer. The result is False if
    `lease` is None.
    """
    renewed, lasts = _renewed(lease), max(_HELD, timedelta(seconds=lease_duration(lease)))
    return bool(holder_of(lease)) and renewed is not None and renewed > now - lasts


def at_work(leases: Iterable[Manifest], base: str, now: datetime) -> tuple[AtWork, ...]:
    """Return all shards in order, with their leaders, or an empty tuple if there is no Lease.

    A shard is a part of the namespaces. `base` is the name of the first shard's Lease. Each leader writes the number of
    shards into its Lease; the number is taken from the leaders at the time `now`, or else from the last leader. Leases
    left from a former number of shards are ignored.
    """
    by_name = {str(get_path(lease, "metadata", "name")): lease for lease in leases}
    if not by_name:
        return ()
    held = [lease for lease in by_name.values() if is_held(lease, now)]
    telling = held or [max(by_name.values(), key=lambda lease: str(get_path(lease, "spec", "renewTime") or ""))]
    count = max(shard_count_of(holder_of(lease)) for lease in telling)
    return tuple(_of_shard(Shard(index, count), base, by_name, now) for index in range(count))


def present_cluster(clusters: Iterable[Manifest]) -> Manifest | None:
    """Return the Cluster object to which the operator writes: the only one, or that with the newest heartbeat.

    The object of a former cluster id stays when the operator is registered again. Return None if it cannot be
    determined.
    """
    clusters = tuple(clusters)
    beat = heartbeat_of(clusters)
    beating = clusters if len(clusters) == 1 else [each for each in clusters if beat and heartbeat_of([each]) == beat]
    return next(iter(beating), None)


def heartbeat_of(clusters: Iterable[Manifest]) -> datetime | None:
    """Return the newest heartbeat in the Cluster objects, or None if there is no heartbeat.

    A heartbeat shows that an operator without a Lease runs.
    """
    beats = [beat for each in clusters if (beat := time_or_none(get_path(each, "status", "lastHeartbeat"))) is not None]
    return max(beats, default=None)


def is_alive(heartbeat: datetime | None, now: datetime) -> bool:
    """Report whether `heartbeat` is less than 150 seconds old at the time `now`; False if it is None.

    Operators send a heartbeat every minute.
    """
    return heartbeat is not None and heartbeat > now - _BEATING


def _of_shard(shard: Shard, base: str, leases: Mapping[str, Manifest], now: datetime) -> AtWork:
    lease = leases.get(lease_name(base, shard))
    holder = holder_of(lease) if lease is not None and is_held(lease, now) else ""
    return AtWork(shard, holder, _renewed(lease))


def _renewed(lease: Manifest | None) -> datetime | None:
    return time_or_none(get_path(lease, "spec", "renewTime"))


@attrs.frozen
class Branch:
    """One object in a tree of objects, with its children.

    If a box (a YAML file that describes an operator) or a Python reconciler created the object, `node` is the name of
    its resource in that box or reconciler, and `waits_for` has the names of the resources that block it.
    """

    summary: Summary
    children: tuple["Branch", ...] = ()
    node: str = ""
    waits_for: tuple[str, ...] = ()
    runs: str = ""
    """The chart and version of a release that the cluster runs now, which may differ from the desired ones."""
    made_from: tuple[ObjectRef, ...] = ()
    """The Flux objects that this object reads: for a release its chart or source, for a chart its repository."""


def tree_of(kind: Kind, manifest: Manifest, objects: Mapping[ObjectRef, Manifest]) -> Branch:
    """Return the tree of the object `manifest`, which is of `kind`, with the objects that were created for it.

    `objects` must have all objects labelled with its uid, and the objects that these own.
    """
    uid = str(get_path(manifest, "metadata", "uid") or "")
    match kind.kind:
        case APPLICATION_INSTANCE.kind:
            below = _below_instance(manifest, uid, objects)
        case OPERATION.kind:
            below = _labelled(objects, OPERATION_UID, uid)
        case _:
            below = _owned(objects, uid)
    return Branch(summary_of(kind, manifest), _ordered(below))


def _below_instance(manifest: Manifest, uid: str, objects: Mapping[ObjectRef, Manifest]) -> list[Branch]:
    """Return the branches below an instance: Flux's objects, then Operations, each with its own objects."""
    name, namespace = (get_path(manifest, "metadata", field) for field in ("name", "namespace"))
    made = [
        Branch(
            summary_of_child(ref.kind, live),
            _of_release(ref, objects),
            runs=_deployed(live),
            made_from=_made_from(ref, live, objects),
        )
        for ref, live in objects.items()
        if _label(live, INSTANCE_UID) == bounded_name(uid) and _label(live, OPERATION_UID) is None
    ]
    runs = [
        tree_of(OPERATION, live, objects)
        for ref, live in objects.items()
        if ref.kind == OPERATION and ref.namespace == namespace and get_path(live, "spec", "targetRef", "name") == name
    ]
    return [*made, *runs]


def _of_release(ref: ObjectRef, objects: Mapping[ObjectRef, Manifest]) -> tuple[Branch, ...]:
    """Return a branch for each object that Flux installed for the HelmRelease `ref`, as far as it is in `objects`.

    The release's test hooks get branches too. The result is empty for other kinds.
    """
    if ref.kind != HELM_RELEASE:
        return ()
    hooks = [Branch(hook) for hook in _test_hooks(ref, objects[ref])]
    pods = _pods_by_workload(ref, objects, {hook.summary.ref for hook in hooks})
    installed = [
        Branch(summary_of_child(each.kind, live), _ordered(pods.pop((each.kind, each.name), ())))
        for each, live in objects.items()
        if _label(live, RELEASE_NAME) == ref.name and _label(live, RELEASE_NAMESPACE) == ref.namespace
    ]
    return _ordered([*installed, *hooks, *(pod for others in pods.values() for pod in others)])


def _pods_by_workload(
    release: ObjectRef, objects: Mapping[ObjectRef, Manifest], hooks: Set[ObjectRef]
) -> dict[tuple[Kind, str] | None, list[Branch]]:
    """Return the pods of a release, except its test hooks, by kind and name of the workload that created them."""
    selection, found = selection_of(release, objects[release]), defaultdict[tuple[Kind, str] | None, list[Branch]](list)
    for ref, live in objects.items():
        has_own_place = ref in hooks or _label(live, RELEASE_NAME) is not None
        if selection is not None and selection.holds(ref, live) and not has_own_place:
            found[workload_of(live)].append(Branch(summary_of_pod(live)))
    return found


def _test_hooks(ref: ObjectRef, release: Manifest) -> Iterator[Summary]:
    """Yield summaries of the test hooks of the last release.

    Helm deletes their pods, so only the HelmRelease has their results.
    """
    hooks = get_path(release, "status", "history", 0, "testHooks")
    for name, hook in hooks.items() if isinstance(hooks, dict) else ():
        state = _OF_HOOKS.get(str(get_path(hook, "phase")), OverviewState.RUNNING)
        yield Summary(ObjectRef(POD, ref.namespace, str(name)), state, "TestHook", since=time_at(hook, "lastStarted"))


def _made_from(ref: ObjectRef, live: Manifest, objects: Iterable[ObjectRef]) -> tuple[ObjectRef, ...]:
    """Return those of `objects` that `live` names as its sources, Flux objects such as an OCIRepository."""
    named = [get_path(live, "spec", *path) for path in (("chartRef",), ("chart", "spec", "sourceRef"), ("sourceRef",))]
    chart = f"{ref.namespace}-{ref.name}"  # the name that Flux gives the HelmChart of a release
    sources = {(get_path(each, "kind"), get_path(each, "name")) for each in named} | {(HELM_CHART.kind, chart)}
    same = [each for each in objects if each.namespace == ref.namespace and (each.kind.kind, each.name) in sources]
    charts = [each for each in same if each.kind == HELM_CHART]
    return tuple(charts or same)


def _deployed(live: Manifest) -> str:
    """Return chart and version of the release that Helm records as deployed, as one text.

    Return an empty string if there is none, or if `live` is not a HelmRelease.
    """
    chart = deployed_chart(live)
    return f"{chart.name} {chart.version}" if chart is not None else ""


def _labelled(objects: Mapping[ObjectRef, Manifest], label: str, uid: str) -> list[Branch]:
    return [
        Branch(
            summary_of_child(ref.kind, live), _ordered(_owned(objects, str(get_path(live, "metadata", "uid") or "")))
        )
        for ref, live in objects.items()
        if _label(live, label) == bounded_name(uid) and ref.kind != POD
    ]


def _owned(objects: Mapping[ObjectRef, Manifest], uid: str) -> list[Branch]:
    return [
        Branch(summary_of_pod(live) if ref.kind == POD else summary_of_child(ref.kind, live))
        for ref, live in objects.items()
        if uid and uid in _owners(live)
    ]


def _owners(manifest: Manifest) -> set[str]:
    references = get_path(manifest, "metadata", "ownerReferences")
    return {str(get_path(each, "uid")) for each in references} if isinstance(references, list) else set()


def _ordered(branches: Iterable[Branch]) -> tuple[Branch, ...]:
    """Return branches in causal order (sources, then releases, then Operations), and by name."""
    return tuple(sorted(branches, key=lambda branch: (_place(branch.summary.ref.kind), branch.summary.ref)))


def _place(kind: Kind) -> int:
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _label(manifest: Manifest, name: str) -> str | None:
    value = get_path(manifest, "metadata", "labels", name)
    return value if isinstance(value, str) else None


def refs_of(kind: Kind, manifests: Sequence[Manifest]) -> dict[ObjectRef, Manifest]:
    """Return `manifests`, which are all of the kind `kind`, by their references."""
    return {ref_of(manifest, kind): manifest for manifest in manifests}


def summary_data(summary: Summary) -> dict[str, Any]:
    """Return the summary of one object as a JSON-like mapping. Unknown values are left out."""
    ref = summary.ref
    said = {
        "apiVersion": ref.kind.api_version,
        "kind": ref.kind.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "state": summary.state.value,
        "reason": summary.reason,
        "message": summary.message,
        "suspended": summary.is_suspended,
        "wantedVersion": summary.wanted,
        "deployedVersion": summary.deployed,
        "since": None if summary.since is None else format_time(summary.since),
        "nextLook": summary.next_look,
        "remedies": list(summary.remedies),
        "advice": summary.advice,
    }
    return {name: value for name, value in said.items() if value}


def branch_data(branch: Branch) -> dict[str, Any]:
    """Return `branch`, one object with all its children, as a JSON-like mapping."""
    children = [branch_data(child) for child in branch.children]
    more = {"node": branch.node, "deployed": branch.runs, "waitsFor": list(branch.waits_for), "children": children}
    return {**summary_data(branch.summary), **{name: value for name, value in more.items() if value}}


def shard_data(one: AtWork) -> dict[str, Any]:
    """Return one shard (a part of the namespaces) and its leader as a JSON-like mapping.

    Unknown values are left out.
    """
    heard = None if one.heard is None else format_time(one.heard)
    said = {"shard": str(one.shard), "holder": one.holder, "heard": heard}
    return {name: value for name, value in said.items() if value}


def state_counts(summaries: Iterable[Summary]) -> dict[str, int]:
    """Return the number of `summaries`, each of one object, by the object's state. The most frequent state comes first.

    States with equal numbers are sorted by name.
    """
    number: dict[str, int] = {}
    for summary in summaries:
        number[summary.state.value] = number.get(summary.state.value, 0) + 1
    return dict(sorted(number.items(), key=lambda each: (-each[1], each[0])))
