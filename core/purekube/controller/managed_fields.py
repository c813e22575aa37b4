"""Field managers that hold an object's fields, and the writes that conflict with them (REC-3, REC-8, RES-4)."""

import json
import shlex
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.errors import Conflict, FieldConflict
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, canonical_json, get_path, metadata, ref_of
from purekube.apimachinery.problems import listed
from purekube.controller.decision import Failure

# An apply here writes no other metadata. Names, uids and the like are in no field set (apimachinery:
# util/managedfields/internal/stripmeta.go).
_WRITTEN_METADATA: Final = ("f:labels", "f:annotations", "f:ownerReferences")
_HELD: Final = "managedFields"
_STATUS: Final = "status"

Path: TypeAlias = tuple[str, ...]


def entries(live: Manifest | None) -> Iterator[tuple[int, Any]]:
    """Yield the entries of the managedFields of the object `live`, each after its index; nothing if `live` is None."""
    managed_fields = get_path(live, "metadata", _HELD)
    yield from enumerate(managed_fields) if isinstance(managed_fields, list | tuple) else ()


def kubectl_patch(ref: ObjectRef, steps: list[dict[str, Any]]) -> str:
    """Return the kubectl command that applies the JSON patch `steps` to the object."""
    patch = shlex.quote(canonical_json(steps).decode())
    return f"kubectl patch {kubectl_name(ref)} --type=json -p {patch}"


def kubectl_name(ref: ObjectRef) -> str:
    """Return the object's kind, name and namespace as arguments of kubectl: `deployments.apps web -n shop`."""
    kind = ref.kind.crd_name if ref.kind.group else ref.kind.plural
    return f"{kind} {ref.name} -n {ref.namespace}" if ref.namespace else f"{kind} {ref.name}"


# --- fields that an apply may write ---------------------------------------------------------------------------


def without_managed_fields(manifest: Manifest) -> Manifest:
    """Return `manifest` without managedFields. This is for caches of kinds that only this operator writes.

    The result is not a deep copy.
    """
    meta = metadata(manifest)
    if _HELD not in meta:
        return manifest
    return {**manifest, "metadata": {key: value for key, value in meta.items() if key != _HELD}}


def with_foreign_holders(manifest: Manifest, manager: str) -> Manifest:
    """Return `manifest` with its managedFields reduced to fields of other managers with which an apply may conflict.

    Entries of `manager` and entries of the status are left out. Of the metadata, only labels, annotations and owner
    references are kept. Usually nothing remains, since other controllers write only the status and finalizers; the
    result then has no managedFields. It is not a deep copy.
    """
    held = list(_foreign(metadata(manifest).get(_HELD), manager))
    plain = without_managed_fields(manifest)
    return {**plain, "metadata": {**metadata(plain), _HELD: held}} if held else plain


def _foreign(managed_fields: Any, manager: str) -> Iterable[Mapping[str, Any]]:
    for entry in managed_fields if isinstance(managed_fields, list) else ():
        fields = get_path(entry, "fieldsV1")
        is_status = get_path(entry, "subresource") == _STATUS  # `kubectl scale` has an entry of its own too (S-51)
        if get_path(entry, "manager") == manager or is_status or not isinstance(fields, Mapping):
            continue
        meta = {key: value for key, value in (get_path(fields, "f:metadata") or {}).items() if key in _WRITTEN_METADATA}
        rest = {key: value for key, value in fields.items() if key != "f:metadata"}
        if meta or rest:
            held = {"f:metadata": meta, **rest} if meta else rest
            yield {"manager": entry["manager"], "operation": get_path(entry, "operation"), "fieldsV1": held}


def is_held_by_others(manifest: Manifest, live: Manifest | None, manager: str) -> bool:
    """Report whether a manager other than `manager` holds a field of `live` that `manifest` sets.

    In that case an apply may conflict; only the server can decide whether it does.
    """
    held = get_path(live, "metadata", _HELD)
    return any(_overlaps(entry["fieldsV1"], manifest) for entry in _foreign(held, manager))


def _overlaps(fields: Mapping[str, Any], desired: Any) -> bool:
    """Report whether the field set `fields` (FieldsV1) names a field that `desired` sets.

    A list that `desired` sets counts as a whole, whichever items `fields` names.
    """
    if not isinstance(desired, Mapping):
        return True
    for key, beneath in fields.items():
        # In a field set `f:<name>` is a field, `k:<keys>` an item of a keyed list, `.` the object itself (S-20, S-21).
        how, _, name = key.partition(":")
        # Whole lists are compared, since an apply of one item (`k:`) may conflict by any of its fields.
        if how != "f" or name not in desired:
            continue
        if not isinstance(beneath, Mapping) or set(beneath) <= {"."} or _overlaps(beneath, desired[name]):
            return True
    return False


