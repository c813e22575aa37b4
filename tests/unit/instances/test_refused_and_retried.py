"""What a refused write means for an instance, and when Flux is asked for another try (REC-8, REC-13, REC-14)."""

from datetime import timedelta
from typing import Any

import pytest

from purekube.apimachinery.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    FieldConflict,
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Permanent,
    Right,
    Stale,
    Unavailable,
)
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import HELM_RELEASE, OCI_REPOSITORY
from purekube.controller.decision import SLOW_SECONDS, Failure, MergePatch, Requeue
from tests.support.instance_worlds import NOW
from vworkspace_core.api.installation import PRINTED
from vworkspace_core.api.labels import RETRY_SENT
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.api.remedies import not_installed, not_permitted
from vworkspace_core.instances.blocking_reasons import BlockingReason, TransientFailure, meaning
from vworkspace_core.instances.observed_release import (
    SILENT,
    ReconcileRequest,
    is_handled,
    reconcile_request,
    retry_annotations,
)

RELEASE = ObjectRef(HELM_RELEASE, "ns", "a")
SOURCE = ObjectRef(OCI_REPOSITORY, "ns", "a")
WHAT = f"apply {RELEASE}"
RIGHT = Right("patch", HELM_RELEASE.group, HELM_RELEASE.plural, "ns", "operator")
NO_RIGHT = Forbidden(
    f'{HELM_RELEASE.crd_name} "a" is forbidden: User "operator" cannot patch resource "{HELM_RELEASE.plural}" '
    f'in API group "{HELM_RELEASE.group}" in the namespace "ns"'
)
INSTALLING, UPGRADING = Reason.HELM_RELEASE_INSTALLING, Reason.HELM_RELEASE_UPGRADING


def refused(error: OperatorError, ref: ObjectRef = RELEASE, **fields: Any) -> Failure:
    return Failure(ref, "apply", error, **fields)


def again(reason: str, message: str, *, slow: bool = False) -> TransientFailure:
    pace, requeue = ("every minute", Requeue.SLOW) if slow else ("with backoff", Requeue.BACKOFF)
    assert not slow or SLOW_SECONDS == 60.0
    return TransientFailure(reason, f"{message}; tried again {pace}", requeue)


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (refused(Invalid("bad")), BlockingReason(Reason.VALIDATION_FAILED, f"{WHAT}: bad", stalled=True)),
        (refused(Invalid(f"{WHAT}: bad")), BlockingReason(Reason.VALIDATION_FAILED, f"{WHAT}: bad", stalled=True)),
        (
            refused(KindMissing("no such kind")),
            BlockingReason(Reason.MISSING_DEPENDENCIES, not_installed([HELM_RELEASE.crd_name]), requeue=Requeue.SLOW),
        ),
        (refused(NotFound("gone")), BlockingReason(Reason.NAMESPACE_NOT_GATED, f"{WHAT}: gone")),
        (
            refused(Forbidden("no", namespace_terminating=True)),
            BlockingReason(Reason.NAMESPACE_NOT_GATED, "namespace ns is being terminated"),
        ),
        (
            refused(NO_RIGHT),
            BlockingReason(Reason.FORBIDDEN, not_permitted(RIGHT, PRINTED), requeue=Requeue.REFUSED),
        ),
        (refused(Forbidden("no")), again(INSTALLING, f"{WHAT} is not permitted: no", slow=True)),
        (refused(Permanent("no")), again(INSTALLING, f"{WHAT}: no", slow=True)),
        (refused(Stale("old")), again(INSTALLING, f"{WHAT}: old")),
        (refused(AlreadyExists("there")), again(INSTALLING, f"{WHAT}: there")),
        (refused(Expired("late")), again(INSTALLING, f"{WHAT}: late")),
        (refused(Unavailable("down")), again(INSTALLING, f"{WHAT}: down")),
        (refused(OperatorError("odd")), again(INSTALLING, f"{WHAT}: odd")),
        (refused(Unavailable("down"), SOURCE), again(Reason.CHART_SOURCE_SYNCING, f"apply {SOURCE}: down")),
    ],
)
def test_each_refusal_blocks_or_is_tried_again_REC_13(failure: Failure, expected: Any) -> None:
    assert meaning(failure, released_before=False) == expected


