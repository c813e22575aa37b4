"""The pipeline of writes: pure functions of a definition, the live object and a request.

    create(definition, body, write)                    POST
    update(definition, live, body, write)              PUT
    patch(definition, live, patch, patch_type, write)  JSON, merge and strategic merge patch
    apply(definition, live_or_None, body, write)       server-side apply

Each decodes the body, records which manager owns which field, calls the functions of a built-in kind (`Behaviour`), and
validates the object. The order is kube-apiserver's, since it decides who owns defaults and which error a client sees.
Nothing is mutated.
"""

from collections.abc import Mapping
from typing import Any, Final

from kubelab.model.calls import WriteOutcome, WriteRequest
from kubelab.model.definition import ServedKind
from kubelab.model.failure import (
    ApiFailure,
    bad_request,
    field_conflict,
    internal,
    not_found,
    patch_invalid,
    stale,
    unsupported_media_type,
)
from kubelab.model.scale import replicas_of, scale_of, scaled
from kubelab.ssa import apply as ssa
from kubelab.ssa.last_applied import apply_as
from kubelab.ssa.managers import ManagedFieldsError, Managers, decode_managers, is_reset
from kubelab.writes.body_decoding import as_typed, check_place, completed, placed, read_body, require_type, sharing
from kubelab.writes.finalize import finalize_create, finalize_update
from kubelab.writes.metadata import unique_owners
from kubelab.writes.patches import json_patch, strategic_merge
from kubelab.writes.typed_values import without_fractions
from purekube.apimachinery.errors import Conflict, StatusCause
from purekube.apimachinery.manifest import Manifest, get_path, merge_patch
from purekube.ports import PatchType

_PATCH_TYPES: Final = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")


def create(definition: ServedKind, body: Any, write: WriteRequest) -> WriteOutcome:
    """Return the outcome of creating the object in `body` (POST), which includes the object to store.

    Raises ApiFailure with status 400, 422 or 500.
    """
    raw = require_type(definition, body)
    manifest, warnings = read_body(definition, raw, write.field_validation)
    if manifest["metadata"].get("resourceVersion"):
        # kube-apiserver answers 500 here: the error comes from its storage layer, without a status of its own.
        raise internal("resourceVersion should not be set on objects to be created")
    read = _read(definition, manifest, write)
    manifest, more = _one_owner_each(placed(definition, manifest, write))
    manifest = ssa.track_update(definition, None, manifest, write, _claimed(definition, raw, None, write))
    return finalize_create(definition, manifest, write, (*warnings, *more), read)


