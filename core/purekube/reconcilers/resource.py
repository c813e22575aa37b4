"""A kind made from two attrs classes: its CRD, and the reading, writing and checking of its objects (PH-7, RES-6)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Generic, TypeVar, get_args

import attrs

from purekube.apimachinery.converters import reporting_converter
from purekube.apimachinery.definitions import AGE, Column, Definition, condition_path
from purekube.apimachinery.fields import CelRule, camel, conditions_field, observed_generation_field
from purekube.apimachinery.manifest import Kind, Manifest, canonical_json, metadata
from purekube.apimachinery.meta import Condition, ObjectMeta
from purekube.apimachinery.nesting import TOO_DEEP, too_deep
from purekube.apimachinery.openapi import SchemaTypeError, inner_type, object_schema, validations
from purekube.apimachinery.problems import Problem, ValidationProblems, first_of, join
from purekube.apimachinery.structuring import read_meta, read_own_conditions, structure, unstructure
from purekube.reconcilers.desired import Object, Reviews, Spec, Status, UnreadableObject
from purekube.schema import Schema, compile_schema, validate
from purekube.schema.objectmeta import with_type_meta
from purekube.versions import Conversion, Converter

T = TypeVar("T")

_LONGEST: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_VERSION: Final = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_PLURAL: Final = re.compile(r"[a-z][a-z0-9]{0,62}")
_PROTECTED: Final = (".k8s.io", ".kubernetes.io")
_SIBILANTS: Final = ("s", "x", "z", "ch", "sh")

_converter: Final = reporting_converter()


@attrs.frozen
class _EngineStatus:
    """The fields that every status has in addition to those of its attrs class."""

    observed_generation: int | None = observed_generation_field()
    conditions: tuple[Condition, ...] = conditions_field()


ENGINE_FIELDS: Final = tuple(camel(field.name) for field in attrs.fields(_EngineStatus))
"""The JSON names of the fields that every status has: observedGeneration and conditions."""


@attrs.frozen(eq=False)
class OtherVersion:
    """A version of a kind that is not the stored version, with its conversion to the stored version."""

    definition: Definition
    schema: Schema
    conversion: Conversion


@attrs.frozen(eq=False)
class Resource(Generic[Spec, Status]):
    """A kind with the attrs classes of its spec and status.

    `resource` makes a Resource; `versioned` adds versions, `reviewed` adds functions that review its objects.
    """

    kind: Kind
    spec: type[Spec]
    status: type[Status]
    definition: Definition
    versions: tuple[OtherVersion, ...] = ()
    reviews: Reviews[Spec, Status] = attrs.field(factory=Reviews)

    @property
    def needs_webhooks(self) -> bool:
        """Report whether the API server has to call webhooks for the kind: to convert, to default or to validate its
        objects.
        """
        return bool(self.versions or self.reviews.validate or self.reviews.default)

    def crd(self) -> dict[str, Any]:
        """Return the kind's CustomResourceDefinition, in which the version of this Resource is the stored version."""
        crd = self.definition.manifest()
        others = (version.definition.manifest()["spec"]["versions"][0] for version in self.versions)
        versions = [*crd["spec"]["versions"], *({**one, "storage": False} for one in others)]
        return {**crd, "spec": {**crd["spec"], "versions": versions}}

    @cached_property
    def converter(self) -> Converter | None:
        """The converter of the kind's objects between its versions; None if the kind has only one version."""
        if not self.versions:
            return None
        schemas = {version.definition.kind.version: with_type_meta(version.schema) for version in self.versions}
        schemas[self.kind.version] = with_type_meta(self.schema)
        conversions = (version.conversion for version in self.versions)
        return Converter.of(self.kind.group, self.kind.kind, self.kind.version, *conversions, schemas=schemas)

    @property
    def status_fields(self) -> tuple[str, ...]:
        """The JSON names of the fields of the status class."""
        return tuple(camel(field.name) for field in attrs.fields(_attrs_class(self.status)))

    @cached_property
    def schema(self) -> Schema:
        """The compiled schema of whole objects of the kind, in this version."""
        return compile_schema(self.definition.schema())

    def read(self, manifest: Manifest) -> Object[Spec, Status]:
        """Return the object in `manifest`, which the API server sent, as an `Object`. The result's `manifest` also has
        fields that the classes do not declare. The name of an object is "" if the server has yet to generate it from
        `generateName`, as in reviews and conversions of a new object.

        Raises ValidationProblems with every field that does not fit.
        """
        if cut := too_deep(manifest):
            raise ValidationProblems(tuple(Problem(path, TOO_DEEP) for path in cut))
        problems: list[Problem] = []
        meta = _part(ObjectMeta, _named(manifest), "metadata", problems)
        spec = _part(self.spec, manifest, "spec", problems)
        status = _part(self.status, manifest, "status", problems)
        engine = _part(_EngineStatus, manifest, "status", problems)
        if meta is None or spec is None or status is None or engine is None:
            raise ValidationProblems(problems)
        return Object(self.kind, meta, spec, status, engine.conditions, engine.observed_generation, manifest)

    def read_leniently(self, manifest: Manifest) -> "Object[Spec, Status] | UnreadableObject":
        """Return the object in `manifest` as an `Object`, or as an UnreadableObject if it does not fit the classes.
        Never raises.
        """
        try:
            return self.read(manifest)
        except ValidationProblems as error:
            problems = "; ".join(map(str, error.problems))
        return UnreadableObject(self.kind, read_meta(manifest), problems, read_own_conditions(manifest), manifest)

    def new(self, name: str, spec: Spec, *, namespace: str = "", **meta: Any) -> Object[Spec, Status]:
        """Return an object of the kind with this name and spec, which is not stored in a cluster yet.

        `meta` are other fields of ObjectMeta, such as `labels`.
        """
        return Object(self.kind, ObjectMeta(name, namespace, **meta), spec, self.status())

    def manifest(self, given: Object[Spec, Status]) -> dict[str, Any]:
        """Return the object's manifest, with a status only if the status has values."""
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
        """Return the JSON of a spec. Raises TypeError with the path of a value that is of no class of its field."""
        return _json(spec)

    def status_json(self, status: Status) -> dict[str, Any]:
        """Return the JSON of a status, without conditions and observed generation. Raises like `spec_json`."""
        return _json(status)

    def status_problem(self, status: Status) -> str:
        """Return why a status cannot be written, as its values are no JSON; "" if it can."""
        try:
            canonical_json(self.status_json(status))
        except (TypeError, ValueError, RecursionError) as error:
            return str(error) or type(error).__name__
        return ""

    def problems(self, manifest: Manifest, old: Manifest | None = None) -> tuple[Problem, ...]:
        """Return all reasons why an API server with this CRD would refuse the object, in the server's words.

        `old` is the object that is replaced, for rules that compare with it (`oldSelf`).
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
    rules: Sequence[CelRule] = (),
) -> Resource[Spec, Status]:
    """Return a kind with one served version, made from the attrs classes of its spec and its status.

    `plural` is derived from the kind by default (`Shop`: shops, `Proxy`: proxies). `columns` appear in `kubectl get`
    between Ready and Age. `rules` apply to whole objects, for example to their names. Conditions and the observed
    generation are added to the status. Raises ValueError for names that no API server accepts, SchemaTypeError for a
    class that has no possible schema, and SchemaError for mistakes in the schema, for example in a rule. Each message
    names the place.
    """
    known = Kind(group, version, kind, plural or plural_of(kind), namespaced)
    check_names(known, short_names)
    check_columns(columns)
    _check_defaults(spec)
    _check_defaults(status)
    _check_status(status)
    shown = standard_columns(columns), tuple(short_names), tuple(categories)
    definition = _definition(known, spec, status, *shown, validations(rules))
    made: Resource[Spec, Status] = Resource(known, spec, status, definition)
    _ = made.schema  # its mistakes are reported here, and not in the middle of a pass
    return made


def rule(cel: str, message: str, *, field_path: str = "", reason: str = "FieldValueInvalid") -> CelRule:
    """Return a CEL validation rule, which the API server checks.

    Use it in `schema_field(rules=…)` for one field, or in `CEL_RULES` of a class for the whole class. In the CEL
    expression `cel`, `self` is the value and `oldSelf` its former value. If the result is false, the API server refuses
    the object with `message` and `reason`. `field_path`, such as `.replicas`, is the field of that value to which the
    API server attributes the error.
    """
    return CelRule(cel, message, _asked_by_the_schema, field_path, reason)


def _asked_by_the_schema(value: Any, old: Any) -> bool:
    """Return True, whatever the arguments: the rule is not evaluated in Python, since `Resource.problems` evaluates its
    CEL expression.
    """
    return True


def _attrs_class(cls: type[Any]) -> type[Any]:
    """Return the class unchanged, for the type checker: `resource` has checked that it is an attrs class."""
    return cls


# --- the parts of a kind ---------------------------------------------------------------------------------------------


def _definition(
    kind: Kind,
    spec: type[Any],
    status: type[Any],
    columns: Sequence[Column],
    short_names: Sequence[str],
    categories: Sequence[str],
    rules: Mapping[str, Any],
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
        rules,
    )


def standard_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the printer columns of a kind: Ready, then `columns`, then Reason, Age and Message."""
    ready, reason = Column("Ready", condition_path("Ready", "status")), condition_path("Ready", "reason")
    message = Column("Message", condition_path("Ready", "message"), priority=1)
    return (ready, *columns, Column("Reason", reason), AGE, message)


