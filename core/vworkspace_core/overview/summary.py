"""The summary of one object for people: its state in one word, a message and remedies, from its conditions (SEE-1)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.definitions import BROUGHT_TO, OPERATOR_BOX, PIN, text_at
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.secret_material import safe
from purekube.apimachinery.timestamps import time_at
from purekube.boxes.rollouts.reasons import BoxReason, RolloutPhase
from purekube.readiness import State, readiness
from vworkspace_core.api.crd import DEPLOYED, SUSPENDED, WANTED, cell
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.operation import has_schedule
from vworkspace_core.api.own_status import unmanaged
from vworkspace_core.api.reasons import (
    BEFORE_RECONCILING,
    DECISIVE,
    ClusterConditionType,
    ClusterReason,
    InstanceConditionType,
    InstanceReason,
    OperationConditionType,
    is_of_former_try,
)
from vworkspace_core.instances.observed_release import COUNTED_FAILURES
from vworkspace_core.overview.remedy import Help, commands_in, help_for, lead_of

LONGEST_COMMAND: Final = 4096
"""The maximum length of a command in bytes, and of a message that may contain one: half a command is of no use."""


class OverviewState(StrEnum):
    """The states of an object as they are shown to people, such as Ready or Waiting."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    """Work on the object is in progress, and no obstacle is known."""
    WAITING = "Waiting"
    """An obstacle is in the way; work continues automatically once it is gone."""
    STALLED = "Stalled"
    """Work on the object has stopped until its spec changes or a person helps."""
    DEGRADED = "Degraded"
    """The object has a fault, although it may still work."""
    SUSPENDED = "Suspended"
    DELETING = "Deleting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    NOT_READY = "NotReady"
    EXCLUDED = "Excluded"
    """The box (the YAML file of its operator) excludes the object, so that it should not exist."""
    UNSEEN = "Unseen"
    """No operator has written a status for the object yet."""


SETTLED: Final = frozenset(
    {
        OverviewState.READY,
        OverviewState.SUCCEEDED,
        OverviewState.FAILED,
        OverviewState.CANCELLED,
        OverviewState.SUSPENDED,
        OverviewState.EXCLUDED,
    }
)
"""States in which nothing happens until the desired state changes."""

_ENDED: Final = SETTLED - {OverviewState.SUSPENDED}

_NOT_MANAGED: Final = "The operator leaves it alone, for it does not carry its label: label it, if it is to act on it."

FORMER: Final = "no resource of its parent asks for it any more; it goes once the others are ready"
"""The message for a child that a former version of its parent's controller created."""


@attrs.frozen
class Summary:
    """The summary of one object. `since` is when its state began, None if unknown.

    `remedies` are commands that would succeed now; one of them helps. `advice` says who else can help. `wanted` is the
    chart version in the spec, and `deployed` the version that Helm runs. For a box in the cluster (OperatorBox) and the
    objects of its kind, both are revisions of the box. For other kinds both are empty.
    """

    ref: ObjectRef
    state: OverviewState
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    remedies: tuple[str, ...] = ()
    advice: str = ""
    wanted: str = ""
    deployed: str = ""
    is_suspended: bool = False
    override: str = ""
    """The name of the Operation that requests another chart version than the spec; "" if there is none."""
    is_helpable: bool = False
    """True if the obstacle does not go away until a person helps."""

    @property
    def state_text(self) -> str:
        """The state in words. If the object is suspended, which is possible in any state, "suspended" is added."""
        hidden = self.is_suspended and self.state is not OverviewState.SUSPENDED
        return f"{self.state.value}, suspended" if hidden else self.state.value

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        """The remedies as pairs: the words to show before a command, and the command.

        The words are empty if it is enough to run the command.
        """
        return tuple((lead_of(self.message, self.advice, command), command) for command in self.remedies)

    @property
    def next_look(self) -> str:
        """The text that says when the operator will next reconcile the object, such as "when it is resumed".

        The text is empty if the operator has finished with the object.
        """
        if self.state in _ENDED:
            return ""
        match self.state:
            case OverviewState.WAITING:
                return "on change, or within 1 minute"
            case OverviewState.STALLED if self.ref.kind == OPERATOR_BOX:
                return "on change, or within 1 minute"
            case OverviewState.STALLED if self.ref.kind == APPLICATION_INSTANCE:
                return "when its spec changes, or a retry is requested"
            case OverviewState.DEGRADED if self.reason == InstanceReason.CHART_UNREACHABLE:
                return "when Flux has tried again, or its spec changes"
            case OverviewState.SUSPENDED:
                return "when it is resumed"
            case OverviewState.UNSEEN:
                return "when it is labelled" if self.advice == _NOT_MANAGED else "once an operator runs for it"
            case _:
                return "when anything that it depends on changes"


