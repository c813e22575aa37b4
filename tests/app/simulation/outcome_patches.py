"""Defects of the results of jobs, their records, and reports, for `defects.py`: each puts one wrong line in."""

from datetime import timedelta
from typing import Any

import anyio
import pytest

from vworkspace_app.control_plane.event_sender import EventSender
from vworkspace_core.control_plane.connection import RetryPace
from vworkspace_core.jobs import awaiting_status, job_stages, steps, work_slot
from vworkspace_core.jobs import plan as plans
from vworkspace_core.jobs import result as job_results
from vworkspace_core.jobs.result import JobResult
from vworkspace_core.jobs.scope import ApplyTask
from vworkspace_core.jobs.steps import JobStepContext


def takes_what_exists_for_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every job for a repetition whose object exists."""
    correct = plans._is_replay

    def defective(holder: Any, seen: Any) -> bool:
        return correct(holder, seen) or (isinstance(holder.task, ApplyTask) and seen.live is not None)

    monkeypatch.setattr(plans, "_is_replay", defective)


def fails_at_the_first_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a job fail as soon as its instance is not Ready."""
    correct = job_results._judge_instance

    def defective(live: Any, generation: int) -> JobResult | None:
        now = job_results._Current(live, generation)
        if now.status("Ready") == "False":
            return JobResult.failed(now.reason("Ready"), now.message("Ready"))
        return correct(live, generation)

    monkeypatch.setattr(job_results, "_judge_instance", defective)


def names_no_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the object out of a result."""
    correct = steps.result_body
    monkeypatch.setattr(steps, "result_body", lambda result, applied, *given: correct(result, None, *given))


def reports_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send no status of a job."""
    for module in (awaiting_status, work_slot):
        monkeypatch.setattr(module, "post", lambda job, body: (job, ()))


def drops_a_record_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the record of a job while its result is on its way."""
    correct = steps.settle

    def defective(job: Any, result: Any, at: Any) -> Any:
        ended, effects = correct(job, result, at)
        return ended, (*effects, steps.close(ended, at))

    for module in (steps, job_stages, awaiting_status, work_slot):
        monkeypatch.setattr(module, "settle", defective)


def lets_jobs_into_every_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply jobs in namespaces that are not managed."""
    monkeypatch.setattr(plans, "namespace_refusal", lambda *_: None)


def lets_jobs_expire_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge the expiry of jobs by the time of the next day."""
    ahead = property(lambda self: self.server_now + timedelta(days=1))
    monkeypatch.setattr(JobStepContext, "expiry_now", ahead)


def sends_no_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send no heartbeat."""

    async def defective(self: EventSender, cluster_id: str) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(EventSender, "send_heartbeats", defective)


def asks_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once when the control plane does not answer."""
    correct = RetryPace.failed

    def defective(self: RetryPace, error: Any, jitter: float) -> Any:
        return correct(self, error, jitter)[0], 0.0

    monkeypatch.setattr(RetryPace, "failed", defective)


def drops_events_in_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep no event while nothing can be sent."""
    correct = EventSender.put

    def defective(self: EventSender, events: Any) -> None:
        if self.outage_hold.is_open:
            correct(self, events)

    monkeypatch.setattr(EventSender, "put", defective)
