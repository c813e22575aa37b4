"""The registry of engines: adding one is a module and an entry here (OPS-6)."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.meta import ObjectMeta
from vworkspace_core.api.operation import EngineName as EngineName
from vworkspace_core.api.operation import Operation, OperationSpec, OperationType, TargetRef
from vworkspace_core.operations.contract import Engine
from vworkspace_core.operations.engines import (
    helm,
    helm_hook_job,
    job,
    snapshot,
    velero,
    volsync,
    workflow,
)

__all__ = ["ENGINES", "engine_kinds"]

_MODULES: Final = (
    velero,
    workflow,
    job,
    helm,
    volsync,
    helm_hook_job,
    snapshot,
)

ENGINES: Final[Mapping[str, Engine]] = MappingProxyType({module.ENGINE.name: module.ENGINE for module in _MODULES})
"""Every engine by its name in `spec.engine`."""


def engine_kinds(engines: Mapping[str, Engine] = ENGINES) -> tuple[Kind, ...]:
    """Return every kind of which an engine makes objects, for any type of Operation: these must be watched."""
    return tuple(dict.fromkeys(kind for engine in engines.values() for kind in _kinds_of(engine)))


def _kinds_of(engine: Engine) -> Iterator[Kind]:
    target = TargetRef(name="")
    for kind in OperationType:
        yield from engine.kinds(Operation(ObjectMeta(""), OperationSpec(target, kind, EngineName.JOB)))
