"""A kit for the tests of people who build operators: a cluster in memory, strategies from schemas, laws.

`from purekube_kit import laws` brings `laws.hold`; `purekube_kit.plugin` brings fixtures to pytest.
"""

from typing import TYPE_CHECKING

from purekube.lazy_door import lazy_door

if TYPE_CHECKING:
    from purekube_kit.cluster import ClusterUnderTest, NotReached
    from purekube_kit.fake import FakeCluster, HotLoop
    from purekube_kit.faults import ActiveFault
    from purekube_kit.real import NotHere, RealCluster
    from purekube_kit.record import EventSeen, Write
    from purekube_kit.strategies import changes_of, objects_of

__all__ = [
    "ActiveFault",
    "ClusterUnderTest",
    "EventSeen",
    "FakeCluster",
    "HotLoop",
    "NotHere",
    "NotReached",
    "RealCluster",
    "Write",
    "changes_of",
    "objects_of",
]

__getattr__, __dir__ = lazy_door(__name__)
