"""The laboratory: simulated controllers (`flux`, `downstream`), the embedded control plane (`controlplane`), time.

The simulated controllers write what the real ones write, on the embedded API server (`kubelab`) or on any
other.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kubelab.clock import ManualClock, VirtualClock, virtual_loop
    from kubelab.entropy import SeededEntropy
    from vworkspace_fake.job_store import MemoryJobStore

__all__ = [
    "ManualClock",
    "MemoryJobStore",
    "SeededEntropy",
    "VirtualClock",
    "virtual_loop",
]

_MODULES: Final = {
    "ManualClock": "kubelab.clock",
    "MemoryJobStore": "vworkspace_fake.job_store",
    "SeededEntropy": "kubelab.entropy",
    "VirtualClock": "kubelab.clock",
    "virtual_loop": "kubelab.clock",
}
"""The module that defines each name. It is imported on first use, since most programs need few."""


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
