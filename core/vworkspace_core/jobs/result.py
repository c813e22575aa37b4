"""The result of a control plane's job, derived from its object's status by tables (PULL-3).

`result_of` judges a live object that carries this job's apply. It returns None while the outcome is open: a status of
an older generation proves nothing (REC-7), nor does one from before the request, whatever it says.

    instance, at its generation                           job
    ----------------------------------------------------  -----------------------------------------
    Ready=True                                            succeeded
    Blocked=True/FieldConflict                            conflict
    Blocked=True for what only others can lift            failed
    suspended as asked: Suspended=True                    succeeded
    Stalled=True, or failed with no retry left            failed

    Operation                                             job
    ----------------------------------------------------  -----------------------------------------
    Succeeded                                             succeeded
    Failed, Cancelled                                     failed
    Running with a schedule, a sync has succeeded         succeeded
    Accepted=False, not started                           failed, once it is cancelled (`awaiting_status`)
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Manifest, get_path, text_or_empty
from purekube.apimachinery.secret_material import shown
from vworkspace_core.api.labels import RETRY, request_mark
from vworkspace_core.api.own_status import OWN_STATUS
from vworkspace_core.jobs.object_status import is_recurring, own_conditions_of

LONGEST_ERROR: Final = 1024
"""The longest error text in a result, in characters; Flux's messages can be whole logs (REC-5 row 4)."""


class JobOutcome(StrEnum):
    """The outcome of a control plane's job: it succeeded, failed, did nothing (`noop`), or conflicted with other field
    managers.
    """

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NOOP = "noop"
    CONFLICT = "conflict"


class Reason(StrEnum):
    """The reasons of job results that the agent, which carries out the jobs, determines itself, such as NotPermitted.

    Other results copy the reason of a condition of the job's object.
    """

    INVALID_JOB = "InvalidJob"
    PAYLOAD_TOO_LARGE = "PayloadTooLarge"
    SIGNATURE_INVALID = "JobPayloadSignatureInvalid"
    DECRYPTION_FAILED = "JobPayloadDecryptionFailed"
    NOT_PERMITTED = "NotPermitted"
    VALIDATION_FAILED = "ValidationFailed"
    FIELD_CONFLICT = "FieldConflict"
    SUPERSEDED = "Superseded"
    ALREADY_ENDED = "AlreadyEnded"
    KEY_USED = "KeyUsed"
    TIMEOUT = "Timeout"
    CANCELLED = "Cancelled"
    DELETED = "Deleted"
    KIND_MISSING = "KindMissing"
    FORBIDDEN = "Forbidden"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    CLUSTER_REFUSED = "ClusterRefused"
    ROTATION_FAILED = "RotationFailed"
    RECORD_DAMAGED = "RecordDamaged"


@attrs.frozen
class JobResult:
    """The result of a control plane's job, which is sent back as the answer.

    `error` is `<Reason>: <message>`, redacted and shortened, or an empty text for a plain success.
    """

    outcome: JobOutcome
    error: str = ""

    @classmethod
    def of(cls, outcome: JobOutcome, reason: str, message: str) -> "JobResult":
        """Return a result with `outcome`, whose error is `<reason>: <message>`, redacted and shortened."""
        text = f"{reason}: {shown(message, 2 * LONGEST_ERROR)}" if message else reason
        return cls(outcome, text if len(text) <= LONGEST_ERROR else text[: LONGEST_ERROR - 1] + "…")

    @classmethod
    def failed(cls, reason: str, message: str) -> "JobResult":
        """Return a result with the outcome FAILED, whose error is `<reason>: <message>`, redacted and shortened."""
        return cls.of(JobOutcome.FAILED, reason, message)


SUCCEEDED: Final = JobResult(JobOutcome.SUCCEEDED)
EXPIRED: Final = JobResult(JobOutcome.NOOP, "expired")

_TERMINAL_BLOCKS: Final = frozenset(
    {"ValidationFailed", "NameTaken", "WrongCluster", "NamespaceNotGated", "PolicyDenied"}
)
"""Reasons of Blocked=True that only another spec or another actor can lift, so the job does not wait."""

_LEFT_BEHIND: Final[Mapping[str, str]] = {
    "NameTaken": "; the ApplicationInstance stays and takes the name once it is free: delete it if you do not want that"
}


def result_of(live: Manifest, generation: int, before: Any = None) -> JobResult | None:
    """Return the result of the job that applied the object `live`, or None while the outcome is open.

    `generation` is the object's `metadata.generation` after the apply. `before` is the object's status before the job's
    apply, or None if it had none. A status that another field manager edited is ignored.
    """
    if OWN_STATUS.holder(live) is not None:
        return None
    match live.get("kind"):
        case "ApplicationInstance":
            return _current(_judge_instance(live, generation), live, before)
        case "Operation":
            # An end is final, whatever its cause; any other status may be from before.
            return _ended(live, generation) or _current(_judge_operation(live, generation), live, before)
        case _:
            return None


