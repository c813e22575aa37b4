"""Kubernetes objects as plain JSON-like mappings, and the few pure functions that all packages need on them.

Manifests of other projects' kinds are never turned into classes: they stay mappings as the API server sent them, read
with `get_path` and compared by content.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, overload

import attrs
import msgspec


def equal_scalars(live: Any, desired: Any) -> bool:
    """Report whether two scalars are equal for the API server: 1 equals 1.0 (S-29), but True does not equal 1."""
    return bool(live == desired) and isinstance(live, bool) == isinstance(desired, bool)


Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list of Json, dict of str to Json."""

Manifest: TypeAlias = Mapping[str, Any]
"""A full Kubernetes object as the API server sends it, in decoded JSON. Treat it as read-only."""

_LEAVES: Final = frozenset((int, float, bool, type(None)))
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which `kubectl apply` without `--server-side` keeps the configuration that it applied last."""
_NO_VERSION = "1"

_encoder = msgspec.json.Encoder(order="deterministic")


@attrs.frozen(order=True, cache_hash=True)
class Kind:
    """A resource type, with the facts that API discovery returns about it.

    `group` is empty for the core group; `plural` is the path segment (`helmreleases`).
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion`: `group/version`, or only the version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition that would serve this kind."""
        return f"{self.plural}.{self.group}"

    def manifest(
        self, name: str, namespace: str | None = None, metadata: Mapping[str, Any] = {}, **fields: Any
    ) -> dict[str, Any]:
        """Return a new manifest with this name and, unless it is None, this namespace.

        `metadata` has further metadata, such as labels, and `fields` are further fields, such as `spec`.
        """
        meta = {"name": name, **({} if namespace is None else {"namespace": namespace}), **metadata}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": meta, **fields}


@attrs.frozen(order=True, cache_hash=True)
class ObjectRef:
    """The identity of an object by kind and name. `namespace` is None exactly for cluster-scoped kinds."""

    kind: Kind
    namespace: str | None
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.kind} {where}"


def canonical_json(value: Json) -> bytes:
    """Encode JSON with sorted keys and no spaces: equal content gives equal bytes in every process."""
    return _encoder.encode(value)


def encoded_fields(manifest: Manifest) -> dict[str, bytes]:
    """Return the canonical JSON of each top-level field whose value is an object or a list, except `metadata`.

    With the results for a desired and a live object, the two objects are compared field by field as bytes.
    """
    return {
        key: _encoder.encode(value)
        for key, value in manifest.items()
        if key != "metadata" and isinstance(value, dict | list)
    }


def content_hash(value: Json) -> str:
    """Return the first 16 hex digits of the SHA-256 of the canonical JSON.

    This is the value of the annotation `vworkspace.io/applied-hash` (PH-2).
    """
    return hashlib.sha256(_encoder.encode(value)).hexdigest()[:16]


def text_or_empty(value: Json) -> str:
    """Return a JSON value if it is a string; "" otherwise."""
    return value if isinstance(value, str) else ""


def get_path(value: Json, *path: str | int) -> Json:
    """Return the value at `path`, or None if any step is missing or of another shape. Never raises."""
    for step in path:
        # A value off the wire is a dict or absent: checking this first avoids the slow check of the abstract class.
        if type(value) is dict:
            value = value.get(step)
        elif value is None:
            return None
        elif isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def metadata(manifest: Manifest) -> Mapping[str, Any]:
    """Return the object's metadata; an empty mapping if the object has none."""
    meta = manifest.get("metadata")
    return meta if type(meta) is dict or isinstance(meta, Mapping) else {}


def is_terminating(live: Manifest | None) -> bool:
    """Report whether the object exists and its deletion has been requested."""
    return live is not None and bool(metadata(live).get("deletionTimestamp"))


def with_preconditions(manifest: Manifest, live: Manifest | None) -> dict[str, Any]:
    """Return `manifest` with the uid and resourceVersion of `live`, so that an apply changes only that state (RUN-4).

    If the object was replaced or changed since, the server refuses the apply as Stale. If `live` is None, the manifest
    gets a resourceVersion that no object has. The apply then creates an absent object, for which the server ignores the
    version, and is refused for an existing one (S-10).
    """
    meta = metadata(live) if live is not None else {"resourceVersion": _NO_VERSION}
    pinned = {name: meta[name] for name in ("uid", "resourceVersion") if name in meta}
    return {**manifest, "metadata": {**metadata(manifest), **pinned}}


def ref_of(manifest: Manifest, kind: Kind) -> ObjectRef:
    """Return a reference to `manifest`, which is known to be of `kind`."""
    meta = metadata(manifest)
    return ObjectRef(kind, meta.get("namespace") if kind.namespaced else None, str(meta.get("name", "")))


@overload
def merge_patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]: ...


@overload
def merge_patch(target: object, patch: object) -> Any: ...


def merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` with a JSON merge patch (RFC 7396) applied: null removes, mappings merge, other values
    replace.
    """
    if type(patch) is not dict and not isinstance(patch, Mapping):
        return patch
    patched = dict(target) if type(target) is dict or isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            patched.pop(key, None)
        else:
            patched[key] = merge_patch(patched.get(key), value)
    return patched


def patch_between(target: Mapping[str, Any], desired: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch that turns `target` into `desired`.

    `desired` must not add a null, since a merge patch cannot express that.
    """
    patch: dict[str, Any] = {key: None for key in target if key not in desired}
    for key, value in desired.items():
        under = target.get(key)
        if type(value) is str and type(under) is str:  # most values: they need no walk
            if under != value:
                patch[key] = value
            continue
        if key in target and same_json(under, value):  # for `==`, 1 is True, in lists and below mappings too
            continue
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            patch[key] = patch_between(under, value)
        else:
            patch[key] = value
    return patch


def same_json(first: Json, second: Json) -> bool:
    """Report whether two JSON values are equal, regardless of key order and of how numbers are written."""
    # A stack instead of recursion: free objects may be nested as deep as the API server permits. It has one entry per
    # level at most, because the garbage collector visits each.
    stack: list[Iterator[tuple[Json, Json]]] = [iter(((first, second),))]
    while stack:
        for left, right in stack[-1]:
            if type(left) is str:  # most leaves: the checks below take most of the time of a settled decision
                if left != right:
                    return False
            elif type(left) in _LEAVES:
                if not _same_leaf(left, right):
                    return False
            elif (members := _members(left, right)) is not None:
                stack.append(members)
                break
            elif not _same_leaf(left, right):
                return False
        else:
            stack.pop()
    return True


def _is_mapping(value: Json) -> bool:
    return type(value) is dict or isinstance(value, Mapping)


def _members(left: Json, right: Json) -> Iterator[tuple[Json, Json]] | None:
    """Return the pairs of members of two objects with the same keys, or of two lists of the same length.

    Return None for any other two values.
    """
    if _is_mapping(left) and _is_mapping(right):
        return ((item, right[key]) for key, item in left.items()) if left.keys() == right.keys() else None
    if isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        return zip(left, right, strict=True)
    return None


def _same_leaf(left: Json, right: Json) -> bool:
    return isinstance(left, bool) is isinstance(right, bool) and left == right
