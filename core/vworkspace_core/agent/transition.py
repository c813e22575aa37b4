"""What every transition of a job is made of: the moment it happens in, and small steps they share."""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

import attrs

from vworkspace_core.agent import messages as m
from vworkspace_core.agent.jobstate import AppliedRef, JobState
from vworkspace_core.agent.scope import Scope
from vworkspace_core.agent.times import shifted
from vworkspace_core.manifest import Manifest, metadata

__all__ = ["Moment", "Step", "clear", "generation", "post", "ref", "retry"]

LONGEST_RETRY: Final = 60.0


@attrs.frozen
class Moment:
    """What a transition depends on besides the job: whose scope, which time, on both clocks (PULL-12).

    `expiry_now` is the time by which a job has expired: the later of the two where signatures are required, since the
    header that shows the control plane's clock is not signed.
    """

    scope: Scope
    now: datetime
    server_now: datetime
    grace: timedelta

    @property
    def expiry_now(self) -> datetime:
        """By which time a job that has had no effect yet is held to its `expiresAt`."""
        return max(self.now, self.server_now) if self.scope.security.require_signed else self.server_now


Step: TypeAlias = tuple[JobState, tuple[m.Effect, ...]]


def clear(job: JobState, **changes: Any) -> JobState:
    """The job after a step that worked: nothing is to be retried."""
    return attrs.evolve(job, failures=0, retry_at=None, **changes)


def retry(job: JobState, message: str, at: Moment) -> Step:
    """A step went unanswered: the same again, later. Told once, however many tries it takes."""
    failures = job.failures + 1
    again = shifted(at.now, timedelta(seconds=_delay(job.id, failures)))
    note = (m.Note("warning", f"{job.stage.value}: {message}; tried again", job.id),) if failures == 1 else ()
    return attrs.evolve(job, failures=failures, retry_at=again), note


def _delay(job_id: str, failures: int) -> float:
    """Seconds until the next try: 0.5 s doubling to a minute, spread by a hash so that jobs do not march in step."""
    spread = hashlib.sha256(f"{job_id}/{failures}".encode()).digest()[0] / 255
    return float(min(LONGEST_RETRY, 0.5 * 2.0 ** min(failures - 1, 10)) * (0.5 + 0.5 * spread))


def post(job: JobState, body: Mapping[str, Any]) -> Step:
    """Post `body` unless it says what the last one said."""
    said = {name: value for name, value in body.items() if name != "timestamp"}
    return (job, ()) if said == job.posted else (attrs.evolve(job, posted=said), (m.PostStatus(job.id, body),))


def ref(job: JobState, uid: str, generation: int) -> AppliedRef | None:
    """What an effect fell on; None for a job about no object."""
    return None if job.ref is None else AppliedRef(job.ref, uid, generation)


def generation(live: Manifest) -> int:
    """`metadata.generation`, 0 where there is none."""
    found = metadata(live).get("generation")
    return found if isinstance(found, int) else 0
