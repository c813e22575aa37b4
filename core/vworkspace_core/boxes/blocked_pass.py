"""How an object of a box's kind says that a pass over it was stopped (REC-13)."""

from collections.abc import Iterator, Mapping
from typing import Final

from vworkspace_core.apimachinery.conditions import Wanted
from vworkspace_core.apimachinery.errors import Right
from vworkspace_core.apimachinery.meta import Condition, ConditionStatus
from vworkspace_core.boxes.box import Box
from vworkspace_core.boxes.box_object import READY, RECONCILING, STALLED, condition_types
from vworkspace_core.boxes.status import condition_as_written
from vworkspace_core.controller.blocked_pass import BlockedPass, BlockedWords

_RETRYING: Final = "Retrying"


def _conditions(before: Mapping[str, Condition], blocked: BlockedPass) -> Iterator[Wanted]:
    """That nothing goes on, and why. Ready keeps what it says: what runs runs on."""
    text = blocked.message_over(before.get(STALLED))
    if blocked.is_transient:
        if READY not in before:
            yield Wanted(READY, ConditionStatus.UNKNOWN, _RETRYING, text)
        yield Wanted(RECONCILING, ConditionStatus.TRUE, _RETRYING, text)
        return
    if READY not in before:
        yield Wanted(READY, ConditionStatus.FALSE, blocked.cause, text)
    yield Wanted(RECONCILING, ConditionStatus.FALSE, blocked.cause)
    yield Wanted(STALLED, ConditionStatus.TRUE, blocked.cause, text)


def blocked_words(box: Box) -> BlockedWords:
    """How the status of the box's kind says it."""
    return BlockedWords(
        box.kind,
        condition_types(box),
        _conditions,
        lambda wanted, at: {},
        events={READY: False, STALLED: True},
        write_condition=condition_as_written,
    )


def not_permitted(box: Box, right: Right) -> str:
    """For people: what may not be done, and what gives the right."""
    return f"the box {box.name} may not {right}. Give it the role: {remedy(box, right)}"


def remedy(box: Box, right: Right) -> str:
    """The command that prints the role."""
    where = f" --namespace {right.namespace}" if right.namespace else ""
    return f"vworkspace-operator box rbac {box.name}.yaml{where} | kubectl apply --server-side -f -"
