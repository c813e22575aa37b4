"""A token bucket for each caller, which limits the rate of requests (PULL-7: 429 with Retry-After)."""

import math
from datetime import datetime

import attrs

from vworkspace_fake.controlplane.refusals import ApiRefusal


@attrs.frozen
class RateLimit:
    """A limit of `requests` per `seconds`, enforced by a token bucket that holds `requests` tokens and fills evenly."""

    requests: int
    seconds: float


@attrs.define
class RequestRateLimiter:
    """A limiter of the request rate, with a token bucket for each caller. There is no limit while `limit` is None."""

    limit: RateLimit | None = None
    _buckets: dict[str, tuple[float, datetime]] = attrs.field(factory=dict, init=False, repr=False)

    def take(self, caller: str, now: datetime) -> None:
        """Count one request of `caller`. If it exceeds the limit, raise a 429 ApiRefusal with the time to wait."""
        if self.limit is None:
            return
        rate = self.limit.requests / self.limit.seconds
        left, since = self._buckets.get(caller, (float(self.limit.requests), now))
        left = min(float(self.limit.requests), left + max(0.0, (now - since).total_seconds()) * rate)
        if left < 1:
            self._buckets[caller] = (left, now)
            raise ApiRefusal(429, "too many requests", retry_after=float(math.ceil((1 - left) / rate)))
        self._buckets[caller] = (left - 1, now)
