"""The laws (required properties) of Operations and of their engines' objects, at every change (OPS-1 to OPS-5).

An engine, such as Velero, carries out an Operation.
"""

import base64
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, cast

import attrs
import msgspec

from kubelab.model.records import Record
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.timestamps import parse_time
from purekube.ports import KubeVerb
from purekube_run.simulation.connection import ObservedWrite
from vworkspace_app.simulation.checks import OperatorChecks, course_of, status_flaws, succession_flaws
from vworkspace_app.simulation.instance_laws import BY_US, JobLaws
from vworkspace_app.simulation.settled_laws import TERMINAL, deadline_of
from vworkspace_app.simulation.workload_requests import FORGED_REQUEST
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.operation import IDLE_REASONS
from vworkspace_core.operations.approvals import parameters_digest
from vworkspace_core.operations.engines import engine_kinds

# A law that asked the operator's own tables would not see a wrong one: these are copied from the specification.
_ONCE: Final = ("startedAt", "finishedAt")
_OWN_ENDS: Final = frozenset({"Timeout", "ExternalDeletion", "PreconditionFailed", "ValidationFailed"})
"""The reasons with which an Operation fails though its engine has not failed."""
_APPROVED: Final = frozenset({("Restore", "velero")})
"""The (type, engine) pairs of Operations that need an approval."""
EXCLUDING: Final = frozenset(
    frozenset(pair)
    for kind, others in {
        "Upgrade": ("Upgrade",),
        "Restore": ("Upgrade", "Backup", "Restore"),
        "Migration": ("Upgrade", "Restore", "Backup", "Migration"),
    }.items()
    for pair in ((kind, other) for other in others)
)
"""The pairs of types that must not run together on a target (OPS-5)."""


_RECOVERY: Final = 180.0
"""The seconds after a fault within which another replica must have become the leader."""
_LATE: Final = 30.0
"""The seconds after its deadline within which the end of an Operation is written."""


@attrs.define
class _Running:
    """A running Operation: its target and its type."""

    ref: ObjectRef
    target: str
    type: str


