"""The executor of the effects of the job state machine (PULL-2, PULL-4).

An effect is what the machine requests from the cluster or the job store (Secrets with the records of open jobs), such
as applying an object.
"""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio
import structlog
from anyio.abc import TaskGroup

from purekube.apimachinery.manifest import Manifest, ObjectRef
from vworkspace_app.jobs.job_decision import JobDecision
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.performer import ClusterEffect, JobPerformer

OnWritten: TypeAlias = Callable[[ObjectRef, Manifest | None], Awaitable[None]]
"""The callback after a job wrote or deleted an object: its reference, and its new state or None if that is unknown.

It must not raise.
"""

log = structlog.get_logger("vworkspace.agent")


class JobEffectExecutor:
    """The executor of effects, which are what the job state machine requests from the cluster and the job store.

    At most `parallel` effects run at a time, and `feed` is called with the outcome of each. `tasks` is the task group
    in which effects run. It is None while the agent does not run; effects are then ignored, because the next process
    continues from the records that are stored in Secrets. `noticed` is called with each object that was applied or
    whose deletion was requested, so that caches need not wait for a watch.
    """

    def __init__(
        self,
        performer: JobPerformer,
        parallel: int,
        feed: Callable[[m.JobEvent], None],
        noticed: OnWritten | None = None,
    ) -> None:
        self._performer = performer
        self._limit = anyio.CapacityLimiter(parallel)
        self._feed = feed
        self._count = 0
        self._ended = anyio.Event()
        self.tasks: TaskGroup | None = None
        self._noticed = noticed or _ignore

    @property
    def is_idle(self) -> bool:
        """Report whether no effect runs. Credential rotations do not count, since they wait for the control plane."""
        return self._count == 0

    async def drain(self) -> None:
        """Wait until no effect runs (see `is_idle`)."""
        while self._count:
            await self._ended.wait()

    def start(self, effect: ClusterEffect, decision: JobDecision) -> None:
        """Perform `effect` in the background, as soon as fewer than `parallel` other effects run.

        `decision` is the one that the effect follows.
        """
        if self.tasks is None:
            return
        if isinstance(effect, m.RotateCredential):
            # Neither the end of the process nor other effects wait for a rotation.
            self.tasks.start_soon(self._perform, effect, decision, contextlib.nullcontext())
            return
        self._count += 1
        self.tasks.start_soon(self._counted, effect, decision)

    async def _counted(self, effect: ClusterEffect, decision: JobDecision) -> None:
        try:
            await self._perform(effect, decision, self._limit)
        finally:
            self._count -= 1
            self._ended.set()
            self._ended = anyio.Event()

    async def _perform(
        self, effect: ClusterEffect, decision: JobDecision, limit: contextlib.AbstractAsyncContextManager[Any]
    ) -> None:
        decision.enter()
        try:
            async with limit:
                answer = await self._performer.perform(effect)
        except Exception as error:
            # A defect must not end the other jobs; its traceback is logged.
            log.exception("an effect failed unexpectedly", effect=type(effect).__name__, job_id=effect.job_id)
            answer = m.StepFailed(effect.job_id, f"unexpected {type(error).__name__}")
        self._feed(answer)
        _log(effect, answer)
        match effect, answer:
            case m.ApplyForJob(_, ref), m.Applied(_, live):
                await self._noticed(ref, live)
            case m.DeleteForJob(_, ref), m.DeleteSent():
                await self._noticed(ref, None)
            case _:
                pass


def _log(effect: Any, answer: m.JobEvent) -> None:
    """Log the change that an effect made in the cluster. Log nothing if the effect made no change."""
    if isinstance(answer, m.Applied):
        log.info("an object is applied", job_id=answer.job_id, object=str(effect.ref))
    if isinstance(answer, m.DeleteSent):
        log.info("an object is being deleted", job_id=answer.job_id, object=str(effect.ref))


async def _ignore(ref: ObjectRef, live: Manifest | None) -> None:
    """Do nothing. This is the default of `noticed`, for a process without caches to update."""