def written_annotation(live: Manifest | None, annotation: str, manager: str) -> str | None:
    """Return the text of the annotation named `annotation` if managedFields show that `manager` wrote it, otherwise
    None. Tenants may write annotations too, so only the operator's own annotations are trusted (RUN-12).
    """
    text = get_path(live, "metadata", "annotations", annotation)
    ours = any(
        get_path(entry, "fieldsV1", "f:metadata", "f:annotations", f"f:{annotation}") is not None
        for _, entry in entries(live)
        if get_path(entry, "manager") == manager and not get_path(entry, "subresource")
    )
    return text if ours and isinstance(text, str) else None


def with_written_annotations(manifest: Manifest, live: Manifest, annotations: Iterable[str], manager: str) -> Manifest:
    """Return `manifest` with a managedFields entry that records which of the `annotations` the manager `manager` wrote.

    `manifest` is a trimmed copy of `live`. The managedFields of `live` tell who wrote an annotation. The result is not
    a deep copy.
    """
    ours: dict[str, Any] = {
        f"f:{name}": {} for name in annotations if written_annotation(live, name, manager) is not None
    }
    if not ours:
        return manifest
    entry = {"manager": manager, "fieldsV1": {"f:metadata": {"f:annotations": ours}}}
    meta = metadata(manifest)
    return {**manifest, "metadata": {**meta, _HELD: [*(meta.get(_HELD) or ()), entry]}}


# --- the status ------------------------------------------------------------------------------------------------


@attrs.frozen
class StatusHolder:
    """Another field manager that holds a field of a status, with the kubectl command that takes the field back.

    `manager` is its name, and `field` the path of the field. `command` is empty if the object's managedFields have no
    entry to remove.
    """

    manager: str
    field: str
    command: str = ""

    def __str__(self) -> str:
        what = f"{self.manager} holds {self.field}, so the operator cannot write the status"
        return f"{what}; to hand it back: {self.command}" if self.command else what


@attrs.frozen
class StatusOwner:
    """The operator's field manager for the statuses of some kinds, with the condition types that it owns in each.

    The methods find the parts of a status that other field managers hold.
    """

    manager: str
    types: Mapping[Kind, frozenset[str]]

    def with_holders(self, manifest: Manifest) -> Manifest:
        """Return `manifest` for a cache: without managedFields, unless another manager holds part of the status.

        In that case the managedFields entries that concern the status are kept. The result is not a deep copy.
        """
        plain = without_managed_fields(manifest)
        of_status = [entry for _, entry in entries(manifest) if get_path(entry, "subresource") == _STATUS]
        if all(get_path(entry, "manager") == self.manager for entry in of_status):
            return plain
        return {**plain, "metadata": {**metadata(plain), _HELD: of_status}}

    def without_foreign_conditions(self, manifest: Manifest) -> Manifest:
        """Return `manifest` without the operator's conditions that another manager has partly written.

        The result is not a deep copy.
        """
        held = self.held_conditions(manifest)
        if not held:
            return manifest
        status = manifest["status"]
        conditions = get_path(status, "conditions") or ()
        left = [condition for condition in conditions if get_path(condition, "type") not in held]
        return {**manifest, "status": {**status, "conditions": left}}

    def held_conditions(self, live: Manifest) -> frozenset[str]:
        """Return the types of the operator's conditions that another manager has partly written."""
        held = (path for _, path in self._held(live))
        return frozenset(path[2] for path in held if path[1] == "conditions" and len(path) > 2)

    def condition_holders(self, live: Manifest) -> Iterator[str]:
        """Yield the names of other managers that wrote any of the operator's conditions."""
        return (manager for manager, path in self._held(live) if path[1] == "conditions")

    def hand_over(self, live: Manifest) -> str:
        """Return the kubectl command that takes the operator's conditions back from another manager.

        Return "" if no other manager holds them.
        """
        manager = next(self.condition_holders(live), "")
        return self._hand_back(live, manager) if manager else ""

    def held_fields(self, live: Manifest) -> frozenset[str]:
        """Return the names of status fields, except conditions, that another manager wrote."""
        return frozenset(path[1] for _, path in self._held(live) if path[1] != "conditions")

    def holder(self, live: Manifest) -> StatusHolder | None:
        """Return another manager that holds a field of the status of `live` and so prevents the operator's writes.

        Return None if there is no such manager.
        """
        held = next(self._held(live), None)
        if held is None:
            return None
        manager, path = held
        return StatusHolder(manager, _shown(path), self._hand_back(live, manager))

    def _held(self, live: Manifest) -> Iterator[tuple[str, Path]]:
        """Yield manager and path of each status field that another manager holds and the operator does not."""
        if _HELD not in metadata(live):
            return
        of_status = [entry for _, entry in entries(live) if get_path(entry, "subresource") == _STATUS]
        if not of_status:
            return
        ours = {path for entry in of_status if get_path(entry, "manager") == self.manager for path in _paths(entry)}
        kind = self._kind(live)
        types = frozenset() if kind is None else self.types[kind]
        for entry in of_status:
            if get_path(entry, "manager") == self.manager:
                continue  # its fields are among ours: to list them again would double the time
            for path in _paths(entry):
                foreign_type = len(path) > 2 and path[1] == "conditions" and path[2] not in types
                if path not in ours and not foreign_type:
                    yield str(get_path(entry, "manager")), path

    def _kind(self, live: Manifest) -> Kind | None:
        return next((kind for kind in self.types if kind.kind == live.get("kind")), None)

    def _hand_back(self, live: Manifest, manager: str) -> str:
        """Return the kubectl command that removes the manager's status entry from managedFields; "" if there is no
        entry.

        The command's JSON patch fails if the entry at that index has become another manager's.
        """
        kind = self._kind(live)
        for index, entry in entries(live):
            if kind is not None and (get_path(entry, "manager"), get_path(entry, "subresource")) == (manager, _STATUS):
                path = f"/metadata/managedFields/{index}"
                # The test makes the patch fail if entries moved meanwhile: an index in managedFields names another
                # manager then.
                steps = [{"op": "test", "path": f"{path}/manager", "value": manager}, {"op": "remove", "path": path}]
                return kubectl_patch(ref_of(live, kind), steps)
        return ""


