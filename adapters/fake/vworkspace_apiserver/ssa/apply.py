"""Server-side apply and the tracking of other writes: who owns which field afterwards, and what the object is.

Pure functions over plain objects, which are never changed. Defaults, validation and the rules of metadata
come after them, in the pipeline.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from vworkspace_apiserver.ssa.conform import misfit_text, misfits
from vworkspace_apiserver.ssa.fieldset import (
    EMPTY,
    FieldSet,
    difference,
    intersection,
    recursive_difference,
    union,
)
from vworkspace_apiserver.ssa.managers import (
    ManagedFieldsEntry,
    ManagedFieldsOperation,
    ManagerKey,
    Managers,
    cap_updaters,
    decode_managers,
    encode_managers,
    key_of,
)
from vworkspace_apiserver.ssa.merge import merge
from vworkspace_apiserver.ssa.ownership import Rules, UntypedError, Versioned, current, settle, without_metadata
from vworkspace_apiserver.ssa.remove import remove, with_named_fields
from vworkspace_apiserver.ssa.typed import ItemError, field_set
from vworkspace_core.apimachinery.errors import OperatorError
from vworkspace_core.schema.equality import equal
from vworkspace_core.schema.node import Schema

BEFORE_FIRST_APPLY: Final = "before-first-apply"


class TypedPatchError(OperatorError):
    """An applied configuration that does not fit the schema: HTTP 500 without a reason (S-15 to S-17)."""


class Kindred(Versioned, Protocol):
    """What server-side apply needs to know of a kind; `Definition` is one."""

    @property
    def kind_name(self) -> str:
        """`kind` of the objects."""

    def reset_fields(self, subresource: str) -> FieldSet:
        """Fields that writes to this endpoint cannot change."""

    def empty(self) -> Mapping[str, Any]:
        """The object before its creation; built-in kinds have structs that exist from the start."""


def apply(
    definition: Kindred,
    live: Mapping[str, Any] | None,
    config: Mapping[str, Any],
    *,
    manager: str,
    subresource: str = "",
    force: bool = False,
    now: str,
) -> dict[str, Any]:
    """Merge `config` into `live` on behalf of `manager`; `live` is None for an object that does not exist.

    The result carries the new managedFields. When no value changes it is `live` with managedFields updated,
    which are the live ones where nothing about ownership changed either (S-65, S-66). Raises Conflict
    (S-30, S-78) and TypedPatchError.
    """
    fit(definition, config)
    rules = _rules(definition, subresource)
    managers = current(rules, _managers_of(live))
    if live is None:
        live = definition.empty()
    elif not managers:
        managers = current(rules, _adopt(definition, rules, live, subresource, now))
    key = key_of(manager, ManagedFieldsOperation.APPLY, subresource, definition.api_version)
    before = _bare(live)
    try:
        new, managers = _merged(rules, before, _bare(config), managers, key, force)
    except (ItemError, UntypedError) as error:
        raise TypedPatchError(f"failed to create typed live object ({_named(definition, live)}): {error}") from error
    changed = not equal(before, new)
    if changed and key in managers:
        managers[key] = managers[key].at(now)
    return with_managed_fields(new if changed else before, managers)


def fit(definition: Kindred, config: Mapping[str, Any]) -> None:
    """Raise TypedPatchError unless `config` fits the schema."""
    problems = misfits(definition.schema, config)
    if not problems:
        return
    raise TypedPatchError(
        f"failed to create typed patch object ({_named(definition, config)}): {misfit_text(problems)}"
    )


def _named(definition: Kindred, manifest: Mapping[str, Any]) -> str:
    """An object as such failures name it: `namespace/name; group/version, Kind=Kind`."""
    metadata = manifest.get("metadata")
    meta = metadata if isinstance(metadata, Mapping) else {}
    version = definition.api_version if "/" in definition.api_version else f"/{definition.api_version}"
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}; {version}, Kind={definition.kind_name}"


def _merged(
    rules: Rules,
    live: Mapping[str, Any],
    config: Mapping[str, Any],
    managers: Mapping[ManagerKey, ManagedFieldsEntry],
    key: ManagerKey,
    force: bool,
) -> tuple[Any, dict[ManagerKey, ManagedFieldsEntry]]:
    """The object after merging and dropping, and everybody's entries."""
    new = merge(rules.schema, live, config)
    owned = recursive_difference(field_set(rules.schema, config), rules.ignored)
    last = managers.get(key)
    after = dict(managers)
    after[key] = _claim(last, owned, rules.api_version)
    if last is not None and after[key] is not last:
        new = _drop(rules, new, last, after.values())
    after, _ = settle(rules, live, new, after, key, force=force)
    mine = without_metadata(after[key].fields)
    if mine:
        after[key] = after[key].owning(mine)
    else:
        del after[key]
    return new, after


def _claim(last: ManagedFieldsEntry | None, owned: FieldSet, api_version: str) -> ManagedFieldsEntry:
    """The applier's entry: its old one when it still says the same."""
    if last is None:
        return ManagedFieldsEntry(owned, api_version)
    fields = without_metadata(owned)
    if fields == last.fields and last.api_version == api_version:
        return last
    return ManagedFieldsEntry(owned, api_version, last.time)


