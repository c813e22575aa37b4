"""The decoding of a request body into an object of a kind: type, metadata, unknown fields, defaults.

kube-apiserver's decoder does the same before any other step (W-36).
"""

from collections.abc import Mapping
from typing import Any, Final

from kubelab.model.calls import FieldValidation, WriteRequest
from kubelab.model.definition import ServedKind
from kubelab.model.failure import bad_request, invalid
from kubelab.model.records import encode
from kubelab.writes.metadata import tidy
from kubelab.writes.typed_values import has_fraction, typed, whole_number
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.schema.causes import quoted
from purekube.schema.node import MISSING
from purekube.schema.objectmeta import OBJECT_META
from purekube.schema.pruning import apply_defaults, drop_nulls, prune
from purekube.schema.structure import check_structure

_SCALARS: Final = frozenset((str, int, bool, float, type(None)))


def placed(definition: ServedKind, manifest: Manifest, write: WriteRequest) -> Manifest:
    """Return `manifest` with the name and namespace under which it is stored.

    A missing name is replaced by the name that was generated for the request, if any, and a missing namespace by the
    request's. Raises ApiFailure 400 if the object has another name or namespace than the request.
    """
    meta = dict(manifest["metadata"])
    if not meta.get("name") and write.generated_name:
        meta["name"] = write.generated_name
    if not definition.kind.namespaced:
        meta.pop("namespace", None)
    elif not meta.get("namespace"):
        meta["namespace"] = write.namespace
    manifest = {**manifest, "metadata": meta}
    check_place(definition, manifest, write)
    return manifest


def check_place(definition: ServedKind, manifest: Manifest, write: WriteRequest) -> None:
    """Raise ApiFailure 400 if `manifest` has another name or namespace than the URL of the request `write`."""
    meta = manifest["metadata"]
    if definition.kind.namespaced and meta.get("namespace", write.namespace) != write.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if write.name and not meta.get("name"):
        text = f"the name of the object ({write.name} based on URL) was undeterminable: name must be provided"
        raise bad_request(text)
    if write.name and meta["name"] != write.name:
        text = f"the name of the object ({meta['name']}) does not match the name on the URL ({write.name})"
        raise bad_request(text)


def require_type(definition: ServedKind, body: Any) -> Mapping[str, Any]:
    """Return `body` if it is an object of the kind and version of `definition`. Raises ApiFailure 400 otherwise.

    The typed decoder of a built-in kind fills in `kind` and `apiVersion`, so clients may omit these fields.
    """
    if not isinstance(body, Mapping):
        raise _unrecognized(definition, body, "json parse error: json: cannot unmarshal into an object")
    # apiserver: handlers/create.go passes the expected kind as the decoder's default, and typed decoders use it; an
    # unstructured object has to say its own kind.
    if definition.built_in and not (body.get("kind") and body.get("apiVersion")):
        named = {"kind": definition.kind.kind, "apiVersion": definition.api_version}
        return require_type(definition, {**body, **{key: body.get(key) or name for key, name in named.items()}})
    if not body.get("kind"):
        raise _unrecognized(definition, body, f"Object 'Kind' is missing in '{encode(body).decode()}'")
    if not body.get("apiVersion"):
        raise _unrecognized(definition, body, f"Object 'apiVersion' is missing in '{encode(body).decode()}'")
    if body["apiVersion"] != definition.api_version:
        raise bad_request(
            f"the API version in the data ({body['apiVersion']}) does not match the expected API version "
            f"({definition.api_version})"
        )
    # Custom resources are decoded whatever their kind is; validation compares the kinds (apiextensions:
    # registry/customresource/validator.go, ValidateTypeMeta).
    if body["kind"] != definition.kind.kind and not definition.built_in:
        cause = StatusCause("kind", f'Invalid value: "{body["kind"]}": must be {definition.kind.kind}')
        name = str(get_path(body, "metadata", "name") or "")
        raise invalid(definition.kind.group, str(body["kind"]), name, (cause,))
    if body["kind"] != definition.kind.kind:
        raise bad_request(
            f"{body['kind']} in version {quoted(definition.kind.version)} cannot be handled as a "
            f"{definition.kind.kind}: converting ({body['apiVersion']}, Kind={body['kind']}) is not possible"
        )
    return body


