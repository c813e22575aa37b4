"""The conversion between the versions of a box's kind by the box's expressions (PH-6, PH-8).

A field that both versions have under one name keeps its value unless the box says otherwise; a field that the other
version does not declare is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from purekube.apimachinery.manifest import Manifest
from purekube.boxes.box import Box, CompiledVersion
from purekube.boxes.model import KeptIn
from purekube.boxes.schemas import CrdVersions
from purekube.boxes.templates import Template
from purekube.cel.values import ABSENT
from purekube.versions import Conversion, Convert, Converter


def converter_of(box: Box, crd: CrdVersions | None = None) -> Converter | None:
    """Return the converter of a box's kind; None if the box declares no other version. `crd` is the box's."""
    spokes = [version for version in box.versions if not version.is_storage]
    if not spokes:
        return None
    known = CrdVersions.of(box.crd) if crd is None else crd
    schemas = {name: kind.schema for name, kind in known.kinds.items() if kind.schema is not None}
    conversions = (_conversion(version) for version in spokes)
    return Converter.of(box.kind.group, box.kind.kind, known.storage, *conversions, schemas=schemas)


def _conversion(version: CompiledVersion) -> Conversion:
    keeps = version.keeps is KeptIn.ANNOTATION
    return Conversion(version.name, _filling("old", version.up), _filling("self", version.down), keeps=keeps)


def _filling(variable: str, fields: Mapping[tuple[str, ...], Template]) -> Convert:
    """Return a function that sets fields of an object; the other version's schema then prunes it.

    Raises ExpressionFailure.
    """

    def convert(manifest: Manifest) -> dict[str, Any]:
        found: dict[str, Any] = dict(manifest)
        values = [(steps, template.render({variable: manifest})) for steps, template in fields.items()]
        for steps, value in values:
            _put(found, steps, value)
        return found

    return convert


def _put(target: dict[str, Any], steps: Sequence[str], value: Any) -> None:
    """Set a field, or remove it if it has no value."""
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
