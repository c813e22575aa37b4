"""Resync: every object is looked at again from time to time, even if nothing changed (REC-8)."""

from collections.abc import Callable, Iterable
from typing import NoReturn

from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.backoff import jitter_of
from purekube.controller.queue.workqueue import Priority
from purekube.ports import Clock
from purekube_run.controller.worker_pool import WorkerPool

_SPREAD = 0.1  # of the interval: so that a thousand keys do not come at once


async def resync(
    workers: WorkerPool, keys: Callable[[], Iterable[ObjectRef]], *, clock: Clock, every: float
) -> NoReturn:
    """Enqueue all keys every `every` seconds at background priority, spread over a tenth of it; until cancelled."""
    rounds = 0
    while True:
        await clock.sleep(every)
        rounds += 1
        for key in keys():
            workers.enqueue(key, priority=Priority.BACKGROUND, after=jitter_of(key, rounds) * every * _SPREAD)
