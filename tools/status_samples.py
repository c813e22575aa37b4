"""Every line of an engine's table as sample objects, which documentation and tests pass to `observe`."""

from collections.abc import Mapping
from typing import Any

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, merge_patch, metadata, ref_of
from vworkspace_core.api.operation import Operation
from vworkspace_core.operations.contract import OBJECT_UID, OPERATION_UID, Row


def shown_by(row: Row, operation: Operation, kind: Kind, live: Manifest) -> dict[ObjectRef, Manifest]:
    """Return the object `live` of `kind` in the phase of that row, and the other objects that exist then.

    `live` is the engine object of `operation` as it was created, with its uid; for an engine without an object it is
    the target.
    """
    names = {OPERATION_UID: operation.metadata.uid, OBJECT_UID: str(metadata(live).get("uid", ""))}
    shown = merge_patch(live, _named(row.sample, names))
    beside = {
        ref_of(engine_object.manifest, engine_object.kind): _named(engine_object.manifest, names)
        for engine_object in row.beside
    }
    return {ref_of(live, kind): shown, **beside}


def _named(value: Any, names: Mapping[str, str]) -> Any:
    """Return the value with placeholders replaced by uids."""
    if isinstance(value, Mapping):
        return {key: _named(item, names) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_named(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value
