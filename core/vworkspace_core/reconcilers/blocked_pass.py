"""How an object of a reconciler's kind says that a pass over it was stopped: a missing right above all (REC-13)."""

from collections.abc import Iterator, Mapping
from typing import Final

from vworkspace_core.apimachinery.conditions import Wanted
from vworkspace_core.apimachinery.errors import Right
from vworkspace_core.apimachinery.meta import Condition, ConditionStatus
from vworkspace_core.controller.blocked_pass import BlockedPass, BlockedWords
from vworkspace_core.reconcilers.controllers import STANDARD, AnyController, Reconciler, kind_of, name_of
from vworkspace_core.reconcilers.outcome import READY, RECONCILING, RETRYING, STALLED

ROLES: Final = "vworkspace-operator controllers rbac"
"""The command that prints the roles of controllers."""


def blocked_words(controller: AnyController) -> BlockedWords:
    """How the status of its kind says it."""
    own = controller.conditions if isinstance(controller, Reconciler) else ()
    return BlockedWords(
        kind_of(controller),
        (*STANDARD, *own),
        _conditions,
        lambda wanted, at: {},
        events={READY: False, STALLED: True},
    )


def _conditions(before: Mapping[str, Condition], blocked: BlockedPass) -> Iterator[Wanted]:
    """That nothing goes on, and why. Ready keeps what it says: what is there is there."""
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


def not_permitted(controller: AnyController, right: Right) -> str:
    """For people: what may not be done, and what gives the right."""
    return f"the controller {name_of(controller)} may not {right}. Give it the role: {remedy(controller, right)}"


def remedy(controller: AnyController, right: Right) -> str:
    """The command that prints the role."""
    where = f" --namespace {right.namespace}" if right.namespace else ""
    return f"{ROLES} {name_of(controller)}{where} | kubectl apply --server-side -f -"
