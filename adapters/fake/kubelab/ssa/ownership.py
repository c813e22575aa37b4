"""The effect of a write on the fields that other managers own, and the conflicts of a write with these managers."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import attrs

from kubelab.model.definition import ServedKind
from kubelab.ssa.compare import Comparison, compare
from kubelab.ssa.field_paths import iterate, path_text
from kubelab.ssa.fieldset import EMPTY, MEMBER, FieldSet, difference, intersection
from kubelab.ssa.managers import ManagedFieldsEntry, ManagerKey
from kubelab.ssa.typed import items_schema
from purekube.apimachinery.errors import Conflict, FieldConflict
from purekube.schema.node import JsonType, ListType, Schema


def reconcile_fields(schema: Schema, fields: FieldSet) -> FieldSet:
    """Return the owned `fields` adapted to the present `schema`. If nothing changes, the object `fields` is returned.

    Where a list or map has become atomic, an owner of its members becomes the owner of the whole list or map. Where it
    has become granular, its owner still owns the list or map, but none of its members.
    """
    changed: dict[str, Any] = {}
    for element, node in fields.items():
        if not node or element == MEMBER:
            continue
        child = _below(schema, element)
        # SMD: typed/reconcile_schema.go, visitMapItems: fields that the schema lost stay owned, since
        # nothing says what became of them.
        if child is None:
            continue
        # A member whose subtree is empty means the whole atomic value.
        new = {} if _is_atomic(child) else reconcile_fields(child, node)
        if new is not node:
            changed[element] = new
    return {**fields, **changed} if changed else fields


def _below(schema: Schema, element: str) -> Schema | None:
    if element.startswith("f:"):
        return schema.properties.get(element[2:], schema.additional)
    return items_schema(schema)


def _is_atomic(schema: Schema) -> bool:
    if schema.type is JsonType.ARRAY:
        return schema.list_type is ListType.ATOMIC
    return schema.type is JsonType.OBJECT and schema.atomic_map


Clashes: TypeAlias = Mapping[ManagerKey, FieldSet]
"""The fields that a write would change although other managers own them, by the manager that owns them."""

# managedfields: stripmeta.go, NewStripMetaManager.
NEVER_OWNED: Final[FieldSet] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        "f:name": {},
        "f:namespace": {},
        "f:creationTimestamp": {},
        "f:selfLink": {},
        "f:uid": {},
        "f:generation": {},
        "f:managedFields": {},
        "f:resourceVersion": {},
    },
}
"""Fields that belong to the system or to the identity of the object (S-24)."""

_STATUS: Final[FieldSet] = {"f:status": {}}
# apiextensions: registry/customresource/status_strategy.go, GetResetFields names metadata and spec only, so other
# fields at the top level could be owned through /status.
_NOT_STATUS: Final[FieldSet] = {"f:metadata": {}, "f:spec": {}}


def reset_fields(definition: ServedKind, subresource: str) -> FieldSet:
    """Return the fields that a write to `subresource` can neither change nor own (S-26).

    An empty `subresource` means a write to the object itself.
    """
    if not definition.status_subresource:
        return EMPTY
    if subresource == "status":
        return _NOT_STATUS
    # apiextensions: registry/customresource/strategy.go, GetResetFields.
    return EMPTY if subresource else _STATUS


@attrs.frozen
class Rules:
    """The rules of ownership for one kind, and for one endpoint: the object itself or a subresource.

    `ignored` are fields that writes to the endpoint cannot change, so they give no ownership of these fields (S-26).
    `settled` says that the live object was written under this same schema, so that its managedFields entries of this
    version need not be adapted to the schema.
    """

    kind: ServedKind
    ignored: FieldSet
    settled: bool = False

    @property
    def schema(self) -> Schema:
        """The compiled schema of the request's version."""
        return self.kind.schema

    @property
    def api_version(self) -> str:
        """The `group/version` of the request."""
        return self.kind.api_version

    def compare(self, old: Any, new: Any, api_version: str) -> Comparison:
        """Return the difference of two objects after converting both to `api_version`, without the `ignored` fields."""
        kind = self.kind
        before, after = (kind.in_version(manifest, api_version) for manifest in (old, new))
        return compare(kind.schema_of(api_version), before, after).without(self.ignored)


