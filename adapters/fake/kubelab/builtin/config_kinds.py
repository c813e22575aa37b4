"""The definitions of the built-in kinds Namespace, ConfigMap, Secret, ServiceAccount and Lease."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from kubelab.builtin.definition_builder import built_in, filled
from kubelab.model.definition import Behaviour, NameRule
from kubelab.writes.metadata import qualified_causes
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest
from purekube.schema.builtin import basic_schemas as schemas
from purekube.schema.causes import forbidden_value, invalid_value, required, too_long
from purekube.schema.structure import equal

# kubernetes: apis/core/types.go, MaxSecretSize.
MAX_DATA: Final = 1_048_576
"""The most bytes that the data of a ConfigMap or Secret may have in total (more is 422, as on kube-apiserver)."""

_KEY_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")
_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def _check_keys(where: str, data: Mapping[str, Any]) -> Iterator[StatusCause]:
    for key in data:
        if not key or len(key) > 253 or not set(key) <= _KEY_CHARACTERS:
            yield invalid_value(f"{where}[{key}]", key, _KEY_TEXT)
        elif key in (".", ".."):
            yield invalid_value(f"{where}[{key}]", key, f"must not be '{key}'")


def _decoded_size(data: Mapping[str, str]) -> int:
    # The limit is on the decoded bytes; the length of base64 tells them without decoding.
    return sum(len(value) * 3 // 4 - value[-2:].count("=") for value in data.values())


def _check_frozen(new: Manifest, old: Manifest, *fields: str) -> Iterator[StatusCause]:
    """Yield a problem for each of `fields` that differs in `new` and `old`, if `old` has `immutable: true`.

    Changing `immutable` itself is a problem, too.
    """
    for key in (*fields, "immutable") if old.get("immutable") else ():
        if not equal(new.get(key), old.get(key)):
            yield forbidden_value(key, "field is immutable when `immutable` is set")


def _check_config_map(manifest: Manifest) -> Iterator[StatusCause]:
    data, binary = manifest.get("data") or {}, manifest.get("binaryData") or {}
    yield from _check_keys("data", data)
    yield from _check_keys("binaryData", binary)
    for key in filter(binary.__contains__, data):
        yield invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
    if sum(len(value.encode()) for value in data.values()) + _decoded_size(binary) > MAX_DATA:
        yield too_long("", MAX_DATA)


def _read_secret(manifest: Manifest) -> Manifest:
    """Return a Secret whose `stringData` is moved into `data`, with the default type, Opaque."""
    out = filled({key: value for key, value in manifest.items() if key != "stringData"}, type="Opaque")
    plain = manifest.get("stringData")
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        # kubernetes: apis/core/v1/conversion.go: stringData wins over data, and is never stored.
        out["data"] = {**(out.get("data") or {}), **encoded}
    return out


# kubernetes: apis/core/validation/validation.go, ValidateSecret.
_REQUIRED_KEYS: Final = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
}

_BASIC: Final = ("username", "password")
_NO_JSON: Final = 'Invalid value: "<secret contents redacted>": invalid character'


def _check_secret(manifest: Manifest) -> Iterator[StatusCause]:
    data = manifest.get("data") or {}
    yield from _check_keys("data", data)
    if _decoded_size(data) > MAX_DATA:
        yield too_long("data", MAX_DATA)
    yield from _check_type(manifest["type"], data)
    account = (manifest["metadata"].get("annotations") or {}).get("kubernetes.io/service-account.name")
    if manifest["type"] == "kubernetes.io/service-account-token" and not account:
        yield required("metadata.annotations[kubernetes.io/service-account.name]")


def _check_type(kind: str, data: Mapping[str, str]) -> Iterator[StatusCause]:
    """Yield the problems that a Secret's data has under its type: missing keys, and content that is not JSON."""
    if kind == "kubernetes.io/basic-auth" and not data.keys() & _BASIC:
        yield from (required(f"data[{key}]") for key in _BASIC)
    for key in _REQUIRED_KEYS.get(kind, ()):
        if key not in data or (kind == "kubernetes.io/ssh-auth" and not data[key]):
            yield required(f"data[{key}]")
        elif key.startswith(".docker") and not _is_object(data[key]):
            yield StatusCause(f"data[{key}]", _NO_JSON, "FieldValueInvalid")


