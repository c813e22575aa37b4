"""The port for time."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time as a port: real in production, virtual in simulations."""

    def now(self) -> datetime:
        """Return the wall time, timezone-aware UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Suspend for `seconds`."""
        ...
