"""The real clock."""

import time
from datetime import UTC, datetime

import anyio


def machine_seconds() -> float:
    """Return seconds that also pass while the machine is suspended, if the system can (Linux); never backwards."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class SystemClock:
    """`Clock` of the machine it runs on."""

    def now(self) -> datetime:
        """Return the wall time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Suspend for `seconds`."""
        await anyio.sleep(seconds)
