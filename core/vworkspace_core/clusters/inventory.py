"""Input of a Cluster's status: reports from the agent, the caches and the settings."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import attrs

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.timestamps import Instant
from purekube.controller.decision import Snapshot
from vworkspace_core.api.installation import PRINTED, Installation
from vworkspace_core.clusters.controllers import InformerReport
from vworkspace_core.clusters.hardening import WeakSettings
from vworkspace_core.control_plane.connection import ConnectionState

WINDOW_SECONDS: Final = 300.0
DAMPING_SECONDS: Final = 10.0


@attrs.frozen
class PendingDeliveries:
    """Deliveries that wait for the control plane, and how many events were dropped since the buffer was last empty."""

    results: int = 0
    statuses: int = 0
    events: int = 0
    dropped: int = 0

    def __str__(self) -> str:
        kinds = {"acks and results": self.results, "statuses": self.statuses, "events": self.events}
        waiting = ", ".join(f"{what} {count}" for what, count in kinds.items() if count)
        parts = {"waiting": waiting, "dropped": f"events {self.dropped}" if self.dropped else ""}
        return "; ".join(f"{what}: {counts}" for what, counts in parts.items() if counts)


@attrs.frozen
class AgentReport:
    """The agent's report about its connection. `overflow` is the condition BufferOverflow of its outbox.

    `apart` describes the difference of the clocks if it is too large; empty otherwise.
    """

    connection: ConnectionState
    started: Instant
    overflow: DesiredCondition
    pending: PendingDeliveries = PendingDeliveries()
    apart: str = ""

    @property
    def quiet_since(self) -> Instant:
        """The time of the last round trip, or of the agent's start."""
        return self.connection.last_ok or self.started


@attrs.frozen(kw_only=True)
class ClusterInventory(Snapshot):
    """The state of the operator at one moment, by the monotonic clock, which steps of the wall clock do not affect.

    `window` is the silence after which the cluster counts as disconnected, `damping` how long polls must fail before it
    counts as unconnected; both are in seconds. `written` is when this process last wrote the status, None before it
    did. `credentials_secret` is empty if the credential comes from a file. `agent` is None if the operator runs without
    one (SEE-4).
    """

    cluster_id: str
    now: Instant
    agent: AgentReport | None
    window: float = WINDOW_SECONDS
    damping: float = DAMPING_SECONDS
    watched: Mapping[Kind, InformerReport] = attrs.field(factory=dict)
    namespaces: tuple[str, ...] = ()
    operator_version: str = ""
    credentials_secret: str = ""
    credential_expires: datetime | None = None
    written: Instant | None = None
    weak_settings: WeakSettings = attrs.field(factory=WeakSettings)
    installation: Installation = PRINTED
