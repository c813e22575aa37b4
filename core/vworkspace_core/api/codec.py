"""The border of the core: manifests of our own kinds become values here, and values become manifests.

Every watch event passes it, so the usual path is one generated function; only an object that does not fit is read a
second time, slowly, to name all its problems at once (RES-1 to RES-3).
"""

from collections.abc import Container, Iterator, Mapping
from functools import lru_cache
from heapq import nsmallest
from itertools import islice
from typing import Any, Final, TypeVar
from weakref import ref

import msgspec
from cattrs import ClassValidationError, Converter, ForbiddenExtraKeysError, IterableValidationError

from vworkspace_core.api.application_instance import ApplicationInstance, ApplicationInstanceSpec
from vworkspace_core.api.cluster import Cluster
from vworkspace_core.api.operation import Operation
from vworkspace_core.apimachinery import resources as known
from vworkspace_core.apimachinery.converters import FAST, STRICT, TOLERANT, type_name
from vworkspace_core.apimachinery.fields import camel
from vworkspace_core.apimachinery.manifest import Kind, Manifest, get_path
from vworkspace_core.apimachinery.meta import Condition, ObjectMeta
from vworkspace_core.apimachinery.nesting import TOO_DEEP, too_deep
from vworkspace_core.apimachinery.problems import MOST_PROBLEMS, Problem, ValidationProblems, index, join

T = TypeVar("T")

CLASSES: Final[Mapping[type[Any], Kind]] = {
    ApplicationInstance: known.APPLICATION_INSTANCE,
    Operation: known.OPERATION,
    Cluster: known.CLUSTER,
}
"""The whole-object classes, each with its kind."""

_BY_TYPE: Final = {(kind.api_version, kind.kind): cls for cls, kind in CLASSES.items()}


_LONGEST_REMEMBERED: Final = 8 * 1024
"""The longest spec in bytes of JSON that is shared; for longer ones reading takes a small part of a pass."""


_read_spec = FAST.get_structure_hook(ApplicationInstanceSpec)
_SHARED: dict[int, "ref[ApplicationInstanceSpec]"] = {}
"""The shared specs by identity; weak references, since Python uses an identity again."""


@lru_cache(maxsize=128)
def shared_spec(raw: bytes) -> ApplicationInstanceSpec:
    """Return one object for equal specs, so that successive copies of an instance have the same spec.

    It is read from its own JSON, so that no other object shares a part of it.
    """
    spec: ApplicationInstanceSpec = _read_spec(msgspec.json.decode(raw), ApplicationInstanceSpec)
    identity = id(spec)
    _SHARED[identity] = ref(spec, lambda _: _SHARED.pop(identity, None))
    return spec


def is_shared(spec: ApplicationInstanceSpec) -> bool:
    """Report whether equal copies have this very object. A large one is not cached, and not shared."""
    known_as = _SHARED.get(id(spec))
    return known_as is not None and known_as() is spec


def _read_or_share(value: Any, cls: Any) -> ApplicationInstanceSpec:
    try:
        raw = msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _read_spec(value, cls)  # type: ignore[no-any-return]
    return shared_spec(raw) if len(raw) <= _LONGEST_REMEMBERED else _read_spec(value, cls)


FAST.register_structure_hook(ApplicationInstanceSpec, _read_or_share)


def structure(cls: type[T], value: Any) -> T:
    """Read `value` (JSON) as an instance of `cls`; skip unknown fields, treat null as absent.

    Raises ValidationProblems with every problem if it does not fit. Free objects (`spec.values.inline`,
    `spec.parameters`) may be shared with `value`, and with other results.
    """
    try:
        return FAST.structure(value, cls)
    except (TypeError, ValueError, KeyError):
        return structure_patiently(TOLERANT, cls, value)


def structure_strict(cls: type[T], value: Any) -> T:
    """Do the same as `structure`, but report a field that the class does not have as a problem (metadata excepted)."""
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
    for name, wanted in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        if (given := manifest.get(name)) != wanted:
            yield Problem(name, "is required" if given is None else f"must be {wanted}, not {given!r}")


def structure_patiently(converter: Converter, cls: type[T], value: Any) -> T:
    """Read `value` as `cls` with a converter that collects failures. Raises ValidationProblems with them."""
    try:
        return converter.structure(value, cls)
    except (TypeError, ValueError, KeyError, ClassValidationError, IterableValidationError) as error:
        problems = tuple(islice(_problems(error, ""), MOST_PROBLEMS))
    raise ValidationProblems(problems)


