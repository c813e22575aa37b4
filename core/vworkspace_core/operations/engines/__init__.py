"""The registry of engines: adding one is a module and an entry here (OPS-6)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from vworkspace_core.operations.contract import Engine
from vworkspace_core.operations.engines import helm, helm_hook_job, job, snapshot, velero, volsync, workflow

__all__ = ["ENGINES"]

ENGINES: Final[Mapping[str, Engine]] = MappingProxyType(
    {module.ENGINE.name: module.ENGINE for module in (velero, workflow, job, helm, volsync, helm_hook_job, snapshot)}
)
"""Every engine by the name that `spec.engine` gives it."""