def _paths(entry: Any) -> Iterator[Path]:
    """Yield the path of each leaf below `status` in a managedFields entry; a condition is named by its type."""
    fields = get_path(entry, "fieldsV1", "f:status")
    pending: list[tuple[Path, Any]] = [((_STATUS,), fields)] if isinstance(fields, Mapping) else []
    while pending:
        path, fields = pending.pop()
        children = [(_step(key), value) for key, value in fields.items() if key != "."]
        if not children and len(path) > 1:
            yield path
        pending += [((*path, step), value) for step, value in children if isinstance(value, Mapping)]


def _step(key: str) -> str:
    how, _, name = key.partition(":")
    if how != "k":
        return name
    # An item of a keyed list has its keys as JSON: a condition its type (S-20).
    try:
        keys = json.loads(name)
    except ValueError:
        return name
    return str(keys.get("type", name)) if isinstance(keys, Mapping) else name


def _shown(path: Path) -> str:
    if path[1] == "conditions" and len(path) > 2:
        return f".status.conditions[{path[2]}]" + "".join(f".{step}" for step in path[3:])
    return "".join(f".{step}" for step in path)


_MOST_FIELDS: Final = 8


def is_own_history(failure: Failure, manager: str) -> bool:
    """Report whether the write in `failure` conflicted only with older managedFields entries of the same `manager`
    (S-32). This is the only case in which an apply may be forced (REC-6).
    """
    error = failure.error
    return isinstance(error, Conflict) and bool(error.conflicts) and _other_managers(error, manager) == ()


def _other_managers(error: Conflict, manager: str) -> tuple[FieldConflict, ...]:
    return tuple(conflict for conflict in error.conflicts if conflict.manager != manager)


def conflict_message(failure: Failure, error: Conflict, manager: str) -> str:
    """Return the message about a write by `manager` that the API server refused because other managers hold fields.

    `failure` is the write, and `error` the server's answer. The message names the other managers, their fields, and the
    kubectl command that releases the fields (REC-8). The command is needed because a field stays with its manager even
    if people edit it.
    """
    by_manager: dict[str, list[str]] = {}
    for conflict in _other_managers(error, manager):
        by_manager.setdefault(conflict.manager, []).append(conflict.field)
    held = "; ".join(
        f'field manager "{manager}" holds {listed(fields, _MOST_FIELDS)}'
        for manager, fields in sorted(by_manager.items())
    )
    command = _hand_back(failure, by_manager.keys())
    return f"{failure.ref}: {held}" + (f". To hand it back: {command}" if command else "")


def _hand_back(failure: Failure, managers: Container[str]) -> str:
    """Return the kubectl command that removes the managedFields entries of `managers`; "" if there are none.

    The command's JSON patch fails if the entry at one of the indexes has become another manager's.
    """
    steps: list[dict[str, Any]] = []
    for index, entry in _object_entries(failure.live):
        manager, operation = str(get_path(entry, "manager")), str(get_path(entry, "operation"))
        if manager in managers:
            path = f"/metadata/managedFields/{index}"
            steps.append({"op": "test", "path": f"{path}/manager", "value": manager})
            steps.append({"op": "test", "path": f"{path}/operation", "value": operation})
            steps.append({"op": "remove", "path": path})
    return kubectl_patch(failure.ref, steps) if steps else ""


def other_holders(live: Manifest | None, manager: str, *path: str) -> set[str]:
    """Return the field managers other than `manager` that hold the field at `path`."""
    fields = [f"f:{step}" for step in path]
    return {
        str(get_path(entry, "manager"))
        for _, entry in _object_entries(live)
        if get_path(entry, "fieldsV1", *fields) is not None and get_path(entry, "manager") != manager
    }


def _object_entries(live: Manifest | None) -> Iterator[tuple[int, Any]]:
    """Yield the managedFields entries except those of the status, with their indexes, last first.

    In this order the removal of an entry does not change the indexes of later entries. Entries of other subresources
    count, since `kubectl scale` writes the spec through a subresource.
    """
    # A JSON patch runs its steps one after the other, so a removal moves the entries after it (RFC 6902, section 4.2).
    found = reversed(list(entries(live)))
    return ((index, entry) for index, entry in found if get_path(entry, "subresource") != "status")
