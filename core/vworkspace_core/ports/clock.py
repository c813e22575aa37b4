"""Time."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time as a port: real in production, virtual in simulations."""

    def now(self) -> datetime:
        """Wall time, timezone-aware UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Suspend for `seconds`."""
        ...
