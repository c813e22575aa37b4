"""The laws (required properties) that hold some time after faults have stopped, such as convergence (SIM-4).

One of them compares the end of a run with a new simulated cluster to which only the last intents were applied: crashes,
faults and reverted edits must leave no trace. Three cases depend on history by design and are left out: a suspended
release stays as it was, a release of a broken version returns to the version before, and an Operation requests a change
of the release only once.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubelab.clock import START
from kubelab.flux.draft import REQUESTED_AT
from purekube.apimachinery.conditions import condition_of, conditions_by_type
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.meta import ABANDON
from purekube.apimachinery.resources import HELM_RELEASE, HELM_REPOSITORY, NAMESPACE, OCI_REPOSITORY
from purekube.apimachinery.timestamps import parse_time
from purekube.controller.ownership import owner_uids
from purekube_run.simulation.extensions.stable_parts import stable_parts_of
from purekube_run.simulation.laws import Unsettled, condition_text
from vworkspace_app.simulation.operator_world import (
    BROKEN,
    CHART,
    CLUSTER_ID,
    GUESTS,
    OWN_NAMESPACE,
    SimulatedWorld,
    WorldSettings,
    furnish,
    open_namespace,
)
from vworkspace_app.simulation.workload_requests import MISFIT, TAKEN
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.operation import TERMINAL_PHASES
from vworkspace_core.credentials.secret import secret_ref, stored_credential
from vworkspace_core.operations.engines import engine_kinds

CHILDREN: Final = (HELM_RELEASE, OCI_REPOSITORY, HELM_REPOSITORY)
"""The kinds of objects that exist only for an instance."""
TERMINAL: Final = frozenset(phase.value for phase in TERMINAL_PHASES)
SETTLED: Final = (
    ("REC-1", "every instance converges"),
    ("REC-10", "a deleted instance goes"),
    ("REC-10", "nothing is left of a deleted instance"),
    ("REC-10", "a deleted namespace goes"),
    ("REC-14", "an older source goes"),
    ("PULL-4", "an acknowledged job has a result"),
    ("PULL-1", "an offered job is taken"),
    ("OPS-1", "an Operation ends or says for what it waits"),
    ("OPS-12", "an Operation ends by its deadline"),
    ("OPS-11", "a deleted Operation goes"),
    ("OPS-11", "a cancelled Operation ends"),
    ("RES-3", "the Cluster names the managed namespaces"),
    ("PULL-8", "a rotation ends"),
    ("PULL-6", "the end of an Operation is reported"),
    ("REC-9", "a failed upgrade is taken back"),
    ("REC-4", "what others made is not taken over"),
    ("REC-9", "a Ready release is as its instance asks"),
    ("RES-1", "the status names what runs"),
    ("REC-9", "a newer spec ends an upgrade"),
    ("REC-9", "a succeeded upgrade stays"),
    ("REC-14", "a retry reaches Flux"),
    ("OPS-12", "a run that was stopped is gone"),
    ("PULL-6", "the last transition is reported"),
)
"""The laws (required properties) that hold some time after faults have stopped, each with its clause."""


def unsettled(world: SimulatedWorld) -> Iterator[Unsettled]:
    """Yield each object that does not satisfy one of the laws (required properties) in this module yet."""
    gated = {
        live["metadata"]["name"]
        for live in world.objects(NAMESPACE)
        if get_path(live, "metadata", "labels", labels.NAMESPACE_GATE) == labels.NAMESPACE_GATE_VALUE
    }
    forbidden = {
        version
        for live in world.objects(CLUSTER)
        for version in get_path(live, "spec", "policy", "forbiddenVersions") or ()
    }
    for live in world.objects(APPLICATION_INSTANCE):
        ref = str(ObjectRef(APPLICATION_INSTANCE, live["metadata"]["namespace"], live["metadata"]["name"]))
        if (live["metadata"].get("labels") or {}).get(labels.CLUSTER_ID) != CLUSTER_ID:
            continue
        if live["metadata"].get("deletionTimestamp"):
            yield Unsettled("REC-10", "a deleted instance goes", ref, condition_text(live))
        elif (
            f"{CHART}@{get_path(live, 'spec', 'chart', 'version')}" in forbidden
            and live["metadata"]["namespace"] in gated
        ):
            if not _is_blocked(live, "PolicyDenied"):
                yield Unsettled("RES-3", "what the policy forbids is blocked", ref, condition_text(live))
        elif _is_taken(world, live):
            if not _is_blocked(live, "NameTaken"):
                yield Unsettled("REC-4", "what others made is not taken over", ref, condition_text(live))
        elif not has_converged(live, is_gated=live["metadata"]["namespace"] in gated):
            yield Unsettled("REC-1", "every instance converges", ref, condition_text(live))
    for live in world.objects(CLUSTER):
        named = set(get_path(live, "status", "managedNamespaces") or ())
        if named != gated:
            told = f"it names {sorted(named)} instead of {sorted(gated)}"
            yield Unsettled("RES-3", "the Cluster names the managed namespaces", live["metadata"]["name"], told)
    yield from _left_over(world)
    yield from _releases(world)
    yield from _open_jobs(world)
    yield from _open_operations(world)
    yield from _running_on(world)
    yield from _failed_upgrades(world)
    yield from _unreported(world)
    yield from _untold(world)
    yield from open_rotations(world)


def _left_over(world: SimulatedWorld) -> Iterator[Unsettled]:
    owners = {live["metadata"]["uid"]: live for live in world.objects(APPLICATION_INSTANCE)}
    releases = {(live["metadata"]["namespace"], live["metadata"]["name"]): live for live in world.objects(HELM_RELEASE)}
    for kind in CHILDREN:
        for child in world.objects(kind):
            meta = child["metadata"]
            uid = (meta.get("labels") or {}).get(labels.INSTANCE_UID)
            ref = str(ObjectRef(kind, meta["namespace"], meta["name"]))
            kept = (meta.get("annotations") or {}).get(labels.KEPT_FROM) == uid
            if uid and uid not in owners:
                if kept:
                    continue
                yield Unsettled("REC-10", "nothing is left of a deleted instance", ref, f"its instance was {uid}")
            elif uid and kind != HELM_RELEASE and is_ready(owners[uid]):
                release = releases.get((meta["namespace"], owners[uid]["spec"]["release"]["name"]))
                if release is not None and meta["name"] not in sources_of(release):
                    yield Unsettled("REC-14", "an older source goes", ref, f"in use is {sources_of(release)}")
    for namespace in world.objects(NAMESPACE):
        if namespace["metadata"].get("deletionTimestamp"):
            name = namespace["metadata"]["name"]
            yield Unsettled("REC-10", "a deleted namespace goes", name, str(get_path(namespace, "status")))


def sources_of(release: Manifest) -> tuple[str, str]:
    """Return the names of the OCIRepository and of the HelmRepository that a HelmRelease uses, "" for none."""
    spec = release["spec"]
    named = get_path(spec, "chartRef", "name"), get_path(spec, "chart", "spec", "sourceRef", "name")
    return str(named[0] or ""), str(named[1] or "")


def _is_taken(world: SimulatedWorld, live: Manifest) -> bool:
    """Report whether others have made a HelmRelease with the name of an instance."""
    meta = live["metadata"]
    if not meta["name"].startswith(TAKEN):
        return False
    release = world.get(ObjectRef(HELM_RELEASE, meta["namespace"], meta["name"]))
    return release is not None and labels.INSTANCE_UID not in (release["metadata"].get("labels") or {})


def has_values(release: Manifest, instance: Manifest) -> bool:
    """Report whether a HelmRelease has all values that its instance wants."""
    desired, values = (get_path(instance, "spec", "values", "inline") or {}, get_path(release, "spec", "values") or {})
    return all(values.get(key) == value for key, value in desired.items())


_TO_FLUX: Final = (
    ("metadata", "annotations", REQUESTED_AT),
    ("status", "lastHandledReconcileAt"),
    ("status", "lastHandledResetAt"),
)
"""The fields of a HelmRelease that show a retry: the operator's requests, and what Flux has handled."""


