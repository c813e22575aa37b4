"""Dry runs of a new revision over every parent that would move to it, before any parent moves (PH-10)."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

import attrs

from purekube.apimachinery.conditions import STALLED, condition_of
from purekube.apimachinery.errors import Conflict, Forbidden, Invalid, OperatorError, Permanent
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.controller.decision import Decision, Failure
from purekube.graph.account import GraphReason

AGAIN_SECONDS: Final = 60.0
"""The delay before an object whose dry run was refused gets a new dry run, unless it changes earlier."""
_MOST_NAMED: Final = 10
_HOPELESS: Final = (GraphReason.EXPRESSION_FAILED, GraphReason.NAME_TAKEN)
"""Reasons of the condition Stalled that make a dry run count as refused although the API server refuses no write."""


class Foresight(Enum):
    """The result of a dry run of a revision over all parents (objects of the box's kind) that have not moved to the
    revision yet: whether any write for them would be refused, if that is known already.
    """

    PENDING = "not all of them are judged yet"
    SOUND = "none of them is refused"
    REFUSED = "a write for one of them would be refused"


@attrs.frozen
class DryRunResult:
    """The result of a dry run for one object: how many children the revision would create, change and delete.

    `deletes_afterwards` counts the deletes that wait until the rest is ready. `refused` is the reason why a write would
    be refused; "" if none would be.
    """

    ref: ObjectRef
    creates: int = 0
    changes: int = 0
    deletes: int = 0
    deletes_afterwards: int = 0
    refused: str = ""


@attrs.frozen
class Judgement:
    """The results of a dry run of `revision` over the objects that would move to it, one verdict for each object.

    `left` is the number of objects that are not tried yet, `obstacle` the reason why the next one cannot be tried.
    """

    revision: str
    verdicts: tuple[DryRunResult, ...]
    left: int = 0
    obstacle: str = ""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The results in the form of the field `status.judgement` of an OperatorBox."""
        refused = [verdict for verdict in self.verdicts if verdict.refused]
        return {
            "revision": self.revision,
            "objects": len(self.verdicts),
            "creates": sum(verdict.creates for verdict in self.verdicts),
            "changes": sum(verdict.changes for verdict in self.verdicts),
            "deletes": sum(verdict.deletes for verdict in self.verdicts),
            "deletesAfterwards": sum(verdict.deletes_afterwards for verdict in self.verdicts),
            "refused": len(refused),
            "refusals": [{"object": str(each.ref), "message": each.refused} for each in refused[:_MOST_NAMED]],
        }


def first_refusal(judgement: Mapping[str, Any]) -> str:
    """Return the first object for which a write would be refused, with the reason, as text; "" if there is none.

    `judgement` is the field `status.judgement` of an OperatorBox.
    """
    first = next(iter(judgement.get("refusals") or ()), None)
    return "" if first is None else f"{first['object']} would fail: {first['message']}"


def foresight_of(stored: Manifest, revision: str) -> Foresight:
    """Return the result of the dry run for `revision` that the status in the manifest `stored` records. The result is
    PENDING if the status records none. Never raises.
    """
    judged = get_path(stored, "status", "judgement")
    if not isinstance(judged, Mapping) or judged.get("revision") != revision:
        return Foresight.PENDING
    return Foresight.REFUSED if judged.get("refused") else Foresight.SOUND


def refusal_of(decision: Decision, failures: Sequence[Failure]) -> str:
    """Return the reason why the writes of a dry run would be refused; "" if they would not be.

    `decision` is the last decision of the dry run, and `failures` are its writes that the API server did not accept.
    """
    refused = next((failure for failure in failures if _is_final(failure.error)), None)
    condition = condition_of(decision.status, STALLED)
    stalled = condition if condition.get("status") == "True" else None
    if refused is None:
        return str(stalled["message"]) if stalled and stalled["reason"] in _HOPELESS else ""
    return str(stalled["message"]) if stalled else f"{refused.verb} {refused.ref}: {refused.error.message}"


def interruption_of(errors: Iterable[OperatorError]) -> str:
    """Return the message of the first transient error, such as a lost connection; "" if there is none."""
    return next((error.message for error in errors if not _is_final(error)), "")


def _is_final(error: OperatorError) -> bool:
    """Report whether the API server would refuse the same write again after `error`, so that a retry is useless."""
    is_terminating = isinstance(error, Forbidden) and error.namespace_terminating
    return isinstance(error, Conflict | Invalid | Forbidden | Permanent) and not is_terminating
