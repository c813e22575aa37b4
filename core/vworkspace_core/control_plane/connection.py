"""Whether the control plane is there and takes our credential, as a value (PULL-5, PULL-7).

What the Cluster's conditions make of it says `vworkspace_core.clusters`.
"""

from enum import StrEnum

import attrs

from vworkspace_core.apimachinery.errors import Forbidden, OperatorError
from vworkspace_core.apimachinery.secret_material import shown
from vworkspace_core.apimachinery.timestamps import Instant


class Connectivity(StrEnum):
    """What the last round trip said."""

    UNKNOWN = "unknown"
    CONNECTED = "connected"
    UNREACHABLE = "unreachable"
    REJECTED = "rejected"


@attrs.frozen
class ConnectionState:
    """The connection as last seen. `since` is when `connectivity` began; `last_ok` the last round trip that worked."""

    connectivity: Connectivity = Connectivity.UNKNOWN
    since: Instant | None = None
    last_ok: Instant | None = None
    error: str = ""

    def succeeded(self, now: Instant) -> "ConnectionState":
        """After a round trip."""
        since = self.since if self.connectivity is Connectivity.CONNECTED else now
        return ConnectionState(Connectivity.CONNECTED, since, now)

    def seen(self, now: Instant) -> "ConnectionState":
        """After another call than the poll went through: a round trip, whatever the poll says."""
        return attrs.evolve(self, last_ok=now)

    def failed(self, error: OperatorError, now: Instant) -> "ConnectionState":
        """After a round trip that failed."""
        state = Connectivity.REJECTED if isinstance(error, Forbidden) else Connectivity.UNREACHABLE
        since = self.since if self.connectivity is state else now
        return ConnectionState(state, since, self.last_ok, shown(error.message))