class OperationLaws:
    """The checks of the laws (required properties) of Operations in a simulated run."""

    def __init__(self, laws: OperatorChecks, jobs: JobLaws) -> None:
        self._laws = laws
        self._check = laws.check
        self._lives: dict[str, Manifest] = {}
        self._existing: set[str] = set()
        """The uids of the Operations that exist: Velero may bring the object of a deleted one back."""
        self._running: dict[str, _Running] = {}
        self._begun: dict[str, Manifest] = {}
        """Each Operation as it was when it became Running: then its approval was judged."""
        self._made: defaultdict[str, set[str]] = defaultdict(set)
        """The uids of the engine objects of each Operation."""
        self._started_by: dict[str, tuple[str, float]] = {}
        """The uid of the Operation that each approval started, and when."""
        self._makers: dict[str, str] = {}
        """The uid of the Operation of each engine object."""
        self._living: set[str] = set()
        """The uids of the engine objects that exist."""
        self._ends: dict[str, str] = {}
        """The end of each Operation's engine object, if it has one: the phase that the Operation must then have."""
        self._jobs = jobs
        laws.observe(OPERATION, self._operation)
        laws.keep_finalizers(OPERATION, "REC-8", "finalizers of others stay")
        for kind in engine_kinds():
            laws.observe(kind, self._engine_object)
        laws.world.on_write.append(self._wrote)

    def _wrote(self, write: ObservedWrite) -> None:
        """Check that an object that an Operation made, such as a backup, is not deleted after the Operation has
        succeeded.
        """
        if write.request.verb is not KubeVerb.DELETE or write.error is not None:
            return
        uid = str(get_path(write.request.body, "preconditions", "uid") or "")
        owner = self._lives.get(self._makers.get(uid, ""))
        if owner is not None:
            kept = get_path(owner, "status", "phase") != "Succeeded"
            told = f"{ref_of(owner, OPERATION)} made it and has succeeded"
            self._check("OPS-11", "what succeeded is kept", write.request.ref, kept, told)

    def _operation(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is None:
            self._laws.prompt.gone(ref)
            if before is not None:
                self._running.pop(before.uid, None)
                self._existing.discard(before.uid)
            return
        self._existing.add(after.uid)
        was, live = self._lives.get(after.uid), after.shared()
        self._lives[after.uid] = live
        if was is None or course_of(was) != course_of(live):
            self._laws.prompt.changed(ref)
        if was is None or self._laws.is_restored_now or was.get("status") == live.get("status"):
            self._note_running(ref, live)
            return
        old, new = _phases_of(was, live)
        if old != new == "Running":
            self._begun[after.uid] = live
        self._check_course(ref, was, live)
        for clause, law, told in (
            *status_flaws(ref.kind.kind, live),
            *succession_flaws(ref.kind.kind, was, live, self._laws.earliest_now),
        ):
            self._check(clause, law, ref, False, told)
        self._check("RES-4", "a status follows the conventions", ref, True, "")
        shows = self._laws.shows_secret(live.get("status", {}))
        self._check("RES-7", "no secret in a status", ref, not shows, "a secret")
        self._note_running(ref, live)
        self._check_alone(ref, live["metadata"]["uid"])

    def _check_course(self, ref: ObjectRef, was: Manifest, live: Manifest) -> None:
        old, new = _phases_of(was, live)
        self._check("OPS-1", "a terminal phase stays", ref, old not in TERMINAL or old == new, f"{old}, then {new}")
        goes_on = not (old == "Running" and new not in ("Running", *TERMINAL))
        self._check("OPS-1", "a run does not go back", ref, goes_on, f"{old}, then {new}")
        uid = live["metadata"]["uid"]
        end, made = self._ends.get(uid, "not ended"), self._made[uid]
        # The caches may still have an end of the engine that a restore of etcd has undone.
        holds, told = end == new or self._laws.is_just_restored(self._laws.world.seconds), f"its engine has {end}"
        if new == "Succeeded" and made:
            self._check("OPS-6", "an Operation succeeds as its engine did", ref, holds, told)
        reason = condition_of(live, "Failed").get("reason")
        if new == "Failed" and old != new and made and reason not in _OWN_ENDS:
            self._check("OPS-6", "an Operation fails as its engine did", ref, holds, told)
        if new in TERMINAL and old not in TERMINAL:
            self._check_deadline(ref, live)
        if new == "Cancelled":
            left = self._made[live["metadata"]["uid"]] & self._living
            gone = not left or self._laws.operator_world.was_restored
            self._check("OPS-11", "a cancelled run has ended", ref, gone, "its engine object exists")
        if new == "Succeeded":
            self._jobs.operation_succeeded(ref)
        for field in _ONCE:
            first, then = (get_path(each, "status", field) for each in (was, live))
            self._check(
                "OPS-1", "a time is set once", ref, not first or first == then, f"{field}: {first}, then {then}"
            )

    def _check_deadline(self, ref: ObjectRef, live: Manifest) -> None:
        """Check that an Operation that ends now is neither late nor stopped before its deadline.

        A replica with a wrong clock is exempt.
        """
        world, deadline = self._laws.world, deadline_of(live)
        if deadline is not None and not world.happened["clock-jump"]:
            is_due = world.seconds >= deadline - 1.0 or condition_of(live, "Failed").get("reason") != "Timeout"
            told = f"its deadline is in {deadline - world.seconds:g} s"
            self._check("OPS-12", "no run ends before its deadline", ref, is_due, told)
            late = world.seconds - max(deadline, world.troubled_until + _RECOVERY)
            told = f"it ends {late:g} s too late"
            self._check("OPS-12", "an Operation ends by its deadline", ref, late <= _LATE, told)

    def _note_running(self, ref: ObjectRef, live: Manifest) -> None:
        uid, running = live["metadata"]["uid"], condition_of(live, "Running")
        if get_path(live, "status", "phase") == "Running" and running.get("reason") not in IDLE_REASONS:
            target = str(get_path(live, "spec", "targetRef", "name"))
            self._running[uid] = _Running(ref, target, str(live["spec"]["type"]))
        else:
            self._running.pop(uid, None)

    def _check_alone(self, ref: ObjectRef, uid: str) -> None:
        """Check that no Operation that conflicts with this one is running on the same target."""
        mine = self._running.get(uid)
        if mine is None:
            return
        beside = [
            str(other.ref)
            for key, other in self._running.items()
            if key != uid
            and (other.ref.namespace, other.target) == (ref.namespace, mine.target)
            and frozenset((mine.type, other.type)) in EXCLUDING
        ]
        self._check("OPS-5", "what conflicts never runs together", ref, not beside, f"{', '.join(beside)} runs too")

    def _engine_object(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        """Check a new engine object, which is an object that was created to carry out an Operation.

        The Operation must exist, must not have ended, must have no other engine object, and must be approved.
        """
        if after is None:
            self._living.discard("" if before is None else before.uid)
            return
        self._living.add(after.uid)
        uid = after.labels.get(labels.OPERATION_UID, "")
        if uid and (end := end_of(after.shared())):  # what a restore of etcd takes back was seen by the operator
            if uid in self._existing and uid not in self._ends:
                self._laws.prompt.changed(ref_of(self._lives[uid], OPERATION))
            self._ends[uid] = end
        if not uid or before is not None or self._laws.is_restored_now or BY_US not in after.raw:
            return
        self._makers[after.uid] = uid
        made = self._made[uid]
        made.add(after.uid)
        held = self._laws.operator_world.was_restored or len(made) <= 1
        self._check("OPS-1", "an Operation makes one engine object", ref, held, f"{len(made)} for {uid}")
        live = self._lives.get(uid)
        self._check("OPS-6", "an engine object has an Operation", ref, live is not None, f"there is no Operation {uid}")
        if live is not None:
            phase = str(get_path(live, "status", "phase") or "")
            self._check("OPS-1", "what has ended starts nothing", ref, phase not in TERMINAL, f"it has {phase}")
            self._check_approval(ref, self._begun.get(uid, live))

    def _check_approval(self, ref: ObjectRef, live: Manifest) -> None:
        """Check that an Operation that starts has the required approval, which no other Operation has used."""
        is_required = get_path(live, "spec", "approvals", "required") is True
        if not is_required and (live["spec"]["type"], live["spec"]["engine"]) not in _APPROVED:
            return
        claim = str(get_path(live, "spec", "approvals", "claim") or "")
        self._check("OPS-4", "nothing starts without its approval", ref, bool(claim), "there is no claim")
        payload, uid = _payload_of(claim), live["metadata"]["uid"]
        request = str(payload.get("rid"))
        is_signed = not request.startswith(FORGED_REQUEST)
        self._check("OPS-4", "a forged approval starts nothing", ref, is_signed, request)
        own = ref_of(live, OPERATION)
        given = {"op": own.name, "ns": own.namespace, "params": parameters_digest(live["spec"].get("parameters"))}
        wrong = [name for name, value in given.items() if payload.get(name) != value]
        self._check("OPS-4", "an approval is for this run", ref, not wrong, f"{', '.join(wrong)} differs")
        expires, created = int(payload.get("exp") or 0), parse_time(live["metadata"]["creationTimestamp"]).timestamp()
        self._check("OPS-4", "an expired approval starts nothing", ref, expires >= created, "it had expired before")
        world = self._laws.world
        first, at = self._started_by.setdefault(request, (uid, world.seconds))
        if at <= world.restored_at:
            # A replica that did not record the use itself cannot know of it any more. From now on all of them can.
            first, _ = self._started_by[request] = (uid, world.seconds)
        self._check("OPS-4", "an approval starts one run", ref, first == uid, f"{request} started {first}")


_ENDS: Final = {
    **dict.fromkeys(("Succeeded", "Completed", "Complete", "Bound"), "Succeeded"),
    **dict.fromkeys(("Failed", "Error", "FailedValidation"), "Failed"),
}
"""The phase of an Operation by what its engine object reports at its end: a phase, or a condition that is True."""


def end_of(live: Manifest) -> str:
    """Return the phase that an Operation has to get from the end of its engine object; empty before that."""
    status: Any = live.get("status") or {}
    if status.get("phase") == "PartiallyFailed":  # a backup in part is usable, a restore in part is not (OPS-7)
        return "Succeeded" if live["kind"] == "Backup" else "Failed"
    told = [each["type"] for each in status.get("conditions") or () if each["status"] == "True"]
    synced = status.get("lastManualSync") is not None or status.get("lastSyncTime") is not None
    if status.get("readyToUse") is True or synced:
        return "Succeeded"
    return next((_ENDS[word] for word in (status.get("phase"), *told) if word in _ENDS), "")


def _phases_of(was: Manifest, live: Manifest) -> tuple[str, str]:
    old, new = (str(get_path(each, "status", "phase") or "") for each in (was, live))
    return old, new


def _payload_of(claim: str) -> Mapping[str, Any]:
    """Return the content of an approval claim; with the claim itself as the request's id if it cannot be decoded."""
    middle = claim.split(".")[1] if claim.count(".") == 2 else ""
    try:
        payload: Any = msgspec.json.decode(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    except (ValueError, msgspec.DecodeError):
        return {"rid": claim}
    return cast(Mapping[str, Any], payload)