_NOT_REPORTED: Final = (
    "No operator has reported on it, and no command makes one do so: `check` tells whether one runs, and what it lacks."
)

_MISPINNED: Final = f"Remove the annotation {PIN}, or take a revision from the history:"

Rule: TypeAlias = tuple[str, str, OverviewState]
"""The type and status of a condition, and the state that it means. In a list, the first rule that matches counts."""

_I, _O, _C = InstanceConditionType, OperationConditionType, ClusterConditionType

_STATES: Final[Mapping[Kind, Mapping[tuple[str, str], OverviewState]]] = {
    APPLICATION_INSTANCE: {
        (_I.DELETING, "True"): OverviewState.DELETING,
        (_I.BLOCKED, "True"): OverviewState.WAITING,
        (_I.STALLED, "True"): OverviewState.STALLED,
        (_I.SUSPENDED, "True"): OverviewState.SUSPENDED,
        (_I.DEGRADED, "True"): OverviewState.DEGRADED,
        (_I.RECONCILING, "True"): OverviewState.PROGRESSING,
        (_I.READY, "True"): OverviewState.READY,
        (_I.READY, "False"): OverviewState.NOT_READY,
    },
    OPERATION: {
        (_O.FAILED, "True"): OverviewState.FAILED,
        (_O.CANCELLED, "True"): OverviewState.CANCELLED,
        (_O.BLOCKED, "True"): OverviewState.WAITING,
        (_O.ACCEPTED, "False"): OverviewState.STALLED,
        (_O.RUNNING, "True"): OverviewState.RUNNING,
        (_O.SUCCEEDED, "True"): OverviewState.SUCCEEDED,
        (_O.RUNNING, "False"): OverviewState.PROGRESSING,
        (_O.ACCEPTED, "True"): OverviewState.PROGRESSING,
    },
}
"""The state that each condition (type, status) means, by kind. `DECISIVE` has the order in which they are checked."""


def _in_order(kind: Kind) -> Sequence[Rule]:
    return tuple((*decisive, _STATES[kind][decisive]) for decisive in DECISIVE[kind])


_OF_KSTATUS: Final = _in_order(APPLICATION_INSTANCE)
"""The rules from conditions to states, for all kinds with Ready, Reconciling and Stalled.

They also hold for the kinds whose operator is a box (a YAML file).
"""

_WAITS_OF_BOXES: Final = frozenset({"WaitingForGate", "MissingKind", "Denied"})
"""The reasons of the condition Ready with which an object waits whose operator is a box (a YAML file).

They are values of `GraphReason`, which is not imported because that would slow the start of the command `status`.
"""

_FAILING_SYNC: Final = frozenset({"VolSyncMoverFailed", "VolSyncError"})
"""The reasons of the condition Running while the sync of an Operation fails and is tried again."""

_OF_CLUSTERS: Final[Sequence[Rule]] = (
    (_C.AUTHENTICATED, "False", OverviewState.STALLED),
    (_C.JOBS_BLOCKED, "True", OverviewState.STALLED),
    (_C.DISCONNECTED, "True", OverviewState.DEGRADED),
    (_C.CONNECTED, "False", OverviewState.DEGRADED),
    (_C.CONTROLLERS_HEALTHY, "False", OverviewState.DEGRADED),
    (_C.BUFFER_OVERFLOW, "True", OverviewState.DEGRADED),
    (_C.CLOCK_SKEW, "True", OverviewState.DEGRADED),
    (_C.CONTROLLERS_HEALTHY, "True", OverviewState.READY),
)