def current(rules: Rules, managers: Mapping[ManagerKey, ManagedFieldsEntry]) -> dict[ManagerKey, ManagedFieldsEntry]:
    """Return those managedFields entries whose version is still served (S-71), adapted to the present schema (S-60)."""
    served = rules.kind.served_versions
    # SMD: merge/update.go, reconcileManagedFieldsWithSchemaChanges skips versions that it cannot convert to.
    return {key: _adapted(rules, entry) for key, entry in managers.items() if entry.api_version in served}


def _adapted(rules: Rules, entry: ManagedFieldsEntry) -> ManagedFieldsEntry:
    if rules.settled and entry.wire is not None and entry.api_version == rules.api_version:
        return entry
    return entry.owning(reconcile_fields(rules.kind.schema_of(entry.api_version), entry.fields))


def settle(
    rules: Rules,
    old: Any,
    new: Any,
    managers: Mapping[ManagerKey, ManagedFieldsEntry],
    writer: ManagerKey | None,
    *,
    force: bool,
) -> tuple[dict[ManagerKey, ManagedFieldsEntry], Comparison]:
    """Take the fields that changed from `old` to `new` away from all managers except `writer`.

    Return two values: the managers' entries of managedFields, and the comparison of `old` and `new`. An unchanged field
    keeps all its owners (S-29, S-31). Unless `force`, raises Conflict if a manager other than `writer` owns a field
    that is modified or added. Entries are compared by manager and operation: an apply can conflict with an earlier
    Update by the same manager (S-32).
    """
    changes = compare(rules.schema, old, new).without(rules.ignored)
    # Equal values never conflict, and stay shared (S-29, S-34).
    if changes.same:
        return dict(managers), changes
    compared = {rules.api_version: changes}
    out: dict[ManagerKey, ManagedFieldsEntry] = {}
    clashes: dict[ManagerKey, FieldSet] = {}
    for key, entry in managers.items():
        if key == writer:
            out[key] = entry
            continue
        version = entry.api_version
        if version not in compared:
            compared[version] = rules.compare(old, new, version)
        clash = intersection(entry.fields, compared[version].changed)
        if clash:
            clashes[key] = clash
        # Removed fields are taken from everybody without a conflict, even from other appliers (SMD: merge/update.go,
        # Updater.update).
        left = difference(difference(entry.fields, clash), compared[version].removed)
        if left:
            out[key] = entry.owning(left)
    # Computed for all managers first: the message of a conflict counts every field of everybody (S-78).
    if clashes and not force:
        raise conflict(clashes)
    return out, changes


class Clash(Conflict):
    """The error of a server-side apply that conflicts with other managers (409).

    `clashes` maps each manager that owns conflicting fields to these fields.
    """

    def __init__(self, message: str, conflicts: tuple[FieldConflict, ...], clashes: Clashes) -> None:
        super().__init__(message, conflicts)
        self.clashes = clashes


def conflict(clashes: Clashes) -> Clash:
    """Return the conflict error for an apply, with kube-apiserver's message and causes (S-78, S-79).

    `clashes` maps the identity of each other manager to the conflicting fields that it owns.
    """
    by_manager = sorted(clashes.items(), key=lambda clash: clash[0].identifier())
    conflicts = [(key, path_text(path)) for key, fields in by_manager for path in iterate(fields)]
    causes = tuple(FieldConflict(key.manager, path, f"conflict with {key}") for key, path in conflicts)
    if len(conflicts) == 1:
        key, path = conflicts[0]
        return Clash(f"Apply failed with 1 conflict: conflict with {key}: {path}", causes, clashes)
    # managedfields: conflict.go, getConflictMessage: one conflict is one line, several are grouped by manager.
    lines: list[str] = []
    for key, fields in by_manager:
        lines.append(f"conflicts with {key}:")
        lines += [f"- {path_text(path)}" for path in iterate(fields)]
    return Clash(f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines), causes, clashes)


def without_metadata(fields: FieldSet) -> FieldSet:
    """Return `fields` without the fields that no manager can own, such as `kind` and `metadata.name`."""
    return difference(fields, NEVER_OWNED)
