"""Looking at everything again now and then, whether or not something changed (REC-8)."""

from collections.abc import Callable, Iterable
from typing import NoReturn

from vworkspace_app.runtime.driver import Driver
from vworkspace_core.manifest import ObjectRef
from vworkspace_core.ports import Clock
from vworkspace_core.runtime.backoff import jitter_of
from vworkspace_core.runtime.queue import Priority

__all__ = ["resync"]

_SPREAD = 0.1  # of the interval: so that a thousand keys do not come at once


async def resync(driver: Driver, keys: Callable[[], Iterable[ObjectRef]], *, clock: Clock, every: float) -> NoReturn:
    """Enqueue all keys every `every` seconds behind everything else, spread over a tenth of it; until cancelled."""
    rounds = 0
    while True:
        await clock.sleep(every)
        rounds += 1
        for key in keys():
            driver.enqueue(key, priority=Priority.BACKGROUND, after=jitter_of(key, rounds) * every * _SPREAD)