def _releases(world: SimulatedWorld) -> Iterator[Unsettled]:
    """Yield each instance whose HelmRelease lacks what the instance wants, or has not got the retry that users want.

    An instance that is blocked or suspended, or whose release an Operation has changed, is left out.
    """
    releases = {(live["metadata"]["namespace"], live["metadata"]["name"]): live for live in world.objects(HELM_RELEASE)}
    for live in world.objects(APPLICATION_INSTANCE):
        meta = live["metadata"]
        release = releases.get((meta["namespace"], meta["name"]))
        is_held = conditions_by_type(live).get("Blocked", {}).get("status") == "True" or meta.get("deletionTimestamp")
        if release is None or meta["uid"] not in owner_uids(release) or is_held or get_path(live, "spec", "suspend"):
            continue
        ref = str(ref_of(live, APPLICATION_INSTANCE))
        if is_ready(live) and not get_path(live, "status", "releaseOverride"):
            if not has_values(release, live):
                yield Unsettled("REC-9", "a Ready release is as its instance asks", ref, "values are missing")
            if wrong := _misnamed(live):
                yield Unsettled("RES-1", "the status names what runs", ref, f"{', '.join(wrong)} differs")
        retry = get_path(meta, "annotations", labels.RETRY)
        told = [str(get_path(release, *path)) for path in _TO_FLUX]
        if retry and not any(each.startswith(retry) for each in told):
            yield Unsettled("REC-14", "a retry reaches Flux", ref, f"{retry} was asked for, Flux has {told}")