_OF_BOXES: Final[Sequence[Rule]] = (
    ("Accepted", "False", OverviewState.STALLED),
    ("Permitted", "False", OverviewState.STALLED),
    ("Serving", "False", OverviewState.PROGRESSING),
    ("RolledOut", "False", OverviewState.PROGRESSING),
    ("RolledOut", "True", OverviewState.READY),
)
_OF_ROLLOUTS: Final[Mapping[str, OverviewState]] = {
    RolloutPhase.STOPPED: OverviewState.STALLED,
    RolloutPhase.REFUSED: OverviewState.STALLED,
    BoxReason.UNDONE: OverviewState.DEGRADED,
    BoxReason.NO_SUCH_REVISION: OverviewState.DEGRADED,
    RolloutPhase.PAUSED: OverviewState.SUSPENDED,
    RolloutPhase.GATED: OverviewState.WAITING,
}
"""The states of a box (OperatorBox) by the reason of its condition RolledOut=False. All other reasons mean Progressing.
"""

_RULES: Final[Mapping[Kind, Sequence[Rule]]] = {
    OPERATION: _in_order(OPERATION),
    CLUSTER: _OF_CLUSTERS,
    OPERATOR_BOX: _OF_BOXES,
}

_OF_READINESS: Final[Mapping[State, OverviewState]] = {
    State.READY: OverviewState.READY,
    State.PROGRESSING: OverviewState.PROGRESSING,
    State.FAILED: OverviewState.FAILED,
    State.UNKNOWN: OverviewState.NOT_READY,
}


def redacted_summary(summary: Summary) -> Summary:
    """Return the summary with every secret in its texts replaced by a placeholder."""
    return attrs.evolve(
        summary,
        reason=safe(summary.reason),
        message=safe(summary.message, LONGEST_COMMAND),
        wanted=safe(summary.wanted),
        deployed=safe(summary.deployed),
        override=safe(summary.override),
        remedies=tuple(safe(remedy, LONGEST_COMMAND) for remedy in summary.remedies),
        advice=safe(summary.advice),
    )


def summary_of(kind: Kind, manifest: Manifest) -> Summary:
    """Return the summary of the object `manifest`, which is of `kind`.

    This is one of the operator's own kinds, or a kind whose operator is a box (a YAML file).
    """
    ref = ref_of(manifest, kind)
    overlooked = _overlooked(manifest)
    for type_, status, state in _RULES.get(kind, _OF_KSTATUS):
        condition = condition_of(manifest, type_)
        if _is_of_former_try(kind, manifest, type_, condition):
            continue
        if get_path(condition, "status") == status and get_path(condition, "reason") != ClusterReason.NO_AGENT:
            if type_ == _I.RECONCILING and _waits(kind, manifest):
                type_, state, condition = _I.READY, OverviewState.WAITING, condition_of(manifest, _I.READY)
            reason, message = _reason_and_message(condition)
            if kind == OPERATOR_BOX and type_ == "RolledOut":
                state = _OF_ROLLOUTS.get(reason, state)
            if state is OverviewState.RUNNING and reason in _FAILING_SYNC and has_schedule(manifest):
                state = OverviewState.DEGRADED
            summary = Summary(ref, state, reason, message, since=_since(condition))
            help_ = help_for(kind, manifest, type_, summary.reason, summary.message)
            if state is OverviewState.DELETING:
                help_ = _help_for_deletion(kind, manifest, help_)
            helped = attrs.evolve(summary, remedies=help_.remedies, advice=help_.advice, is_helpable=help_.needs_person)
            return _with_cells(_mispinned(_newer(helped, overlooked), manifest), manifest)
    if get_path(manifest, "metadata", "deletionTimestamp"):
        why = condition_of(manifest, "Serving") if kind == OPERATOR_BOX else None
        message = _reason_and_message(why)[1] or overlooked
        going = Summary(ref, OverviewState.DELETING, message=message, since=_since(why), remedies=commands_in(message))
        return _with_cells(attrs.evolve(going, is_helpable=bool(going.remedies)), manifest)
    unseen = Summary(ref, OverviewState.UNSEEN, message=overlooked)
    if not get_path(manifest, "status", "conditions"):
        unseen = _with_advice(unseen, manifest)
    return _with_cells(unseen, manifest)


