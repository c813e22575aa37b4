"""The waits for deadlines that may be minutes or months away, while either side's clock may be set."""

from collections.abc import Callable

import anyio
import attrs

from purekube.ports import Clock

LONGEST_REST = 60.0
"""The longest time in seconds between two looks at a deadline, since the clock may be set back meanwhile."""


@attrs.define
class Deadlines:
    """The deadlines of a state machine: `act` is called when one has come, and at least once a minute until it has.

    `seconds_left` returns the time until the next deadline, or None if there is none. After a change the loop rests for
    `gather` seconds before it asks again.
    """

    clock: Clock
    seconds_left: Callable[[], float | None]
    act: Callable[[], object]
    gather: float = 0.0
    _changed: anyio.Event = attrs.field(factory=anyio.Event, init=False)

    def changed(self) -> None:
        """Note that the next deadline may have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Call `act` at each deadline until cancelled."""
        looked = self.clock.monotonic()
        while True:
            self._changed = anyio.Event()
            left = self.seconds_left()
            if left is not None and (left <= 0 or self.clock.monotonic() - looked >= LONGEST_REST):
                looked = self.clock.monotonic()
                self.act()
                await self.clock.sleep(0.01)
                continue
            with rest_at_most(left):
                await self._changed.wait()
                if self.gather:
                    await self.clock.sleep(self.gather)


def rest_at_most(seconds: float | None) -> anyio.CancelScope:
    """Return a block that ends after `seconds`, but after a minute at the latest; without a limit if None."""
    return anyio.move_on_after(None if seconds is None else min(seconds, LONGEST_REST))