def _unrecognized(definition: ServedKind, body: Any, why: str) -> Exception:
    # apiserver: handlers/rest.go, summarizeData: an object as text and other data in hexadecimal, 30 bytes of it.
    raw = encode(body)
    start = raw[:30].decode(errors="replace") if raw.startswith(b"{") else raw[:30].hex()
    known = f"the object provided is unrecognized (must be of type {definition.kind.kind})"
    return bad_request(f"{known}: {why} ({start}{' ...' if len(raw) > 30 else ''})")


def read_body(
    definition: ServedKind,
    body: Mapping[str, Any],
    validation: FieldValidation,
    settled: Mapping[str, Any] | None = None,
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return two values: the object that `body` describes, with defaults, and the warnings about unknown fields.

    `settled` is an earlier result of this function; parts that `body` shares with it are not read again. Raises 400 for
    metadata of the wrong shape and, under Strict, for unknown fields.
    """
    manifest, unknown = coerce(definition, body, settled)
    texts = tuple(f'unknown field "{path}"' for path in unknown)
    # All unknown fields come in one message, as kube-apiserver's strict decoder collects them.
    if texts and validation is FieldValidation.STRICT:
        raise bad_request(_handling(definition, f"strict decoding error: {', '.join(texts)}"))
    whole = completed(definition, manifest, manifest, settled)
    return whole, texts if validation is FieldValidation.WARN else ()


def sharing(old: Any, new: Any) -> Any:
    """Return `new`, in which parts that are equal in `old` are the same Python objects as in `old`.

    Later steps of a write skip such shared parts.
    """
    if new is old or type(new) in _SCALARS:
        return new
    # Bytes distinguish numbers and booleans that are equal in Python; comparing first avoids most of the encoding.
    if new == old and encode(new) == encode(old):
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: sharing(old[key], item) if key in old else item for key, item in new.items()}
    if isinstance(old, list) and isinstance(new, list):
        return [_shared_item(old, item, index, index - len(new)) for index, item in enumerate(new)]
    return new


def _shared_item(old: list[Any], item: Any, *places: int) -> Any:
    """Return the equal item of `old` at one of the `places`, of which negative ones count from the end; or `item`."""
    there = (old[at] for at in places if -len(old) <= at < len(old))
    return next((one for one in there if one == item and encode(one) == encode(item)), item)


def completed(
    definition: ServedKind,
    manifest: Mapping[str, Any],
    checked: Mapping[str, Any] | None = None,
    settled: Mapping[str, Any] | None = None,
) -> Mapping[str, Any]:
    """Return `manifest` with all defaults. Raises 400 where kube-apiserver's typed decoder would fail.

    The decoder fails on metadata of the wrong shape and, for built-in kinds, on any value of a wrong type. Custom
    resources are only validated later. If `checked` is given, its metadata was checked before: parts that `manifest`
    shares with it are not checked again, nor are managedFields. If `settled` is given, it is an object that has its
    defaults: parts that `manifest` shares with it are skipped.
    """
    old = MISSING if settled is None else settled
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict):
        raise _unreadable(definition, "metadata is no object")
    known = {} if checked is None else {**checked["metadata"], "managedFields": metadata.get("managedFields")}
    fresh = {key: value for key, value in metadata.items() if value is not None and known.get(key) is not value}
    _require_types(definition, check_structure(OBJECT_META, fresh, path="metadata"))
    manifest = apply_defaults(definition.schema, manifest, old)
    if definition.built_in:
        # Go's typed decoder leaves a field unset for null, so a null in the body of a built-in kind is as good as
        # absent.
        manifest = drop_nulls(definition.schema, manifest, old)
        rest = {key: value for key, value in manifest.items() if key != "metadata"}
        _require_types(definition, check_structure(definition.schema, rest, old, settled=settled is not None))
    return definition.behaviour.read(manifest)


def _require_types(definition: ServedKind, causes: list[StatusCause]) -> None:
    for cause in causes:
        if cause.reason == "FieldValueTypeInvalid":
            raise _unreadable(definition, f"{cause.field}: {cause.message}")


def _unreadable(definition: ServedKind, why: str) -> Exception:
    return bad_request(_handling(definition, f"json: cannot unmarshal: {why}"))


def coerce(
    definition: ServedKind, body: Mapping[str, Any], settled: Mapping[str, Any] | None = None
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return two values: `body` without unknown fields and forbidden nulls, and the paths of the unknown fields.

    A null is forbidden if the schema does not allow it. `settled` is an earlier result of this function; parts that
    `body` shares with it are skipped.
    """
    old = MISSING if settled is None else settled
    metadata, strange = _metadata(definition, body.get("metadata"), (settled or {}).get("metadata") or {})
    if definition.built_in and has_fraction(body) and (path := whole_number(definition.schema, body)) is not None:
        raise _unreadable(definition, f"number with a fraction into Go struct field {path} of an integer type")
    rest, unknown = prune(definition.schema, dict(body), old)
    rest = drop_nulls(definition.schema, as_typed(definition, rest, old), old)
    if metadata is not rest.get("metadata"):
        rest = {**rest, "metadata": metadata}
    return rest, (*strange, *unknown)


def as_typed(definition: ServedKind, manifest: Mapping[str, Any], settled: Any = MISSING) -> Any:
    """Return `manifest` with the values that Go's type of a built-in kind writes; unchanged for a custom resource.

    `settled` is an earlier result of this function; parts that `manifest` shares with it are skipped. Raises ApiFailure
    400 for text that is not a quantity where the type has one.
    """
    if not definition.built_in:
        return manifest
    done = typed(definition.schema, dict(manifest), lambda why: bad_request(_handling(definition, why)), settled)
    # kubernetes: apis/rbac/v1/types.go: the rules of a role are one of the few lists without omitempty.
    keeps = definition.kind.group == "rbac.authorization.k8s.io" and manifest.get("rules") == []
    return {**done, "rules": []} if keeps else done


def storage_form(
    definition: ServedKind,
    manifest: Mapping[str, Any],
    settled: Mapping[str, Any] | None = None,
    read: Mapping[str, Any] | None = None,
) -> Mapping[str, Any]:
    """Return `manifest` as it is stored: without the nulls, empty metadata and unknown fields that an apply can leave.

    To save time, parts that need no change are skipped. These are the parts that `manifest` shares with `settled`, an
    object in stored form, and the top-level members that it shares with `read`, a result of `read_body`.
    """
    meta = manifest["metadata"]
    kept = {key: value for key, value in (read or {}).items() if manifest.get(key) is value}
    old = {**(settled or {}), **kept}
    rest, _ = prune(definition.schema, dict(manifest), old)
    rest = drop_nulls(definition.schema, rest, old)
    tidied = tidy(meta)
    return rest if rest["metadata"] is tidied else {**rest, "metadata": tidied}


def _metadata(
    definition: ServedKind, metadata: Any, settled: Mapping[str, Any]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    if metadata is None:
        return {}, ()
    if not isinstance(metadata, dict):
        raise _unreadable(definition, "metadata is no object")
    # A PUT usually repeats most of what it read, and `sharing` has made equal parts the same objects.
    if metadata is settled:
        return metadata, ()
    known, strange = prune(OBJECT_META, metadata, settled)
    known = typed(OBJECT_META, known, bad_request, settled)
    present = {key: value for key, value in known.items() if value is not None and value is not settled.get(key)}
    _require_types(definition, check_structure(OBJECT_META, present, path="metadata"))
    return tidy(known), tuple(f"metadata.{path}" for path in strange)


def _handling(definition: ServedKind, why: str) -> str:
    kind = definition.kind
    return f"{kind.kind} in version {quoted(kind.version)} cannot be handled as a {kind.kind}: {why}"
