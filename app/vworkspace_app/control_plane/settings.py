"""The settings of the agent, in seconds unless stated otherwise."""

from datetime import timedelta

import attrs

from vworkspace_core.jobs.payload_security import Signatures


@attrs.frozen
class AgentSettings:
    """Settings of one agent. `parallel` limits its concurrent requests to the cluster.

    When the control plane is back, each of snapshot and statuses, results, and events has `head_start_seconds` at most
    before the next begins too (PULL-5). `signatures` is required of jobs in addition to the requirements of the Cluster
    object.
    """

    wait_seconds: int = 30
    grace: timedelta = timedelta(minutes=5)
    heartbeat_seconds: float = 60.0
    batch_seconds: float = 1.0
    idle_seconds: float = 1.0
    head_start_seconds: float = 5.0
    parallel: int = 8
    signatures: Signatures = Signatures.AUTO
