"""Everything the status of a Cluster is decided from, as the agent, the caches and the settings have it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import attrs

from vworkspace_core.api.installation import PRINTED, Installation
from vworkspace_core.apimachinery.conditions import Wanted
from vworkspace_core.apimachinery.manifest import Kind
from vworkspace_core.apimachinery.timestamps import Instant
from vworkspace_core.clusters.controllers import Watched
from vworkspace_core.clusters.hardening import Exposure
from vworkspace_core.control_plane.connection import ConnectionState
from vworkspace_core.controller.decision import Snapshot

WINDOW_SECONDS: Final = 300.0
DAMPING_SECONDS: Final = 10.0


@attrs.frozen
class PendingDeliveries:
    """What waits for the control plane, and how many events were dropped since the buffer was last empty."""

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
    """What the agent knows of its connection. `overflow` is the condition BufferOverflow as its outbox has it.

    `apart` is how much too far the clocks are apart, in words; empty where they agree.
    """

    connection: ConnectionState
    started: Instant
    overflow: Wanted
    pending: PendingDeliveries = PendingDeliveries()
    apart: str = ""

    @property
    def quiet_since(self) -> Instant:
        """When something was last heard, or when listening began."""
        return self.connection.last_ok or self.started


@attrs.frozen(kw_only=True)
class ClusterInventory(Snapshot):
    """What is known of the operator at one moment, by the monotonic clock: a stepped wall clock changes nothing.

    `window` is the silence after which the cluster counts as disconnected, `damping` how long polls must fail before
    it counts as unconnected; both are in seconds. `written` is when this process last wrote the status, None before it
    did. `credentials_secret` is empty where the credential comes from a file.
    `agent` is None where the operator runs without one (SEE-4).
    """

    cluster_id: str
    now: Instant
    agent: AgentReport | None
    window: float = WINDOW_SECONDS
    damping: float = DAMPING_SECONDS
    watched: Mapping[Kind, Watched] = attrs.field(factory=dict)
    namespaces: tuple[str, ...] = ()
    operator_version: str = ""
    credentials_secret: str = ""
    credential_expires: datetime | None = None
    written: Instant | None = None
    exposure: Exposure = attrs.field(factory=Exposure)
    installation: Installation = PRINTED
