"""The real clock."""

import time
from datetime import UTC, datetime

import anyio

__all__ = ["SystemClock"]


class SystemClock:
    """`Clock` of the machine it runs on."""

    def now(self) -> datetime:
        """Wall time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Suspend for `seconds`."""
        await anyio.sleep(seconds)