def _misnamed(live: Manifest) -> list[str]:
    """Return the fields in the status of a Ready instance that do not name its release, version, generation or last
    request.
    """
    version, generation = get_path(live, "spec", "chart", "version"), live["metadata"]["generation"]
    expected = {
        ("lastAppliedChart", "version"): version,
        ("deployedChart", "version"): version,
        ("helmReleaseRef", "name"): get_path(live, "spec", "release", "name"),
        ("observedGeneration",): generation,
        ("observedRequest",): labels.request_mark(live["metadata"].get("annotations") or {}),
    }
    return [path[0] for path, value in expected.items() if get_path(live, "status", *path) != value]


def _running_on(world: SimulatedWorld) -> Iterator[Unsettled]:
    """Yield each engine's object that exists although its Operation was cancelled, or had to end by its deadline.

    Velero cannot be stopped: a Backup that it brings back once it has finished has another uid.
    """
    stopped = {
        get_path(live, "status", "engineRef", "uid"): str(ref_of(live, OPERATION))
        for live in world.objects(OPERATION)
        if get_path(live, "status", "phase") == "Cancelled"
        or conditions_by_type(live).get("Failed", {}).get("reason") == "Timeout"
    }
    for kind in engine_kinds() if stopped else ():
        for live in world.objects(kind):
            meta = live["metadata"]
            owner = stopped.get(meta["uid"])
            if owner is not None and not meta.get("deletionTimestamp"):
                yield Unsettled("OPS-12", "a run that was stopped is gone", str(ref_of(live, kind)), f"{owner} was")


def _untold(world: SimulatedWorld) -> Iterator[Unsettled]:
    """Yield each instance whose last transition of Ready was not reported, unless a job reports it, or etcd was
    restored (PULL-6).
    """
    if world.was_restored:
        return
    told = {
        (event["resourceRef"]["uid"], *_transition_of(condition))
        for event in world.control.events_of(CLUSTER_ID)
        for condition in event["conditions"]
        if condition["type"] == "Ready" and event["kind"] == "ConditionTransition"
    }
    for live in world.objects(APPLICATION_INSTANCE):
        meta, ready = live["metadata"], conditions_by_type(live).get("Ready")
        of_job = labels.IDEMPOTENCY_KEY in (meta.get("annotations") or {})
        is_ours = (meta.get("labels") or {}).get(labels.CLUSTER_ID) == CLUSTER_ID
        if ready is not None and is_ours and not of_job and (meta["uid"], *_transition_of(ready)) not in told:
            ref = str(ref_of(live, APPLICATION_INSTANCE))
            yield Unsettled("PULL-6", "the last transition is reported", ref, condition_text(live))


def _transition_of(condition: Mapping[str, Any]) -> tuple[Any, ...]:
    return condition["status"], condition["reason"], condition["lastTransitionTime"]


def _open_jobs(world: SimulatedWorld) -> Iterator[Unsettled]:
    for job in world.control.jobs:
        if job.open and job.acked_at is not None and not _waits(world, job.raw["payload"].get("operation")):
            yield Unsettled("PULL-4", "an acknowledged job has a result", job.id, f"acknowledged at {job.acked_at}")
        elif job.open and job.acked_at is None:
            yield Unsettled("PULL-1", "an offered job is taken", job.id, f"offered {job.offers} times")


def _waits(world: SimulatedWorld, asked: Manifest | None) -> bool:
    """Report whether the Operation that a job asks for exists and says why it has not started yet."""
    live = world.get(ref_of(asked, OPERATION)) if asked else None
    return get_path(live, "status", "phase") == "Pending" and bool(get_path(live, "status", "reason"))