def plural_of(kind: str) -> str:
    """Return the plural of a kind by the regular rules of English."""
    name = kind.lower()
    if name.endswith("y") and name[-2:-1] not in ("", *"aeiou"):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(_SIBILANTS) else f"{name}s"


def check_names(kind: Kind, short_names: Sequence[str]) -> None:
    """Raise ValueError for names of a kind that no API server accepts, and for a group reserved for Kubernetes."""
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
    """Report whether a string is a domain name of two labels or more.

    Each label is matched alone, since a single pattern for the whole name would take time quadratic in its length.
    """
    labels = text.split(".")
    return len(text) <= _LONGEST and len(labels) > 1 and all(map(_LABEL.fullmatch, labels))


def check_columns(columns: Iterable[Column]) -> None:
    """Raise ValueError for a column whose path no API server accepts."""
    for column in columns:
        if not column.json_path.startswith("."):
            message = f"a path begins with a dot, as .spec.image, not {column.json_path!r}"
            raise ValueError(f"column {column.name}: {message}")


# --- checks of classes -----------------------------------------------------------------------------------------------


def _classes(cls: type[Any]) -> tuple[type[Any], ...]:
    """Return `cls` and all attrs classes in its fields, at any depth, with annotations resolved to types.

    Raises SchemaTypeError if `cls` is not an attrs class, or if an annotation cannot be resolved.
    """
    found: dict[type[Any], None] = {}
    left = [cls]
    while left:
        one = left.pop()
        if one not in found:
            found[one] = None
            left += _nested(_resolved(one))
    return tuple(found)