def test_a_write_that_is_tried_again_says_whether_something_was_released() -> None:
    found = meaning(refused(Unavailable("down")), released_before=True)

    assert found == again(UPGRADING, f"{WHAT}: down")


def test_a_conflict_names_the_managers_and_looks_again_slowly_REC_8() -> None:
    found = meaning(refused(Conflict("no", (FieldConflict("kubectl", ".spec.x"),))), released_before=False)

    assert isinstance(found, BlockingReason)
    assert (found.reason, found.stalled, found.requeue) == (Reason.FIELD_CONFLICT, False, Requeue.SLOW)
    assert "kubectl" in found.message


def left(old: str, new: str, managers: tuple[str, ...] = ()) -> Failure:
    entries = [
        {"manager": name, "operation": "Apply", "fieldsV1": {"f:spec": {f"f:{old}": {"f:name": {}}}}}
        for name in managers
    ]
    live = {"metadata": {"managedFields": entries}, "spec": {old: {"name": "x"}}}
    return refused(Invalid("both"), live=live, wanted={"spec": {new: {"name": "y"}}})


@pytest.mark.parametrize(("old", "new"), [("chart", "chartRef"), ("chartRef", "chart")])
@pytest.mark.parametrize(
    ("managers", "held"), [((), "nobody"), (("z", "flux"), '"flux", "z"'), (("vworkspace-operator",), "nobody")]
)
def test_what_others_hold_of_the_other_kind_of_source_must_give_way(
    old: str, new: str, managers: tuple[str, ...], held: str
) -> None:
    found = meaning(left(old, new, managers), released_before=False)

    assert isinstance(found, BlockingReason)
    assert (found.reason, found.requeue) == (Reason.FIELD_CONFLICT, Requeue.SLOW)
    start = f"{RELEASE}: .spec.{old}, held by field manager {held}, must give way to .spec.{new}. To hand it back: "
    assert found.message.startswith(start)
    assert f'{{"op":"remove","path":"/spec/{old}"}}' in found.message
    assert f'{{"op":"add","path":"/spec/{new}","value":{{"name":"y"}}}}' in found.message


@pytest.mark.parametrize(
    "failure",
    [
        refused(Invalid("x"), live={"spec": {"chart": {}}}, wanted={"spec": {"chart": {}, "chartRef": {}}}),
        refused(Invalid("x"), live={"spec": {"chart": {}}}, wanted={"spec": {}}),
        refused(Invalid("x"), live={"spec": {}}, wanted={"spec": {"chartRef": {}}}),
        refused(Invalid("x"), live=None, wanted={"spec": {"chartRef": {}}}),
        refused(Invalid("x"), live={"spec": {"chart": {}}}, wanted=None),
        refused(Invalid("x"), SOURCE, live={"spec": {"chart": {}}}, wanted={"spec": {"chartRef": {}}}),
    ],
)
def test_any_other_invalid_object_is_the_spec_s_fault(failure: Failure) -> None:
    found = meaning(failure, released_before=False)

    assert isinstance(found, BlockingReason)
    assert (found.reason, found.stalled) == (Reason.VALIDATION_FAILED, True)


# --- requests for another try -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handled", "token", "expected"),
    [
        (None, "", True),
        ("x", "", True),
        (None, "t", False),
        (5, "t", False),
        ("t", "t", True),
        ("t/again", "t", True),
        ("t2", "t", False),
        ("t/operation/u", "t", True),
        ("t/operation/u/again", "t", True),
        ("u", "t", False),
        ("t/operation/u", "/operation/u", True),
        ("/operation/u", "/operation/u", True),
        ("t", "/operation/u", False),
        ("t", "t/operation/u", False),
    ],
)
def test_a_token_is_handled_by_itself_and_by_longer_ones(handled: Any, token: str, expected: bool) -> None:
    assert is_handled({"lastHandledResetAt": handled}, token) is expected


AT, RESET = "reconcile.fluxcd.io/requestedAt", "reconcile.fluxcd.io/resetAt"
UNPREPARED: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "False", "reason": "ValuesError"}]}


def release(annotations: Any = None, *, suspend: bool = False, **status: Any) -> dict[str, Any]:
    meta = {"name": "a", "namespace": "ns", "resourceVersion": "7"}
    noted = {} if annotations is None else {"annotations": annotations}
    return {"metadata": {**meta, **noted}, "spec": {"suspend": suspend}, "status": status}


