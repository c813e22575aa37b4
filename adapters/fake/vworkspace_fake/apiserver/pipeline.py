"""What a write makes of an object: pure functions from a definition, the live object and a request.

    create(definition, body, write)                    POST
    update(definition, live, body, write)              PUT
    patch(definition, live, patch, patch_type, write)  JSON, merge and strategic merge patch
    apply(definition, live_or_None, body, write)       server-side apply

Each decodes, tracks ownership, lets the kind set what the server decides, and validates, in the order of a
real server, since that order decides who owns defaults and which error a client sees. Nothing is mutated.
"""

from collections.abc import Mapping
from typing import Any

from vworkspace_core.errors import Cause, Conflict
from vworkspace_core.ports import PatchType
from vworkspace_fake.apiserver.behaviour import Generation
from vworkspace_fake.apiserver.decoding import coerce, read_body, require_type
from vworkspace_fake.apiserver.definition import Definition
from vworkspace_fake.apiserver.failure import (
    ApiFailure,
    FailureCause,
    bad_request,
    field_conflict,
    internal,
    invalid,
    not_found,
    stale,
    unsupported_media_type,
)
from vworkspace_fake.apiserver.metadata import (
    check_common,
    check_metadata,
    check_metadata_update,
    finalizer_warnings,
    unique_owners,
)
from vworkspace_fake.apiserver.patches import json_patch, merge_patch
from vworkspace_fake.apiserver.requests import FieldValidation, Outcome, Write
from vworkspace_fake.apiserver.schema.causes import invalid_value
from vworkspace_fake.apiserver.schema.defaults import apply_defaults
from vworkspace_fake.apiserver.schema.equality import equal
from vworkspace_fake.apiserver.schema.validate import validate
from vworkspace_fake.apiserver.ssa import apply as ssa
from vworkspace_fake.apiserver.ssa.managers import ManagedFieldsError, Managers, decode_managers, is_reset
from vworkspace_fake.apiserver.strategic import strategic_merge

__all__ = ["apply", "create", "patch", "update"]

Manifest = Mapping[str, Any]

APPLY_TYPES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")


def create(definition: Definition, body: Any, write: Write) -> Outcome:
    """POST: the object that comes into being. Raises ApiFailure (400, 422)."""
    manifest, warnings = read_body(definition, require_type(definition, body), write.field_validation)
    if manifest["metadata"].get("resourceVersion"):
        raise internal("resourceVersion should not be set on objects to be created")
    manifest = _placed(definition, manifest, write)
    asked = manifest["metadata"].get("managedFields")
    manifest = ssa.track_update(
        definition,
        None,
        manifest,
        manager=write.manager,
        subresource=write.subresource,
        now=write.now,
        managers=_claimed(definition, asked, {}),
    )
    return _created(definition, manifest, write, warnings)


