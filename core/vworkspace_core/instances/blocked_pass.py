"""Conditions of an ApplicationInstance over which a pass was stopped (REC-13)."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from purekube.apimachinery.conditions import Wanted
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.apimachinery.timestamps import format_time
from purekube.controller.blocked_pass import BlockedPass, BlockedWords
from vworkspace_core.api.headline import headline
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.reasons import InstanceConditionType as Type
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.api.vocabulary import owned_types


def _conditions(before: Mapping[str, Condition], blocked: BlockedPass) -> Iterator[Wanted]:
    """Yield the conditions that say that and why reconciling stopped.

    Ready is kept, since a running release goes on.
    """
    true, false, unknown = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
    text = blocked.message_over()
    if blocked.is_transient:
        if Type.READY not in before:
            yield Wanted(Type.READY, unknown, Reason.RECONCILING, text)
        yield Wanted(Type.RECONCILING, true, Reason.HELM_RELEASE_INSTALLING, text)
        return
    if Type.READY not in before:
        yield Wanted(Type.READY, false, Reason.NOT_DEPLOYED, text)
    yield Wanted(Type.RECONCILING, false, Reason.STABLE, f"blocked: {blocked.cause}")
    yield Wanted(Type.BLOCKED, true, blocked.cause, blocked.message_over(before.get(Type.BLOCKED)))


def _fields(conditions: Sequence[Wanted], now: datetime) -> dict[str, Any]:
    return {"lastReconcileTime": format_time(now), **headline(APPLICATION_INSTANCE, conditions)}


INSTANCE_WORDS: Final = BlockedWords(
    APPLICATION_INSTANCE,
    owned_types(APPLICATION_INSTANCE.kind),
    _conditions,
    _fields,
    events={Type.BLOCKED: True, Type.READY: False},
)
