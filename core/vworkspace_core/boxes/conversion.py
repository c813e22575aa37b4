"""An object of one version of a box's kind as another has it, by the box's expressions (PH-6).

A field that both versions have under one name keeps its value unless the box says otherwise; what the other version
does not declare is left out.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from vworkspace_core.apimachinery.manifest import Manifest
from vworkspace_core.boxes.box import CompiledVersion
from vworkspace_core.boxes.schemas import KnownKind
from vworkspace_core.boxes.templates import Template
from vworkspace_core.cel.values import ABSENT
from vworkspace_core.schema import apply_defaults, prune


def to_storage(version: CompiledVersion, old: Manifest, storage: KnownKind) -> Manifest:
    """`old`, an object of `version`, as the storage version has it. Raises ExpressionFailure."""
    return _converted(old, "old", version.up, storage)


def from_storage(version: CompiledVersion, stored: Manifest, known: KnownKind) -> Manifest:
    """`stored` as `version`, whose kind is `known`, has it. Raises ExpressionFailure."""
    return _converted(stored, "self", version.down, known)


def _converted(
    manifest: Manifest, variable: str, fields: Mapping[tuple[str, ...], Template], target: KnownKind
) -> Manifest:
    found: Any = {**deepcopy(dict(manifest)), "apiVersion": target.kind.api_version}
    if target.schema is not None:
        found, _ = prune(target.schema, found)
    for steps, template in fields.items():
        _put(found, steps, template.render({variable: manifest}))
    converted: Manifest = found if target.schema is None else apply_defaults(target.schema, found)
    return converted


def _put(target: dict[str, Any], steps: Sequence[str], value: Any) -> None:
    """Set a field, or take it away where it has no value."""
    for step in steps[:-1]:
        below = target.get(step)
        if not isinstance(below, dict):
            if value is ABSENT:
                return
            below = target[step] = {}
        target = below
    if value is ABSENT:
        target.pop(steps[-1], None)
    else:
        target[steps[-1]] = value
