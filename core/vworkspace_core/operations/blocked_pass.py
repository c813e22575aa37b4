"""The conditions of an Operation whose pass was stopped by an error (REC-13)."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from purekube.apimachinery.conditions import Wanted
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.controller.blocked_pass import BlockedCause, BlockedPass, BlockedWords
from vworkspace_core.api.headline import headline
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.operation import Phase
from vworkspace_core.api.reasons import OperationConditionType as Type
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.api.vocabulary import owned_types


def _conditions(before: Mapping[str, Condition], blocked: BlockedPass) -> Iterator[Wanted]:
    """Yield conditions that say why nothing proceeds. Running is not changed: what runs keeps running."""
    true, false = ConditionStatus.TRUE, ConditionStatus.FALSE
    if Type.RUNNING not in before:
        text = blocked.message_over() if blocked.is_transient else ""
        yield Wanted(Type.RUNNING, false, Reason.ENGINE_NOT_STARTED, text)
    if blocked.cause is BlockedCause.TOO_DEEP:
        yield Wanted(Type.ACCEPTED, false, blocked.cause, blocked.message_over(before.get(Type.ACCEPTED)))
    elif not blocked.is_transient:
        yield Wanted(Type.BLOCKED, true, blocked.cause, blocked.message_over(before.get(Type.BLOCKED)))


def _fields(conditions: Sequence[Wanted], _: datetime) -> dict[str, Any]:
    return headline(OPERATION, conditions)


OPERATION_WORDS: Final = BlockedWords(
    OPERATION,
    owned_types(OPERATION.kind),
    _conditions,
    _fields,
    defaults={"phase": Phase.PENDING.value},
    events={Type.BLOCKED: True, Type.ACCEPTED: True},
)
