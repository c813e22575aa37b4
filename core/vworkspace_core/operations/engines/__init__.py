"""The registry of engines: for each member of `EngineName` the engine in the module of that name (OPS-6).

An engine is the adapter that carries out an Operation, such as Velero or Job.
"""

import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from itertools import chain
from types import MappingProxyType
from typing import Final

from purekube.apimachinery.manifest import Kind
from purekube.readiness.generic import RULES, ReadinessRule
from vworkspace_core.api.operation import EngineName
from vworkspace_core.operations.contract import Engine

__all__ = ["ENGINES", "KINDS_ELSEWHERE", "LOOKED_UP_KINDS", "READINESS_RULES", "engine_kinds"]


def _engine(name: str) -> Engine:
    """Return the engine in the module for `name`.

    For example, the engine `helmHookJob` is in the module `helm_hook_job`.
    """
    module = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
    engine: Engine = import_module(f"{__name__}.{module}").ENGINE
    assert engine.name == name, f"{module} is the module of {name}, and its engine calls itself {engine.name}"
    return engine


ENGINES: Final[Mapping[str, Engine]] = MappingProxyType({name.value: _engine(name.value) for name in EngineName})
"""All engines, by the name that an Operation has in `spec.engine`."""


def engine_kinds(engines: Mapping[str, Engine] = ENGINES) -> tuple[Kind, ...]:
    """Return the kinds of all objects that `engines` create. The operator has to watch these kinds."""
    return _every(engine.made_kinds for engine in engines.values())


def _every(groups: Iterable[tuple[Kind, ...]]) -> tuple[Kind, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(groups)))


LOOKED_UP_KINDS: Final = _every(engine.awaited for engine in ENGINES.values())
"""Kinds whose objects engines read before an Operation starts, and which are watched for that."""
KINDS_ELSEWHERE: Final = _every(engine.made_kinds for engine in ENGINES.values() if engine.namespace is not None)
"""Kinds that engines create in a namespace other than the Operation's."""
READINESS_RULES: Final[Mapping[tuple[str, str], ReadinessRule]] = {
    **RULES,
    **{(kind.group, kind.kind): rule for engine in ENGINES.values() for kind, rule in engine.readiness.items()},
}
"""The readiness rules by group and kind: the general ones, and those that engines declare for the kinds they create."""