def _open_operations(world: SimulatedWorld) -> Iterator[Unsettled]:
    for live in world.objects(OPERATION):
        if live["metadata"]["name"].startswith(MISFIT):
            continue
        ref = str(ObjectRef(OPERATION, live["metadata"]["namespace"], live["metadata"]["name"]))
        phase, reason = (str(get_path(live, "status", field) or "") for field in ("phase", "reason"))
        if live["metadata"].get("deletionTimestamp"):
            yield Unsettled("OPS-11", "a deleted Operation goes", ref, condition_text(live))
        elif phase not in TERMINAL and get_path(live, "metadata", "annotations", labels.CANCEL) == "true":
            yield Unsettled("OPS-11", "a cancelled Operation ends", ref, condition_text(live))
        elif phase not in TERMINAL and world.seconds > (deadline_of(live) or float("inf")):
            yield Unsettled("OPS-12", "an Operation ends by its deadline", ref, condition_text(live))
        elif phase not in TERMINAL and not (phase == "Pending" and reason):
            yield Unsettled("OPS-1", "an Operation ends or says for what it waits", ref, condition_text(live))


def deadline_of(live: Manifest) -> float | None:
    """Return the virtual time by which an Operation must have ended; None if it sets no time or has not started."""
    started, seconds = get_path(live, "status", "startedAt"), get_path(live, "spec", "timeoutSeconds")
    if not started or not isinstance(seconds, int):
        return None
    return (parse_time(str(started)) - START).total_seconds() + seconds


def _failed_upgrades(world: SimulatedWorld) -> Iterator[Unsettled]:
    failed = {
        live["metadata"]["uid"]
        for live in world.objects(OPERATION)
        if get_path(live, "status", "phase") in ("Failed", "Cancelled")
    }
    for live in world.objects(APPLICATION_INSTANCE) if failed else ():
        standing = get_path(live, "status", "releaseOverride") or {}
        if is_ready(live) and standing.get("uid") in failed:
            told = f"the release is that of {standing.get('operation')}"
            yield Unsettled("REC-9", "a failed upgrade is taken back", str(ref_of(live, APPLICATION_INSTANCE)), told)


_REPORTS: Final = {"Succeeded": "OperationSucceeded", "Failed": "OperationFailed", "Cancelled": "OperationCancelled"}


def _unreported(world: SimulatedWorld) -> Iterator[Unsettled]:
    """Yield each Operation whose end was not reported, unless a job reports it, or etcd was restored (PULL-6)."""
    if world.was_restored:
        return
    reported = {(event["resourceRef"]["uid"], event["kind"]) for event in world.control.events_of(CLUSTER_ID)}
    for live in world.objects(OPERATION):
        meta, phase = live["metadata"], str(get_path(live, "status", "phase"))
        of_job = labels.IDEMPOTENCY_KEY in (meta.get("annotations") or {})
        if phase in _REPORTS and not of_job and (meta["uid"], _REPORTS[phase]) not in reported:
            told = f"{phase} is not reported"
            yield Unsettled("PULL-6", "the end of an Operation is reported", str(ref_of(live, OPERATION)), told)


def open_rotations(world: SimulatedWorld) -> Iterator[Unsettled]:
    """Yield the credentials Secret if a rotation has not ended, or if the control plane refuses its token."""
    secret = world.get(secret_ref(OWN_NAMESPACE))
    stored = stored_credential(secret or {})
    is_used = world.accepts(stored.token)
    if stored.previous or stored.requested or not is_used:
        told = f"asked for by {stored.requested or 'nobody'}, the token is {'used' if is_used else 'refused soon'}"
        yield Unsettled("PULL-8", "a rotation ends", str(secret_ref(OWN_NAMESPACE)), told)


def _is_blocked(live: Manifest, reason: str) -> bool:
    blocked = condition_of(live, "Blocked")
    return (blocked.get("status"), blocked.get("reason")) == ("True", reason)


def is_abandoned(live: Manifest) -> bool:
    """Report whether a user wants that what runs for an instance stays when the instance is deleted."""
    return (live["metadata"].get("annotations") or {}).get(ABANDON) == "true"


def is_ready(live: Manifest) -> bool:
    """Report whether an instance is Ready at its present generation."""
    ready = condition_of(live, "Ready")
    return (ready.get("status"), ready.get("observedGeneration")) == ("True", live["metadata"]["generation"])


def has_converged(live: Manifest, *, is_gated: bool) -> bool:
    """Report whether an instance is Ready, or reports why it cannot be Ready.

    `is_gated` says whether its namespace is managed; in any other namespace it must report that it is blocked. If it is
    suspended, it must say so; if it is of the broken chart version, its Ready condition must have a reason.
    """
    conditions = conditions_by_type(live)
    if not is_gated:
        return _is_blocked(live, "NamespaceNotGated")
    if get_path(live, "spec", "suspend") is True:
        suspended = conditions.get("Suspended", {})
        current = live["metadata"]["generation"]
        return (suspended.get("status"), suspended.get("observedGeneration")) == ("True", current)
    if get_path(live, "spec", "chart", "version") == BROKEN:
        return bool(conditions.get("Ready", {}).get("reason"))
    in_the_way = [kind for kind in _IN_THE_WAY if conditions.get(kind, {}).get("status") == "True"]
    return is_ready(live) and not in_the_way


