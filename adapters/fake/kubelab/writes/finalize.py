"""The last steps of every write.

They set the fields that the server decides, refuse changes of immutable fields, validate the object, and detect writes
that change nothing. For custom resources they follow apiextensions-apiserver's
`pkg/registry/customresource/strategy.go` and `status_strategy.go`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kubelab.model.calls import WriteOutcome, WriteRequest
from kubelab.model.definition import Behaviour, Generation, ServedKind
from kubelab.model.failure import ApiFailure, invalid, stale
from kubelab.writes.body_decoding import storage_form
from kubelab.writes.metadata import (
    check_common,
    check_kube_finalizers,
    check_metadata,
    check_metadata_update,
    finalizer_warnings,
)
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest
from purekube.schema.causes import invalid_value
from purekube.schema.node import MISSING
from purekube.schema.pruning import apply_defaults
from purekube.schema.structure import equal
from purekube.schema.violations import validate

_SYSTEM: Final = frozenset(
    ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion")
)
# kubernetes: apis/core/validation/validation.go, ValidateObjectMeta adds the check of finalizers, and the validations
# of these groups do not call it.
_FREE_FINALIZERS: Final = frozenset(
    ("admissionregistration.k8s.io", "apiextensions.k8s.io", "coordination.k8s.io", "policy")
)
"""The API groups whose built-in kinds accept finalizers with any name."""


def finalize_create(
    definition: ServedKind,
    manifest: Manifest,
    write: WriteRequest,
    warnings: tuple[str, ...] = (),
    read: Manifest | None = None,
) -> WriteOutcome:
    """Return the outcome of creating the object `manifest`, with `warnings` and the warnings of this step.

    Raises a 422 ApiFailure with all problems; if `write` defers validation, the outcome contains it instead. For a POST
    of a custom resource, `read` is the result of `body_decoding.read_body`, in which unknown fields and nulls are
    removed already. Parts that `manifest` shares with it are not searched for them again. Otherwise `read` is None.
    """
    behaviour = definition.behaviour
    meta = {key: value for key, value in manifest["metadata"].items() if key not in _SYSTEM}
    meta |= {"uid": write.uid, "creationTimestamp": write.now}
    # apiextensions: registry/customresource/strategy.go, PrepareForCreate: a client's own generation does not count.
    if behaviour.generation is not Generation.NEVER:
        meta["generation"] = 1
    manifest = {**manifest, "metadata": meta}
    if definition.status_subresource:
        # apiextensions: registry/customresource/strategy.go, PrepareForCreate drops the status without a warning.
        manifest = _without_status(manifest)
    if write.admit is not None:
        manifest = write.admit(manifest)
    manifest = behaviour.on_create(manifest)
    causes = check_metadata(manifest["metadata"], behaviour.name_rule, namespaced=definition.kind.namespaced)
    causes += _kube_finalizers(definition, meta)
    # The kind's own rules may rely on a valid schema.
    causes += validate(definition.schema, manifest, list_types=not definition.built_in) or behaviour.check(manifest)
    refusal = _refused(definition, manifest, causes, write)
    stored = storage_form(definition, manifest, read=read)
    shown = _with_default_status(definition, stored)
    warnings = (*warnings, *(_warned(definition, stored, None) if refusal is None else ()))
    default = shown is not stored
    return WriteOutcome(
        shown,
        changed=True,
        created=True,
        warnings=warnings,
        lacks_status=default,
        refusal=refusal,
        schema=None if default else definition.schema,
    )


def finalize_update(
    definition: ServedKind,
    live: Manifest,
    manifest: Manifest,
    write: WriteRequest,
    warnings: tuple[str, ...] = (),
    read: Manifest | None = None,
) -> WriteOutcome:
    """Return the outcome of changing the stored object `live` to `manifest`.

    Raises a 409 ApiFailure for a stale resourceVersion, and a 422 ApiFailure for an invalid `manifest`. If `write`
    defers validation, the outcome contains the 422 instead. For a PUT or patch of a custom resource, `read` is the
    result of `body_decoding.read_body`, from which unknown fields and nulls are removed already; parts of `manifest`
    that are the same objects as in `read` are not searched for unknown fields and nulls again. Otherwise `read` is
    None. `warnings` are the warnings so far, which the outcome repeats before its own.
    """
    _check_version(definition, live, manifest, write)
    manifest = _prepared(definition, live, manifest, write)
    refusal = _refused(definition, manifest, _causes(definition, live, manifest, write), write)
    stored = storage_form(definition, _with_old_times(live, manifest), live if write.settled else None, read)
    if refusal is None and not write.subresource:
        warnings = (*warnings, *_warned(definition, stored, live))
    # apiserver: storage/etcd3/store.go, GuaranteedUpdate: if the encoded object is the stored one, nothing is written
    # and the resourceVersion stays (S-65).
    if equal(stored, live):
        return WriteOutcome(live, changed=False, warnings=warnings)
    return WriteOutcome(stored, changed=True, warnings=warnings, refusal=refusal, schema=definition.schema)


def _with_default_status(definition: ServedKind, stored: Manifest) -> Manifest:
    """Return the new object `stored` with the default status that its schema declares, as readers see it.

    Return it unchanged if its kind is built in, or if its schema has no default status.
    """
    status = definition.schema.properties.get("status")
    if definition.built_in or "status" in stored or status is None or status.default is MISSING:
        return stored
    shown: Manifest = apply_defaults(definition.schema, dict(stored))
    return shown


def _check_version(definition: ServedKind, live: Manifest, manifest: Manifest, write: WriteRequest) -> None:
    """Raise 409 for a stale resourceVersion, and 422 if a required one is absent: the optimistic lock (S-74)."""
    asked, current = manifest["metadata"].get("resourceVersion"), live["metadata"].get("resourceVersion")
    if not asked and definition.behaviour.unconditional_update:
        return
    if not asked:
        # apiserver: registry/generic/registry/store.go, Update compares parsed versions, so the missing one is shown as
        # the number 0, and the error has the plural where others have the kind.
        cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(definition.kind.group, definition.kind.plural, write.name, (cause,))
    if asked != current:
        raise stale(definition.kind.group, definition.kind.plural, write.name)


def _prepared(definition: ServedKind, live: Manifest, manifest: Manifest, write: WriteRequest) -> Manifest:
    """Return the object `manifest` as it is to be stored instead of `live` (S-26, S-72).

    The fields that this endpoint cannot change have the values of `live`, and the generation is incremented if that is
    due.
    """
    old = live["metadata"]
    if write.subresource == "status":
        # apiextensions: registry/customresource/status_strategy.go, PrepareForUpdate starts from a copy of the old
        # object: of the new one only the status counts, and who owns it.
        meta = {**old, "managedFields": manifest["metadata"].get("managedFields")}
        status = {"status": manifest["status"]} if "status" in manifest else {}
        return {**_without_status(live), "metadata": _present(meta), **status}
    if definition.status_subresource:
        status = {"status": live["status"]} if "status" in live else {}
        manifest = {**_without_status(manifest), **status}
    manifest = definition.behaviour.on_update(
        {**manifest, "metadata": _with_system_fields(manifest["metadata"], old)}, live
    )
    if _moves_generation(definition.behaviour.generation, live, manifest):
        manifest = {**manifest, "metadata": {**manifest["metadata"], "generation": old.get("generation", 0) + 1}}
    return manifest


def _with_system_fields(meta: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata `meta` with the fields that only the server sets taken from `old`."""
    out = {**meta, **{key: old.get(key) for key in ("generation", "creationTimestamp", "resourceVersion")}}
    # apiserver: registry/rest/update.go, BeforeUpdate restores the creation time in silence, but a uid only if none is
    # given: another uid is then refused as immutable (S-09).
    out["uid"] = meta.get("uid") or old.get("uid")
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        # A deletion cannot be withdrawn, and a deletionTimestamp of the client's own is refused as immutable (S-76).
        out[key] = old.get(key, meta.get(key))
    return _present(out)


