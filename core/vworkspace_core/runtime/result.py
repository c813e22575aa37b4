"""What one reconcile came to, and what the queue makes of it (RUN-3, REC-13)."""

from enum import StrEnum

import attrs

from vworkspace_core.errors import Forbidden, Invalid, OperatorError, Permanent, Stale, Unavailable
from vworkspace_core.manifest import ObjectRef
from vworkspace_core.runtime.queue import Failed, Outcome, Outdated, Succeeded

__all__ = ["ReconcileResult", "Verdict", "judge"]

_REFUSED_SECONDS = 30.0
"""No watch tells that a role came: so long may pass until it is noticed."""


class Verdict(StrEnum):
    """The `result` label of controller_runtime_reconcile_total, plus the two that need naming apart."""

    SUCCESS = "success"
    REQUEUE_AFTER = "requeue_after"
    REQUEUE = "requeue"
    """The copy was overtaken; looked at again at once."""
    ERROR = "error"
    TERMINAL = "terminal"
    """Not retried: only another spec, or a person, can help."""


@attrs.frozen
class ReconcileResult:
    """What a reconcile did.

    `written` holds each object written and the resourceVersion the server answered: the key is not decided
    again from a cache that has not seen them. `look_again_after` is in seconds. `fingerprint` identifies
    the status that was written (any hash of it), for the hot-loop detector; empty when none was. `settled` says that
    another pass over what was written would write nothing: then its echoes do not wake the key.
    """

    written: tuple[tuple[ObjectRef, str], ...] = ()
    look_again_after: float | None = None
    error: OperatorError | None = None
    fingerprint: str = ""
    generation: int = 0
    """The generation that the status speaks of."""
    settled: bool = False
    told: bool = False
    """The object's own status says what `error` is about."""


def judge(result: ReconcileResult) -> tuple[Verdict, Outcome]:
    """What the error, if any, asks for. A terminal error counts as an end: `look_again_after` still holds."""
    again = Succeeded(result.look_again_after)
    match result.error:
        case None:
            return (Verdict.SUCCESS if result.look_again_after is None else Verdict.REQUEUE_AFTER), again
        case Stale():
            return Verdict.REQUEUE, Outdated()
        case Invalid() | Permanent() | Forbidden(namespace_terminating=True):
            return Verdict.TERMINAL, again
        case Forbidden() if result.error.right is not None:
            return Verdict.ERROR, Failed(at_most=_REFUSED_SECONDS)
        case Unavailable(retry_after=seconds):
            return Verdict.ERROR, Failed(seconds or 0.0)
        case _:
            return Verdict.ERROR, Failed()
