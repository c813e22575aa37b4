"""A limit on the writes of one box, so that one which writes without end leaves the others their share (PH-10)."""

import attrs

from purekube.apimachinery.manifest import Manifest
from purekube.ports import Clock, KubeRequest, Send


@attrs.define
class WriteBudget:
    """A layer around requests: so many writes a second, and a `burst` of them after a rest. Reads pass at once."""

    clock: Clock
    per_second: float = 50.0
    burst: int = 100
    _next: float = float("-inf")
    """The time at which the writes so far would have been made at an even pace."""

    async def __call__(self, request: KubeRequest, send: Send) -> Manifest:
        """Send a request, a write once the budget allows it."""
        if request.writes:
            now = self.clock.monotonic()
            self._next = max(self._next, now - self.burst / self.per_second) + 1 / self.per_second
            if self._next > now:
                await self.clock.sleep(self._next - now)
        return await send(request)
