"""A limit on the writes of one box, so that a box which writes without end leaves others their share (PH-10)."""

import attrs

from purekube.apimachinery.manifest import Manifest
from purekube.ports import Clock, KubeRequest, Send


@attrs.define
class WriteBudget:
    """A layer around requests with a limit of writes per second, and of `burst` writes after a pause. Reads are not
    limited.
    """

    clock: Clock
    per_second: float = 50.0
    burst: int = 100
    _next: float = float("-inf")
    """The time at which the writes so far would be due at an even rate."""

    async def __call__(self, request: KubeRequest, send: Send) -> Manifest:
        """Send a request, a write once the budget allows it."""
        if request.writes:
            now = self.clock.monotonic()
            self._next = max(self._next, now - self.burst / self.per_second) + 1 / self.per_second
            if self._next > now:
                await self.clock.sleep(self._next - now)
        return await send(request)
