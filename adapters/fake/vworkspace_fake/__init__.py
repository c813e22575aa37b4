"""The laboratory: simulated controllers (`flux`, `downstream`), the embedded control plane (`controlplane`), time.

The simulated controllers write what the real ones write, on the embedded API server (`kubelab`) or on any
other.
"""

from typing import TYPE_CHECKING

from purekube.lazy_door import lazy_door

if TYPE_CHECKING:
    from vworkspace_fake.job_store import MemoryJobStore

__all__ = [
    "MemoryJobStore",
]

__getattr__, __dir__ = lazy_door(__name__)
