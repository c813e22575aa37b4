"""The state of the connection to the control plane, and whether our credential is accepted (PULL-5, PULL-7).

`vworkspace_core.clusters` derives the Cluster's conditions from it.
"""

from enum import StrEnum

import attrs

from purekube.apimachinery.errors import Forbidden, OperatorError
from purekube.apimachinery.secret_material import shown
from purekube.apimachinery.timestamps import Instant


class Connectivity(StrEnum):
    """The result of the last round trip."""

    UNKNOWN = "unknown"
    CONNECTED = "connected"
    UNREACHABLE = "unreachable"
    REJECTED = "rejected"


@attrs.frozen
class ConnectionState:
    """The connection as last observed.

    `since` is when `connectivity` began; `last_ok` the last successful round trip.
    """

    connectivity: Connectivity = Connectivity.UNKNOWN
    since: Instant | None = None
    last_ok: Instant | None = None
    error: str = ""

    def succeeded(self, now: Instant) -> "ConnectionState":
        """Return the state after a successful round trip."""
        since = self.since if self.connectivity is Connectivity.CONNECTED else now
        return ConnectionState(Connectivity.CONNECTED, since, now)

    def seen(self, now: Instant) -> "ConnectionState":
        """Return the state after a call other than the poll succeeded: it counts as a round trip even while polls
        fail.
        """
        return attrs.evolve(self, last_ok=now)

    def failed(self, error: OperatorError, now: Instant) -> "ConnectionState":
        """Return the state after a failed round trip."""
        state = Connectivity.REJECTED if isinstance(error, Forbidden) else Connectivity.UNREACHABLE
        since = self.since if self.connectivity is state else now
        return ConnectionState(state, since, self.last_ok, shown(error.message))
