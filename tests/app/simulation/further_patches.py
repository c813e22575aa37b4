"""Defects of administration, credentials, reports and approvals, for `defects.py`: each puts one wrong line in."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from purekube.controller.status import StatusChange
from vworkspace_app.clusters.controller import ClusterReconciler
from vworkspace_app.instances.controller import InstanceReconciler
from vworkspace_app.jobs import agent
from vworkspace_core.api.operation import Phase
from vworkspace_core.api.reasons import OperationReason
from vworkspace_core.credentials import machine
from vworkspace_core.credentials import messages as r
from vworkspace_core.credentials.secret import StoredCredential
from vworkspace_core.instances import blocking_reasons
from vworkspace_core.instances import deletion as instance_deletion
from vworkspace_core.jobs import job_stages, messages, scope
from vworkspace_core.jobs import machine as job_machine
from vworkspace_core.jobs.state import JobStage
from vworkspace_core.operations import approvals, engine_run, override
from vworkspace_core.operations import deletion as operation_deletion


def misses_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at no instance when its namespace changes."""
    monkeypatch.setattr(InstanceReconciler, "keys_of_namespace", lambda *_: iter(()))


def uninstalls_what_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the owner references on what an abandoned instance runs."""
    monkeypatch.setattr(instance_deletion, "orphaning_patch", lambda *_: None)


def allows_every_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at no forbidden version of the policy."""
    monkeypatch.setattr(blocking_reasons, "is_forbidden", lambda *_: False)


def uses_a_token_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a new token before the Secret holds it."""
    correct = machine._issued

    def defective(state: Any, new: r.Issued, now: datetime) -> Any:
        changed, effects = correct(state, new, now)
        return attrs.evolve(changed, in_use=new.token), (*effects, r.UseToken(new.token))

    monkeypatch.setattr(machine, "_issued", defective)


def drops_the_old_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store a new token without the old one."""
    monkeypatch.setattr(machine, "StoredCredential", lambda token, _, *rest: StoredCredential(token, "", *rest))


def forgets_what_it_rotated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record no served request of a rotation."""
    monkeypatch.setattr(StoredCredential, "with_served", lambda self, _: self.served)


def remakes_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget that there was a Cluster object."""
    correct = ClusterReconciler._observe

    async def defective(self: Any, *args: Any) -> Any:
        inventory = await correct(self, *args)
        self._offered = False
        return inventory

    monkeypatch.setattr(ClusterReconciler, "_observe", defective)


def deletes_what_is_not_managed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a job touch objects of others."""
    monkeypatch.setattr(scope, "_foreign_refusal", lambda *_: None)


def takes_an_expired_approval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge the expiry of approvals by a time long ago."""
    monkeypatch.setattr(approvals, "later_of", lambda *_: datetime(1970, 1, 1, tzinfo=UTC))


def writes_no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a changed status without its Events."""
    correct = StatusChange.added_to

    def defective(self: StatusChange, decision: Any, events: Iterable[Any]) -> Any:
        return correct(self, decision, ())

    monkeypatch.setattr(StatusChange, "added_to", defective)


def reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every object for one on which an open job reports."""
    monkeypatch.setattr(agent, "has_open_job", lambda *_: True)


def keeps_a_failed_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """Withdraw the change of the release only of a cancelled Operation."""
    monkeypatch.setattr(override, "_is_withdrawn", lambda operation, _: operation.status.phase is Phase.CANCELLED)


def deletes_a_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop runs that have ended when their Operation is deleted."""
    monkeypatch.setattr(operation_deletion, "_has_finished", lambda *_: False)


def tells_a_cancellation_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """End a cancelled Operation before its engine object is asked to go."""

    def defective(self: Any, status: Any) -> Any:
        return self._ended(Phase.CANCELLED, OperationReason.USER_CANCELLED, status)

    monkeypatch.setattr(engine_run._Run, "_cancelled", defective)


def acts_before_the_ack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a job for acknowledged as soon as its ack is sent."""
    correct = job_stages.advance

    def defective(job: Any, event: Any, at: Any) -> Any:
        taken, effects = correct(job, event, at)
        if taken.stage is not JobStage.ACKING or job.stage is JobStage.ACKING:
            return taken, effects
        ready, more = correct(taken, messages.Acked(job.id), at)
        return ready, (*effects, *more)

    monkeypatch.setattr(job_machine, "advance", defective)
