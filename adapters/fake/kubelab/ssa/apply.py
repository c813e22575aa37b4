"""Server-side apply and the tracking of other writes: the resulting object, and the owner of each field.

Pure functions over plain objects, which are never changed. Defaults, validation and the rules for metadata follow in
`kubelab.writes.pipeline`, which calls these functions.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kubelab.model.calls import WriteRequest
from kubelab.model.conversion import UntypedError
from kubelab.model.definition import ServedKind
from kubelab.ssa.conform import misfit_text, misfits
from kubelab.ssa.fieldset import EMPTY, FieldSet, difference, intersection, recursive_difference, union
from kubelab.ssa.managers import (
    ManagedFieldsEntry,
    ManagedFieldsOperation,
    ManagerKey,
    Managers,
    cap_updaters,
    decode_managers,
    encode_managers,
    key_of,
)
from kubelab.ssa.merge import merge, remove, with_named_fields
from kubelab.ssa.ownership import Rules, current, reset_fields, settle, without_metadata
from kubelab.ssa.typed import ItemError, field_set
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Manifest
from purekube.schema.node import Schema
from purekube.schema.structure import equal

# managedfields: skipnonapplied.go, NewSkipNonAppliedManager.
BEFORE_FIRST_APPLY: Final = "before-first-apply"


class TypedPatchError(OperatorError):
    """The error of an applied configuration that does not fit the schema: HTTP 500 without a reason (S-15 to S-17)."""


def apply(definition: ServedKind, live: Manifest | None, config: Manifest, write: WriteRequest) -> dict[str, Any]:
    """Return the object after the manager of `write` applied `config` to `live`, which is None for a missing object.

    The result has the new managedFields. If no value changes, the result equals `live` except for managedFields. If
    ownership does not change either, the result equals `live` in everything (S-65, S-66). Raises TypedPatchError if
    `config` does not fit the schema. Raises Conflict if `config` changes a field that another manager owns (S-30,
    S-78), unless the write has `force`: then the field is taken from that manager.
    """
    fit(definition, config)
    rules = _rules(definition, write)
    managers = current(rules, _managers_of(live))
    if live is None:
        live = definition.empty()
    elif not managers:
        # managedfields: skipnonapplied.go, Apply: the existing fields are recorded as an update of an empty object, so
        # the first apply can conflict with whatever is there.
        managers = current(rules, _adopt(rules, live, write))
    # An applier has one entry whatever versions it writes in; the entry takes the version of its last apply (S-63).
    key = key_of(write.manager, ManagedFieldsOperation.APPLY, write.subresource, definition.api_version)
    before = _bare(live)
    try:
        new, managers = _merged(rules, before, _bare(config), managers, key, write.force)
    # managedfields: structuredmerge.go, Apply: neither error has a status, so both become a 500. A live object that
    # does not fit its schema can hardly come from a request; a changed CRD brings it about.
    except (ItemError, UntypedError) as error:
        raise TypedPatchError(f"failed to create typed live object ({_named(definition, live)}): {error}") from error
    changed = not equal(before, new)
    # A changed value renews the time, even if the manager owns the same fields as before (S-67).
    if changed and key in managers:
        managers[key] = managers[key].at(write.now)
    # managedfields: managedfieldsupdater.go, Apply: an apply without a change returns a copy of the live object, so an
    # order of keys or a number's spelling in the configuration never counts as a change.
    return with_managed_fields(new if changed else before, managers)


def _rules(definition: ServedKind, write: WriteRequest) -> Rules:
    return Rules(definition, reset_fields(definition, write.subresource), write.settled)


def fit(definition: ServedKind, config: Manifest) -> None:
    """Raise TypedPatchError unless `config` fits the schema of the kind."""
    problems = misfits(definition.schema, config)
    if not problems:
        return
    raise TypedPatchError(
        f"failed to create typed patch object ({_named(definition, config)}): {misfit_text(problems)}"
    )


def _named(definition: ServedKind, manifest: Manifest) -> str:
    """Return an object's name as kube-apiserver's messages print it: `namespace/name; group/version, Kind=Kind`."""
    metadata = manifest.get("metadata")
    meta = metadata if isinstance(metadata, Mapping) else {}
    # managedfields: structuredmerge.go, objectGVKNN prints Go's GroupVersionKind, which begins with the slash after an
    # empty group.
    version = definition.api_version if "/" in definition.api_version else f"/{definition.api_version}"
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}; {version}, Kind={definition.kind.kind}"


def _merged(
    rules: Rules,
    live: Manifest,
    config: Manifest,
    managers: Mapping[ManagerKey, ManagedFieldsEntry],
    key: ManagerKey,
    force: bool,
) -> tuple[Any, dict[ManagerKey, ManagedFieldsEntry]]:
    """Return two values: `live` after merging the applied `config`, and the managedFields entries of all managers.

    Fields that the applier (`key`) owned and `config` omits are dropped.
    """
    new = merge(rules.schema, live, config)
    # SMD: merge/update.go, Updater.Apply: the fields that the endpoint resets are left out before pruning, so that an
    # apply to the main endpoint never drops what the same manager has in `status` (S-46).
    owned = recursive_difference(field_set(rules.schema, config), rules.ignored)
    last = managers.get(key)
    after = dict(managers)
    after[key] = _claim(last, owned, rules.api_version)
    # Fields are dropped before conflicts are determined, so that giving a field up never conflicts (S-38).
    if last is not None and after[key] is not last:
        new = _drop(rules, new, last, after.values())
    after, _ = settle(rules, live, new, after, key, force=force)
    # managedfields: stripmeta.go: the identity of the object is removed only after the merge, and only from the writer.
    mine = without_metadata(after[key].fields)
    if mine:
        after[key] = after[key].owning(mine)
    else:
        del after[key]
    return new, after


def _claim(last: ManagedFieldsEntry | None, owned: FieldSet, api_version: str) -> ManagedFieldsEntry:
    """Return the managedFields entry of an applier that now owns the fields `owned`.

    `last` is the applier's earlier entry, None if it has none. If `last` has the same fields and version, return `last`
    itself. Otherwise return a new entry with the time of `last`.
    """
    if last is None:
        return ManagedFieldsEntry(owned, api_version)
    fields = without_metadata(owned)
    if fields == last.fields and last.api_version == api_version:
        return last
    return ManagedFieldsEntry(owned, api_version, last.time)


def _drop(rules: Rules, merged: Any, last: ManagedFieldsEntry, entries: Iterable[ManagedFieldsEntry]) -> Any:
    """Return `merged` without the fields that the applier owned and now omits, unless other managers own them.

    `last` is the applier's earlier entry of managedFields; `entries` are the present entries of all managers. Removing
    a list item or map removes everything in it, even what other managers own in it, if no manager owns the item itself
    (S-41). A field that the applier did not own stays if its parent stays (S-43). Each entry names fields of its own
    version, so `merged` is converted to that version first. The rules are S-37 to S-44.
    """
    # SMD: merge/update.go, addBackOwnedItems: the version of the last apply comes first. A conversion could fail for an
    # object that lacks fields which another version requires.
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
    # SMD: merge/update.go, addBackDanglingItems: only what the applier itself owned may go, not its neighbours without
    # an owner.
    gone = intersection(difference(_named_set(schema, merged), _named_set(schema, pruned)), fields)
    return kind.in_version(remove(schema, merged, gone), rules.api_version)


def _without_unowned(schema: Schema, whole: Any, pruned: Any, everybody: FieldSet) -> Any:
    """Return `whole`, but without those of its fields that `pruned` lacks, unless a manager owns them.

    `everybody` has the fields that any manager owns.
    """
    kept = union(_named_set(schema, pruned), with_named_fields(schema, everybody))
    return remove(schema, whole, difference(_named_set(schema, whole), kept))


def _named_set(schema: Schema, value: Any) -> FieldSet:
    return with_named_fields(schema, field_set(schema, value))


def track_update(
    definition: ServedKind, before: Manifest | None, after: Manifest, write: WriteRequest, managers: Managers
) -> dict[str, Any]:
    """Return `after` with managedFields that record what the manager of `write` changed since `before`.

    `before` is None for a new object. The manager becomes the only owner of every field that it changed (S-47), and
    does not own fields that it did not change (S-48). Removed fields no longer have an owner (S-49). `managers` are the
    entries to start from. An existing object without entries is not tracked until its first apply (S-54, S-68). If list
    items cannot be distinguished, ownership stays as it is, because validation will refuse the object. If a conversion
    adds fields that the other version does not have, the object loses all ownership, as on kube-apiserver.
    """
    rules = _rules(definition, write)
    held = current(rules, managers)
    # A client may have stripped all ownership (S-68): tracking starts again with the first apply, not with an update.
    # managedfields: skipnonapplied.go, Update; a new object is tracked always, since DefaultTrackOnCreateProbability is
    # 1.
    if before is not None and not held:
        return with_managed_fields(after, {})
    old = definition.empty() if before is None else before
    key = key_of(write.manager, ManagedFieldsOperation.UPDATE, write.subresource, rules.api_version)
    try:
        out = _updated(rules, _bare(old), _bare(after), held, key, write.now)
    except ItemError:
        return with_managed_fields(after, _managers_of(before))
    # managedfields: fieldmanager.go, UpdateNoErrors: an update never fails because of ownership, it loses all entries.
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
        # managedfields: managedfieldsupdater.go, Update: an update runs under a name of its own and is merged with the
        # manager's earlier entry afterwards. So it also takes away fields of its own earlier entries in other versions.
        out[key] = ManagedFieldsEntry(taken if mine is None else union(mine.fields, taken), rules.api_version, now)
    return out


def _adopt(rules: Rules, live: Manifest, write: WriteRequest) -> Managers:
    """Return entries in which the manager `before-first-apply` owns every field that the endpoint can change (S-54).

    The first apply to an object without managedFields starts from these entries.
    """
    key = key_of(BEFORE_FIRST_APPLY, ManagedFieldsOperation.UPDATE, write.subresource, rules.api_version)
    return _updated(rules, _bare(rules.kind.empty()), _bare(live), {}, key, write.now)


def _managers_of(live: Manifest | None) -> Managers:
    return {} if live is None else decode_managers(live["metadata"].get("managedFields"))


def _bare(manifest: Manifest) -> dict[str, Any]:
    """Return the object without its managedFields, a field that no manager owns."""
    meta = manifest.get("metadata")
    if not isinstance(meta, dict) or "managedFields" not in meta:
        return dict(manifest)
    return {**manifest, "metadata": {key: value for key, value in meta.items() if key != "managedFields"}}


def with_managed_fields(manifest: Manifest, managers: Managers) -> dict[str, Any]:
    """Return `manifest` with `managers`, the entries by their identity, as its managedFields.

    Without entries the field is left out (S-40).
    """
    out = _bare(manifest)
    if managers:
        out["metadata"] = {**(out.get("metadata") or {}), "managedFields": encode_managers(managers)}
    return out
