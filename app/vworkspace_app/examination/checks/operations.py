"""Checks of the clauses OPS, about Operations: phases, preconditions, conflicts, engines, cancellation, deadlines."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeAlias

import anyio

from kubelab.downstream.behaviour import DownstreamOutcome, DownstreamRule, Ending
from kubelab.flux import Action, FluxOutcome, OutcomeKind, ReleaseRule
from purekube.apimachinery.conditions import condition_of, conditions_by_type
from purekube.apimachinery.errors import Stale
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import HELM_RELEASE, JOB, RESOURCE_QUOTA, VELERO_BACKUP, VOLUME_SNAPSHOT
from purekube_run.examination.audit import RecordedRequest
from purekube_run.examination.objects import shown
from purekube_run.examination.verdicts import Broken, NotTried, holds
from vworkspace_app.examination.case import CHECKS, IMAGE, VERSION, InstanceCase
from vworkspace_core.api import labels

check = CHECKS.check
NEEDS = ("operations",)
PLAYED = (*NEEDS, "played-flux")
JOBS = ("runcommand", "job")
HANGS = DownstreamOutcome(Ending.STALL)
TERMINAL = ("Succeeded", "Failed", "Cancelled")
_QUOTA_SECONDS = 2.0
"""The seconds in which a cluster with a ResourceQuota controller is expected to process a new quota."""


def _phases(c: InstanceCase, ref: ObjectRef) -> list[tuple[RecordedRequest, str]]:
    """Return the operator's successful writes of the Operation's status, each with the phase in that status."""
    wrote = [call for call in c.writes() if call.concerns(ref, "status") and call.succeeded]
    return [(call, str(get_path(call.answer or {}, "status", "phase") or "")) for call in wrote]


async def _job(c: InstanceCase, ref: ObjectRef) -> Manifest:
    """Return the Job of an Operation, as soon as it exists. Raises NotTried after the time limit."""
    jobs = await c.required("a Job of the Operation (OPS-8)", lambda: c.made_for(ref, JOB))
    return jobs[0]


async def _forbid_pods(c: InstanceCase) -> None:
    """Prevent by a quota that the cluster's own Job controller starts pods in this namespace.

    Wait until the quota's status shows its limits: by then kube-apiserver enforces the quota.
    """
    ref = ObjectRef(RESOURCE_QUOTA, c.namespace, "no-pods")
    await c.apply(RESOURCE_QUOTA.manifest(ref.name, ref.namespace, spec={"hard": {"pods": "0"}}), ref.kind)
    is_known = c.of(ref, lambda live: bool(get_path(live, "status", "hard")))
    await c.seen(is_known, 0 if "embedded" in c.examination.has else _QUOTA_SECONDS)


async def _require_hanging(c: InstanceCase) -> None:
    """Raise NotTried if a Job of the namespace has completed, because the check needs a Job that hangs."""
    _require_unfinished(*await c.objects(JOB))


def _require_unfinished(*jobs: Manifest) -> None:
    """Raise NotTried if one of the Jobs has completed or is about to, as it happens with the cluster's own Job
    controller.
    """
    if any({"Complete", "SuccessCriteriaMet"} & conditions_by_type(job).keys() for job in jobs):
        raise NotTried(
            "its stimulus did not come about: a Job that hangs or fails, since a controller of the cluster ran it"
        )


async def _delete_hanging(c: InstanceCase, job: ObjectRef) -> None:
    """Delete a Job that hangs. Raises NotTried if the Job completes before its deletion.

    The deletion has the Job's resourceVersion as a precondition. If the Job has changed meanwhile, it is tried again.
    """

    async def is_deleted() -> bool:
        live = metadata(await c.get(job) or {})
        await _require_hanging(c)
        try:
            await c.api.delete(job, uid=live.get("uid"), resource_version=live.get("resourceVersion"))
        except Stale:
            return False
        return True

    await c.until("the Job is deleted", is_deleted)


Body: TypeAlias = Callable[[InstanceCase], Awaitable[None]]


def _with_jobs(outcome: DownstreamOutcome) -> Callable[[Body], Body]:
    """Return a decorator for checks in which the simulated Job controller ends every Job with `outcome`.

    The cluster may have a Job controller of its own that completes Jobs nevertheless. If a check fails and a Job
    completed, the check raises NotTried instead.
    """

    def decorated(body: Body) -> Body:
        @wraps(body)
        async def tried(c: InstanceCase) -> None:
            c.engines.behave(rules=(DownstreamRule(outcome, kind="Job"),))
            await c.target(JOBS)
            await _forbid_pods(c)
            try:
                await body(c)
            except Broken:
                await _require_hanging(c)
                raise

        return tried

    return decorated


@check("OPS-1", "an Operation runs once: one engine object, made by POST, named by the uid", needs=NEEDS)
async def one_run(c: InstanceCase) -> None:
    await c.target(JOBS)
    ref = await c.command()
    live = await c.phase(ref, "Succeeded")
    await anyio.sleep(c.quiet / 2)
    jobs = [call for call in c.writes() if call.is_of(JOB) and call.created]
    holds(len(jobs) == 1, f"{len(jobs)} Jobs were made", *jobs)
    holds(jobs[0].verb == "create", "the Job was not made by POST", jobs[0])
    uid = str(get_path(live, "metadata", "uid"))
    digits = uid.replace("-", "")
    holds(jobs[0].name[-8:] in digits, f"the name {jobs[0].name} does not end in eight hex digits of the uid {uid}")


@check("OPS-1", "phases go forwards, a terminal one stays, and times are set once", needs=NEEDS)
async def phases(c: InstanceCase) -> None:
    await c.target(JOBS)
    ref = await c.command()
    ended = await c.phase(ref, "Succeeded")
    await c.edit(ref, {"metadata": {"annotations": {labels.CANCEL: "true"}}})
    await anyio.sleep(c.quiet / 2)
    order = ["", "Pending", "Running", *TERMINAL]
    steps = [order.index(phase) for _, phase in _phases(c, ref)]
    holds(steps == sorted(steps), f"the phases went {[phase for _, phase in _phases(c, ref)]}")
    now = await c.get(ref) or {}
    for field in ("phase", "startedAt", "finishedAt"):
        times = get_path(ended, "status", field), get_path(now, "status", field)
        holds(times[0] and times[0] == times[1], f"{field} was {times[0]}, then {times[1]}", shown(now))


@check(
    "OPS-1", "a death between making the engine object and recording it makes no second one", needs=NEEDS, alone=True
)
async def death_after_create(c: InstanceCase) -> None:
    await c.target(JOBS)
    where = c.a_write(JOB, verb="create")
    with c.proxy.fault("killed after the Job was made", where, kill=True, after=True, times=1) as fault:
        ref = await c.command()

        await c.met(fault, "a Job that is made")
    await c.examination.start()
    await c.phase(ref, "Succeeded")
    made = [call for call in c.writes() if call.is_of(JOB) and call.created]
    holds(len(made) == 1, f"{len(made)} Jobs were made", *made)


@check("OPS-2", "parameters that the schema refuses run nothing", needs=NEEDS)
async def bad_parameters(c: InstanceCase) -> None:
    await c.target(JOBS)
    ref = await c.command(parameters={"command": ["no", "image"]})
    await c.condition(ref, "Accepted", "False", "ValidationFailed")
    holds(not await c.made_for(ref, JOB), "a Job was made from bad parameters")


@check("OPS-3", "an Operation waits for its target, and runs when it comes", needs=NEEDS)
async def target_missing(c: InstanceCase) -> None:
    ref = await c.command()
    await c.condition(ref, "Accepted", "False", "TargetNotFound")
    holds(not await c.made_for(ref, JOB), "a Job was made without a target")
    await c.target(JOBS)
    await c.phase(ref, "Running", "Succeeded")


@check("OPS-3", "an Operation runs only where the target names the engine", needs=NEEDS)
async def capability(c: InstanceCase) -> None:
    target = await c.target()
    ref = await c.command()
    await c.condition(ref, "Accepted", "False", "CapabilityMissing")
    holds(not await c.made_for(ref, JOB), "a Job was made without the capability")
    await c.edit(target, {"metadata": {"annotations": {f"{labels.CAPABILITY_PREFIX}runcommand": "job"}}})
    await c.phase(ref, "Running", "Succeeded")


@check("OPS-4", "an Operation that needs an approval waits, and a forged claim is none", needs=NEEDS)
async def approval(c: InstanceCase) -> None:
    await c.target(JOBS)
    claim = f"vws1.eyJ2IjoxLCJvcCI6InJ1biJ9.{'0' * 64}"
    ref = await c.command(approvals={"required": True, "claim": claim})
    live = await c.condition(ref, "Blocked", "True", "AwaitingApproval", "MissingSecret")
    await anyio.sleep(c.quiet / 2)
    holds(not await c.made_for(ref, JOB), "a forged claim was accepted", shown(live))
    holds(claim not in str(get_path(await c.get(ref) or {}, "status")), "the claim is repeated in the status")


@check("OPS-5", "of two Upgrades the second waits, and has its turn", needs=PLAYED)
async def conflict(c: InstanceCase) -> None:
    await c.target(("upgrade", "helm"))
    c.flux.behave(upgrade_seconds=2.0)
    first = await c.operate("first", "Upgrade", "helm", parameters={"targetVersion": "1.1.0"})
    await c.phase(first, "Running", "Succeeded")
    second = await c.operate("second", "Upgrade", "helm", parameters={"targetVersion": "1.2.0"})
    await c.condition(second, "Blocked", "True", "ConflictingOperation", "TargetNotReady")
    await c.phase(first, "Succeeded")
    await c.phase(second, "Succeeded")


@check("OPS-6", "the engine object is owned, labelled, and not edited after it was made", needs=NEEDS)
async def engine_object(c: InstanceCase) -> None:
    await c.target(JOBS)
    ref = await c.command()
    job = await _job(c, ref)
    uid = get_path(await c.get(ref) or {}, "metadata", "uid")
    owners: Any = get_path(job, "metadata", "ownerReferences") or ()
    holds(any(owner.get("uid") == uid for owner in owners), "the Job has no owner reference to the Operation")
    await c.phase(ref, "Succeeded")
    edits = [call for call in c.writes() if call.is_of(JOB) and "spec" in (call.body or {}) and call.verb != "create"]
    holds(not edits, "the operator edited the Job", *edits)


@check("OPS-7", "deleting a finished backup's Operation keeps the backup", needs=(*NEEDS, "velero"))
async def backup_stays(c: InstanceCase) -> None:
    await c.target(("backup", "velero"))
    where = str(c.examination.values.get("velero_namespace", "velero"))
    ref = await c.operate("nightly", "Backup", "velero", parameters={"retention": "24h"})

    async def backup() -> Manifest | None:
        items = await c.objects(VELERO_BACKUP, where)
        return next((each for each in items if get_path(each, "spec", "includedNamespaces") == [c.namespace]), None)

    made = await c.until("a Backup of the namespace", backup)
    c.examination.leavings.add(made, VELERO_BACKUP)
    excluded: Any = get_path(made, "spec", "excludedResources") or ()
    holds(any("operations" in each for each in excluded), f"our own kinds are in the backup: {excluded}")
    body = {"status": {"phase": "Completed", "completionTimestamp": "2026-01-01T00:00:00Z"}}
    await c.edit(ObjectRef(VELERO_BACKUP, where, made["metadata"]["name"]), body, manager="velero")
    await c.phase(ref, "Succeeded")
    await c.delete(ref)
    await c.gone(ref, "the Operation goes")
    holds(await backup() is not None, "the Backup went with its Operation")


@check("OPS-8", "a Job runs under the restricted profile, without a token", needs=NEEDS)
async def restricted_job(c: InstanceCase) -> None:
    await c.target(JOBS)
    job = await _job(c, await c.command())
    pod: Any = get_path(job, "spec", "template", "spec")
    container = pod["containers"][0]
    security = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
    holds(container["image"] == IMAGE, f"the image is {container['image']}")
    holds(pod.get("restartPolicy") == "Never", f"restartPolicy is {pod.get('restartPolicy')}")
    holds(pod.get("automountServiceAccountToken") is False, "the pod gets a token of the API server")
    holds(security.get("runAsNonRoot") is True, "runAsNonRoot is not set", security)
    holds(security.get("allowPrivilegeEscalation") is False, "privileges may escalate", security)
    holds(container.get("resources", {}).get("limits"), "the container has no limits")


@check("OPS-8", "a Job that is deleted while it runs is Failed/ExternalDeletion", needs=NEEDS)
@_with_jobs(HANGS)
async def external_deletion(c: InstanceCase) -> None:
    ref = await c.command()
    job = await _job(c, ref)
    await c.phase(ref, "Running")
    await _delete_hanging(c, ObjectRef(JOB, c.namespace, job["metadata"]["name"]))
    live = await c.phase(ref, *TERMINAL)
    reason = condition_of(live, "Failed").get("reason")
    holds(reason == "ExternalDeletion", f"the reason is {reason}", shown(live))
    again = [call for call in c.writes() if call.is_of(JOB) and call.created]
    holds(len(again) == 1, "the Job was made again", *again)


@check("OPS-8", "a Job that fails is a Failed Operation, and a condition has the Job's message", needs=NEEDS)
@_with_jobs(DownstreamOutcome(Ending.FAIL, exit_code=3))
async def failing_job(c: InstanceCase) -> None:
    ref = await c.command()
    live = await c.phase(ref, *TERMINAL)
    holds(get_path(live, "status", "phase") == "Failed", "a failed Job is not a failed Operation", shown(live))
    await c.explained(ref, "backoff limit")


@check("OPS-9", "an Upgrade succeeds when Flux confirms that version, and the instance keeps it", needs=NEEDS)
async def upgrade(c: InstanceCase) -> None:
    target = await c.target(("upgrade", "helm"))
    c.flux.behave(upgrade_seconds=1.0)
    ref = await c.operate("upgrade", "Upgrade", "helm", parameters={"targetVersion": "1.1.0"})
    live = await c.phase(ref, "Succeeded")
    history: Any = get_path(await c.release(), "status", "history") or ({},)
    holds(
        str(history[0].get("chartVersion", "")).startswith("1.1.0"),
        "Succeeded before Flux had that version",
        shown(live),
    )
    override = c.of(target, lambda live: get_path(live, "status", "releaseOverride"))
    holds(await c.seen(override), "status.releaseOverride does not name the version in force")
    await c.edit(target, {"metadata": {"annotations": {"example.com/touched": "1"}}})
    await anyio.sleep(c.quiet / 2)
    holds(await override(), "another pass took back status.releaseOverride, which names the version in force")


@check("REC-9", "an Upgrade that fails goes back to what ran before", needs=PLAYED)
async def failed_upgrade(c: InstanceCase) -> None:
    await c.target(("upgrade", "helm"))
    rule = ReleaseRule(FluxOutcome(OutcomeKind.FAIL, "no such table"), action=Action.UPGRADE, version="1.1.0")
    c.flux.behave(release_rules=(rule,))
    ref = await c.operate("upgrade", "Upgrade", "helm", parameters={"targetVersion": "1.1.0"})
    await c.phase(ref, "Failed")

    async def back() -> bool:
        live = await c.get(c.release_ref()) or {}
        name = str(get_path(live, "spec", "chartRef", "name"))
        source = next((each for each in await c.sources() if each["metadata"]["name"] == name), {})
        return bool(get_path(source, "spec", "ref", "tag") == VERSION)

    await c.until(f"the release is back at {VERSION}", back)


@check("OPS-10", "a snapshot is done when it is ready and bound", needs=(*NEEDS, "snapshots"))
async def snapshot(c: InstanceCase) -> None:
    c.engines.behave(rules=(DownstreamRule(DownstreamOutcome(Ending.STALL), kind="VolumeSnapshot"),))
    await c.target(("backup", "snapshot"))
    ref = await c.operate("snap", "Backup", "snapshot", parameters={"pvc": "data"})
    items = await c.until("a VolumeSnapshot of the Operation", lambda: c.made_for(ref, VOLUME_SNAPSHOT))
    holds(not get_path(items[0], "metadata", "ownerReferences"), "what holds data has an owner reference")
    live = await c.get(ref) or {}
    holds(get_path(live, "status", "phase") not in TERMINAL, "ended before the snapshot is ready", shown(live))
    c.engines.behave(rules=())
    await c.phase(ref, "Succeeded")


@check("OPS-11", "a cancelled Operation stops its Job by uid, then is Cancelled", needs=NEEDS)
@_with_jobs(HANGS)
async def cancel(c: InstanceCase) -> None:
    ref = await c.command()
    await _job(c, ref)
    await c.phase(ref, "Running")
    await c.edit(ref, {"metadata": {"annotations": {labels.CANCEL: "true"}}})
    await c.phase(ref, "Cancelled")
    deletes = [call for call in c.writes() if call.is_of(JOB) and call.verb == "delete"]
    holds(deletes, "the Job was not deleted")
    without = [call for call in deletes if not get_path(call.body or {}, "preconditions", "uid")]
    holds(not without, "the Job was deleted by name, without its uid", *without)


@check("OPS-11", "an Operation that is deleted while it runs takes its Job away first", needs=NEEDS)
@_with_jobs(HANGS)
async def delete_running(c: InstanceCase) -> None:
    ref = await c.command()
    job = await _job(c, ref)
    await c.phase(ref, "Running")
    await c.delete(ref)
    await c.gone(ref, "the Operation goes")
    left = await c.get(ObjectRef(JOB, c.namespace, job["metadata"]["name"]))
    if left is not None:
        _require_unfinished(left)  # one that completed is left to garbage collection
        holds(get_path(left, "metadata", "deletionTimestamp"), "the Job runs on without its Operation")


@check("OPS-12", "past its deadline an Operation is Failed/Timeout, and its Job stopped", needs=NEEDS)
@_with_jobs(HANGS)
async def deadline(c: InstanceCase) -> None:
    ref = await c.command(timeoutSeconds=3)
    job = await _job(c, ref)
    live = await c.phase(ref, *TERMINAL)
    reason = condition_of(live, "Failed").get("reason")
    holds(reason == "Timeout", f"the reason is {reason}", shown(live))
    stopped = ObjectRef(JOB, c.namespace, job["metadata"]["name"])
    going = "metadata", "deletionTimestamp"
    await c.until("the Job is stopped", c.of(stopped, lambda live: not live or get_path(live, *going)))


@check("OPS-6", "a release is left to its instance: the Operation writes no HelmRelease of its own", needs=NEEDS)
async def no_second_release(c: InstanceCase) -> None:
    await c.target(("upgrade", "helm"))
    ref = await c.operate("upgrade", "Upgrade", "helm", parameters={"targetVersion": "1.1.0"})
    await c.phase(ref, "Succeeded")
    names = [live["metadata"]["name"] for live in await c.objects(HELM_RELEASE)]
    holds(names == ["shop"], f"the HelmReleases are {names}")
