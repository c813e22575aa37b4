"""A limit on the writes of one box, so that a box which writes without end leaves others their share (PH-10)."""

import attrs

from purekube.apimachinery.manifest import Manifest
from purekube.ports import Clock, KubeRequest, Send


@attrs.define
class WriteBudget:
    """A middleware of the API client that limits the rate of writes: `per_second` on average, and up to `burst` at
    once.
    """

    clock: Clock
    per_second: float = 50.0
    burst: int = 100
    _next: float = float("-inf")
    """The monotonic time at which the last write was due, if writes were evenly spaced."""

    async def __call__(self, request: KubeRequest, send: Send) -> Manifest:
        """Send a request with `send`. A write waits first until the limit permits it; reads never wait."""
        if request.writes:
            now = self.clock.monotonic()
            self._next = max(self._next, now - self.burst / self.per_second) + 1 / self.per_second
            if self._next > now:
                await self.clock.sleep(self._next - now)
        return await send(request)
