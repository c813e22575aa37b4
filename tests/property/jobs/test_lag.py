"""RUN-5: the lag of the agent is the age of the oldest job without an answer, by the control plane's clock."""

from datetime import UTC, datetime, timedelta

import attrs
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.timestamps import format_time
from vworkspace_core.jobs.machine import AgentState, job_lag
from vworkspace_core.jobs.scope import JobScope
from vworkspace_core.jobs.state import JobStage, JobState

NOW = datetime(2026, 6, 1, tzinfo=UTC)
EMPTY = AgentState(JobScope("c", lambda manifest: ()))


def state(*jobs: tuple[object, JobStage], skew: float = 0.0) -> AgentState:
    found = {
        str(number): JobState(str(number), number, {"createdAt": created}, None, "", None, stage)
        for number, (created, stage) in enumerate(jobs)
    }
    return attrs.evolve(EMPTY, jobs=found, skew=timedelta(seconds=skew))


def ago(seconds: float) -> str:
    return format_time(NOW - timedelta(seconds=seconds))


def test_without_open_jobs_there_is_no_lag() -> None:
    assert job_lag(EMPTY, NOW) == 0.0
    assert job_lag(state((ago(50), JobStage.ANSWERING), (ago(60), JobStage.CLOSING)), NOW) == 0.0


def test_the_oldest_open_job_counts_and_the_clock_is_that_of_the_control_plane() -> None:
    jobs = ((ago(10), JobStage.WAITING), (ago(90), JobStage.ACKING), (ago(500), JobStage.ANSWERING))

    assert job_lag(state(*jobs), NOW) == 90.0
    assert job_lag(state(*jobs, skew=30.0), NOW) == 120.0
    assert job_lag(state((ago(-60), JobStage.READY)), NOW) == 0.0


@given(st.lists(st.tuples(st.one_of(st.none(), st.text(), st.integers()), st.sampled_from(JobStage))))
def test_whatever_a_job_says_of_its_creation_there_is_a_number(jobs: list[tuple[object, JobStage]]) -> None:
    assert job_lag(state(*jobs), NOW) >= 0.0
