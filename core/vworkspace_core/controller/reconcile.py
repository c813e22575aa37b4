"""Carrying a Decision out: the only code that turns effects into calls of the `KubeApi` port.

Expected flow
    decide → finalizer → patches → applies → creates → deletes → decide again on what came of it → … → status → events.
    A second round finds nothing more to write downstream (REC-6); its status is the one that is written, so that
    the status always speaks of the world after the writes.
Guarantees
    The finalizer is on before the first downstream write. The status goes out in one apply with the
    resourceVersion it was decided on (REC-7). An apply holds the uid and resourceVersion that it was decided on: one
    that arrives late, from a process that does not lead any more, changes nothing (RUN-4). Events follow a written
    status only. A decision that may be made from the newest copy of its source only (`only_if_current`) writes
    nothing downstream from an older one.
Errors
    None of the port's errors leaves `carry_out`: refused writes downstream come back to the decision as `Failure`s,
    and what stops the source's own writes is in `Outcome.error`, for the driver to log and to try again.
"""

from enum import Enum

import attrs

from vworkspace_core.api.remedies import first_refusal
from vworkspace_core.apimachinery.errors import Forbidden, NotFound, OperatorError, Stale, Unavailable
from vworkspace_core.apimachinery.manifest import ObjectRef
from vworkspace_core.controller.decision import Decision, Requeue
from vworkspace_core.controller.execute import Pass, Reconciler, S, V, Wrote, write_downstream, write_status
from vworkspace_core.ports import EventSink, KubeApi

_ROUNDS = 4
"""A decision needs two rounds; more mean that somebody else is writing too, and a watch event will follow."""


class Again(Enum):
    """When the key is to be looked at again, beside `look_again_after` and watch events."""

    NO = "a watch event will tell"
    AT_ONCE = "something moved between reading and writing: look again without backoff"
    BACKOFF = "a passing failure: exponential backoff"
    SLOW = "only outside help can cure it: slow backoff"
    REFUSED = "a right is missing: backoff of half a minute at most"


@attrs.frozen
class Outcome:
    """What a pass did. `written` names each object with the resourceVersion the server answered (RUN-3).

    `settled` says that the decision was made on the answer to every write before the status, and left nothing to write.
    """

    decision: Decision
    written: tuple[tuple[ObjectRef, str], ...] = ()
    again: Again = Again.NO
    error: OperatorError | None = None
    settled: bool = False
    done: tuple[tuple[str, ObjectRef], ...] = ()
    """What was written, each with what was done to it; `STATUS` for the source's status."""
    told: bool = False
    """The status that stands, or was written, says what `error` is about."""

    @property
    def writes(self) -> int:
        """How many writes reached the API server."""
        return len(self.written)


async def carry_out(
    reconciler: Reconciler[S, V],
    source: S,
    observed: V,
    api: KubeApi,
    events: EventSink,
    wrote: Wrote = lambda written: None,
) -> Outcome:
    """Decide, write, and decide again until nothing downstream is left to write; then write the status.

    `wrote` is told of each write as it is answered, since a pass may be cancelled after it (RUN-3).
    """
    work = Pass(reconciler, api, source, observed, wrote)
    decision = reconciler.decide(work.source, work.observed)
    try:
        for _ in range(_ROUNDS):
            if not decision.writes_downstream:
                break
            if await write_downstream(work, decision):
                return await _finished(work, decision, events)
            decision = reconciler.decide(work.source, work.observed)
        if decision.status is not None:
            await write_status(work, decision.status)
    except Stale as error:
        # Somebody wrote between our read and our write: the watch has it already, or will in a moment.
        return Outcome(decision, tuple(work.written), Again.AT_ONCE, error, done=tuple(work.done))
    except NotFound as error:
        # The source has gone meanwhile: its DELETED event is on the way.
        return Outcome(decision, tuple(work.written), Again.NO, error, done=tuple(work.done))
    except OperatorError as error:
        return Outcome(decision, tuple(work.written), _pace(error), error, done=tuple(work.done))
    return await _finished(work, decision, events)


async def _finished(work: Pass[S, V], decision: Decision, events: EventSink) -> Outcome:
    for event in decision.events:
        await events.emit(event)
    settled = not decision.writes_downstream
    again = _again(decision.requeue)
    error = first_refusal(work.observed.failures) if again is Again.REFUSED else None
    return Outcome(
        decision, tuple(work.written), again, error, settled=settled, told=error is not None, done=tuple(work.done)
    )


def _again(requeue: Requeue) -> Again:
    match requeue:
        case Requeue.NO:
            return Again.NO
        case Requeue.BACKOFF:
            return Again.BACKOFF
        case Requeue.SLOW:
            return Again.SLOW
        case Requeue.REFUSED:
            return Again.REFUSED


def _pace(error: OperatorError) -> Again:
    match error:
        case Forbidden() if error.right is not None:
            return Again.REFUSED
        case Unavailable():
            return Again.BACKOFF
        case _:
            return Again.SLOW
