"""REC-13, issue 11 item 2: what stopped a pass is said on any object, and takes nothing away from its status."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.errors import Forbidden, Invalid, Permanent, Unavailable
from purekube.apimachinery.manifest import Kind, get_path
from purekube.apimachinery.structuring import read_own_conditions
from purekube.controller.decision import Decision
from purekube.controller.reconcile_error import ReconcileError, ReconcileErrorCause, blocked_status, reconcile_error_of
from tests.support.violations import instance, operation
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import CLUSTER_ID, MANAGED_BY, MANAGED_BY_VALUE
from vworkspace_core.api.reconcile_error import INSTANCE_WORDS, OPERATION_WORDS, words_in_cluster
from vworkspace_core.api.remedies import not_permitted
from vworkspace_core.api.vocabulary import is_admitted, owned_types

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 6, 1, 13, tzinfo=UTC)
LABELS = {MANAGED_BY: MANAGED_BY_VALUE, CLUSTER_ID: "c"}
MADE = {APPLICATION_INSTANCE: instance(), OPERATION: operation()}

WORDS = {words.kind: words for words in (INSTANCE_WORDS, OPERATION_WORDS)}


def decide(kind: Kind, manifest: dict[str, Any], blocked: ReconcileError, now: datetime) -> Decision:
    words = words_in_cluster(WORDS[kind], "c")
    return blocked_status(words, manifest, read_own_conditions(manifest, words.types), blocked, now)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def conditions(kind: Kind) -> st.SearchStrategy[Any]:
    """Well-formed ones of ours, those of others, and what is none."""
    known = st.fixed_dictionaries(
        {
            "type": st.sampled_from([*owned_types(kind.kind), "Theirs"]),
            "status": st.sampled_from(["True", "False", "Unknown"]),
            "reason": st.sampled_from(["A", "Forbidden", "Stable"]),
            "message": st.text(max_size=5),
            "lastTransitionTime": st.just("2026-01-01T00:00:00Z"),
        }
    )
    return st.lists(known | anything, max_size=5)


@st.composite
def objects(draw: st.DrawFn) -> tuple[Kind, dict[str, Any]]:
    kind = draw(st.sampled_from(list(MADE)))
    meta = {**MADE[kind]["metadata"], "uid": "u", "resourceVersion": "7", "generation": draw(st.integers(1, 3))}
    status = draw(
        anything
        | st.fixed_dictionaries(
            {"conditions": conditions(kind) | anything, "engineRef": anything, "observedGeneration": st.integers(0, 3)}
        )
    )
    return kind, {**MADE[kind], "metadata": {**meta, "labels": LABELS}, "status": status}


passes = st.builds(
    ReconcileError, st.sampled_from(ReconcileErrorCause), st.text(min_size=1, max_size=20), st.just("cafe-1")
)


@given(objects(), passes)
def test_it_is_said_on_any_object_and_once_REC_13(made: tuple[Kind, dict[str, Any]], blocked: ReconcileError) -> None:
    kind, manifest = made
    decision = decide(kind, manifest, blocked, NOW)
    if decision.status is None:
        assert blocked.cause is ReconcileErrorCause.TRANSIENT or get_path(manifest, "status", "conditions")
        return
    status = decision.status["status"]
    assert status["observedGeneration"] == manifest["metadata"]["generation"]
    said = {condition["type"]: condition for condition in status["conditions"]}
    assert set(said) <= set(owned_types(kind.kind))
    for condition in status["conditions"]:
        if condition["lastTransitionTime"] == "2026-06-01T12:00:00Z" and condition["reason"] not in ("A", "Stable"):
            assert is_admitted(kind.kind, condition["type"], condition["status"], condition["reason"]), condition
    if blocked.cause in (ReconcileErrorCause.FORBIDDEN, ReconcileErrorCause.INTERNAL_ERROR):
        assert (said["Blocked"]["status"], said["Blocked"]["reason"]) == ("True", blocked.cause)
    before = manifest["status"] if isinstance(manifest["status"], dict) else {}
    for name in before.keys() - {"conditions", "observedGeneration", "lastReconcileTime"}:
        assert status[name] == before[name], "what stands beside is kept"

    again = decide(kind, {**manifest, "status": status}, blocked, LATER)
    assert again.status is None, "told once"
    other_line = ReconcileError(blocked.cause, blocked.message, "beef-2")
    assert decide(kind, {**manifest, "status": status}, other_line, LATER).status is None


@given(objects(), passes)
def test_what_is_not_ours_is_left_alone_RES_5(made: tuple[Kind, dict[str, Any]], blocked: ReconcileError) -> None:
    kind, manifest = made
    for labels in ({}, {**LABELS, CLUSTER_ID: "another"}):
        other = {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}
        assert decide(kind, other, blocked, NOW).is_empty


REFUSED = 'User "sa" cannot get resource "backups" in API group "velero.io" in the namespace "velero"'


@pytest.mark.parametrize(
    ("error", "transient", "cause"),
    [
        (Forbidden(REFUSED), False, ReconcileErrorCause.FORBIDDEN),
        (Forbidden("exceeded quota"), False, ReconcileErrorCause.INTERNAL_ERROR),
        (Unavailable("503"), True, ReconcileErrorCause.TRANSIENT),
        (Unavailable("cancelled after 60 s"), False, ReconcileErrorCause.INTERNAL_ERROR),
        (Permanent("odd"), False, ReconcileErrorCause.INTERNAL_ERROR),
        (Invalid("no"), False, ReconcileErrorCause.INTERNAL_ERROR),
        (RecursionError(), False, ReconcileErrorCause.TOO_DEEP),
        (KeyError("hookName"), False, ReconcileErrorCause.INTERNAL_ERROR),
    ],
)
def test_what_each_error_means_for_the_object(error: Exception, transient: bool, cause: ReconcileErrorCause) -> None:
    blocked = reconcile_error_of(error, not_permitted, "cafe-1", transient=transient)
    assert blocked.cause is cause
    assert "hookName" not in blocked.text, "what a defect says may be anything"