def _present(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in meta.items() if value is not None}


def _without_status(manifest: Manifest) -> dict[str, Any]:
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


def _causes(definition: ServedKind, live: Manifest, manifest: Manifest, write: WriteRequest) -> list[StatusCause]:
    old, meta = live["metadata"], manifest["metadata"]
    causes = check_metadata_update(meta, old)
    if not definition.built_in:
        causes = causes * 2  # kube-apiserver checks metadata of custom resources twice, and reports it twice
    if meta != old:
        causes += [*check_common(meta, old if write.settled else {}), *_kube_finalizers(definition, meta)]
    list_types = not definition.built_in
    problems = validate(definition.schema, manifest, live, settled=write.settled, list_types=list_types)
    return [*causes, *(problems or _own_causes(definition.behaviour, live, manifest, write))]


def _own_causes(behaviour: Behaviour, live: Manifest, manifest: Manifest, write: WriteRequest) -> Iterable[StatusCause]:
    if write.subresource:
        return behaviour.check_status(manifest, live) if write.subresource == "status" else ()
    return behaviour.check(manifest) if behaviour.check_update is None else behaviour.check_update(manifest, live)


def _kube_finalizers(definition: ServedKind, meta: Mapping[str, Any]) -> list[StatusCause]:
    """Return the problems of a built-in kind's finalizers. There are none if the kind's group permits any name."""
    strict = definition.built_in and definition.kind.group not in _FREE_FINALIZERS
    return check_kube_finalizers(meta.get("finalizers") or ()) if strict else []


def _warned(definition: ServedKind, new: Manifest, old: Manifest | None) -> Sequence[str]:
    """Return the warnings about a valid object. Those about new finalizers are only for custom resources."""
    if definition.built_in:
        warnings = definition.behaviour.warnings
        return () if warnings is None else warnings(new, old)
    return finalizer_warnings(new["metadata"], {} if old is None else old["metadata"])


def _with_old_times(live: Manifest, manifest: Manifest) -> Manifest:
    """Return `manifest` with the times of the old managedFields if nothing else differs, so that a no-op stays a no-op.

    kube-apiserver does so in `pkg/endpoints/handlers/fieldmanager/equality.go` (S-65).
    """
    old, new = live["metadata"].get("managedFields"), manifest["metadata"].get("managedFields")
    if not old or not new or len(old) != len(new) or old == new:
        return manifest
    if [_timeless(entry) for entry in old] != [_timeless(entry) for entry in new]:
        return manifest
    candidate = {**manifest, "metadata": {**manifest["metadata"], "managedFields": old}}
    return candidate if equal(candidate, live) else manifest


def _timeless(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "time"}


def _refused(
    definition: ServedKind, manifest: Manifest, causes: list[StatusCause], write: WriteRequest
) -> ApiFailure | None:
    """Raise the 422 failure of an object with the problems `causes`, or the failure of one that exceeds a limit.

    If the write defers validation, return the failure instead of raising it. Return None if there is no failure.
    """
    failure = None
    if causes:
        name = write.name or manifest["metadata"].get("name", "")
        failure = invalid(definition.kind.group, definition.kind.kind, name, causes)
    elif write.exceeds is not None:
        failure = write.exceeds(manifest)
    if failure is not None and not write.defers:
        raise failure
    return failure
