"""A kit for the tests of people who build operators: a cluster in memory, strategies from schemas, laws.

`from vworkspace_kit import laws` brings `laws.hold`; `vworkspace_kit.plugin` brings fixtures to pytest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from vworkspace_kit.cluster import Cluster, NotReached
    from vworkspace_kit.fake import FakeCluster, HotLoop
    from vworkspace_kit.faults import ActiveFault
    from vworkspace_kit.real import NotHere, RealCluster
    from vworkspace_kit.record import EventSeen, Write
    from vworkspace_kit.strategies import changes_of, objects_of

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
    "ActiveFault": "vworkspace_kit.faults",
    "Cluster": "vworkspace_kit.cluster",
    "EventSeen": "vworkspace_kit.record",
    "FakeCluster": "vworkspace_kit.fake",
    "HotLoop": "vworkspace_kit.fake",
    "NotHere": "vworkspace_kit.real",
    "NotReached": "vworkspace_kit.cluster",
    "RealCluster": "vworkspace_kit.real",
    "Write": "vworkspace_kit.record",
    "changes_of": "vworkspace_kit.strategies",
    "objects_of": "vworkspace_kit.strategies",
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