def _drop(rules: Rules, merged: Any, last: ManagedFieldsEntry, entries: Iterable[ManagedFieldsEntry]) -> Any:
    """`merged` without what the applier owned and no longer sends, unless others own it (S-37 to S-44).

    An item that nobody owns as a whole goes with everything in it (S-41); a field below something that stays
    and that the applier did not own stays too (S-43). What is owned is looked for in the version it is said in.
    """
    owned: dict[str, FieldSet] = {last.api_version: EMPTY}
    for entry in entries:
        owned[entry.api_version] = union(owned.get(entry.api_version, EMPTY), entry.fields)
    if not difference(last.fields, owned[last.api_version]):
        return merged
    kind, version = rules.kind, last.api_version
    schema = kind.schema_of(version)
    merged = kind.in_version(merged, version)
    fields = with_named_fields(schema, last.fields)
    pruned: Any = remove(schema, merged, fields)
    whole = merged
    for at, everybody in owned.items():
        whole, pruned = kind.in_version(whole, at), kind.in_version(pruned, at)
        pruned = _without_unowned(kind.schema_of(at), whole, pruned, everybody)
    pruned = kind.in_version(pruned, version)
    gone = intersection(difference(_named_set(schema, merged), _named_set(schema, pruned)), fields)
    return kind.in_version(remove(schema, merged, gone), rules.api_version)


def _without_unowned(schema: Schema, whole: Any, pruned: Any, everybody: FieldSet) -> Any:
    """`whole` without what `pruned` lacks and nobody owns."""
    kept = union(_named_set(schema, pruned), with_named_fields(schema, everybody))
    return remove(schema, whole, difference(_named_set(schema, whole), kept))


def _named_set(schema: Schema, value: Any) -> FieldSet:
    return with_named_fields(schema, field_set(schema, value))


def track_update(
    definition: Kindred,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
    *,
    manager: str,
    subresource: str = "",
    now: str,
    managers: Managers | None = None,
) -> dict[str, Any]:
    """`after` with managedFields that say what `manager` changed since `before` (None: it created the object).

    Takes every changed field and removes it from others (S-47), adds nothing for what did not change (S-48),
    and drops what is gone from everybody (S-49). `managers` are those to start from, by default those of
    `before`; an existing object without any is not tracked until its first apply (S-54, S-68). An object whose
    list items cannot be told apart changes no ownership: validation has its say on it. One that a conversion fills with
    fields which the other version does not know loses all ownership, as on a real server.
    """
    rules = _rules(definition, subresource)
    held = current(rules, _managers_of(before) if managers is None else managers)
    if before is not None and not held:
        return with_managed_fields(after, {})
    old = definition.empty() if before is None else before
    key = key_of(manager, ManagedFieldsOperation.UPDATE, subresource, rules.api_version)
    try:
        out = _updated(rules, _bare(old), _bare(after), held, key, now)
    except ItemError:
        return with_managed_fields(after, _managers_of(before))
    except UntypedError:
        return with_managed_fields(after, {})
    return with_managed_fields(after, cap_updaters(out))


def _updated(
    rules: Rules, old: Any, new: Any, managers: Mapping[ManagerKey, ManagedFieldsEntry], key: ManagerKey, now: str
) -> dict[ManagerKey, ManagedFieldsEntry]:
    out, changes = settle(rules, old, new, managers, None, force=True)
    taken = without_metadata(changes.changed)
    if taken:
        mine = out.get(key)
        out[key] = ManagedFieldsEntry(taken if mine is None else union(mine.fields, taken), rules.api_version, now)
    return out


def _adopt(definition: Kindred, rules: Rules, live: Mapping[str, Any], subresource: str, now: str) -> Managers:
    """What exists before the first apply, and that its endpoint can change, is that of `before-first-apply` (S-54)."""
    key = key_of(BEFORE_FIRST_APPLY, ManagedFieldsOperation.UPDATE, subresource, rules.api_version)
    return _updated(rules, _bare(definition.empty()), _bare(live), {}, key, now)


def _rules(definition: Kindred, subresource: str) -> Rules:
    return Rules(definition, definition.reset_fields(subresource))


def _managers_of(live: Mapping[str, Any] | None) -> Managers:
    return {} if live is None else decode_managers(live["metadata"].get("managedFields"))


def _bare(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The object without managedFields, which own nothing and are owned by nobody."""
    meta = manifest.get("metadata")
    if not isinstance(meta, dict) or "managedFields" not in meta:
        return dict(manifest)
    return {**manifest, "metadata": {key: value for key, value in meta.items() if key != "managedFields"}}


def with_managed_fields(manifest: Mapping[str, Any], managers: Managers) -> dict[str, Any]:
    """`manifest` with the entries of `managers`, without the key when there are none (S-40)."""
    out = _bare(manifest)
    if managers:
        out["metadata"] = {**(out.get("metadata") or {}), "managedFields": encode_managers(managers)}
    return out
