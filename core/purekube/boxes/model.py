"""The classes of a box's file (PH-4 to PH-6), from which the file's schema is printed.

They only give the form: an expression is a text, and a template is a mapping. The module `read` makes instances of them
from JSON, and the module `compile` checks and compiles their expressions.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeAlias

import attrs

from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.fields import schema_field
from purekube.apimachinery.formats import DNS_LABEL, GO_DURATION, IDENTIFIER
from purekube.apimachinery.problems import ValidationProblems
from purekube.boxes.rollout_policy import BoxRollout, DeletionPolicy
from purekube.boxes.when_conditions import AFTER, OPERATORS, WhenCondition, read_when_condition
from purekube.graph.node import OnImmutable, PruneTime, Removal

API_VERSION: Final = OPERATOR_BOX.api_version
KIND: Final = OPERATOR_BOX.kind

_LONGEST_NAME: Final = 40
"""The largest length of a box's name, which is a part of label values and of the field manager."""

_Schema: TypeAlias = Mapping[str, Any]

_ID: Final[_Schema] = {"pattern": IDENTIFIER, "maxLength": 63}
_NAME: Final[_Schema] = {"pattern": DNS_LABEL, "maxLength": _LONGEST_NAME}
_TEXT: Final[_Schema] = {"type": "string"}
_TEXTS: Final[_Schema] = {"items": {"type": "string"}}


class PhaseOn(StrEnum):
    """The time at which a phase (a group of a box's resources) runs: in every reconcile pass over a parent, once in the
    life of a parent, or when the parent is deleted.
    """

    RECONCILE = "reconcile"
    CREATE = "create"
    """The phase runs once in the life of a parent, except for resources with `reconcile: true`, which every reconcile
    pass applies.
    """
    DELETE = "delete"
    """The phase runs when the parent is deleted, and finishes before any child is deleted."""


class ApplyMode(StrEnum):
    """The policy by which a resource is written: on every difference, if absent, or once."""

    ALWAYS = "Always"
    IF_ABSENT = "IfAbsent"
    ONCE = "Once"
    """The resource is created once in the life of its parent; never again, even if it is deleted."""


class DependencyUntil(StrEnum):
    """The state that a dependency must reach before the resource that names it is written: applied (earlier in the same
    pass is enough), existing as desired, or ready.
    """

    APPLIED = "Applied"
    OBSERVED = "Observed"
    READY = "Ready"


class ReadinessRule(StrEnum):
    """The rule by which an object is ready, in addition to `readyWhen`: the rule of its kind, or mere existence."""

    KIND = "Kind"
    EXISTS = "Exists"


class OwnerMode(StrEnum):
    """The mark by which an object names its owner: an owner reference, or a label."""

    REFERENCE = "Reference"
    LABEL = "Label"


class DeletionOrder(StrEnum):
    """The order in which the children of a deleted parent are deleted.

    With both values the children go wave by wave: a wave is a depth in the dependency graph, and the deepest wave goes
    first. With `Strict` the children have no owner references, so that the order also holds in a foreground deletion.
    """

    WAVES = "Waves"
    STRICT = "Strict"


class Power(StrEnum):
    """A power that an expression can give to the authors of the parents that it reads, such as the choice of a Secret.

    Parents are objects of the box's kind. An expression in a field that gives a power is refused, unless the box trusts
    the authors with that power.
    """

    NAMESPACES = "Namespaces"
    """The power to choose an object's namespace, or a namespace to which the object refers."""
    NAMES = "Names"
    """The power to choose names of objects outside of the parent's namespace."""
    ACCOUNTS = "Accounts"
    """The power to choose the account under which pods or other work run."""
    ROLES = "Roles"
    """The power to choose the subjects, role references and rules of RBAC objects."""
    HOSTS = "Hosts"
    """The power to choose host paths and privileges on nodes."""
    SECRETS = "Secrets"
    """The power to choose the Secret that is read or mounted."""


class KeptIn(StrEnum):
    """The place that keeps data which another version of the kind cannot hold, for the conversion back: an annotation
    of the converted object, or none.
    """

    NOTHING = "none"
    ANNOTATION = "annotation"


def _must_be(what: str) -> TypeError:
    return TypeError(f"must be {what}")


