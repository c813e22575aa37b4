"""What happens to a candidate for the lease, and what it wants done: the vocabulary of `lease.step` (RUN-4)."""

from typing import TypeAlias

import attrs

from vworkspace_core.apimachinery.errors import OperatorError
from vworkspace_core.apimachinery.manifest import Manifest
from vworkspace_core.controller.lease.peers import Disagreement


@attrs.frozen
class TimerFired:
    """The wait asked for is over; also the first event of all."""


@attrs.frozen
class LeaseRead:
    """The lease as the server has it, None for none."""

    lease: Manifest | None


@attrs.frozen
class LeaseWritten:
    """A write was accepted; this is the lease after it."""

    lease: Manifest


@attrs.frozen
class LeaseRequestFailed:
    """A request was refused, or brought no answer: then it may have happened, or may still happen."""

    error: OperatorError


@attrs.frozen
class PeersRead:
    """The Leases in the namespace, whoever they belong to."""

    leases: tuple[Manifest, ...]


@attrs.frozen
class PeersUnread:
    """They were refused, or no answer came."""

    error: OperatorError


@attrs.frozen
class ReleaseRequested:
    """The process ends: release the lease. Nothing may be under way any more that relies on it."""


LeaseEvent: TypeAlias = (
    TimerFired | LeaseRead | LeaseWritten | LeaseRequestFailed | PeersRead | PeersUnread | ReleaseRequested
)


@attrs.frozen
class ReadLease:
    """Read the lease; answer Found, Failed after `timeout` seconds at the latest."""

    timeout: float


@attrs.frozen
class CreateLease:
    """Create the lease; answer Written, Failed after `timeout` seconds at the latest."""

    lease: Manifest
    timeout: float


@attrs.frozen
class UpdateLease:
    """Replace the lease, with the resourceVersion it holds; answer Written, Failed after `timeout` seconds."""

    lease: Manifest
    timeout: float


@attrs.frozen
class ReadPeers:
    """List the Leases of the namespace as they are now; answer PeersRead, PeersUnread after `timeout` seconds."""

    timeout: float


@attrs.frozen
class SetTimer:
    """Wait so many seconds, or for a Stop."""

    seconds: float


@attrs.frozen
class End:
    """Nothing more is to be done."""


@attrs.frozen
class OpenFence:
    """Writing is allowed while the local monotonic clock is below `until`."""

    until: float


@attrs.frozen
class CloseFence:
    """Writing is not allowed from now on."""


@attrs.frozen
class LeadershipLost:
    """The lease was held and is not any more."""

    reason: str


@attrs.frozen
class LeaderObserved:
    """Another candidate holds the lease than before; empty for nobody."""

    holder: str


@attrs.frozen
class ReportLeaseError:
    """A request failed and will be tried again; for the log."""

    reason: str


@attrs.frozen
class ShardsDisagree:
    """Nothing is begun while somebody works with another number of shards (RUN-13)."""

    disagreement: Disagreement


LeaseCommand: TypeAlias = ReadLease | ReadPeers | CreateLease | UpdateLease | SetTimer | End
"""What to do next: exactly one is among the effects of a step, as the last."""

LeaseEffect: TypeAlias = (
    OpenFence | CloseFence | LeadershipLost | LeaderObserved | ReportLeaseError | ShardsDisagree | LeaseCommand
)
