"""The pace of retries after a failure: one value per queue, jitter given as an argument (PULL-7).

answer of the control plane            next try
-------------------------------------  --------------------------------------------------------------
429, 503 with Retry-After              when it says, but not sooner than 1 s and not later than 1 h
5xx, network, timeout, strange body    full jitter over 1 s, 2 s, 4 s …, never sooner than 1 s nor later than 60 s
401, 403                               5 to 10 minutes: a bad deployment over there must not kill a fleet
404, anything else that is no success  1 to 2 minutes: a configuration error; someone has to act
success                                at once

The range of the jitter goes on doubling beyond the minute at which it is cut off. So after a long outage each agent
has a period of about a minute and a phase of its own, and a fleet comes back evenly; a range that stops at a minute
brings twice as many in the first second as the average one.
"""

from typing import Final

import attrs

from purekube.apimachinery.errors import Forbidden, OperatorError, Unavailable
from purekube.controller.backoff import Backoff

SOONEST: Final = 1.0
"""The shortest delay between two tries, in seconds."""
LATEST: Final = 60.0
SLOW: Final = 300.0
LONGEST_RETRY_AFTER: Final = 3600.0
_BACKOFF: Final = Backoff(SOONEST, LATEST)


@attrs.frozen
class RetryPace:
    """Consecutive failures of one queue."""

    failures: int = 0

    def succeeded(self) -> "RetryPace":
        """Return the pace after a success."""
        return self if self.failures == 0 else RetryPace()

    def failed(self, error: OperatorError, jitter: float) -> tuple["RetryPace", float]:
        """Return the pace after a failure, and the seconds until the next try. `jitter` is uniform in [0, 1)."""
        failures = self.failures + 1
        return RetryPace(failures), _delay(failures, error, jitter)


def _delay(failures: int, error: OperatorError, jitter: float) -> float:
    match error:
        case Unavailable(retry_after=float() | int() as asked):
            return min(max(asked, SOONEST), LONGEST_RETRY_AFTER)
        case Unavailable():
            return _BACKOFF.full_jitter(failures, jitter)
        case Forbidden():
            return SLOW * (1 + jitter)
        case _:
            return LATEST * (1 + jitter)