def _only(raw: Mapping[str, Any], known: tuple[str, ...]) -> None:
    if unknown := sorted(str(key) for key in raw if key not in known):
        raise ValueError(f"has the unknown field {unknown[0]!r}; it knows {', '.join(known)}")


@attrs.frozen
class CrdSource:
    """The CRD of the box's kind: a file next to the box, the name of an installed CRD, or the CRD's own `spec`."""

    file: str = ""
    name: str = ""
    spec: Mapping[str, Any] | None = None

    JSON_SCHEMA: ClassVar[_Schema] = {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {"type": "object", "required": ["name"], "properties": {"name": _TEXT}},
            {"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object"}}},
        ]
    }

    @classmethod
    def of(cls, raw: Any) -> "CrdSource":
        """Read the field `crd` of a box's file: a file's name, `{name: …}` or `{spec: …}`. Raises an error for any
        other form.
        """
        if isinstance(raw, str) and raw:
            return cls(file=raw)
        if isinstance(raw, Mapping):
            _only(raw, ("name", "spec"))
            name, spec = raw.get("name"), raw.get("spec")
            if isinstance(name, str) and name and spec is None:
                return cls(name=name)
            if isinstance(spec, Mapping) and name is None:
                return cls(spec=spec)
        raise _must_be("a file beside this one, {name: webapps.example.com}, or {spec: …} with the CRD's spec")

    @property
    def manifest(self) -> Mapping[str, Any] | None:
        """The CRD as a manifest if the box gives its `spec`; None if it gives a file or a name."""
        if self.spec is None:
            return None
        names = self.spec.get("names")
        plural = names.get("plural") if isinstance(names, Mapping) else None
        meta = {"name": f"{plural}.{self.spec.get('group')}"}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": meta,
            "spec": self.spec,
        }


@attrs.frozen
class WhenEntry:
    """One entry of a gate, in the field `when` (all entries must hold) or `any` (one must hold) of a resource or phase.

    It is a condition written as a mapping (`gate`), or an expression written as `${…}` (`expression`).
    """

    gate: WhenCondition | None = None
    expression: str = ""

    JSON_SCHEMA: ClassVar[_Schema] = {
        "anyOf": [
            _TEXT,
            {
                "type": "object",
                "required": ["field"],
                "properties": {"field": _TEXT, "not": {"type": "boolean"}, **{name: {} for name in OPERATORS}},
            },
            {
                "type": "object",
                "required": [AFTER],
                "properties": {"field": _TEXT, AFTER: {"type": "string", "pattern": GO_DURATION}},
            },
        ]
    }

    @classmethod
    def of(cls, raw: Any) -> "WhenEntry":
        """Read an entry from a mapping (a gate) or a string (an expression). Raises ValueError that names all problems
        of the gate.
        """
        if isinstance(raw, str):
            return cls(expression=raw)
        try:
            return cls(gate=read_when_condition(raw))
        except ValidationProblems as error:
            told = "; ".join(str(problem).removeprefix(".") for problem in error.problems)
            raise ValueError(told) from error


@attrs.frozen
class Dependency:
    """One entry of the list `dependsOn`, which names what must be there before the resource is written.

    `id` is the id of a resource or an external (object that the box only reads), or the name of a phase. `until` is the
    state that it must reach.
    """

    id: str
    until: DependencyUntil = DependencyUntil.READY

    JSON_SCHEMA: ClassVar[_Schema] = {
        "anyOf": [
            _TEXT,
            {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": _TEXT,
                    "until": {"type": "string", "enum": [until.value for until in DependencyUntil]},
                },
            },
        ]
    }

    @classmethod
    def of(cls, raw: Any) -> "Dependency":
        """Read a dependency from a string (the id), or from `{id: …, until: …}`. Raises an error for any other form."""
        if isinstance(raw, str) and raw:
            return cls(raw)
        if isinstance(raw, Mapping):
            _only(raw, ("id", "until"))
            until = raw.get("until", DependencyUntil.READY.value)
            if until not in tuple(DependencyUntil):
                raise ValueError(f"until must be one of {', '.join(DependencyUntil)}")
            if isinstance(raw.get("id"), str) and raw["id"]:
                return cls(raw["id"], DependencyUntil(until))
        raise _must_be("the id of a resource, or {id: web, until: Applied}")