_IN_THE_WAY: Final = ("Blocked", "Reconciling", "Stalled")
"""The conditions that are not True at rest if an instance is Ready."""
_MOST: Final = 600.0
_LOOK: Final = 30.0


def differences(world: SimulatedWorld) -> Iterator[Unsettled]:
    """Yield each object that differs from the same object in a new simulated cluster.

    In the new cluster, the instances are created as users want them now, and time passes until they are Ready. The time
    of `world` does not advance.
    """
    intents = {ref_of(live, APPLICATION_INSTANCE): live for live in world.objects(APPLICATION_INSTANCE)}
    wanted = {ref: live for ref, live in intents.items() if is_wanted(live)}
    after = _shapes(world, wanted)
    settings = WorldSettings(seed=world.seed, flux=world.settings.flux, engines=world.settings.engines)
    with SimulatedWorld(settings) as fresh:
        furnish(fresh)
        if world.get(ObjectRef(NAMESPACE, None, GUESTS)) is not None:
            open_namespace(fresh, GUESTS)
        for live in wanted.values():
            fresh.create(_intent(live), APPLICATION_INSTANCE, "people")
        while fresh.seconds < _MOST and not all(_is_there(fresh, ref) for ref in wanted):
            fresh.run(_LOOK)
        fresh.run(_LOOK)
        direct = _shapes(fresh, wanted)
    for ref in sorted({*after, *direct}):
        if after.get(ref) != direct.get(ref):
            yield Unsettled("SIM-4", "state of history is state of intents", str(ref), _told(after, direct, ref))


def is_wanted(live: Manifest) -> bool:
    """Report whether the state of an instance depends on its spec alone.

    It does if the instance is Ready, is not blocked or suspended, and has no `status.releaseOverride`. An instance that
    is created with the same spec in a new cluster must then come to the same state, which is what the law checks.
    """
    blocked = condition_of(live, "Blocked").get("status") == "True"  # such a one keeps Ready as it was
    depends = get_path(live, "status", "releaseOverride") or get_path(live, "spec", "suspend")
    return is_ready(live) and not blocked and not depends


def _intent(live: Manifest) -> dict[str, Any]:
    meta = live["metadata"]
    kept = {key: meta[key] for key in ("name", "namespace", "labels", "annotations") if key in meta}
    return {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": kept, "spec": live["spec"]}


def _is_there(world: SimulatedWorld, ref: ObjectRef) -> bool:
    live = world.get(ref)
    return live is not None and is_ready(live)


def _shapes(world: SimulatedWorld, wanted: Mapping[ObjectRef, Manifest]) -> dict[ObjectRef, bytes]:
    """Return the comparable parts of the instances in `wanted` and of their children, as bytes by reference.

    Uids and times are left out, so that two simulated clusters can be compared.
    """
    shapes: dict[ObjectRef, bytes] = {}
    uids: set[str] = set()
    for ref in wanted:
        live = world.get(ref)
        if live is not None:
            uids.add(live["metadata"]["uid"])
            shapes[ref] = repr(_report(live)).encode()
    for kind in CHILDREN:
        for live in world.objects(kind):
            if (live["metadata"].get("labels") or {}).get(labels.INSTANCE_UID) in uids:
                shapes[ref_of(live, kind)] = stable_parts_of(_without_requests(live))
    return shapes


def _report(live: Manifest) -> tuple[Any, ...]:
    """Return the parts of an instance's status that do not depend on its history: versions, and conditions that are
    True.
    """
    conditions = sorted(
        (each["type"], each["reason"]) for each in live["status"]["conditions"] if each["status"] == "True"
    )
    return (
        conditions,
        get_path(live, "status", "deployedChart", "version"),
        get_path(live, "status", "lastAppliedChart"),
    )


def _without_requests(live: Manifest) -> dict[str, Any]:
    """Return an object for comparison, without users' annotations and without requests for a retry."""
    annotations = {
        key: value
        for key, value in (live["metadata"].get("annotations") or {}).items()
        if "vworkspace.io" in key and key not in (labels.RETRY_SENT, labels.KEPT_FROM)
    }
    return {**live, "metadata": {**live["metadata"], "annotations": annotations}}


def _told(after: Mapping[ObjectRef, bytes], direct: Mapping[ObjectRef, bytes], ref: ObjectRef) -> str:
    shown = (side.get(ref, b"nothing").decode("utf-8", "replace")[:600] for side in (after, direct))
    return "history: {}; directly: {}".format(*shown)
