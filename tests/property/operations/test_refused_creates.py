"""What a refused create of an engine's object comes to, error by error (REC-13, OPS-8)."""

import pytest

from purekube.apimachinery.errors import (
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Permanent,
    Unavailable,
)
from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.decision import Failure, Requeue
from tests.support.instance_worlds import NOW
from tests.support.operation_worlds import NS, SETTINGS, operation
from vworkspace_core.api.operation import Phase
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.lifecycle import after_failure

FORBIDDEN = 'jobs.batch is forbidden: User "x" cannot create resource "jobs" in API group "batch" in the namespace "ns"'

ERRORS: list[tuple[OperatorError, Phase, str, str, str, Requeue]] = [
    (Invalid("bad"), Phase.FAILED, "Failed", "ValidationFailed", "bad", Requeue.NO),
    (KindMissing("x"), Phase.RUNNING, "Blocked", "DependencyMissing", "not installed in this cluster", Requeue.SLOW),
    (NotFound("no namespace"), Phase.RUNNING, "Blocked", "DependencyMissing", "no namespace", Requeue.SLOW),
    (Forbidden(FORBIDDEN), Phase.RUNNING, "Blocked", "Forbidden", "may not create jobs.batch", Requeue.REFUSED),
    (Forbidden("a policy says no"), Phase.RUNNING, "Running", "EngineStarted", "; tried again", Requeue.SLOW),
    (Permanent("teapot"), Phase.RUNNING, "Running", "EngineStarted", "teapot; tried again", Requeue.SLOW),
    (Unavailable("down"), Phase.RUNNING, "Running", "EngineStarted", "down; tried again", Requeue.BACKOFF),
]


@pytest.mark.parametrize("of", ["runCommand.job", "backup.velero", "backup.volsync", "migration.workflow"])
@pytest.mark.parametrize(("error", "phase", "kind", "reason", "words", "pace"), ERRORS, ids=lambda part: str(part)[:20])
def test_a_refused_create_fails_blocks_or_is_tried_again_REC_13(
    of: str, error: OperatorError, phase: Phase, kind: str, reason: str, words: str, pace: Requeue
) -> None:
    one, engine = operation(of), ENGINES[of.partition(".")[2]]
    (made, *_) = engine.kinds(one)
    ref = ObjectRef(made, NS, "op")

    wanted, found = after_failure(one, engine, Failure(ref, "create", error), NOW, SETTINGS)

    by_name = {"Running": wanted.running, "Blocked": wanted.blocked, "Failed": wanted.ended}
    condition = by_name[kind]
    assert condition is not None
    assert (str(condition.reason), found) == (reason, pace)
    assert words in condition.message
    assert (wanted.phase is Phase.FAILED) is (phase is Phase.FAILED)
    assert (wanted.blocked is not None, wanted.ended is not None) == (kind == "Blocked", kind == "Failed")
    if isinstance(error, KindMissing):
        assert made.crd_name in condition.message


def test_where_velero_is_looked_for_in_vain_is_told_OPS_7() -> None:
    one, engine = operation("backup.velero"), ENGINES["velero"]
    (made, *_) = engine.kinds(one)
    for namespace, words in (("velero", "looks for Velero"), (NS, "gone")):
        failure = Failure(ObjectRef(made, namespace, "op"), "create", NotFound("gone"))
        wanted, pace = after_failure(one, engine, failure, NOW, SETTINGS)
        assert wanted.blocked is not None
        assert words in wanted.blocked.message
        assert pace == Requeue.SLOW