@attrs.frozen
class ForEach:
    """The `forEach` of a resource, which makes one object for each item of a list.

    It is written as `{c: "${self.spec.components}", key: "${c.name}"}`. `key` gives a string that is unique among the
    items and identifies the object.
    """

    variable: str
    items: str
    key: str

    JSON_SCHEMA: ClassVar[_Schema] = {
        "type": "object",
        "required": ["key"],
        "minProperties": 2,
        "maxProperties": 2,
        "properties": {"key": _TEXT},
        "additionalProperties": _TEXT,
    }

    @classmethod
    def of(cls, raw: Any) -> "ForEach":
        """Read `forEach` from a mapping with two keys: the variable's name, with the expression of the list, and `key`.
        Raises an error for any other form.
        """
        if isinstance(raw, Mapping) and isinstance(raw.get("key"), str) and len(raw) == 2:
            variable, items = next((name, value) for name, value in raw.items() if name != "key")
            if isinstance(variable, str) and isinstance(items, str):
                return cls(variable, items, raw["key"])
        raise _must_be('one variable and a key: {c: "${self.spec.components}", key: "${c.name}"}')


_LONGEST_SECRET: Final = 1_024


@attrs.frozen
class GeneratedField:
    """A field that is filled with random text when its object is created."""

    path: str
    length: int = 32
    alphabet: str = ""
    """The characters of which the random text is made; letters and digits if empty."""


@attrs.frozen
class GeneratedFields:
    """The fields of `generate` by their paths: `{data.password: {length: 32}}`."""

    fields: tuple[GeneratedField, ...] = ()

    JSON_SCHEMA: ClassVar[_Schema] = {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {"length": {"type": "integer", "minimum": 1, "maximum": _LONGEST_SECRET}, "alphabet": _TEXT},
        },
    }

    @classmethod
    def of(cls, raw: Any) -> "GeneratedFields":
        """Read the value of `generate`: a mapping from paths to the options of each field."""
        if not isinstance(raw, Mapping):
            raise _must_be("a mapping of fields such as data.password to {length: 32}")
        return cls(tuple(_generated(str(path), entry) for path, entry in raw.items()))


def _generated(path: str, raw: Any) -> GeneratedField:
    if not isinstance(raw, Mapping):
        raise TypeError(f"{path} must be an object such as {{length: 32}}")
    _only(raw, ("length", "alphabet"))
    length, alphabet = raw.get("length", 32), raw.get("alphabet", "")
    if not isinstance(length, int) or isinstance(length, bool) or not 1 <= length <= _LONGEST_SECRET:
        raise ValueError(f"{path}.length must be a number from 1 to {_LONGEST_SECRET}")
    if not isinstance(alphabet, str) or len(set(alphabet)) == 1:
        raise ValueError(f"{path}.alphabet must have at least two different characters")
    return GeneratedField(path, length, alphabet)


@attrs.frozen
class BoxMetadata:
    """The name of the box, which is a part of labels and of its field manager."""

    name: str = schema_field("Name of the box.", schema=_NAME)
    labels: Mapping[str, Any] = schema_field("Labels of the box's own file.", default=attrs.Factory(dict))
    annotations: Mapping[str, Any] = schema_field("Annotations of the box's own file.", default=attrs.Factory(dict))
    namespace: str | None = schema_field("Where it is installed.", default=None)


@attrs.frozen
class DeclaredKind:
    """A kind that neither a CRD file nor the table of built-in kinds describes."""

    api_version: str = schema_field("Group and version.", schema={"minLength": 1})
    kind: str = schema_field("Name of the kind.", schema={"minLength": 1})
    plural: str = schema_field("Its name in paths of the API: `webapps`.", schema={"minLength": 1})
    namespaced: bool = schema_field("Whether its objects live in namespaces.", default=True)


