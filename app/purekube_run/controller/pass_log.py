"""The log of a pass: every write downstream and every change of conditions (RUN-5)."""

import structlog

from purekube.apimachinery.conditions import Transition
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.controller.decision import Decision
from purekube.controller.execute import STATUS
from purekube.controller.reconcile import ReconcileResult

_log = structlog.get_logger("reconcile")

_BAD_WHEN_TRUE = frozenset({"Blocked", "Stalled", "Degraded", "Failed"})


def log_pass(key: ObjectRef, result: ReconcileResult) -> None:
    """Log a line for each write, and one for a written status."""
    for verb, ref in result.executed:
        if verb != STATUS:
            _log.info("written", verb=verb, object=str(ref))
    if result.status is not None:
        log_status(key, result.decision)


def log_status(key: ObjectRef, decision: Decision) -> None:
    """Log the conditions that a written status changed; at `debug` if only other fields changed."""
    changed = decision.transitions
    if not changed:
        _log.debug("status written", object=str(key))
        return
    conditions = [change.condition for change in changed]
    bad = [condition for condition in conditions if _is_bad(condition)]
    level = _log.warning if bad else _log.info
    phase = get_path(decision.status, "status", "phase")
    level(
        "status changed",
        object=str(key),
        **({"phase": phase} if phase else {}),
        conditions=[_text_of(change) for change in changed],
        message=next((condition.message for condition in (*bad, *conditions) if condition.message), ""),
    )


def _is_bad(condition: Condition) -> bool:
    refused = condition.type == "Accepted" and condition.status is ConditionStatus.FALSE
    return refused or (condition.type in _BAD_WHEN_TRUE and condition.status is ConditionStatus.TRUE)


def _text_of(change: Transition) -> str:
    condition = change.condition
    return f"{condition.type}={condition.status}/{condition.reason}"