def update(definition: Definition, live: Manifest, body: Any, write: Write) -> Outcome:
    """PUT on the object or on a subresource. Raises ApiFailure (400, 409, 422)."""
    raw = require_type(definition, body)
    manifest, warnings = read_body(definition, raw, write.field_validation)
    uid = manifest["metadata"].get("uid")
    if uid and uid != live["metadata"]["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {live['metadata']['uid']}"
        raise _stale(definition, write, why)
    asked = (raw.get("metadata") or {}).get("managedFields")
    return _replaced(definition, live, manifest, write, warnings, asked)


def patch(definition: Definition, live: Manifest, patch_body: Any, patch_type: PatchType, write: Write) -> Outcome:
    """A patch that is no apply. Raises ApiFailure (400, 409, 413, 415, 422)."""
    match patch_type:
        case PatchType.JSON:
            patched = json_patch(live, patch_body)
        case PatchType.MERGE:
            patched = merge_patch(live, patch_body)
        case PatchType.STRATEGIC:
            if not definition.built_in:
                raise unsupported_media_type(APPLY_TYPES)
            patched = strategic_merge(definition.schema, live, patch_body)
    if not isinstance(patched, Mapping):
        raise bad_request("the patched document is no object")
    raw = require_type(definition, patched)
    manifest, warnings = _read_patched(definition, raw, write)
    asked = (raw.get("metadata") or {}).get("managedFields")
    return _replaced(definition, live, manifest, write, warnings, asked)


def _read_patched(definition: Definition, raw: Manifest, write: Write) -> tuple[Manifest, tuple[str, ...]]:
    if write.field_validation is not FieldValidation.STRICT:
        return read_body(definition, raw, write.field_validation)
    try:
        return read_body(definition, raw, write.field_validation)
    except ApiFailure as failure:
        cause = FailureCause("patch", f'Invalid value: "": {failure.message}')
        raise invalid("", "", "", (cause,)) from failure


def apply(definition: Definition, live: Manifest | None, body: Any, write: Write) -> Outcome:
    """Server-side apply, creating what does not exist. Raises ApiFailure (400, 404, 409, 422, 500)."""
    config = _config(definition, body)
    if live is None and write.subresource:
        raise not_found(definition.kind.group, definition.kind.plural, write.name)
    try:
        merged: Manifest = ssa.apply(
            definition,
            live,
            config,
            manager=write.manager,
            subresource=write.subresource,
            force=write.force,
            now=write.now,
        )
    except Conflict as conflict:
        causes = [FailureCause(one.field, one.detail, "FieldManagerConflict") for one in conflict.conflicts]
        raise field_conflict(conflict.message, causes) from conflict
    except ssa.TypedPatchError as error:
        raise internal(error.message) from error
    merged = definition.behaviour.read(apply_defaults(definition.schema, merged))
    meta, warnings = unique_owners(merged["metadata"])
    merged = {**merged, "metadata": meta}
    if live is not None:
        _check_place(definition, merged, write)
        return _settled(definition, live, merged, write, warnings)
    if meta.get("uid"):
        why = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
        raise _stale(definition, write, why)
    return _created(definition, _placed(definition, merged, write), write, warnings)


def _config(definition: Definition, body: Any) -> Manifest:
    """The applied configuration, when it is one of this kind (S-05, S-06)."""
    if not isinstance(body, Mapping):
        raise bad_request("error decoding patch: an apply configuration is an object")
    version, kind = body.get("apiVersion") or "", body.get("kind") or ""
    if (version, kind) != (definition.api_version, definition.kind.kind):
        shown = version if "/" in version else f"/{version}"
        raise bad_request(f"invalid object type: {shown}, Kind={kind}")
    meta = body.get("metadata")
    if isinstance(meta, Mapping) and meta.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    return body


def _placed(definition: Definition, manifest: Manifest, write: Write) -> Manifest:
    """A new object with the name and namespace of the request."""
    meta = dict(manifest["metadata"])
    if not meta.get("name") and write.generated_name:
        meta["name"] = write.generated_name
    if not definition.kind.namespaced:
        meta.pop("namespace", None)
    elif not meta.get("namespace"):
        meta["namespace"] = write.namespace
    manifest = {**manifest, "metadata": meta}
    _check_place(definition, manifest, write)
    return manifest


def _check_place(definition: Definition, manifest: Manifest, write: Write) -> None:
    """400 when the object says another name or namespace than the URL (S-07)."""
    meta = manifest["metadata"]
    if definition.kind.namespaced and meta.get("namespace", write.namespace) != write.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if write.name and meta.get("name", write.name) != write.name:
        text = f"the name of the object ({meta['name']}) does not match the name on the URL ({write.name})"
        raise bad_request(text)


def _claimed(definition: Definition, asked: Any, held: Managers) -> Managers:
    """The ownership to start from, given what the request says about managedFields (S-68, S-69)."""
    if is_reset(asked, built_in=definition.built_in):
        return {}
    if not asked:
        return held
    try:
        return decode_managers(asked, trusted=False) or held
    except ManagedFieldsError:
        return held


def _created(definition: Definition, manifest: Manifest, write: Write, warnings: tuple[str, ...]) -> Outcome:
    """The last steps of a creation: what the server decides, validation, storage form."""
    behaviour = definition.behaviour
    meta = {key: value for key, value in manifest["metadata"].items() if key not in _SYSTEM}
    meta |= {"uid": write.uid, "creationTimestamp": write.now}
    if behaviour.generation is not Generation.NEVER:
        meta["generation"] = 1
    manifest = {**manifest, "metadata": meta}
    if definition.status_subresource and "status" in manifest:
        manifest = {key: value for key, value in manifest.items() if key != "status"}
    manifest = behaviour.on_create(manifest)
    causes = check_metadata(meta, behaviour.name_rule, namespaced=definition.kind.namespaced)
    causes += [*validate(definition.schema, manifest), *behaviour.check(manifest)]
    _refuse(definition, meta.get("name", ""), causes)
    stored, _ = coerce(definition, manifest)
    return Outcome(stored, changed=True, created=True, warnings=(*warnings, *finalizer_warnings(meta, {})))


_SYSTEM = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion")


def _replaced(
    definition: Definition, live: Manifest, manifest: Manifest, write: Write, warnings: tuple[str, ...], asked: Any
) -> Outcome:
    """A whole new state by PUT or patch: track who changed what, then settle it."""
    meta = manifest["metadata"]
    if definition.kind.namespaced and not meta.get("namespace"):
        manifest = {**manifest, "metadata": {**meta, "namespace": live["metadata"]["namespace"]}}
    _check_place(definition, manifest, write)
    held = decode_managers(live["metadata"].get("managedFields"))
    tracked = ssa.track_update(
        definition,
        live,
        manifest,
        manager=write.manager,
        subresource=write.subresource,
        now=write.now,
        managers=held if write.subresource else _claimed(definition, asked, held),
    )
    owners, more = unique_owners(tracked["metadata"])
    return _settled(definition, live, {**tracked, "metadata": owners}, write, (*warnings, *more))


def _settled(
    definition: Definition, live: Manifest, manifest: Manifest, write: Write, warnings: tuple[str, ...]
) -> Outcome:
    """The last steps of every change: optimistic lock, what may not change, validation, no-ops."""
    behaviour = definition.behaviour
    _check_version(definition, live, manifest, write)
    manifest = _prepared(definition, live, manifest, write)
    causes = _update_causes(definition, live, manifest, write)
    _refuse(definition, write.name, causes)
    stored, _ = coerce(definition, _with_old_times(live, manifest))
    if equal(stored, live):
        return Outcome(live, changed=False, warnings=warnings)
    more = () if write.subresource else finalizer_warnings(stored["metadata"], live["metadata"])
    _ = behaviour
    return Outcome(stored, changed=True, warnings=(*warnings, *more))


def _check_version(definition: Definition, live: Manifest, manifest: Manifest, write: Write) -> None:
    """The optimistic lock: 409 when the request saw another state, 422 when the kind insists on one (S-74)."""
    asked, current = manifest["metadata"].get("resourceVersion"), live["metadata"].get("resourceVersion")
    if not asked and definition.behaviour.unconditional_update:
        return
    if not asked:
        cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(definition.kind.group, definition.kind.plural, write.name, _wire((cause,)))
    if asked != current:
        raise stale(definition.kind.group, definition.kind.plural, write.name)


def _prepared(definition: Definition, live: Manifest, manifest: Manifest, write: Write) -> Manifest:
    """The new state with everything in it that this endpoint cannot change put back."""
    old = live["metadata"]
    if write.subresource == "status":
        meta = {**old, "managedFields": manifest["metadata"].get("managedFields")}
        kept = {key: value for key, value in live.items() if key != "status"}
        status = {"status": manifest["status"]} if "status" in manifest else {}
        return {**kept, "metadata": _pure(meta), **status}
    manifest = _with_status_of(live, manifest) if definition.status_subresource else manifest
    meta = {**manifest["metadata"]}
    for key in ("generation", "creationTimestamp", "resourceVersion"):
        meta[key] = old.get(key)
    for key in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        meta[key] = meta.get(key) if key == "uid" and meta.get(key) else old.get(key, meta.get(key))
    manifest = definition.behaviour.on_update({**manifest, "metadata": _pure(meta)}, live)
    if _moves_generation(definition.behaviour.generation, live, manifest):
        manifest = {**manifest, "metadata": {**manifest["metadata"], "generation": old.get("generation", 0) + 1}}
    return manifest


def _pure(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in meta.items() if value is not None}


def _with_status_of(live: Manifest, manifest: Manifest) -> Manifest:
    if "status" in live:
        return {**manifest, "status": live["status"]}
    return {key: value for key, value in manifest.items() if key != "status"}


def _moves_generation(rule: Generation, live: Manifest, manifest: Manifest) -> bool:
    match rule:
        case Generation.NEVER:
            return False
        case Generation.SPEC:
            return not equal(live.get("spec"), manifest.get("spec"))
        case Generation.CONTENT:
            return not equal(_content(live), _content(manifest))


def _content(manifest: Manifest) -> dict[str, Any]:
    return {key: value for key, value in manifest.items() if key != "metadata"}


def _update_causes(definition: Definition, live: Manifest, manifest: Manifest, write: Write) -> list[Cause]:
    old, meta = live["metadata"], manifest["metadata"]
    causes = check_metadata_update(meta, old)
    if not definition.built_in:
        causes = causes * 2  # a real server looks twice at custom resources, and says everything twice
    if meta != old:
        causes += check_common(meta)
    causes += validate(definition.schema, manifest, live)
    return causes + (definition.behaviour.check_update(manifest, live) if not write.subresource else [])


def _with_old_times(live: Manifest, manifest: Manifest) -> Manifest:
    """When nothing but times of managedFields differs, the old times stay, so that no-ops are no-ops (S-65)."""
    old, new = live["metadata"].get("managedFields"), manifest["metadata"].get("managedFields")
    if not old or not new or len(old) != len(new) or old == new:
        return manifest
    if [_timeless(entry) for entry in old] != [_timeless(entry) for entry in new]:
        return manifest
    kept = {**manifest, "metadata": {**manifest["metadata"], "managedFields": old}}
    return kept if equal(kept, live) else manifest


def _timeless(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "time"}


def _refuse(definition: Definition, name: str, causes: list[Cause]) -> None:
    if causes:
        raise invalid(definition.kind.group, definition.kind.kind, name, _wire(causes))


def _wire(causes: Any) -> list[FailureCause]:
    return [FailureCause(cause.field, cause.message, cause.reason) for cause in causes]


def _stale(definition: Definition, write: Write, why: str) -> ApiFailure:
    return stale(definition.kind.group, definition.kind.plural, write.name, why)