@attrs.frozen
class BoxExternal:
    """An object that is read, never written and never deleted."""

    id: str = schema_field("What expressions call it.", schema=_ID)
    api_version: str = schema_field("Group and version; a literal.", schema={"minLength": 1})
    kind: str = schema_field("Its kind; a literal.", schema={"minLength": 1})
    metadata: Mapping[str, Any] = schema_field(
        "`name`, and `namespace` where it is another than the parent's; expressions over `self` alone."
    )
    include_when: tuple[str, ...] = schema_field(
        "Is it looked for? Expressions over `self`; false leaves it out, with the resources that need it.",
        default=(),
        schema=_TEXTS,
    )
    ready_when: tuple[str, ...] = schema_field("Expressions that hold when it can be used.", default=(), schema=_TEXTS)
    fields: tuple[str, ...] = schema_field(
        "Paths that may be read; without it those that expressions name.", default=(), schema=_TEXTS
    )
    selector: Mapping[str, Any] = schema_field("Labels by which its kind is watched.", default=attrs.Factory(dict))
    watch: bool | None = schema_field(
        "Whether it is watched. Secrets are not unless this is true: they are read in each pass.", default=None
    )


@attrs.frozen
class BoxResource:
    """An object that should exist, or one for each item of a list."""

    id: str = schema_field("What expressions, conditions and labels call it.", schema=_ID)
    template: Mapping[str, Any] = schema_field("A manifest with expressions; apiVersion and kind are literals.")
    include_when: tuple[str, ...] = schema_field(
        "Should it exist? All must hold; false removes it, unknown holds it.", default=(), schema=_TEXTS
    )
    when: tuple[WhenEntry, ...] = schema_field("May we act now? All must hold.", default=())
    any: tuple[WhenEntry, ...] = schema_field("May we act now? One must hold.", default=())
    optional: bool | None = schema_field(
        "Whether a closed gate leaves Ready alone; without it: where the gate looks at the parent only.", default=None
    )
    depends_on: tuple[Dependency, ...] = schema_field("What it waits for beside what its template reads.", default=())
    ready_when: tuple[str, ...] = schema_field(
        "Is it healthy? All must hold beside its kind's own rule.", default=(), schema=_TEXTS
    )
    readiness: ReadinessRule = schema_field("`Exists` switches the kind's rule off.", default=ReadinessRule.KIND)
    for_each: ForEach | None = schema_field("One object for each item of a list.", default=None)
    apply: ApplyMode | None = schema_field("How often it is written; Always unless its phase says once.", default=None)
    reconcile: bool = schema_field("In a phase `on: create`: kept up all the same.", default=False)
    roll_on: tuple[str, ...] = schema_field(
        "Ids whose content is hashed into the annotations of the pod template.", default=(), schema=_TEXTS
    )
    on_delete: Removal = schema_field("What becomes of it when its parent goes.", default=Removal.DELETE)
    prune: PruneTime = schema_field("When it goes once it is no longer wanted.", default=PruneTime.WHEN_READY)
    on_immutable: OnImmutable = schema_field(
        "What is done about a change that the API server refuses.", default=OnImmutable.FAIL
    )
    generate: GeneratedFields = schema_field("Fields filled with random text at creation.", default=GeneratedFields())
    owner: OwnerMode = schema_field("How it says whose it is.", default=OwnerMode.REFERENCE)


@attrs.frozen
class BoxPhase:
    """A group of resources with one gate."""

    name: str = schema_field("Name of the phase.", schema=_NAME)
    resources: tuple[BoxResource, ...] = schema_field("What belongs to it.")
    on: PhaseOn = schema_field("When it has its turn.", default=PhaseOn.RECONCILE)
    when: tuple[WhenEntry, ...] = schema_field("May we act now? All must hold.", default=())
    any: tuple[WhenEntry, ...] = schema_field("May we act now? One must hold.", default=())
    optional: bool | None = schema_field("Whether a closed gate leaves Ready alone.", default=None)
    depends_on: tuple[Dependency, ...] = schema_field("What all its resources wait for.", default=())


@attrs.frozen
class DeletionPhase:
    """Resources that run to their end before anything is deleted."""

    resources: tuple[BoxResource, ...] = schema_field("What is made, in this order of phases.")
    name: str = schema_field("Name of the phase.", default="")


@attrs.frozen
class BoxDeletion:
    """The behaviour of a box when a parent (object of its kind) is deleted."""

    order: DeletionOrder = schema_field(
        "Whether the order holds in a foreground deletion too.", default=DeletionOrder.WAVES
    )
    phases: tuple[DeletionPhase, ...] = schema_field("What runs first.", default=())


@attrs.frozen
class BoxCondition:
    """A condition of the parent in addition to Ready, Reconciling and Stalled."""

    type: str = schema_field("Its type.", schema={"minLength": 1, "maxLength": 316})
    status: str = schema_field("An expression that gives true or false; unknown while it has no value.")
    reason: str = schema_field("One word in CamelCase, or an expression.", default="")
    message: str = schema_field("A sentence, or an expression.", default="")


