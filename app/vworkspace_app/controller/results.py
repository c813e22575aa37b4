"""What the queue is to make of a pass, whatever the kind (RUN-3, REC-13)."""

from typing import Final

from vworkspace_core.apimachinery.errors import Unavailable
from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, content_hash, dig
from vworkspace_core.controller.decision import Decision
from vworkspace_core.controller.queue.outcome import ReconcileResult
from vworkspace_core.controller.reconcile import Again, Outcome

_SLOW_SECONDS: Final = 60.0
"""How soon to look again at what only outside help can cure, beside the watch event that will tell of it."""


def result_of(outcome: Outcome, *, fixed_point: bool = False) -> ReconcileResult:
    """What the queue is to make of a pass. `fixed_point`: by its kind's law a second one writes nothing (REC-6)."""
    written = tuple((ref, version) for ref, version in outcome.written if version)
    status = outcome.decision.status
    again, error = outcome.decision.look_again_after, outcome.error
    match outcome.again:
        case Again.NO | Again.AT_ONCE | Again.REFUSED:
            pass
        case Again.BACKOFF:
            error = error or Unavailable(_told(outcome.decision))
        case Again.SLOW:
            again = _SLOW_SECONDS if again is None else min(again, _SLOW_SECONDS)
    return ReconcileResult(
        written=written,
        look_again_after=again,
        error=error if outcome.again is not Again.NO else None,
        fingerprint=_fingerprint(status) if status is not None and error is None else "",
        settled=fixed_point and outcome.settled and outcome.again is Again.NO,
        told=outcome.told,
        generation=dig(status, "status", "observedGeneration") or 0,
    )


def _told(decision: Decision) -> str:
    """What the decision's status says of the failure, for the log line."""
    conditions = dig(decision.status, "status", "conditions") or ()
    told = (dig(one, "message") for one in conditions if dig(one, "status") == "True")
    return next((message for message in told if message), "a write failed; the status says which")


def _fingerprint(status: Manifest) -> str:
    """Identifies what the status says, its times left out (hot-loop detector)."""
    conditions = dig(status, "status", "conditions") or ()
    return content_hash([[one["type"], one["status"], one["reason"]] for one in conditions])


async def no_news(ref: ObjectRef, manifest: Manifest) -> None:
    """Nobody wants to hear of it."""
