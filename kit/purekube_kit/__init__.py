"""A kit for the tests of operators: a cluster in memory, Hypothesis strategies from schemas, and laws (required
properties) of controllers.

`from purekube_kit import laws` imports `laws.hold`; `purekube_kit.plugin` is a pytest plugin with a fixture.
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
