"""A job that had its effect, waiting for what its object's status says (PULL-2 steps 6 to 8)."""

from datetime import timedelta
from typing import Final

import attrs

from vworkspace_core.agent import messages as m
from vworkspace_core.agent.applier import Seen
from vworkspace_core.agent.ending import settle, timeout
from vworkspace_core.agent.jobstate import JobState, Stage
from vworkspace_core.agent.keys import object_key
from vworkspace_core.agent.outcome import SUCCEEDED, Reason, Verdict, judge
from vworkspace_core.agent.reports import progress
from vworkspace_core.agent.scope import DeleteTask
from vworkspace_core.agent.times import shifted
from vworkspace_core.agent.transition import Moment, Step, clear, generation, post, ref
from vworkspace_core.kinds import labels
from vworkspace_core.manifest import Manifest, metadata

__all__ = ["RECHECK", "applied", "await_gone_for_good", "changed", "inspect", "looked"]

RECHECK: Final = timedelta(minutes=5)
"""How long a waiting job trusts the informer before it looks for itself."""


def applied(job: JobState, live: Manifest, at: Moment) -> Step:
    """The write is there, now or since before a crash: wait for what comes of it."""
    if job.cancel_sent:
        return settle(job, timeout(job), at)
    # Its deletion counts as a generation of an object; a delete tells the one that it was asked to delete.
    known = job.applied if isinstance(job.task, DeleteTask) else None
    reference = known or ref(job, str(metadata(live).get("uid", "")), generation(live))
    waiting = clear(
        job,
        stage=Stage.WAITING,
        applied=reference,
        had_effect=True,
        recheck_at=shifted(at.now, RECHECK),
        writing=None,
        written=None,
    )
    if job.vanished:  # an informer saw it go while the answer was under way: which was first?
        return waiting, (inspect(waiting),)
    return _consider(waiting, _fresher(live, job.latest), at)


def _fresher(live: Manifest, seen: Manifest | None) -> Manifest:
    """What an informer saw while the apply was under way, when it is at least as new."""
    if seen is None or metadata(seen).get("uid") != metadata(live).get("uid"):
        return live
    return seen if generation(seen) >= generation(live) else live


def await_gone_for_good(job: JobState, at: Moment) -> Step:
    """The delete was accepted: succeeded when the object is really gone."""
    waiting = clear(job, stage=Stage.WAITING, had_effect=True, recheck_at=shifted(at.now, RECHECK))
    # The delete may have been all: whether something still holds the object, only a look can tell.
    return waiting, (inspect(waiting),)


def changed(job: JobState, live: Manifest | None, at: Moment) -> Step:
    """An informer told of the object."""
    match job.stage:
        case Stage.WAITING if _is_gone(job, live):
            # News may be of an object that was there before this one: only a look at the server can tell.
            return job, (inspect(job),)
        case Stage.WAITING:
            return _consider(job, live, at)
        case Stage.ACTING | Stage.NOTING:
            return attrs.evolve(job, latest=live, vanished=job.vanished or live is None), ()
        case Stage.AWAITING_GONE if live is None or not metadata(live).get("deletionTimestamp"):
            return clear(job, stage=Stage.READY), ()
        case _:
            return job, ()


def _is_gone(job: JobState, live: Manifest | None) -> bool:
    return live is None or job.applied is None or metadata(live).get("uid") != job.applied.uid


def looked(job: JobState, seen: Seen, at: Moment) -> Step:
    """The job looked for itself; where the gate is closed it saw nothing, which does not mean gone."""
    closed = seen.namespace is not None and not labels.namespace_is_gated(seen.namespace)
    return (job, ()) if closed else _consider(job, seen.live, at)


def _consider(job: JobState, live: Manifest | None, at: Moment) -> Step:
    """What the live object says about a job that had its effect."""
    if live is None or _is_gone(job, live):
        deleted = Verdict.failed(Reason.DELETED, f"{job.ref} was deleted before the job settled")
        return settle(job, SUCCEEDED if isinstance(job.task, DeleteTask) else deleted, at)
    told, effects = post(attrs.evolve(job, latest=live), progress(live, at.server_now))
    verdict = None if isinstance(job.task, DeleteTask) else judge(live, job.applied.generation if job.applied else 0)
    if verdict is None:
        return told, effects
    ended, last = settle(told, verdict, at)
    return ended, (*effects, *last)


def inspect(job: JobState) -> m.Inspect:
    """The question a plan needs answered."""
    return m.Inspect(job.id, job.ref, job.key, object_key(job.ref) if job.ref else "")