@attrs.frozen
class BoxStatus:
    """The status fields and conditions that a box computes for its parents (objects of its kind)."""

    fields: Mapping[str, Any] = schema_field("Fields, with expressions.", default=attrs.Factory(dict))
    conditions: tuple[BoxCondition, ...] = schema_field("Conditions.", default=())


@attrs.frozen
class BoxValidation:
    """A rule that every parent must satisfy: an expression over `self` and `oldSelf`, without `${…}`."""

    rule: str = schema_field("What must hold.", schema={"minLength": 1})
    message: str = schema_field("What is said where it does not.", default="")
    field: str = schema_field("The field that it is about.", default="")


@attrs.frozen
class BoxMutation:
    """A field that is filled in where it is absent."""

    field: str = schema_field("Its path.", schema={"minLength": 1})
    value: Any = schema_field("A literal becomes the CRD's default, an expression needs the webhook.")


@attrs.frozen
class BoxVersion:
    """A version of the kind; the first without `up` and `down` is the storage version, in which `self` always is."""

    name: str = schema_field("Its name: `v1alpha1`.", schema={"minLength": 1})
    up: Mapping[str, Any] = schema_field("Fields of the storage version, from `old`.", default=attrs.Factory(dict))
    down: Mapping[str, Any] = schema_field("Fields of this version, from `self`.", default=attrs.Factory(dict))
    keeps: KeptIn = schema_field("Where the rest survives a round trip.", default=KeptIn.NOTHING)


@attrs.frozen
class BoxSpec:
    """The operator of one kind."""

    crd: CrdSource = schema_field("The CRD of its kind: a file beside this one, or `{name: …}`.")
    namespaces: Mapping[str, Any] | None = schema_field(
        "Label selector of the namespaces that it works in; all without it.", default=None
    )
    resync: str = schema_field(
        "How long at most until everything is looked at again.", default="60s", schema={"pattern": GO_DURATION}
    )
    trust_parents: tuple[Power, ...] = schema_field(
        "What expressions over a parent may decide, since whoever writes parents may do that anyway.", default=()
    )
    service_account_name: str = schema_field(
        "The ServiceAccount, in the namespace of a parent, as which its children are read and written.", default=""
    )
    kinds: tuple[DeclaredKind, ...] = schema_field("Kinds that no CRD file tells about.", default=())
    externals: tuple[BoxExternal, ...] = schema_field("Objects that are read only.", default=())
    resources: tuple[BoxResource, ...] = schema_field("What should exist: one phase without a gate.", default=())
    phases: tuple[BoxPhase, ...] = schema_field("What should exist, in groups with gates.", default=())
    deletion: BoxDeletion = schema_field("What happens when the parent is deleted.", default=BoxDeletion())
    status: BoxStatus = schema_field("What its status says.", default=BoxStatus())
    validation: tuple[BoxValidation, ...] = schema_field("What every object has to keep.", default=())
    mutation: tuple[BoxMutation, ...] = schema_field("What is filled in.", default=())
    versions: tuple[BoxVersion, ...] = schema_field("Versions of the kind, and how they become each other.", default=())
    rollout: BoxRollout = schema_field(
        "How a changed box reaches the objects of its kind, for a box that is applied to a cluster.",
        default=BoxRollout(),
    )
    deletion_policy: DeletionPolicy = schema_field(
        "What becomes of the objects of its kind when an applied box is deleted.", default=DeletionPolicy.REFUSE
    )


@attrs.frozen
class OperatorBox:
    """An operator in a file: the children of each object of a kind, their order, and the status of the object."""

    metadata: BoxMetadata = schema_field("Its name.")
    spec: BoxSpec = schema_field("What it does.")


SEVERAL_FORMS: Final[Mapping[type[Any], Callable[[Any], Any]]] = {
    CrdSource: CrdSource.of,
    WhenEntry: WhenEntry.of,
    Dependency: Dependency.of,
    ForEach: ForEach.of,
    GeneratedFields: GeneratedFields.of,
}
"""The functions that read a class from JSON, for classes with several forms: a string or a mapping, or keys of the
author's choice.
"""
