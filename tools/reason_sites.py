"""The functions that give a condition its reason, found in the source: the way from a status to the deciding line."""

import ast
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final

from purekube.controller.reconcile_error import ReconcileErrorCause
from vworkspace_core.api.reasons import ClusterReason, InstanceReason, OperationReason

_CORE: Final = Path(__file__).resolve().parents[1] / "core"
_KINDS: Final[Mapping[type[StrEnum], tuple[str, ...]]] = {
    InstanceReason: ("ApplicationInstance",),
    OperationReason: ("Operation",),
    ClusterReason: ("Cluster",),
    ReconcileErrorCause: ("ApplicationInstance", "Operation"),
}
_DECIDING: Final = (
    "purekube/controller",
    "vworkspace_core/clusters",
    "vworkspace_core/control_plane",
    "vworkspace_core/instances",
    "vworkspace_core/operations",
)


@cache
def reason_sites() -> Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]]:
    """Return the functions that give a reason, by file, for each kind and reason."""
    sites: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
    for path in (path for room in _DECIDING for path in sorted((_CORE / room).rglob("*.py"))):
        name = str(path.relative_to(_CORE))
        for key, function in _given(ast.parse(path.read_text(encoding="utf-8"))):
            files = sites.setdefault(key, {})
            files[name] = tuple(dict.fromkeys((*files.get(name, ()), function)))
    return sites


def _given(module: ast.Module) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield kind and reason with each function that names the reason, except to compare with it."""
    names = _names_of_enums(module)
    for function in ast.walk(module):
        if not isinstance(function, ast.FunctionDef):
            continue
        comparisons = (node for node in ast.walk(function) if isinstance(node, ast.Compare))
        compared = {id(part) for comparison in comparisons for part in ast.walk(comparison)}
        for node in ast.walk(function):
            if id(node) in compared or not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
                continue
            enum = names.get(node.value.id)
            if enum is not None and node.attr in enum.__members__:
                for kind in _KINDS[enum]:
                    yield (kind, enum[node.attr].value), function.name


def _names_of_enums(module: ast.Module) -> Mapping[str, type[StrEnum]]:
    """Return the enumerations of reasons by the names that a module gives them."""
    enums = {enum.__name__: enum for enum in _KINDS}
    imports = (node for node in ast.walk(module) if isinstance(node, ast.ImportFrom))
    imported = {alias.asname or alias.name: alias.name for node in imports for alias in node.names}
    own = {node.name: node.name for node in module.body if isinstance(node, ast.ClassDef)}
    return {name: enums[enum] for name, enum in {**imported, **own}.items() if enum in enums}