def _is_of_former_try(kind: Kind, manifest: Manifest, type_: str, condition: Mapping[str, Any]) -> bool:
    reconciling = condition_of(manifest, _I.RECONCILING)
    now = reconciling.get("observedGeneration")
    is_reconciling = reconciling.get("status") == "True"
    return is_of_former_try(kind, type_, condition.get("observedGeneration"), now, is_reconciling=is_reconciling)


def _help_for_deletion(kind: Kind, manifest: Manifest, otherwise: Help) -> Help:
    """Return the remedies for an object that is being deleted: those for a right that the operator lacks for it, or
    else `otherwise`.

    A deletion without a remedy needs no person, since others carry it out.
    """
    blocked = condition_of(manifest, _I.BLOCKED)
    reason, message = _reason_and_message(blocked)
    if kind == APPLICATION_INSTANCE and get_path(blocked, "status") == "True" and reason == InstanceReason.FORBIDDEN:
        return help_for(kind, manifest, _I.BLOCKED, reason, message)
    return attrs.evolve(otherwise, needs_person=bool(otherwise.remedies))


def _with_cells(summary: Summary, manifest: Manifest) -> Summary:
    """Return the summary with four values added from the manifest.

    They are the desired and the deployed chart version (for an object of a box, revisions of the box), whether the
    object is suspended, and whether an Operation overrides the version.
    """
    desired, deployed, suspended = (cell(summary.ref.kind, each, manifest) for each in (WANTED, DEPLOYED, SUSPENDED))
    if not (desired or deployed):
        desired, deployed = _revisions(summary.ref.kind, manifest)
    override = text_at(manifest, ".status.releaseOverride.version") and text_at(
        manifest, ".status.releaseOverride.operation"
    )
    return attrs.evolve(summary, wanted=desired, deployed=deployed, is_suspended=suspended == "True", override=override)


def _revisions(kind: Kind, manifest: Manifest) -> tuple[str, str]:
    """Return two strings: the desired and the present revision of an applied box, or of an object of a box.

    They are empty if unknown. While objects of a box still have to be moved to a revision, the box's present revision
    is a count such as `3/5`.
    """
    if kind != OPERATOR_BOX:
        record, pin = (get_path(manifest, "metadata", "annotations", each) for each in (BROUGHT_TO, PIN))
        present = str(record or "").partition(" ")[0]
        return str(pin or present) if present else "", present
    revision = str(get_path(manifest, "status", "revision") or "")
    moved, total = (get_path(manifest, "status", "rollout", each) for each in ("moved", "total"))
    return revision, revision if moved == total else f"{moved}/{total}"


def _waits(kind: Kind, manifest: Manifest) -> bool:
    """Report whether the object waits for something that others have to provide.

    An instance waits if Flux waits for its values; an object of a box waits for a condition, a kind or a right.
    """
    ready = condition_of(manifest, _I.READY)
    reasons = BEFORE_RECONCILING if kind == APPLICATION_INSTANCE else _WAITS_OF_BOXES
    return get_path(ready, "status") == "False" and str(get_path(ready, "reason")) in reasons


def _with_advice(unseen: Summary, manifest: Manifest) -> Summary:
    """Return `unseen`, the summary of an object without any status from an operator, with advice added.

    If the object lacks the operator's label, the advice is to add the label. Otherwise it is that no operator may be
    running.
    """
    event = unmanaged(unseen.ref, manifest) if unseen.ref.kind in (APPLICATION_INSTANCE, OPERATION) else None
    if event is None:
        return attrs.evolve(unseen, advice=_NOT_REPORTED)
    return attrs.evolve(unseen, remedies=commands_in(event.note), advice=_NOT_MANAGED)


