"""Whether the control plane is there and takes our credential, as the Cluster's conditions tell it (PULL-5, PULL-7)."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import attrs

from vworkspace_core.errors import Forbidden, OperatorError
from vworkspace_core.kinds.meta import ConditionStatus
from vworkspace_core.kinds.reasons import ClusterConditionType, ClusterReason
from vworkspace_core.kinds.secrets import redact
from vworkspace_core.kinds.transitions import Wanted

__all__ = ["Connectivity", "Link"]

WINDOW: Final = timedelta(minutes=5)
"""Silence after which the cluster counts as disconnected."""


class Connectivity(StrEnum):
    """What the last round trip said."""

    UNKNOWN = "unknown"
    CONNECTED = "connected"
    UNREACHABLE = "unreachable"
    REJECTED = "rejected"


@attrs.frozen
class Link:
    """The connection as last seen. `since` is when `state` began; `last_ok` the last round trip that worked."""

    state: Connectivity = Connectivity.UNKNOWN
    since: datetime | None = None
    last_ok: datetime | None = None
    error: str = ""

    def succeeded(self, now: datetime) -> "Link":
        """After a round trip."""
        since = self.since if self.state is Connectivity.CONNECTED else now
        return Link(Connectivity.CONNECTED, since, now)

    def seen(self, now: datetime) -> "Link":
        """After another call than the poll went through: a round trip, whatever the poll says."""
        return attrs.evolve(self, last_ok=now)

    def failed(self, error: OperatorError, now: datetime) -> "Link":
        """After a round trip that failed."""
        state = Connectivity.REJECTED if isinstance(error, Forbidden) else Connectivity.UNREACHABLE
        since = self.since if self.state is state else now
        return Link(state, since, self.last_ok, str(redact(error.message)))

    def conditions(self, now: datetime, started: datetime, window: timedelta = WINDOW) -> tuple[Wanted, ...]:
        """The Cluster's Connected, Disconnected and Authenticated; those nothing is known about are left out."""
        silent = now - (self.last_ok or started) >= window
        disconnected = Wanted(
            ClusterConditionType.DISCONNECTED,
            ConditionStatus.TRUE if silent else ConditionStatus.FALSE,
            ClusterReason.NO_RECENT_ROUND_TRIP if silent else ClusterReason.ROUND_TRIP_OK,
            self.error if silent else "",
        )
        return (*self._now(), disconnected)

    def _now(self) -> tuple[Wanted, ...]:
        connected, authenticated = ClusterConditionType.CONNECTED, ClusterConditionType.AUTHENTICATED
        match self.state:
            case Connectivity.UNKNOWN:
                return ()
            case Connectivity.CONNECTED:
                return (
                    Wanted(connected, ConditionStatus.TRUE, ClusterReason.ROUND_TRIP_OK),
                    Wanted(authenticated, ConditionStatus.TRUE, ClusterReason.CREDENTIAL_ACCEPTED),
                )
            case Connectivity.UNREACHABLE:
                reason = ClusterReason.CONTROL_PLANE_UNREACHABLE
                return (Wanted(connected, ConditionStatus.FALSE, reason, self.error),)
            case Connectivity.REJECTED:
                # It was reached, and it said no.
                return (
                    Wanted(connected, ConditionStatus.TRUE, ClusterReason.ROUND_TRIP_OK),
                    Wanted(authenticated, ConditionStatus.FALSE, ClusterReason.CREDENTIAL_REJECTED, self.error),
                )
