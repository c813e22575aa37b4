"""The state of the connection to the control plane (unreachable, credential rejected, …), and the pace of retries.

See PULL-5 and PULL-7.
"""

from enum import StrEnum
from typing import Final

import attrs

from purekube.apimachinery.errors import Forbidden, OperatorError, Unavailable
from purekube.apimachinery.secret_material import shown
from purekube.apimachinery.timestamps import Instant
from purekube.controller.backoff import Backoff

SOONEST: Final = 1.0
"""The shortest delay between two calls of the control plane after a failure, in seconds."""
LATEST: Final = 60.0
SLOW: Final = 300.0
# The other side must not be able to silence the agent for longer, whether by mistake or on purpose.
LONGEST_RETRY_AFTER: Final = 3600.0
_BACKOFF: Final = Backoff(SOONEST, LATEST)


@attrs.frozen
class RetryPace:
    """The pace of retries of one queue of messages to the control plane.

    `failures` is the number of consecutive failures, from which the delay until the next try follows.
    """

    failures: int = 0

    def succeeded(self) -> "RetryPace":
        """Return the pace after a success, which resets the number of failures."""
        return self if self.failures == 0 else RetryPace()

    def failed(self, error: OperatorError, jitter: float) -> tuple["RetryPace", float]:
        """Return a pair: the pace after a failure, and the seconds until the next try.

        `jitter` is uniform in [0, 1).
        """
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


class Connectivity(StrEnum):
    """The result of the last poll of the control plane for jobs.

    It is UNKNOWN before the first answer. REJECTED means that the control plane refused the operator's credential or
    access (401 or 403), and UNREACHABLE any other failure.
    """

    UNKNOWN = "unknown"
    CONNECTED = "connected"
    UNREACHABLE = "unreachable"
    REJECTED = "rejected"


@attrs.frozen
class ConnectionState:
    """The connection to the control plane as last observed.

    `connectivity` is the result of the last poll for jobs, and `since` is when that result began. `last_ok` is when any
    call to the control plane last succeeded. `error` is the message of the last poll if that failed.
    """

    connectivity: Connectivity = Connectivity.UNKNOWN
    since: Instant | None = None
    last_ok: Instant | None = None
    error: str = ""

    def succeeded(self, now: Instant) -> "ConnectionState":
        """Return the state after a successful poll."""
        since = self.since if self.connectivity is Connectivity.CONNECTED else now
        return ConnectionState(Connectivity.CONNECTED, since, now)

    def seen(self, now: Instant) -> "ConnectionState":
        """Return the state after a call to the control plane other than the poll for jobs succeeded at `now`.

        Only `last_ok` changes, even while polls fail.
        """
        return attrs.evolve(self, last_ok=now)

    def failed(self, error: OperatorError, now: Instant) -> "ConnectionState":
        """Return the state after a failed poll."""
        state = Connectivity.REJECTED if isinstance(error, Forbidden) else Connectivity.UNREACHABLE
        since = self.since if self.connectivity is state else now
        return ConnectionState(state, since, self.last_ok, shown(error.message))
