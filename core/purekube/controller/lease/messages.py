"""Events and effects of a candidate for the lease: the vocabulary of `lease.step` (RUN-4)."""

from typing import TypeAlias

import attrs

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Manifest
from purekube.controller.lease.peers import Disagreement


@attrs.frozen
class TimerFired:
    """The requested wait is over; also the very first event."""


@attrs.frozen
class LeaseRead:
    """The lease as the server has it, None if there is none."""

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
    """The Leases in the namespace, also those of others."""

    leases: tuple[Manifest, ...]


@attrs.frozen
class PeersUnread:
    """The list of Leases was refused or not answered."""

    error: OperatorError


@attrs.frozen
class ReleaseRequested:
    """The process ends: release the lease. Nothing that relies on it may still run."""


LeaseEvent: TypeAlias = (
    TimerFired | LeaseRead | LeaseWritten | LeaseRequestFailed | PeersRead | PeersUnread | ReleaseRequested
)


@attrs.frozen
class ReadLease:
    """A read of the lease; answered by LeaseRead, or LeaseRequestFailed after `timeout` seconds at the latest."""

    timeout: float


@attrs.frozen
class CreateLease:
    """A create of the lease; answered by LeaseWritten, or LeaseRequestFailed after `timeout` seconds at the latest."""

    lease: Manifest
    timeout: float


@attrs.frozen
class UpdateLease:
    """An update of the lease at its resourceVersion; answered by LeaseWritten or LeaseRequestFailed, as a create is."""

    lease: Manifest
    timeout: float


@attrs.frozen
class ReadPeers:
    """A list of the Leases in the namespace; answered by PeersRead, or PeersUnread after `timeout` seconds."""

    timeout: float


@attrs.frozen
class SetTimer:
    """A wait of so many seconds, or until ReleaseRequested."""

    seconds: float


@attrs.frozen
class End:
    """End of the machine: no step follows."""


@attrs.frozen
class OpenFence:
    """Permission to write while the local monotonic clock is below `until`."""

    until: float


@attrs.frozen
class CloseFence:
    """The end of the permission to write."""


@attrs.frozen
class LeadershipLost:
    """The loss of a lease that was held."""

    reason: str


@attrs.frozen
class LeaderObserved:
    """The lease changed its holder; an empty `holder` for none."""

    holder: str


@attrs.frozen
class ReportLeaseError:
    """A failed request that will be retried; for the log."""

    reason: str


@attrs.frozen
class ShardsDisagree:
    """Another replica works with a different number of shards, so this one does not begin (RUN-13)."""

    disagreement: Disagreement


LeaseCommand: TypeAlias = ReadLease | ReadPeers | CreateLease | UpdateLease | SetTimer | End
"""The next action: every step has exactly one, as its last effect."""

LeaseEffect: TypeAlias = (
    OpenFence | CloseFence | LeadershipLost | LeaderObserved | ReportLeaseError | ShardsDisagree | LeaseCommand
)