@pytest.mark.parametrize(
    ("token", "live", "expected"),
    [
        ("", release(), {}),
        ("t", release(), {AT: "t", RESET: "t"}),
        ("t", release(suspend=True), {}),
        ("t", release(lastHandledResetAt="t"), {}),
        ("t", release(**UNPREPARED), {AT: "t", RESET: "t"}),
        ("t", release(failures=1), {AT: "t", RESET: "t"}),
        ("t", release(failures=1, lastHandledReconcileAt="t"), {AT: "t/again", RESET: "t/again"}),
        ("t", release(lastHandledReconcileAt="t"), {AT: "t", RESET: "t"}),
        ("t", release(failures=1, lastHandledReconcileAt="t/again"), {}),
        ("t", release(installFailures=1, lastHandledReconcileAt="t/again"), {}),
        ("t", release(upgradeFailures=1, lastHandledReconcileAt="t/again"), {}),
        ("t", release(failures=1, **UNPREPARED), {AT: "t/look"}),
        ("t", release(failures=1, lastHandledReconcileAt="t/again", **UNPREPARED), {AT: "t/look"}),
    ],
)
def test_a_reset_is_asked_for_once_the_attempt_can_be_made(token: str, live: Any, expected: dict[str, str]) -> None:
    assert retry_annotations(token, live) == expected


@pytest.mark.parametrize(
    ("kind", "status", "reason", "is_unprepared"),
    [
        *(("Ready", "False", reason, True) for reason in ("SourceNotReady", "ArtifactFailed", "ValuesError")),
        ("Ready", "False", "DependencyNotReady", True),
        *(("Ready", "False", f"{what}Error", True) for what in ("ChartMutate", "RESTClient", "ResourceManager")),
        ("Ready", "False", "StateError", False),  # of an attempt that has begun
        ("Ready", "False", "UpgradeFailed", False),
        ("Ready", "True", "ValuesError", False),
        ("Released", "False", "ValuesError", False),
    ],
)
def test_what_is_missing_for_an_attempt_is_told_by_ready(
    kind: str, status: str, reason: str, is_unprepared: bool
) -> None:
    conditions: list[Any] = ["x", {"type": kind, "status": status, "reason": reason}]

    assert retry_annotations("t", release(failures=1, conditions=conditions)) == (
        {AT: "t/look"} if is_unprepared else {AT: "t", RESET: "t"}
    )


def sent(seconds: float) -> dict[str, str]:
    return {RETRY_SENT: (NOW - timedelta(seconds=seconds)).isoformat()}


def asked(annotations: dict[str, Any]) -> ReconcileRequest:
    meta = {"resourceVersion": "7", "annotations": {**annotations, RETRY_SENT: "2026-06-01T12:00:00Z"}}
    return ReconcileRequest((MergePatch(RELEASE, {"metadata": meta}),))


TOKEN = {AT: "t", RESET: "t"}
GONE = {**release(), "metadata": {**release()["metadata"], "deletionTimestamp": "2026-06-01T12:00:00Z"}}


@pytest.mark.parametrize(
    ("token", "live", "expected"),
    [
        ("t", None, SILENT),
        ("t", GONE, SILENT),
        ("", release(), SILENT),
        ("t", release(TOKEN), SILENT),
        ("t", release(), asked(TOKEN)),
        ("t", release({AT: "t"}), asked(TOKEN)),
        ("t", release({AT: "old", RESET: "old"}), asked(TOKEN)),
        ("t", release({RESET: "old"}, failures=1, **UNPREPARED), asked({RESET: None, AT: "t/look"})),
        ("t", release({AT: "x"}, failures=1, **UNPREPARED), asked({AT: "t/look"})),
        ("t", release(sent(9)), ReconcileRequest(wait=1.0)),
        ("t", release(sent(0)), ReconcileRequest(wait=10.0)),
        ("t", release(sent(10)), asked(TOKEN)),
        ("t", release(sent(-1)), asked(TOKEN)),
        ("t", release({RETRY_SENT: "soon"}), asked(TOKEN)),
        ("t", release({RETRY_SENT: "2026-06-01T12:00:00"}), asked(TOKEN)),
    ],
)
def test_a_try_is_asked_for_once_and_at_most_every_ten_seconds_REC_14(
    token: str, live: Any, expected: ReconcileRequest
) -> None:
    assert reconcile_request(token, live, NOW) == expected
