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

_MODULES = {
    "ActiveFault": "purekube_kit.faults",
    "ClusterUnderTest": "purekube_kit.cluster",
    "EventSeen": "purekube_kit.record",
    "FakeCluster": "purekube_kit.fake",
    "HotLoop": "purekube_kit.fake",
    "NotHere": "purekube_kit.real",
    "NotReached": "purekube_kit.cluster",
    "RealCluster": "purekube_kit.real",
    "Write": "purekube_kit.record",
    "changes_of": "purekube_kit.strategies",
    "objects_of": "purekube_kit.strategies",
}

__getattr__, __dir__ = lazy_door(__name__, _MODULES)