def _resolved(cls: type[Any]) -> type[Any]:
    """Return the class with text annotations (`from __future__ import annotations`) resolved to types.

    Raises SchemaTypeError if `cls` is not an attrs class, or if an annotation cannot be resolved.
    """
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
    """Raise SchemaTypeError for an optional field with a default other than None.

    A null counts as an absent field, so None could not be distinguished from the default.
    """
    for owner in _classes(cls):
        for field in attrs.fields(owner):
            if inner_type(field.type)[1] and field.default is not None:
                raise SchemaTypeError(f"{join(owner.__name__, field.name)}: may be None, so its default is None")


def _check_status(cls: type[Any]) -> None:
    for field in attrs.fields(cls):
        where = join(cls.__name__, field.name)
        if camel(field.name) in ENGINE_FIELDS:
            raise SchemaTypeError(f"{where}: is written for you; read it from the object: object.{field.name}")
        if field.default is attrs.NOTHING:
            raise SchemaTypeError(f"{where}: needs a default: the status of a new object says nothing yet")


# --- reading ---------------------------------------------------------------------------------------------------------


def _named(manifest: Manifest) -> Manifest:
    """Return the object with the name "" if the API server has yet to generate its name."""
    meta = metadata(manifest)
    return {"metadata": {"name": "", **meta}} if meta.get("generateName") and not meta.get("name") else manifest


def _json(value: Any) -> dict[str, Any]:
    """Return the JSON of an instance of an attrs class. Raises TypeError with the path of a value of another class."""
    try:
        return dict(_converter.unstructure(value))
    except AttributeError as error:  # cattrs reads the attributes of a field's class, whatever the value is
        raise TypeError(f"{_misfit(value)} is a {type(error.obj).__name__}, not of the class of its field") from error


def _misfit(value: Any) -> str:
    """Return the path of the first field in `value` whose value cannot be written; "" if all can be."""
    for field in attrs.fields(type(value)) if attrs.has(type(value)) else ():
        held = getattr(value, field.name)
        try:
            _converter.unstructure(held, unstructure_as=field.type)
        except AttributeError:
            return ".".join(filter(None, (camel(field.name), _misfit(held))))
    return ""


def _part(cls: type[T], manifest: Manifest, name: str, problems: list[Problem]) -> T | None:
    """Return the part `name` of a manifest as `cls`; if the part does not fit, return None and add to `problems`."""
    given = manifest.get(name)
    try:
        return structure(cls, {} if given is None else given)
    except ValidationProblems as error:
        problems += (attrs.evolve(one, path=f"{name}.{one.path}" if one.path else name) for one in error.problems)
        return None