def update(definition: ServedKind, live: Manifest, body: Any, write: WriteRequest) -> WriteOutcome:
    """Return the outcome of replacing the stored object `live`, or one of its subresources, by `body` (PUT).

    The outcome includes the object to store. Raises ApiFailure (400, 409, 422).
    """
    if write.subresource == "scale":
        return _scale(definition, live, body, write)
    settled = live if write.settled else None
    raw = require_type(definition, body if settled is None else sharing(settled, body))
    manifest, warnings = read_body(definition, raw, write.field_validation, settled)
    uid = manifest["metadata"].get("uid")
    # apiserver: registry/rest/update.go, Preconditions makes a uid in the body a precondition of the storage, so a PUT
    # answers 409 where an apply answers 422 (S-09). The real message has the storage's error around this text.
    if uid and uid != live["metadata"]["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {live['metadata']['uid']}"
        raise stale(definition.kind.group, definition.kind.plural, write.name, why)
    return _replaced(definition, live, manifest, write, warnings, _claimed(definition, raw, live, write))


def patch(
    definition: ServedKind, live: Manifest, patch_body: Any, patch_type: PatchType, write: WriteRequest
) -> WriteOutcome:
    """Return the outcome of patching the stored object `live` with `patch_body`, other than by a server-side apply.

    The outcome includes the object to store. Raises ApiFailure (400, 409, 413, 415, 422).
    """
    # A CRD has no Go struct with patch tags, so kube-apiserver answers 415 (S-11).
    if patch_type is PatchType.STRATEGIC and not definition.built_in:
        raise unsupported_media_type(_PATCH_TYPES)
    document = scale_of(definition, live) if write.subresource == "scale" else live
    match patch_type:
        case PatchType.JSON:
            patched = json_patch(document, patch_body)
        case PatchType.MERGE:
            patched = merge_patch(document, patch_body)
        case PatchType.STRATEGIC:
            # Only here, kube-apiserver reads the patched object from Go values instead of JSON text.
            patched = strategic_merge(definition.schema, document, without_fractions(patch_body))
    if write.subresource == "scale":
        return _scale(definition, live, patched, write)
    settled = live if write.settled else None
    raw = require_type(definition, patched if settled is None else sharing(settled, patched))
    manifest, warnings = _read_patched(definition, raw, write, settled)
    return _replaced(definition, live, manifest, write, warnings, _claimed(definition, raw, live, write))


def apply(definition: ServedKind, live: Manifest | None, body: Any, write: WriteRequest) -> WriteOutcome:
    """Return the outcome of applying `body` server-side to the stored object `live`.

    If `live` is None, the object is created. The outcome includes the object to store. Raises ApiFailure (400, 404,
    409, 422, 500).
    """
    config = _config(definition, body, write)
    # An apply creates, but not through `/status` (S-12).
    if live is None and write.subresource:
        raise not_found(definition.kind.group, definition.kind.plural, write.name)
    merged = _applied(definition, live, config, write)
    merged = sharing(live, merged) if write.settled else merged
    # managedfields: structuredmerge.go, Apply defaults the result only if the apply changed the object.
    if live is None or not _same_content(merged, live):
        settled = live if write.settled else None
        merged = completed(definition, as_typed(definition, merged, settled), live, settled)
    merged, warnings = _one_owner_each(merged)
    if live is not None:
        check_place(definition, merged, write)
        return finalize_update(definition, live, merged, write, warnings)
    uid = merged["metadata"].get("uid")
    # Only a uid prevents the creation of a missing object; a resourceVersion is ignored (S-08, S-10).
    if uid:
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise stale(definition.kind.group, definition.kind.plural, write.name, why)
    return finalize_create(definition, placed(definition, merged, write), write, warnings)


def _same_content(merged: Manifest, live: Manifest) -> bool:
    """Report whether an apply changed nothing except managedFields. `merged` is the object after the apply.

    If so, the caller adds no defaults to the object, even if its stored version is not that of the request.
    """
    rest = [(merged.get(key), live.get(key)) for key in {*merged, *live} - {"metadata"}]
    return all(one is other for one, other in rest) and not [
        key
        for key in {*merged["metadata"], *live["metadata"]} - {"managedFields"}
        if merged["metadata"].get(key) is not live["metadata"].get(key)
    ]


def _config(definition: ServedKind, body: Any, write: WriteRequest) -> Manifest:
    """Return the applied configuration `body` if it is of this kind. Raises 400 otherwise (S-05, S-06)."""
    if not isinstance(body, Mapping):
        raise bad_request("error decoding patch: an apply configuration is an object")
    if write.subresource == "scale":
        return scaled(definition, replicas_of(body, write.name))
    version, kind = body.get("apiVersion") or "", body.get("kind") or ""
    if (version, kind) != (definition.api_version, definition.kind.kind):
        shown = version if "/" in str(version) else f"/{version}"
        raise bad_request(f"invalid object type: {shown}, Kind={kind}")
    meta = body.get("metadata")
    # Even an empty list is 400 (S-05): otherwise an applier could give itself fields.
    if isinstance(meta, Mapping) and meta.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    return body


def _applied(definition: ServedKind, live: Manifest | None, config: Manifest, write: WriteRequest) -> Manifest:
    try:
        return apply_as(definition, live, config, write)
    except Conflict as conflict:
        causes = [StatusCause(entry.field, entry.detail, "FieldManagerConflict") for entry in conflict.conflicts]
        raise field_conflict(conflict.message, causes) from conflict
    # 500 without a reason, whatever the field validation: kube-apiserver does not map this error (S-15 to S-17).
    except ssa.TypedPatchError as error:
        raise internal(error.message) from error


def _read_patched(
    definition: ServedKind, raw: Manifest, write: WriteRequest, settled: Manifest | None
) -> tuple[Manifest, tuple[str, ...]]:
    """Return two values: the patched object `raw` as `read_body` reads it, and its warnings.

    An error is a 422 about the field `patch` instead of the 400 of `read_body`.
    """
    try:
        return read_body(definition, raw, write.field_validation, settled)
    except ApiFailure as failure:
        # apiserver: handlers/patch.go, jsonPatcher.applyPatchToCurrentObject. It also quotes the whole patched object
        # as the invalid value, which is left out here.
        raise patch_invalid(failure.message) from failure


def _replaced(
    definition: ServedKind,
    live: Manifest,
    manifest: Manifest,
    write: WriteRequest,
    warnings: tuple[str, ...],
    managers: Managers,
) -> WriteOutcome:
    """Return the outcome of a PUT or patch whose new state is `manifest`, after tracking ownership."""
    meta = manifest["metadata"]
    if definition.kind.namespaced and not meta.get("namespace"):
        manifest = {**manifest, "metadata": {**meta, "namespace": live["metadata"]["namespace"]}}
    check_place(definition, manifest, write)
    tracked: Manifest = ssa.track_update(definition, live, manifest, write, managers)
    tracked, more = _one_owner_each(tracked)
    return finalize_update(definition, live, tracked, write, (*warnings, *more), _read(definition, manifest, write))


def _read(definition: ServedKind, manifest: Manifest, write: WriteRequest) -> Manifest | None:
    """Return `manifest`, the new state as `read_body` returned it, if it will be stored in this form; otherwise None.

    The result is None for a built-in kind, because the kind's own rules may still change parts of the object. It is
    None for a Scale, because a Scale is not stored.
    """
    return None if definition.built_in or write.subresource == "scale" else manifest


def _scale(definition: ServedKind, live: Manifest, body: Any, write: WriteRequest) -> WriteOutcome:
    """Return the outcome of a write of the scale subresource: only the number of replicas has an effect (S-51)."""
    if not isinstance(body, Mapping):
        raise bad_request("a Scale is an object")
    # apiextensions: registry/customresource/etcd.go takes the resourceVersion from a Scale only if it has one, so a
    # Scale without one is written unconditionally.
    version = get_path(body, "metadata", "resourceVersion") or live["metadata"].get("resourceVersion")
    manifest = scaled(definition, replicas_of(body, write.name), live)
    manifest = {**manifest, "metadata": {**live["metadata"], "resourceVersion": version}}
    return _replaced(definition, live, manifest, write, (), _live_managers(live))


def _live_managers(live: Manifest) -> Managers:
    return decode_managers(live["metadata"].get("managedFields"))


def _claimed(definition: ServedKind, raw: Manifest, live: Manifest | None, write: WriteRequest) -> Managers:
    """Return the managers from which a write starts: those in the body `raw`, or else those of `live`.

    The managedFields in a body count only if they are valid, and on the main endpoint only (S-68, S-69).
    """
    # managedfields: fieldmanager.go, decodeLiveOrNew ignores the managedFields of a request to a subresource.
    if write.subresource and live is not None:
        return _live_managers(live)
    asked = (raw.get("metadata") or {}).get("managedFields")
    if is_reset(asked, built_in=definition.built_in):
        return {}
    held = {} if live is None else _live_managers(live)
    # Most requests repeat the entries that they read: these were written by the server, and need no check.
    if not asked or (live is not None and asked == live["metadata"].get("managedFields")):
        return held
    try:
        # managedfields: fieldmanager.go, decodeLiveOrNew: clients that do not know the field cannot delete it by
        # accident.
        return decode_managers(asked, trusted=False) or held
    except ManagedFieldsError:
        return held


def _one_owner_each(manifest: Manifest) -> tuple[Manifest, tuple[str, ...]]:
    meta, warnings = unique_owners(manifest["metadata"])
    return (manifest if meta is manifest["metadata"] else {**manifest, "metadata": meta}), warnings
