"""Defects of the start and the end of Operations' runs, for `defects.py`: each puts one wrong line in."""

import hmac
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import get_path
from purekube.controller.decision import Create, Decision, Finalizer
from purekube.controller.ownership import is_locked, locked, unlocking
from vworkspace_core.api.operation import Phase
from vworkspace_core.operations import approvals, conflicts, deletion, engine_run, lifecycle, preconditions
from vworkspace_core.operations import reconcile as operation_decisions
from vworkspace_core.operations.contract import row_of
from vworkspace_core.operations.engines import workflow
from vworkspace_core.operations.identity import own_object
from vworkspace_core.operations.preconditions import Start, start_or_unmet


def takes_any_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the signature of every approval for valid."""
    careless = SimpleNamespace(new=hmac.new, compare_digest=lambda *_: True)
    monkeypatch.setattr(approvals, "hmac", careless)


def takes_an_approval_of_another_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the namespace of no approval."""
    monkeypatch.setattr(approvals, "BINDINGS", approvals.BINDINGS - {"ns"})


def _without_check(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    check = getattr(preconditions, name)
    left = tuple(each for each in preconditions._CHECKS if each is not check)
    monkeypatch.setattr(preconditions, "_CHECKS", left)


def ignores_capabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at no annotation that names engines."""
    _without_check(monkeypatch, "_capability")


def takes_any_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validate no parameters before the start."""
    _without_check(monkeypatch, "_parameters")


def ignores_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start whatever state the target is in."""
    _without_check(monkeypatch, "_target_ready")


def runs_for_every_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start Operations of every cluster."""
    monkeypatch.setattr(preconditions, "wrong_cluster", lambda *_: "")


def runs_in_closed_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start Operations in every namespace."""
    monkeypatch.setattr(preconditions, "closed_namespace", lambda *_: "")


def creates_before_the_intent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Create the engine's object in the pass that announces it, before its status is written."""
    correct = operation_decisions._decide_start

    def defective(operation: Any, observed: Any, context: Any) -> Decision:
        decision = correct(operation, observed, context)
        outcome = start_or_unmet(operation, observed, context)
        if not isinstance(outcome, Start) or get_path(decision.status, "status", "phase") != Phase.RUNNING:
            return decision
        creates = tuple(Create(each.kind, locked(each.manifest)) for each in outcome.objects)
        return attrs.evolve(decision, creates=creates)

    monkeypatch.setattr(operation_decisions, "_decide_start", defective)


def starts_without_a_finalizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put no finalizer on an Operation that starts."""
    correct = operation_decisions._decide_start

    def defective(*given: Any) -> Decision:
        return attrs.evolve(correct(*given), finalizer=None)

    monkeypatch.setattr(operation_decisions, "_decide_start", defective)


def unlocks_before_it_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unlock an engine's object as soon as it is seen."""

    def defective(operation: Any, observed: Any) -> Any:
        found = own_object(operation, observed.objects)
        return () if found is None or not is_locked(found[1]) else (unlocking(*found),)

    monkeypatch.setattr(lifecycle, "unlock", defective)


class _Latest(str):
    """A text that sorts in reverse order."""

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def starts_the_youngest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the youngest of the Operations that wait for each other run first."""

    def defective(operation: Any) -> Any:
        return (_Latest(operation.metadata.creation_timestamp), _Latest(operation.metadata.uid))

    monkeypatch.setattr(conflicts, "order_of", defective)


def fails_at_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a phase that no table has for a failure."""
    correct = row_of

    def defective(rows: Any, phase: Any, *, unknown: str) -> Any:
        return correct(rows, phase, unknown="Error")

    monkeypatch.setattr(workflow, "row_of", defective)


def leaves_a_run_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a deleted Operation go at once, whatever runs for it."""
    gone = Decision(finalizer=Finalizer.REMOVE, only_if_current=True)
    monkeypatch.setattr(operation_decisions, "decide_deletion", lambda *_: gone)


def stops_nothing_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """End a late Operation without stopping what runs for it."""
    correct = engine_run._Run._timed_out
    monkeypatch.setattr(engine_run._Run, "_timed_out", lambda *given: attrs.evolve(correct(*given), deletes=()))
    monkeypatch.setattr(deletion, "_was_stopped", lambda operation: operation.status.phase is Phase.CANCELLED)


def counts_a_deadline_from_the_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the deadline of a run from the creation of its Operation."""
    correct = lifecycle.deadline_of

    def defective(operation: Any, *given: Any) -> Any:
        if operation.status.started_at is None:
            return None
        status = attrs.evolve(operation.status, started_at=operation.metadata.creation_timestamp)
        return correct(attrs.evolve(operation, status=status), *given)

    monkeypatch.setattr(lifecycle, "deadline_of", defective)
