"""The actions of people on an object: retry, suspend, resume, cancel and approve (REC-14, RES-4, OPS-4, OPS-11).

Each function returns the write to send, or a refusal with the reason why there is nothing to write.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import attrs

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import Kind, Manifest, get_path, ref_of
from purekube.apimachinery.timestamps import exact_time
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import CANCEL, CLUSTER_ID, RETRY
from vworkspace_core.api.own_status import unmanaged
from vworkspace_core.api.reasons import InstanceReason
from vworkspace_core.overview.remedy import command_line_name, commands_in, decides_about_suspend
from vworkspace_core.overview.summary import OverviewState, Summary, summary_of

_ENDED = (OverviewState.SUCCEEDED, OverviewState.FAILED, OverviewState.CANCELLED)


@attrs.frozen
class PlannedAction:
    """A write to one object, and a message for people.

    `patch` is the body of a merge patch, or None. `applies` are the bodies of server-side applies, sent in order with
    the field manager `CLI_MANAGER`. Each body has all fields that this manager owns afterwards. They are used where a
    merge patch would give the manager fields that the API server only defaulted.
    """

    message: str
    patch: Mapping[str, Any] | None = None
    applies: tuple[Mapping[str, Any], ...] = ()


@attrs.frozen
class ActionOutcome:
    """The answer to a person's action on an object, if the action needs no write or cannot be done, with the reason.

    `is_done` is True if no write is needed, because the object is already in the requested state.
    """

    why: str
    is_done: bool = False


def retry(kind: Kind, manifest: Manifest, now: datetime) -> PlannedAction | ActionOutcome:
    """Return the write that lets Flux retry the release of the instance `manifest` (REC-14), or a refusal.

    The result is a refusal for an object of another `kind`, and for an instance that is ready, waits, is suspended or
    is being deleted. The write sets an annotation to a token that identifies the request: the time `now`.
    """
    if kind != APPLICATION_INSTANCE:
        return ActionOutcome(
            f"{_name(kind, manifest)} runs once, if it is an Operation: make a new one to run it again"
        )
    summary = summary_of(kind, manifest)
    if why := _left_alone(summary, manifest):
        return ActionOutcome(why)
    if summary.state is OverviewState.READY:
        return ActionOutcome(f"{_name(kind, manifest)} is ready: there is nothing to try again", is_done=True)
    if summary.state is OverviewState.WAITING:
        advice = "" if commands_in(summary.message) else f". {summary.advice}".rstrip()
        return ActionOutcome(
            f"{_name(kind, manifest)} waits, and another try would wait too: {summary.message}{advice}"
        )
    if summary.state is OverviewState.DELETING:
        return ActionOutcome(f"{_name(kind, manifest)} is being deleted: no release is tried again")
    if summary.is_suspended:
        by_instance = get_path(manifest, "spec", "suspend") is True
        resumed = f"vworkspace-operator resume {command_line_name(summary.ref)}"
        how = resumed if by_instance else str(get_path(condition_of(manifest, "Suspended"), "message") or "")
        return ActionOutcome(f"{_name(kind, manifest)} is suspended, and nothing is tried until it is resumed: {how}")
    token = exact_time(now)
    told = f"{_name(kind, manifest)}: retry requested ({token}); follow it with: {_follow(kind, manifest)}"
    return PlannedAction(told, {"metadata": {"annotations": {RETRY: token}}})


def _left_alone(summary: Summary, manifest: Manifest) -> str:
    """Return why no operator carries out a request: it ignores the object, which lacks its label. Else return ""."""
    event = unmanaged(summary.ref, manifest) if summary.state is OverviewState.UNSEEN else None
    return "" if event is None else event.note


def suspend(kind: Kind, manifest: Manifest) -> PlannedAction | ActionOutcome:
    """Return the write that suspends the release of the instance `manifest` (RES-4), or a refusal.

    The result is a refusal for an object of another `kind`, for an instance that is suspended already, and if the
    control plane or a GitOps tool decides about its suspension.
    """
    if kind != APPLICATION_INSTANCE:
        return ActionOutcome("only an ApplicationInstance can be suspended; an Operation can be cancelled")
    if get_path(manifest, "spec", "suspend") is True:
        return ActionOutcome(f"{_name(kind, manifest)} is suspended already", is_done=True)
    if decides := decides_about_suspend(manifest):
        return ActionOutcome(f"{decides} decides about spec.suspend of {_name(kind, manifest)}: suspend it there")
    told = f"{_name(kind, manifest)} is paused: what runs goes on, nothing is upgraded or repaired until it is resumed"
    return PlannedAction(told, applies=({"spec": {"suspend": True}},))


def resume(kind: Kind, manifest: Manifest) -> PlannedAction | ActionOutcome:
    """Return the writes that resume the release of the instance `manifest`, or a refusal.

    The result is a refusal for an object of another `kind`, for an instance that is not suspended, and if the control
    plane or a GitOps tool suspended it. The field `spec.suspend` is applied and then released, so that no field manager
    owns it afterwards.
    """
    if kind != APPLICATION_INSTANCE:
        return ActionOutcome("only an ApplicationInstance can be resumed")
    if get_path(manifest, "spec", "suspend") is True:
        if decides := decides_about_suspend(manifest):
            return ActionOutcome(f"{decides} suspended {_name(kind, manifest)}: resume it there")
        return PlannedAction(f"{_name(kind, manifest)} is resumed", applies=({"spec": {"suspend": False}}, {}))
    if (summary := summary_of(kind, manifest)).reason == InstanceReason.MANUALLY_SUSPENDED:
        return ActionOutcome(summary.message)
    return ActionOutcome(f"{_name(kind, manifest)} is not suspended", is_done=True)


def cancel(kind: Kind, manifest: Manifest) -> PlannedAction | ActionOutcome:
    """Return the write that requests the cancellation of the Operation `manifest` (OPS-11), or a refusal.

    The result is a refusal for an object of another `kind`, and for an Operation that has ended.
    """
    if kind != OPERATION:
        return ActionOutcome("only an Operation can be cancelled; an ApplicationInstance can be suspended")
    summary = summary_of(kind, manifest)
    if why := _left_alone(summary, manifest):
        return ActionOutcome(why)
    if summary.state in _ENDED:
        return ActionOutcome(f"{_name(kind, manifest)} has ended: {summary.state.value}", is_done=True)
    told = f"{_name(kind, manifest)} is asked to stop; follow it with: {_follow(kind, manifest)}"
    return PlannedAction(told, {"metadata": {"annotations": {CANCEL: "true"}}})


@attrs.frozen
class Approver:
    """The person who approves an Operation, and the approval itself: its id (`request_id`) and expiry (`until`).

    An approval is valid for one run.
    """

    name: str
    request_id: str
    until: datetime


def approval_payload(manifest: Manifest, approver: Approver, digest: str, now: datetime) -> dict[str, Any]:
    """Return the payload of an approval claim, the signed proof that a person approved an Operation (OPS-4).

    The claim is bound to the Operation `manifest`, its namespace, cluster and parameters; `digest` is the hash of the
    parameters. `approver` has the person's name, and the id and expiry of the approval. `now` is when it was given.
    """
    meta = manifest["metadata"]
    bound = {"uid": meta["uid"], "cluster": get_path(meta, "labels", CLUSTER_ID)}
    return {
        "at": exact_time(now),
        "by": approver.name,
        "exp": int(approver.until.timestamp()),
        "op": meta["name"],
        "ns": meta["namespace"],
        "rid": approver.request_id,
        "params": digest,
        **{field: value for field, value in bound.items() if value},
    }


def approve(kind: Kind, manifest: Manifest, claim: str, valid: timedelta) -> PlannedAction | ActionOutcome:
    """Return the write that puts `claim` (a signed proof of approval) into the Operation `manifest`, or a refusal.

    The result is a refusal for an object of another `kind`, and for an Operation that has ended. The run has to begin
    within the time `valid`. While the claim is in the Operation, its parameters cannot be changed.
    """
    if kind != OPERATION:
        return ActionOutcome("only an Operation can be approved")
    if (state := summary_of(kind, manifest).state) in _ENDED:
        return ActionOutcome(f"{_name(kind, manifest)} has ended: {state.value}", is_done=True)
    minutes = valid // timedelta(minutes=1)
    told = f"{_name(kind, manifest)} is approved for one run, which has to begin within {minutes} minutes"
    return PlannedAction(told, {"spec": {"approvals": {"claim": claim}}})


def _name(kind: Kind, manifest: Manifest) -> str:
    return str(ref_of(manifest, kind))


def _follow(kind: Kind, manifest: Manifest) -> str:
    return f"vworkspace-operator status {command_line_name(ref_of(manifest, kind))} -w"
