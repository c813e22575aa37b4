"""The conditions of a parent whose pass was stopped by an error (REC-13)."""

from collections.abc import Iterator, Mapping
from typing import Final

from purekube.apimachinery.conditions import Wanted
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.composites.composite import Composite
from purekube.composites.decisions import condition_as_written
from purekube.composites.parent import READY, RECONCILING, STALLED
from purekube.controller.blocked_pass import BlockedPass, BlockedWords

RETRYING: Final = "Retrying"


def stopped(before: Mapping[str, Condition], blocked: BlockedPass) -> Iterator[Wanted]:
    """Yield conditions that say that nothing proceeds, and why. Ready is not changed: what runs keeps running."""
    text = blocked.message_over(before.get(STALLED))
    if blocked.is_transient:
        if READY not in before:
            yield Wanted(READY, ConditionStatus.UNKNOWN, RETRYING, text)
        yield Wanted(RECONCILING, ConditionStatus.TRUE, RETRYING, text)
        return
    if READY not in before:
        yield Wanted(READY, ConditionStatus.FALSE, blocked.cause, text)
    yield Wanted(RECONCILING, ConditionStatus.FALSE, blocked.cause)
    yield Wanted(STALLED, ConditionStatus.TRUE, blocked.cause, text)


def blocked_words(composite: Composite) -> BlockedWords:
    """Return how the status of the kind describes a stopped pass."""
    return BlockedWords(
        composite.kind,
        composite.condition_types,
        stopped,
        lambda wanted, at: {},
        events={READY: False, STALLED: True},
        write_condition=condition_as_written,
    )