def summary_of_child(kind: Kind, manifest: Manifest) -> Summary:
    """Return the summary of the object `manifest` of `kind`, by the readiness rules (PH-1).

    The object is one that other controllers reconcile, such as a Deployment.
    """
    from vworkspace_core.operations.engines import READINESS_RULES  # lists have no children, and need no engine

    answer = readiness(manifest, rules=READINESS_RULES)
    state = (
        OverviewState.DELETING if get_path(manifest, "metadata", "deletionTimestamp") else _OF_READINESS[answer.state]
    )
    said = condition_of(manifest, "Ready")
    if answer.reason == OverviewState.SUSPENDED:
        state = OverviewState.SUSPENDED
    elif state is OverviewState.PROGRESSING and (_failed_at_its_generation(said, manifest) or _is_retried(manifest)):
        state = OverviewState.NOT_READY
    since = _since(said)
    return Summary(ref_of(manifest, kind), state, answer.reason, answer.message, since)


def _failed_at_its_generation(ready: Manifest | None, manifest: Manifest) -> bool:
    """Report whether `ready`, a condition Ready, is False for the object's present generation.

    A controller that still works reports Unknown.
    """
    generation = get_path(manifest, "metadata", "generation")
    is_of_now = generation is not None and get_path(ready, "observedGeneration") == generation
    return is_of_now and get_path(ready, "status") == "False"


def _is_retried(manifest: Manifest) -> bool:
    """Report whether Flux retries a failed release.

    During a retry Ready is Unknown, and only failure counts show the failure.
    """
    status, generation = get_path(manifest, "status"), get_path(manifest, "metadata", "generation")
    is_of_now = generation is not None and get_path(status, "lastAttemptedGeneration") == generation
    return is_of_now and any(get_path(status, field) for field in COUNTED_FAILURES)


def _newer(summary: Summary, overlooked: str) -> Summary:
    """Return the summary, changed to Progressing if it is out of date.

    A summary is out of date if it says Ready or Suspended, but the object has a newer generation, which its controller
    has not looked at yet. `overlooked` is then the message for Progressing; it is empty if no generation is newer.
    """
    if not overlooked or summary.state not in (OverviewState.READY, OverviewState.SUSPENDED):
        return summary
    return attrs.evolve(summary, state=OverviewState.PROGRESSING, reason="NewGeneration", message=overlooked)


def _mispinned(summary: Summary, manifest: Manifest) -> Summary:
    """Return the summary, changed to Degraded if it says Ready, but the object is pinned to a revision that its box
    does not have.
    """
    reason, message = _reason_and_message(pinned := condition_of(manifest, "Revision"))
    if summary.state is not OverviewState.READY or reason != BoxReason.NO_SUCH_REVISION:
        return summary
    command = f"vworkspace-operator box rollout history {message.partition(',')[0].rpartition('-')[0]}"
    changed = attrs.evolve(summary, state=OverviewState.DEGRADED, reason=reason, message=message, since=_since(pinned))
    return attrs.evolve(changed, remedies=(command,), advice=_MISPINNED, is_helpable=True)


def _overlooked(manifest: Manifest) -> str:
    """Return a message if `status.observedGeneration` is older than the object's generation, or an empty string."""
    generation = get_path(manifest, "metadata", "generation")
    observed = get_path(manifest, "status", "observedGeneration")
    if not isinstance(generation, int) or not isinstance(observed, int) or observed >= generation:
        return ""
    return f"generation {generation} has not been looked at yet; what is told is of {observed}"


def _reason_and_message(condition: Manifest | None) -> tuple[str, str]:
    return str(get_path(condition, "reason") or ""), str(get_path(condition, "message") or "")


def _since(condition: Manifest | None) -> datetime | None:
    """Return the time at which the reason of `condition` began. If that is unknown, return the time at which its status
    began.

    Return None if both are unknown.
    """
    return time_at(condition, "reasonTransitionTime") or time_at(condition, "lastTransitionTime")