def _problems(error: BaseException, path: str) -> Iterator[Problem]:
    match error:
        case ClassValidationError():
            noted, others = error.group_exceptions()
            for inner, note in noted:
                yield from _problems(inner, join(path, camel(note.name)))
            for inner in others:
                yield from _problems(inner, path)
        case IterableValidationError():
            for item, item_note in error.group_exceptions()[0]:
                at = item_note.index
                yield from _problems(item, join(path, at) if isinstance(at, str) else index(path, int(at)))
        case ForbiddenExtraKeysError():
            for name in nsmallest(MOST_PROBLEMS, map(str, error.extra_fields)):
                yield Problem(join(path, name), "unknown field")
        case KeyError():
            yield Problem(path, "is required")
        case _:
            yield Problem(path, str(error))


def unstructure(value: Any) -> dict[str, Any]:
    """Return the JSON of an attrs value: camelCase, without nulls and empties where absence means the same.

    Whole objects have apiVersion and kind. Free objects are shared with `value`, not copied.
    """
    body: dict[str, Any] = FAST.unstructure(value)
    kind = CLASSES.get(type(value))
    return body if kind is None else {"apiVersion": kind.api_version, "kind": kind.kind, **body}


def _read(cls: type[T], manifest: Manifest) -> T:
    """Do the same as `structure`, but refuse an object that was cut: a part that could not be read is not absent."""
    if cut := too_deep(manifest):
        raise ValidationProblems(tuple(Problem(path, TOO_DEEP) for path in cut))
    return structure(cls, manifest)


def read_application_instance(manifest: Manifest) -> ApplicationInstance:
    """Read an ApplicationInstance as the API server sent it. Raises ValidationProblems."""
    return _read(ApplicationInstance, manifest)


def read_operation(manifest: Manifest) -> Operation:
    """Read an Operation as the API server sent it. Raises ValidationProblems."""
    return _read(Operation, manifest)


def read_cluster(manifest: Manifest) -> Cluster:
    """Read a Cluster as the API server sent it. Raises ValidationProblems."""
    return _read(Cluster, manifest)


def read_meta(manifest: Manifest) -> ObjectMeta:
    """Read the metadata of any object as far as possible; never raises.

    This serves what must work on an object whose spec does not fit (the finalizer, the gates).
    """
    meta = manifest.get("metadata")
    body = {"name": "", **meta} if isinstance(meta, Mapping) else {"name": ""}
    try:
        return structure(ObjectMeta, body)
    except ValidationProblems as error:
        unreadable = {problem.path.split("[")[0].split(".")[0] for problem in error.problems}
        return structure(ObjectMeta, {"name": "", **{k: v for k, v in body.items() if k not in unreadable}})


def read_own_conditions(manifest: Manifest, types: Container[str]) -> tuple[Condition, ...]:
    """Read the conditions of `types` in the status of any object; malformed ones are left out. Never raises."""
    conditions = get_path(manifest, "status", "conditions")
    readable = map(_condition, conditions if isinstance(conditions, list) else ())
    return tuple(condition for condition in readable if condition is not None and condition.type in types)


def _condition(value: Any) -> Condition | None:
    try:
        return structure(Condition, value)
    except ValidationProblems:
        return None


def class_of(manifest: Any) -> type[Any] | None:
    """Return the class of the kind that `manifest` names; None if it is not ours."""
    if not isinstance(manifest, Mapping):
        return None
    api_version, kind = manifest.get("apiVersion"), manifest.get("kind")
    return _BY_TYPE.get((api_version, kind)) if isinstance(api_version, str) and isinstance(kind, str) else None


def validate_strict(manifest: Any) -> tuple[Problem, ...]:
    """Return every way in which `manifest` is not an object of one of our kinds, unknown fields included."""
    if not isinstance(manifest, Mapping):
        return (Problem("", f"must be an object, not {type_name(manifest)}"),)
    cls = class_of(manifest)
    if cls is None:
        names = ", ".join(sorted(f"{api_version} {kind}" for api_version, kind in _BY_TYPE))
        return (Problem("kind", f"must be one of {names}"),)
    try:
        structure_strict(cls, manifest)
    except ValidationProblems as error:
        return error.problems
    return ()
