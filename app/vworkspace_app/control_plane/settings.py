"""What can be tuned about the agent, in seconds unless said otherwise."""

from datetime import timedelta

import attrs

from vworkspace_core.jobs.payload_security import Signatures


@attrs.frozen
class AgentSettings:
    """Settings of one agent. `parallel` bounds what it asks of the cluster at once.

    When the control plane is back, each of snapshot and statuses, results, and events is given `head_start_seconds`
    at most before the next begins too (PULL-5). `signatures` is what is asked of jobs beside what the Cluster object
    requires.
    """

    wait_seconds: int = 30
    grace: timedelta = timedelta(minutes=5)
    heartbeat_seconds: float = 60.0
    batch_seconds: float = 1.0
    idle_seconds: float = 1.0
    head_start_seconds: float = 5.0
    parallel: int = 8
    signatures: Signatures = Signatures.AUTO
