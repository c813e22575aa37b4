"""What an error of a port means for a job, by effect: the whole table (PULL-2, REC-8)."""

from collections.abc import Callable
from typing import Any

import pytest

from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import (
    Conflict,
    FieldConflict,
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Permanent,
    Stale,
    StatusCause,
    Unauthorized,
    Unavailable,
)
from purekube.apimachinery.manifest import ObjectRef
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.job_store import JobRecord
from vworkspace_core.jobs.performer import ClusterEffect, JobPerformer
from vworkspace_core.jobs.result import Reason

REF, OP = ObjectRef(APPLICATION_INSTANCE, "org", "a"), ObjectRef(OPERATION, "org", "o")
HELD = (FieldConflict("kubectl-edit", ".spec.chart"),)
EFFECTS: dict[str, ClusterEffect] = {
    "put": m.PutRecord("j", JobRecord("j", {})),
    "close": m.CloseRecord("j", None),
    "apply": m.ApplyForJob("j", REF, {}),
    "cancel": m.CancelOperation("j", OP, "uid", "1"),
    "delete": m.DeleteForJob("j", REF, "uid"),
    "inspect": m.Inspect("j", REF, "key", "object"),
    "rotate": m.RotateCredential("j", "key"),
}
ERRORS: dict[str, OperatorError] = {
    "unavailable": Unavailable("no answer"),
    "busy": Unavailable("busy", status=429),
    "unauthorized": Unauthorized("who"),
    "forbidden": Forbidden("no"),
    "terminating": Forbidden("no", namespace_terminating=True),
    "invalid": Invalid("wrong"),
    "another": Invalid("another", (StatusCause("metadata.uid", "field is immutable"),)),
    "kind": KindMissing("not served"),
    "gone": NotFound("no such thing"),
    "stale": Stale("moved on"),
    "held": Conflict("held", HELD),
    "permanent": Permanent("redirected"),
}
RETRIED, PRECONDITION = (m.StepFailed, ""), (m.PreconditionFailed, "")
REASONS = {
    "unauthorized": Reason.FORBIDDEN,
    "forbidden": Reason.FORBIDDEN,
    "terminating": Reason.NAMESPACE_TERMINATING,
    "invalid": Reason.VALIDATION_FAILED,
    "another": Reason.VALIDATION_FAILED,
    "kind": Reason.KIND_MISSING,
}


def expected(effect: str, error: str) -> tuple[type[Any], str]:
    """The event and its reason."""
    match effect, error:
        case _, "unavailable" | "busy":
            return RETRIED
        case "put", "invalid" | "another":
            return (m.RecordRefused, "")
        case "put" | "close", _:
            return RETRIED
        case "inspect", "gone":
            return (m.Inspected, "")
        case "rotate", _:
            return (m.EffectRefused, Reason.ROTATION_FAILED)
        case "delete", "gone" | "kind":
            return (m.DeleteSent, "")
        case "apply", "held":
            return (m.Conflicted, "")
        case "apply" | "cancel" | "delete", "stale" | "gone":
            return PRECONDITION
        case "apply" | "cancel", "another":
            return PRECONDITION
        case _:
            return (m.EffectRefused, REASONS.get(error, Reason.CLUSTER_REFUSED))


class Refusing:
    """A port each of whose calls fails alike."""

    def __init__(self, error: OperatorError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def fail(*_: Any, **__: Any) -> Any:
            raise self._error

        return fail


class Forgetful:
    """A job store that remembers nothing."""

    async def tombstone(self, key: str) -> None:
        return None

    newest = tombstone


@pytest.mark.parametrize("effect", EFFECTS)
def test_each_error_of_a_port_is_the_event_that_the_table_says(effect: str) -> None:
    for error in ERRORS:
        failing: Any = Refusing(ERRORS[error])
        store: Any = Forgetful() if effect == "inspect" else failing
        performer = JobPerformer(failing, store, failing.rotate)

        event: Any = run_sync(performer.perform(EFFECTS[effect]))

        assert (type(event), getattr(event, "reason", "")) == expected(effect, error), error
        assert event.job_id == "j"
        if isinstance(event, m.Conflicted):
            assert event.conflicts == HELD