def _current(result: JobResult | None, live: Manifest, before: Any) -> JobResult | None:
    """Return `result`, or None if it was read from a status of `live` that may be older than the last request.

    `before` is the status before that request. The generation cannot show this, since a request need not change the
    spec.
    """
    if result is None:
        return None
    annotations = get_path(live, "metadata", "annotations")
    asked = annotations if isinstance(annotations, Mapping) else {}
    observed = get_path(live, "status", "observedRequest")
    if isinstance(observed, str):
        return result if observed == request_mark(asked) else None
    # A status without `observedRequest`, from an older operator: if it is unchanged, it may be from before the request.
    unchanged = before is not None and get_path(live, "status") == before
    if unchanged and (result.outcome is not JobOutcome.SUCCEEDED or asked.get(RETRY)):
        return None
    return result


def _judge_instance(live: Manifest, generation: int) -> JobResult | None:
    now = _Current(live, generation)
    match (now.status("Ready"), now.status("Stalled"), now.status("Reconciling"), now.reason_if_true("Blocked")):
        case ("True", _, _, _):
            return SUCCEEDED
        case (_, _, _, "FieldConflict"):
            return JobResult.of(JobOutcome.CONFLICT, "FieldConflict", now.message("Blocked"))
        case (_, _, _, blocked) if blocked in _TERMINAL_BLOCKS:
            return JobResult.failed(blocked, now.message("Blocked") + _LEFT_BEHIND.get(blocked, ""))
        case _ if get_path(live, "spec", "suspend") is True and now.status("Suspended") == "True":
            # Ready stays as it was: nothing is tried while the instance is suspended (RES-1).
            return SUCCEEDED
        case ("False", "True", _, _):
            return JobResult.failed(now.reason("Ready"), now.message("Ready") or now.message("Stalled"))
        case (_, "True", _, _):
            return JobResult.failed(now.reason("Stalled"), now.message("Stalled"))
        case ("False", _, reconciling, _) if reconciling != "True" and now.reason_if_true("Degraded") in _FAILED:
            return JobResult.failed(now.reason("Degraded"), now.message("Ready") or now.message("Degraded"))
        case _:
            return None


_FAILED: Final = frozenset({"HelmReleaseFailed"})


def _ended(live: Manifest, generation: int) -> JobResult | None:
    now = _Current(live, generation)
    match get_path(live, "status", "phase"):
        case "Succeeded":
            return SUCCEEDED
        case "Failed":
            return JobResult.failed(now.any_reason("Failed") or "EngineFailed", now.any_message("Failed"))
        case "Cancelled":
            text = f"{now.any_reason('Cancelled')}: {now.any_message('Cancelled')}".strip(": ")
            return JobResult.failed(Reason.CANCELLED, text)
        case _:
            return None


def _judge_operation(live: Manifest, generation: int) -> JobResult | None:
    now = _Current(live, generation)
    match get_path(live, "status", "phase"):
        case "Running" if is_recurring(live):
            return SUCCEEDED if now.status("Succeeded") == "True" else None
        case "Running":
            return None
        case _ if now.status("Accepted") == "False":
            return JobResult.failed(now.reason("Accepted"), now.message("Accepted"))
        case _:
            return None


class _Current:
    """The conditions of one object that are up to date: those that were observed at `generation` or later."""

    def __init__(self, live: Manifest, generation: int) -> None:
        overall = _number(get_path(live, "status", "observedGeneration"))
        self._all = {str(condition["type"]): condition for condition in own_conditions_of(live)}
        self._valid = {
            name: condition
            for name, condition in self._all.items()
            if max(_number(condition.get("observedGeneration", overall)), 0) >= generation
        }

    def status(self, name: str) -> str:
        return str(self._valid.get(name, {}).get("status", ""))

    def reason(self, name: str) -> str:
        return text_or_empty(self._valid.get(name, {}).get("reason"))

    def message(self, name: str) -> str:
        return text_or_empty(self._valid.get(name, {}).get("message"))

    def reason_if_true(self, name: str) -> str:
        return self.reason(name) if self.status(name) == "True" else ""

    def any_reason(self, name: str) -> str:
        return text_or_empty(self._all.get(name, {}).get("reason"))

    def any_message(self, name: str) -> str:
        return text_or_empty(self._all.get(name, {}).get("message"))


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
