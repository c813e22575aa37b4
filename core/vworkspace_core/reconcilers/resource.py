"""A kind from two attrs classes: its CRD, what reads and writes its objects, what is wrong with one (PH-7, RES-6)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, Generic, TypeVar, get_args

import attrs

from vworkspace_core.api.codec import read_meta, structure, unstructure
from vworkspace_core.apimachinery.converters import telling_converter
from vworkspace_core.apimachinery.definitions import AGE, Column, Definition, condition_path
from vworkspace_core.apimachinery.fields import CelRule, camel, conditions_field, observed_generation_field
from vworkspace_core.apimachinery.manifest import Kind, Manifest, get_path
from vworkspace_core.apimachinery.meta import Condition, ObjectMeta
from vworkspace_core.apimachinery.nesting import TOO_DEEP, too_deep
from vworkspace_core.apimachinery.openapi import SchemaTypeError, inner_type, object_schema
from vworkspace_core.apimachinery.problems import Problem, ValidationProblems, first_of, join
from vworkspace_core.reconcilers.object import Object, Spec, Status, UnreadableObject
from vworkspace_core.schema import Schema, compile_schema, validate
from vworkspace_core.schema.objectmeta import with_type_meta
from vworkspace_core.versions import Conversion, Converter

T = TypeVar("T")

_LONGEST: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_VERSION: Final = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_PLURAL: Final = re.compile(r"[a-z][a-z0-9]{0,62}")
_PROTECTED: Final = (".k8s.io", ".kubernetes.io")
_SIBILANTS: Final = ("s", "x", "z", "ch", "sh")

_converter: Final = telling_converter()


@attrs.frozen
class _EngineStatus:
    """What every status holds beside the fields of its class."""

    observed_generation: int | None = observed_generation_field()
    conditions: tuple[Condition, ...] = conditions_field()


_ENGINE_FIELDS: Final = tuple(camel(field.name) for field in attrs.fields(_EngineStatus))


@attrs.frozen(eq=False)
class OtherVersion:
    """A version of a kind that is not stored, and how its objects become those that are."""

    definition: Definition
    schema: Schema
    conversion: Conversion


@attrs.frozen(eq=False)
class Resource(Generic[Spec, Status]):
    """A kind with the classes of its spec and its status; made by `resource`, its `versions` by `versioned`."""

    kind: Kind
    spec: type[Spec]
    status: type[Status]
    definition: Definition
    versions: tuple[OtherVersion, ...] = ()

    def crd(self) -> dict[str, Any]:
        """Its CustomResourceDefinition; its own version is the one that is stored."""
        crd = self.definition.manifest()
        others = (one.definition.manifest()["spec"]["versions"][0] for one in self.versions)
        versions = [*crd["spec"]["versions"], *({**one, "storage": False} for one in others)]
        return {**crd, "spec": {**crd["spec"], "versions": versions}}

    @cached_property
    def converter(self) -> Converter | None:
        """What converts its objects; None where it has one version."""
        if not self.versions:
            return None
        schemas = {one.definition.kind.version: with_type_meta(one.schema) for one in self.versions}
        schemas[self.kind.version] = with_type_meta(self.schema)
        conversions = (one.conversion for one in self.versions)
        return Converter.of(self.kind.group, self.kind.kind, self.kind.version, *conversions, schemas=schemas)

    @property
    def status_fields(self) -> tuple[str, ...]:
        """The names of the fields of its status, as they are written."""
        return tuple(camel(field.name) for field in attrs.fields(_attrs_class(self.status)))

    @cached_property
    def schema(self) -> Schema:
        """The schema of its whole objects, compiled."""
        return compile_schema(self.definition.schema())

    def read(self, manifest: Manifest) -> Object[Spec, Status]:
        """An object as the API server sent it. Fields that the classes do not know stay in its `manifest`.

        Raises ValidationProblems with everything that does not fit.
        """
        if cut := too_deep(manifest):
            raise ValidationProblems(tuple(Problem(path, TOO_DEEP) for path in cut))
        problems: list[Problem] = []
        meta = _part(ObjectMeta, manifest, "metadata", problems)
        spec = _part(self.spec, manifest, "spec", problems)
        status = _part(self.status, manifest, "status", problems)
        engine = _part(_EngineStatus, manifest, "status", problems)
        if meta is None or spec is None or status is None or engine is None:
            raise ValidationProblems(problems)
        return Object(self.kind, meta, spec, status, engine.conditions, engine.observed_generation, manifest)

    def read_leniently(self, manifest: Manifest) -> "Object[Spec, Status] | UnreadableObject":
        """The object, or what is known of one that does not fit; never raises."""
        try:
            return self.read(manifest)
        except ValidationProblems as error:
            problems = "; ".join(map(str, error.problems))
        return UnreadableObject(self.kind, read_meta(manifest), problems, _conditions(manifest), manifest)

    def new(self, name: str, spec: Spec, *, namespace: str = "", **meta: Any) -> Object[Spec, Status]:
        """An object that is not stored yet; `meta` are other fields of ObjectMeta, as `labels`."""
        return Object(self.kind, ObjectMeta(name, namespace, **meta), spec, self.status())

    def manifest(self, given: Object[Spec, Status]) -> dict[str, Any]:
        """The object as it is written; its status only where that says something."""
        body: dict[str, Any] = {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "metadata": unstructure(given.metadata),
            "spec": self.spec_json(given.spec),
        }
        engine = _converter.unstructure(_EngineStatus(given.observed_generation, given.conditions))
        status = {**(self.status_json(given.status) if given.status != self.status() else {}), **engine}
        return {**body, "status": status} if status else body

    def spec_json(self, spec: Spec) -> dict[str, Any]:
        """A spec as it is written."""
        return dict(_converter.unstructure(spec))

    def status_json(self, status: Status) -> dict[str, Any]:
        """The fields of a status as they are written, without conditions and observed generation."""
        return dict(_converter.unstructure(status))

    def problems(self, manifest: Manifest, old: Manifest | None = None) -> tuple[Problem, ...]:
        """Everything for which an API server with this CRD would refuse the object, in its words.

        `old` is the object that it replaces: rules about a change (`oldSelf`) are asked with it.
        """
        if cut := too_deep(manifest):
            return first_of(Problem(path, TOO_DEEP) for path in cut)
        return first_of(Problem(cause.field, cause.message) for cause in validate(self.schema, dict(manifest), old))


def resource(
    group: str,
    version: str,
    kind: str,
    spec: type[Spec],
    status: type[Status],
    *,
    plural: str = "",
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
    namespaced: bool = True,
    columns: Sequence[Column] = (),
) -> Resource[Spec, Status]:
    """A kind of which one version is served, from the attrs classes of its spec and its status.

    `plural` is made of the kind where none is given (`Shop`: shops, `Proxy`: proxies). `columns` of `kubectl get` stand
    between Ready and Age. Conditions and the observed generation are added to the status. Raises ValueError for names
    that no API server takes, SchemaTypeError for a class that no schema can be made of, SchemaError for a schema with
    mistakes, as in a rule; each says where.
    """
    known = Kind(group, version, kind, plural or plural_of(kind), namespaced)
    _check_names(known, short_names)
    _check_columns(columns)
    _check_defaults(spec)
    _check_defaults(status)
    _check_status(status)
    shown = _columns(columns), tuple(short_names), tuple(categories)
    made: Resource[Spec, Status] = Resource(known, spec, status, _definition(known, spec, status, *shown))
    _ = made.schema  # its mistakes are told here, and not in the middle of a pass
    return made


def rule(cel: str, message: str, *, field_path: str = "", reason: str = "FieldValueInvalid") -> CelRule:
    """A rule that the API server asks: of a field in `schema_field(rules=…)`, of a whole class in its `CEL_RULES`.

    `self` is the value, `oldSelf` what it was before; `field_path` (`.replicas`) is the field to blame below it.
    """
    return CelRule(cel, message, _asked_by_the_schema, field_path, reason)


def _asked_by_the_schema(value: Any, old: Any) -> bool:
    """`Resource.problems` asks the rule itself."""
    return True


def _attrs_class(cls: type[Any]) -> type[Any]:
    """The class, of which `resource` has seen that attrs made it."""
    return cls


# --- what a kind is made of ------------------------------------------------------------------------------------------


def _definition(
    kind: Kind,
    spec: type[Any],
    status: type[Any],
    columns: Sequence[Column],
    short_names: Sequence[str],
    categories: Sequence[str],
) -> Definition:
    engine = object_schema(_EngineStatus)["properties"]
    own = object_schema(status)
    return Definition(
        kind,
        (spec.__doc__ or f"{kind.kind} of {kind.group}.").strip(),
        object_schema(spec, every_default=True),
        {**own, "properties": {**own["properties"], **engine}},
        columns,
        short_names,
        categories,
    )


def _columns(given: Sequence[Column]) -> tuple[Column, ...]:
    ready, reason = Column("Ready", condition_path("Ready", "status")), condition_path("Ready", "reason")
    message = Column("Message", condition_path("Ready", "message"), priority=1)
    return (ready, *given, Column("Reason", reason), AGE, message)


def plural_of(kind: str) -> str:
    """The plural of a kind, as English makes most of them."""
    name = kind.lower()
    if name.endswith("y") and name[-2:-1] not in ("", *"aeiou"):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(_SIBILANTS) else f"{name}s"


def _check_names(kind: Kind, short_names: Sequence[str]) -> None:
    if not _is_group(kind.group):
        raise ValueError(f"the group must be such as example.com, not {kind.group!r}")
    for what, text, form, example in (
        ("version", kind.version, _VERSION, "v1 or v1alpha1"),
        ("kind", kind.kind, _KIND, "Shop"),
        ("plural", kind.plural, _PLURAL, "shops"),
        *(("short name", name, _PLURAL, "sh") for name in short_names),
    ):
        if form.fullmatch(text) is None:
            raise ValueError(f"the {what} must be such as {example}, not {text!r}")
    if kind.group.endswith(_PROTECTED):
        raise ValueError(f"the group {kind.group} is kept for Kubernetes itself: take a domain of your own")


def _is_group(text: str) -> bool:
    """A domain of two labels or more, by parts: a pattern for the whole would take time by the square of its length."""
    labels = text.split(".")
    return len(text) <= _LONGEST and len(labels) > 1 and all(map(_LABEL.fullmatch, labels))


def _check_columns(columns: Iterable[Column]) -> None:
    for column in columns:
        if not column.json_path.startswith("."):
            message = f"a path begins with a dot, as .spec.image, not {column.json_path!r}"
            raise ValueError(f"column {column.name}: {message}")


# --- what classes are fit --------------------------------------------------------------------------------------------


def _classes(cls: type[Any]) -> tuple[type[Any], ...]:
    """The class and all that its fields hold, annotations as types. Raises SchemaTypeError."""
    found: dict[type[Any], None] = {}
    left = [cls]
    while left:
        one = left.pop()
        if one not in found:
            found[one] = None
            left += _nested(_resolved(one))
    return tuple(found)


def _resolved(cls: type[Any]) -> type[Any]:
    """The class, annotations that are texts (`from __future__ import annotations`) made types."""
    if not (isinstance(cls, type) and attrs.has(cls)):
        raise SchemaTypeError(f"{getattr(cls, '__name__', cls)} is no attrs class: write @attrs.frozen above it")
    try:
        return attrs.resolve_types(cls)
    except NameError as error:
        raise SchemaTypeError(f"{cls.__name__}: {error}; types of fields stand at the top of a module") from error


def _nested(cls: type[Any]) -> Iterator[type[Any]]:
    left: list[Any] = [field.type for field in attrs.fields(cls)]
    while left:
        annotation = left.pop()
        left += get_args(annotation)
        if isinstance(annotation, type) and attrs.has(annotation):
            yield annotation


def _check_defaults(cls: type[Any]) -> None:
    """What is None in a value is absent where it is written: a field that may be None is None where it is absent."""
    for owner in _classes(cls):
        for field in attrs.fields(owner):
            if inner_type(field.type)[1] and field.default is not None:
                raise SchemaTypeError(f"{join(owner.__name__, field.name)}: may be None, so its default is None")


def _check_status(cls: type[Any]) -> None:
    for field in attrs.fields(cls):
        where = join(cls.__name__, field.name)
        if camel(field.name) in _ENGINE_FIELDS:
            raise SchemaTypeError(f"{where}: is written for you; read it from the object: object.{field.name}")
        if field.default is attrs.NOTHING:
            raise SchemaTypeError(f"{where}: needs a default: the status of a new object says nothing yet")


# --- reading ---------------------------------------------------------------------------------------------------------


def _part(cls: type[T], manifest: Manifest, name: str, problems: list[Problem]) -> T | None:
    """A part of the object; None where it does not fit, with what is wrong added to `problems`."""
    given = manifest.get(name)
    try:
        return structure(cls, {} if given is None else given)
    except ValidationProblems as error:
        problems += (attrs.evolve(one, path=f"{name}.{one.path}" if one.path else name) for one in error.problems)
        return None


def _conditions(manifest: Manifest) -> tuple[Condition, ...]:
    conditions = get_path(manifest, "status", "conditions")
    found = []
    for value in conditions if isinstance(conditions, list) else ():
        try:
            found.append(structure(Condition, value))
        except ValidationProblems:
            continue
    return tuple(found)
