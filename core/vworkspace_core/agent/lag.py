"""How far the agent is behind: the age of what was asked for and is not answered (RUN-5)."""

from datetime import datetime

from vworkspace_core.agent.jobstate import JobState
from vworkspace_core.agent.machine import AgentState
from vworkspace_core.agent.times import parse_time

__all__ = ["job_lag"]


def job_lag(state: AgentState, now: datetime) -> float:
    """Seconds since the oldest job without a verdict was created, by the control plane's clock; 0.0 without any."""
    created = [found for job in state.jobs.values() if not job.settled and (found := _created(job)) is not None]
    return max(0.0, (now + state.skew - min(created)).total_seconds()) if created else 0.0


def _created(job: JobState) -> datetime | None:
    try:
        return parse_time(str(job.raw.get("createdAt", "")))
    except ValueError:
        return None  # refused for it; its answer is under way
