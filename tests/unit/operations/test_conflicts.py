"""OPS-5: which Operations exclude each other, which goes first, and which of them others wait for."""

from itertools import product
from typing import Any

import attrs
import pytest

from purekube.apimachinery.meta import Condition, ConditionStatus
from tests.support.operation_worlds import operation
from vworkspace_core.api.operation import BETWEEN_SYNCS, Operation, OperationStatus, OperationType, Phase
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.operations.conflicts import conflict_order_of, conflicting, first_ahead, is_running, order_of

EARLY, LATE = "2026-06-01T10:00:00Z", "2026-06-01T11:30:00Z"
UPGRADE, RESTORE, BACKUP, MIGRATION = "Upgrade", "Restore", "Backup", "Migration"
EXCLUDED = {
    (UPGRADE, UPGRADE),
    (UPGRADE, RESTORE),
    (UPGRADE, MIGRATION),
    (RESTORE, RESTORE),
    (RESTORE, BACKUP),
    (RESTORE, MIGRATION),
    (BACKUP, MIGRATION),
    (MIGRATION, MIGRATION),
}
"""The pairs that exclude each other, each in one direction."""


def test_the_pairs_that_exclude_each_other_are_these_OPS_5() -> None:
    for one, other in product(OperationType, repeat=2):
        pair = (one.value, other.value)
        assert conflicting(one, other) == (pair in EXCLUDED or pair[::-1] in EXCLUDED)


def condition(kind: str, status: str, reason: str) -> Condition:
    return Condition(kind, ConditionStatus(status), reason, "", "2026-06-01T12:00:00Z")


def one(
    uid: str,
    created: str = "2026-06-01T11:00:00Z",
    phase: Phase | None = None,
    *conditions: Condition,
    of: str = "upgrade.helm",
    observed: int | None = 1,
    **meta: Any,
) -> Operation:
    given = operation(of, name=uid, uid=uid, created=created)
    status = OperationStatus(phase=phase, conditions=conditions, observed_generation=observed)
    return attrs.evolve(given, metadata=attrs.evolve(given.metadata, **meta), status=status)


RUNNING = condition("Running", "True", "EngineStarted")
RESTING = condition("Running", "True", BETWEEN_SYNCS)
REFUSED = condition("Accepted", "False", "ValidationFailed")
ACCEPTED = condition("Accepted", "True", "TemplateValidated")
WAITS = condition("Blocked", "True", Reason.CONFLICTING_OPERATION)
BLOCKED = condition("Blocked", "True", Reason.TARGET_NOT_READY)
UNBLOCKED = condition("Blocked", "False", "Unblocked")


@pytest.mark.parametrize(
    ("operation", "running", "contends"),
    [
        (one("a", observed=None), False, True),
        (one("a", observed=0), False, True),
        (one("a"), False, True),
        (one("a", phase=Phase.PENDING), False, True),
        (one("a", "t", Phase.PENDING, ACCEPTED), False, True),
        (one("a", "t", Phase.PENDING, REFUSED), False, False),
        (one("a", "t", Phase.PENDING, REFUSED, observed=0), False, True),
        (one("a", "t", Phase.PENDING, BLOCKED), False, False),
        (one("a", "t", Phase.PENDING, BLOCKED, generation=2), False, True),
        (one("a", "t", Phase.PENDING, WAITS), False, True),
        (one("a", "t", Phase.PENDING, REFUSED, WAITS), False, False),
        (one("a", "t", Phase.PENDING, UNBLOCKED), False, True),
        (one("a", deletion_timestamp="now"), False, False),
        (one("a", annotations={"ops.vworkspace.io/cancel": "true"}), False, False),
        (one("a", phase=Phase.RUNNING), True, False),
        (one("a", "t", Phase.RUNNING, RUNNING), True, False),
        (one("a", "t", Phase.RUNNING, RESTING), False, False),
        (one("a", "t", Phase.RUNNING, deletion_timestamp="now"), True, False),
        *((one("a", "t", phase), False, False) for phase in (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED)),
        (one("a", "t", Phase.FAILED, RUNNING), False, False),
    ],
)
def test_others_wait_for_what_runs_and_for_what_would_start_OPS_5(
    operation: Operation, running: bool, contends: bool
) -> None:
    assert is_running(operation) is running
    assert conflict_order_of(operation) == (running, contends)
    younger = one("z", "2026-06-01T11:59:00Z")
    older = attrs.evolve(
        operation, metadata=attrs.evolve(operation.metadata, creation_timestamp="2026-06-01T10:00:00Z")
    )
    assert first_ahead(younger, [older]) == (older if running or contends else None)


def test_the_oldest_goes_first_and_what_runs_before_it_OPS_5() -> None:
    me = one("m")
    older, oldest, younger = one("b", EARLY), one("a", EARLY), one("c", LATE)
    running, other = one("r", LATE, Phase.RUNNING), one("q", LATE, Phase.RUNNING)

    assert order_of(me) == ("2026-06-01T11:00:00Z", "m")
    assert first_ahead(me, []) is None
    assert first_ahead(me, [younger, one("n")]) is None
    assert first_ahead(me, [younger, older, oldest]) is oldest
    assert first_ahead(me, [one("l"), one("n")]) == one("l"), "of one moment the lesser uid"
    assert first_ahead(me, [oldest, running, other]) is other
    assert first_ahead(me, [me, attrs.evolve(me)]) is None, "nothing waits for itself"
    assert first_ahead(running, [running]) is None


def test_what_does_not_conflict_is_not_waited_for_OPS_5() -> None:
    me = one("m")
    for of in ("backup.velero", "runCommand.job", "runbook.workflow"):
        assert first_ahead(me, [one("a", EARLY, Phase.RUNNING, of=of)]) is None
    for of in ("restore.velero", "migration.workflow"):
        assert first_ahead(me, [busy := one("a", EARLY, Phase.RUNNING, of=of)]) is busy