def _is_object(encoded: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(base64.b64decode(encoded)), dict)
    except (ValueError, RecursionError):
        return False


def _check_secret_update(new: Manifest, old: Manifest) -> Iterator[StatusCause]:
    if new.get("type") != old.get("type"):
        yield invalid_value("type", new.get("type"), "field is immutable")
    yield from _check_secret(new)
    yield from _check_frozen(new, old, "data")


def _update_secret(new: Manifest, old: Manifest) -> Manifest:
    """Return the updated Secret. The Secret keeps its type if a PUT leaves the type out."""
    # kubernetes: registry/core/secret/strategy.go, PrepareForUpdate; without it every PUT by an old client would be
    # refused.
    return {**new, "type": old["type"]} if not new.get("type") and old.get("type") else new


def _read_namespace(manifest: Manifest) -> Manifest:
    """Return the namespace with its name as a label, unless its name is still to be generated."""
    meta = manifest["metadata"]
    # The label is a default of the decoder, so the manager that creates the namespace owns it (kubernetes:
    # apis/core/v1/defaults.go, SetDefaults_Namespace).
    return {**manifest, "metadata": _labelled(meta)} if meta.get("name") else manifest


def _labelled(meta: Manifest) -> dict[str, Any]:
    return {**meta, "labels": {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta["name"]}}


def _create_namespace(manifest: Manifest) -> Manifest:
    """Return a new namespace with its name as a label, the finalizer `kubernetes` and the phase Active."""
    finalizers = (manifest.get("spec") or {}).get("finalizers") or []
    spec = {"finalizers": finalizers if "kubernetes" in finalizers else [*finalizers, "kubernetes"]}
    # A generated name comes after defaulting and tracking, so no manager owns the label then (kubernetes:
    # registry/core/namespace/strategy.go, Canonicalize).
    meta = manifest["metadata"]
    meta = _labelled(meta) if meta.get("name") else meta
    return {**manifest, "metadata": meta, "spec": spec, "status": {"phase": "Active"}}


def _update_namespace(new: Manifest, old: Manifest) -> Manifest:
    """Return the updated namespace with its old `spec.finalizers`, which only `/finalize` changes, and its label."""
    return {**new, "metadata": _labelled(new["metadata"]), "spec": old.get("spec", {})}


def _check_namespace(manifest: Manifest) -> Iterator[StatusCause]:
    for name in (manifest.get("spec") or {}).get("finalizers") or ():
        yield from qualified_causes(name, "spec.finalizers")


def _check_lease(manifest: Manifest) -> Iterator[StatusCause]:
    spec = manifest.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield invalid_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0")


CONFIGS: Final = (
    built_in(
        schemas.NAMESPACE,
        Behaviour(
            skeleton={"spec": {}, "status": {}},
            name_rule=NameRule.LABEL,
            read=_read_namespace,
            on_create=_create_namespace,
            on_update=_update_namespace,
            check=_check_namespace,
            check_update=lambda new, old: (),
        ),
        short_names=("ns",),
        selectable_fields=("status.phase",),
    ),
    built_in(
        schemas.CONFIG_MAP,
        Behaviour(
            check=_check_config_map,
            check_update=lambda new, old: [*_check_config_map(new), *_check_frozen(new, old, "data", "binaryData")],
        ),
        short_names=("cm",),
    ),
    built_in(
        schemas.SECRET,
        Behaviour(read=_read_secret, on_update=_update_secret, check=_check_secret, check_update=_check_secret_update),
        selectable_fields=("type",),
    ),
    built_in(schemas.SERVICE_ACCOUNT, Behaviour(), short_names=("sa",)),
    built_in(
        schemas.LEASE,
        Behaviour(
            unconditional_update=False,
            skeleton={"spec": {}},
            read=lambda manifest: filled(manifest, spec={}),
            check=_check_lease,
        ),
    ),
)
