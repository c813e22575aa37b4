"""Who wrote what of an object of ours, by its managedFields.

Annotations of ours are believed only where we wrote them: a tenant may write them too (RUN-12). A status is ours but
for what somebody edited by hand: that is not told as ours, and keeps us from writing the status (D24).
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from vworkspace_core.api.labels import FIELD_MANAGER, IDEMPOTENCY_KEY, LAST_APPLIED_GENERATION
from vworkspace_core.api.reasons import InstanceConditionType, OperationConditionType
from vworkspace_core.apimachinery.manifest import Manifest, canonical_json, dig, metadata
from vworkspace_core.apimachinery.resources import APPLICATION_INSTANCE, OPERATION

OUR_ANNOTATIONS: Final = (IDEMPOTENCY_KEY, LAST_APPLIED_GENERATION)
"""Annotations that only the applier writes."""

_OURS: Final[Mapping[str, frozenset[str]]] = {
    APPLICATION_INSTANCE.kind: frozenset(InstanceConditionType),
    OPERATION.kind: frozenset(OperationConditionType),
}
_HELD: Final = "managedFields"
Path = tuple[str, ...]


@attrs.frozen
class Holder:
    """Another field manager that holds a field of the status, and the command that takes it from it."""

    manager: str
    field: str
    command: str = ""

    def __str__(self) -> str:
        told = f"{self.manager} holds {self.field}, so the operator cannot write the status"
        return f"{told}; to hand it back: {self.command}" if self.command else told


def written_by_us(live: Manifest | None, annotation: str) -> str | None:
    """The annotation's text where managedFields say that the operator wrote it; None for anybody else's."""
    found = dig(live, "metadata", "annotations", annotation)
    ours = any(
        dig(entry, "fieldsV1", "f:metadata", "f:annotations", f"f:{annotation}") is not None
        for _, entry in _entries(live)
        if dig(entry, "manager") == FIELD_MANAGER and not dig(entry, "subresource")
    )
    return found if ours and isinstance(found, str) else None


def with_status_holders(manifest: Manifest) -> Manifest:
    """`manifest` as caches keep it: managedFields of the status where others hold any of it, as a rule nothing.

    Not a deep copy.
    """
    meta = metadata(manifest)
    if _HELD not in meta:
        return manifest
    of_status = [entry for _, entry in _entries(manifest) if dig(entry, "subresource") == "status"]
    rest = {key: value for key, value in meta.items() if key != _HELD}
    if all(dig(entry, "manager") == FIELD_MANAGER for entry in of_status):
        return {**manifest, "metadata": rest}
    return {**manifest, "metadata": {**rest, _HELD: of_status}}


def held_conditions(live: Manifest) -> frozenset[str]:
    """Types of our conditions of which somebody else wrote a part."""
    if _HELD not in metadata(live):
        return frozenset()
    return frozenset(path[2] for _, path in _held(live) if path[1] == "conditions" and len(path) > 2)


def held_fields(live: Manifest) -> frozenset[str]:
    """Names of status fields, beside conditions, that somebody else wrote."""
    if _HELD not in metadata(live):
        return frozenset()
    return frozenset(path[1] for _, path in _held(live) if path[1] != "conditions")


def status_holder(live: Manifest) -> Holder | None:
    """Who keeps the operator from writing this status, if anybody does."""
    if _HELD not in metadata(live):
        return None
    found = next(_held(live), None)
    if found is None:
        return None
    manager, path = found
    return Holder(manager, _shown(path), _hand_back(live, manager))


def _held(live: Manifest) -> Iterator[tuple[str, Path]]:
    """Manager and path of what others hold of the status and we do not."""
    entries = [entry for _, entry in _entries(live) if dig(entry, "subresource") == "status"]
    ours = {path for entry in entries if dig(entry, "manager") == FIELD_MANAGER for path in _paths(entry)}
    types = _OURS.get(str(live.get("kind")), frozenset())
    for entry in entries:
        if dig(entry, "manager") == FIELD_MANAGER:
            continue
        for path in _paths(entry):
            foreign_type = len(path) > 2 and path[1] == "conditions" and path[2] not in types
            if path not in ours and not foreign_type:
                yield str(dig(entry, "manager")), path


def _paths(entry: Any) -> Iterator[Path]:
    """Paths of leaves below `status`; what stands in an item of a list is named by the item's type."""
    fields = dig(entry, "fieldsV1", "f:status")
    pending: list[tuple[Path, Any]] = [(("status",), fields)] if isinstance(fields, Mapping) else []
    while pending:
        path, found = pending.pop()
        children = [(_step(key), value) for key, value in found.items() if key != "."]
        if not children and len(path) > 1:
            yield path
        pending += [((*path, step), value) for step, value in children if isinstance(value, Mapping)]


def _step(key: str) -> str:
    how, _, name = key.partition(":")
    if how != "k":
        return name
    try:
        keys = json.loads(name)
    except ValueError:
        return name
    return str(keys.get("type", name)) if isinstance(keys, Mapping) else name


def _shown(path: Path) -> str:
    if path[1] == "conditions" and len(path) > 2:
        return f".status.conditions[{path[2]}]" + "".join(f".{step}" for step in path[3:])
    return "".join(f".{step}" for step in path)


def _hand_back(live: Manifest, manager: str) -> str:
    """A JSON patch that removes the entry of the status, guarded by its manager's name."""
    for index, entry in _entries(live):
        if (dig(entry, "manager"), dig(entry, "subresource")) != (manager, "status"):
            continue
        path = f"/metadata/managedFields/{index}"
        steps = [{"op": "test", "path": f"{path}/manager", "value": manager}, {"op": "remove", "path": path}]
        kind = next((kind for kind in (APPLICATION_INSTANCE, OPERATION) if kind.kind == live.get("kind")), None)
        if kind is None:
            return ""
        meta = metadata(live)
        patch = shlex.quote(canonical_json(steps).decode())
        return f"kubectl patch {kind.crd_name} {meta.get('name')} -n {meta.get('namespace')} --type=json -p {patch}"
    return ""


def _entries(live: Manifest | None) -> Iterator[tuple[int, Any]]:
    entries = dig(live, "metadata", _HELD)
    yield from enumerate(entries) if isinstance(entries, list | tuple) else ()
