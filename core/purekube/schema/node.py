"""A compiled structural schema: an immutable tree of nodes with types, defaults, checks and CEL rules."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from purekube.apimachinery.problems import Problem
from purekube.regex import Pattern


@attrs.frozen(eq=False)
class CompiledRule:
    """One compiled CEL rule. `run` and `message_run` evaluate rule and message from the variables `self` and `oldSelf`.

    `transition` says that the rule reads `oldSelf`, so that it runs only if an old value exists. `optional_old`
    (`optionalOldSelf`) says that the rule always runs and sees `oldSelf` as an optional. `typed` says that values must
    be converted before the rule sees them (times, doubles, sets). `message`, `field_path` (`.spec.x`) and `reason`
    describe a violation.
    """

    text: str
    run: Callable[[Mapping[str, Any]], Any]
    message: str = ""
    message_run: Callable[[Mapping[str, Any]], Any] | None = None
    reason: str = "FieldValueInvalid"
    field_path: str = ""
    transition: bool = False
    optional_old: bool = False
    typed: bool = False


class _Missing:
    """The type of `MISSING`, which means no value at all, in contrast to None, the JSON null."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


class JsonType(StrEnum):
    """The `type` of a schema node. ANY means that the node has no `type`."""

    ANY = ""
    OBJECT = "object"
    ARRAY = "array"
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"


class ListType(StrEnum):
    """The `x-kubernetes-list-type`: an atomic list, a set of scalars, or a map keyed by fields."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


SchemaProblem = Problem
"""One problem of a schema: its `path` inside the schema, and the message."""


class SchemaError(Exception):
    """The error raised when a schema is invalid or not supported, with all its problems."""

    def __init__(self, problems: Iterable[SchemaProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


@attrs.frozen(eq=False)
class ValueChecks:
    """The validations of values by one schema node: everything that restricts a value without adding structure.
    `all_of`, `any_of`, `one_of` and `negated` are nodes that contain only such restrictions.
    """

    enum: tuple[Any, ...] | None = None
    pattern: Pattern | None = None
    pattern_text: str = ""
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    all_of: tuple["Schema", ...] = ()
    any_of: tuple["Schema", ...] = ()
    one_of: tuple["Schema", ...] = ()
    negated: "Schema | None" = None


@attrs.frozen(eq=False, repr=False)
class Schema:
    """One node of a schema.

    `properties` are the declared fields, `additional` is the schema of all other keys, `items` that of list items.
    `free` says that server-side apply accepts undeclared keys, with a type deduced from their value: in nodes with
    `preserve_unknown`, in all nodes below these, and where no field is declared at all. `embedded` marks a whole object
    with apiVersion, kind and metadata of its own. `patch_key` is the merge key of strategic merge patches if that
    differs from the list keys. `has_defaults`, `has_rules`, `has_transitions` (rules that read `oldSelf`), `has_keys`
    (sets and map lists) and `has_embedded` say whether this node or a node below it has them. If not, functions that
    look for them skip the node and everything below it.
    """

    type: JsonType = JsonType.ANY
    properties: Mapping[str, "Schema"] = attrs.field(factory=dict)
    additional: "Schema | None" = None
    items: "Schema | None" = None
    free: bool = False
    required: tuple[str, ...] = ()
    nullable: bool = False
    int_or_string: bool = False
    preserve_unknown: bool = False
    embedded: bool = False
    default: Any = MISSING
    list_type: ListType = ListType.ATOMIC
    list_keys: tuple[str, ...] = ()
    is_indexed: bool = False
    """True for a list without a list type: it is atomic, but an item is compared with the old one at its index."""
    atomic_map: bool = False
    patch_key: str = ""
    format: str = ""
    checks: ValueChecks | None = None
    rules: tuple[CompiledRule, ...] = ()
    has_defaults: bool = False
    has_rules: bool = False
    has_transitions: bool = False
    has_keys: bool = False
    has_embedded: bool = False
    natural: Any = attrs.field(init=False, default=attrs.Factory(lambda node: _natural(node), takes_self=True))
    """The Python type whose values always have the node's JSON type (str for `string`); None if there is none."""
    plain: Any = attrs.field(init=False, default=attrs.Factory(lambda node: _plain(node), takes_self=True))
    """The Python type whose values are all valid for the node, so that checks can skip them; None if there is none."""
    defaulted: tuple[tuple[str, "Schema"], ...] = attrs.field(
        init=False, default=attrs.Factory(lambda node: _defaulted(node), takes_self=True)
    )
    """The names and schemas of the declared fields that have a default."""

    def child(self, key: str) -> "Schema | None":
        """Return the schema of the member `key` of an object; None if the schema does not declare this member."""
        return self.properties.get(key, self.additional)

    def applied(self, key: str) -> "Schema | None":
        """Return the schema of the member `key` of an object as server-side apply uses it.

        An undeclared member of a node with `free` gets a schema that accepts anything. For any other undeclared member
        the result is None: an apply with this member is refused with "field not declared in schema".
        """
        child = self.properties.get(key, self.additional)
        return ANYTHING if child is None and self.free else child


def _defaulted(node: Schema) -> tuple[tuple[str, Schema], ...]:
    return tuple((key, child) for key, child in node.properties.items() if child.default is not MISSING)


_NATURAL: Final[Mapping[JsonType, type]] = {
    JsonType.OBJECT: dict,
    JsonType.ARRAY: list,
    JsonType.STRING: str,
    JsonType.INTEGER: int,
    JsonType.NUMBER: float,
    JsonType.BOOLEAN: bool,
}
_PLAIN: Final = (str, int, bool)


def _natural(node: Schema) -> type | None:
    return None if node.int_or_string else _NATURAL.get(node.type)


def _plain(node: Schema) -> type | None:
    return node.natural if node.checks is None and not node.format and node.natural in _PLAIN else None


ANYTHING: Final = Schema(free=True, preserve_unknown=True)
"""The schema of a value that no schema describes: its objects merge key by key, its lists are atomic (S-58)."""
