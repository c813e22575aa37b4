"""Conversion of manifests of the operator's own kinds into attrs objects, and back.

The object in every watch event is converted here, so conversion has to be fast: one generated function per class does
it. Only an object that does not fit its class is read a second time, slowly, to report all its problems at once (RES-1
to RES-3).
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar
from weakref import ref

import msgspec

from purekube.apimachinery import structuring
from purekube.apimachinery.converters import FAST, STRICT
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.apimachinery.nesting import TOO_DEEP, too_deep
from purekube.apimachinery.problems import Problem, ValidationProblems, type_name
from purekube.apimachinery.structuring import structure, structure_patiently
from vworkspace_core.api.application_instance import ApplicationInstance, ApplicationInstanceSpec
from vworkspace_core.api.classes import BY_TYPE, CLASSES, class_of
from vworkspace_core.api.cluster import Cluster
from vworkspace_core.api.operation import Operation

T = TypeVar("T")

_LONGEST_REMEMBERED: Final = 8 * 1024
"""The largest spec, in bytes of JSON, that equal copies of an instance share.

Parsing a larger spec takes only a small part of its reconcile pass.
"""

_read_spec = FAST.get_structure_hook(ApplicationInstanceSpec)
_SHARED: dict[int, "ref[ApplicationInstanceSpec]"] = {}
"""The shared specs by `id()`. The references are weak, since Python reuses the id of an object that is gone."""


@lru_cache(maxsize=128)
def shared_spec(raw: bytes) -> ApplicationInstanceSpec:
    """Return the spec that the JSON `raw` encodes.

    Equal JSON gives the same Python object, so that successive copies of an instance share their spec. The spec shares
    no part with a manifest.
    """
    spec: ApplicationInstanceSpec = _read_spec(msgspec.json.decode(raw), ApplicationInstanceSpec)
    identity = id(spec)
    _SHARED[identity] = ref(spec, lambda _: _SHARED.pop(identity, None))
    return spec


def is_shared(spec: ApplicationInstanceSpec) -> bool:
    """Report whether equal copies of an instance share the object `spec`. A large spec is not shared."""
    known_as = _SHARED.get(id(spec))
    return known_as is not None and known_as() is spec


def _read_or_share(value: Any, cls: Any) -> ApplicationInstanceSpec:
    try:
        raw = msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _read_spec(value, cls)  # type: ignore[no-any-return]
    return shared_spec(raw) if len(raw) <= _LONGEST_REMEMBERED else _read_spec(value, cls)


FAST.register_structure_hook(ApplicationInstanceSpec, _read_or_share)


def structure_strict(cls: type[T], value: Any) -> T:
    """Read `value` as an object of the class `cls`. Raises ValidationProblems with every problem.

    Unlike `structuring.structure`, this function also counts unknown fields as problems, except in metadata.
    """
    if cls not in CLASSES or not isinstance(value, Mapping):
        return structure_patiently(STRICT, cls, value)
    problems = tuple(_type_problems(CLASSES[cls], value))
    body = {name: item for name, item in value.items() if name not in ("apiVersion", "kind")}
    try:
        result = structure_patiently(STRICT, cls, body)
    except ValidationProblems as error:
        raise ValidationProblems((*problems, *error.problems)) from None
    if problems:
        raise ValidationProblems(problems)
    return result


def _type_problems(kind: Kind, manifest: Manifest) -> Iterator[Problem]:
    for name, desired in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        if (given := manifest.get(name)) != desired:
            yield Problem(name, "is required" if given is None else f"must be {desired}, not {given!r}")


def unstructure(value: Any) -> dict[str, Any]:
    """Return the JSON of the attrs object `value` in camelCase, as `structuring.unstructure` does.

    If `value` is a full object (an ApplicationInstance, Operation or Cluster), apiVersion and kind are added.
    """
    body = structuring.unstructure(value)
    kind = CLASSES.get(type(value))
    return body if kind is None else {"apiVersion": kind.api_version, "kind": kind.kind, **body}


def _read(cls: type[T], manifest: Manifest) -> T:
    """Read a manifest as an object of the class `cls`, as `structure` does.

    Raises ValidationProblems even if only parts of the manifest were cut off because they are nested too deeply.
    """
    if cut := too_deep(manifest):
        raise ValidationProblems(tuple(Problem(path, TOO_DEEP) for path in cut))
    return structure(cls, manifest)


def read_application_instance(manifest: Manifest) -> ApplicationInstance:
    """Read an ApplicationInstance as the API server sent it. Raises ValidationProblems if it is malformed."""
    return _read(ApplicationInstance, manifest)


def read_operation(manifest: Manifest) -> Operation:
    """Read an Operation as the API server sent it. Raises ValidationProblems if it is malformed."""
    return _read(Operation, manifest)


def read_cluster(manifest: Manifest) -> Cluster:
    """Read a Cluster as the API server sent it. Raises ValidationProblems if it is malformed."""
    return _read(Cluster, manifest)


def validate_strict(manifest: Any) -> tuple[Problem, ...]:
    """Return every problem of `manifest` as an object of one of the operator's kinds.

    Unknown fields are problems too.
    """
    if not isinstance(manifest, Mapping):
        return (Problem("", f"must be an object, not {type_name(manifest)}"),)
    cls = class_of(manifest)
    if cls is None:
        names = ", ".join(sorted(f"{api_version} {kind}" for api_version, kind in BY_TYPE))
        return (Problem("kind", f"must be one of {names}"),)
    try:
        structure_strict(cls, manifest)
    except ValidationProblems as error:
        return error.problems
    return ()
