"""A kit for the tests of people who build operators: a cluster in memory, strategies from schemas, laws.

`from purekube_kit import laws` brings `laws.hold`; `purekube_kit.plugin` brings fixtures to pytest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from purekube_kit.cluster import Cluster, NotReached
    from purekube_kit.fake import FakeCluster, HotLoop
    from purekube_kit.faults import ActiveFault
    from purekube_kit.real import NotHere, RealCluster
    from purekube_kit.record import EventSeen, Write
    from purekube_kit.strategies import changes_of, objects_of

__all__ = [
    "ActiveFault",
    "Cluster",
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

_MODULES: Final = {
    "ActiveFault": "purekube_kit.faults",
    "Cluster": "purekube_kit.cluster",
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
"""The module that defines each name.

It is imported on first use: pytest loads the plugin in every run, and most runs need nothing else.
"""


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
