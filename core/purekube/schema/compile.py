"""The compilation of the OpenAPI schema in a CustomResourceDefinition to a `Schema`.

Everything that a real API server refuses in a schema, and everything that this implementation cannot evaluate, is
reported at once. A schema that compiles is thus enforced in full.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import attrs

from purekube.schema.keywords import KeywordReader
from purekube.schema.node import MISSING, JsonType, ListType, Schema, SchemaError, SchemaProblem, ValueChecks
from purekube.schema.pruning import apply_defaults, prune
from purekube.schema.rule_compile import compile_rules
from purekube.schema.rules import check_rules
from purekube.schema.structure import check_structure

_SCALARS: Final = frozenset((JsonType.STRING, JsonType.INTEGER, JsonType.NUMBER, JsonType.BOOLEAN))


def node_problems(node: Schema, path: str) -> Iterator[SchemaProblem]:
    """Yield a problem for each reason why an API server would refuse the schema node `node` itself.

    The reasons are about its list type, its default, and the fields that `allOf`, `anyOf`, `oneOf` and `not` restrict.
    Problems of nested nodes are left out. `path` is the node's path in the whole schema.
    """
    match node.list_type:
        case ListType.MAP:
            yield from _map_problems(node, path)
        case ListType.SET if node.items is not None and not _set_item(node.items):
            yield SchemaProblem(f"{path}.items", "items of a list of type set must be scalar or atomic")
    if node.list_type is not ListType.ATOMIC and node.type is not JsonType.ARRAY:
        yield SchemaProblem(f"{path}.type", "must be array if x-kubernetes-list-type is specified")
    for branch in _branches(node.checks):
        yield from _branch_problems(branch, node, path)
    if node.default is not MISSING:
        for cause in check_structure(node, node.default, path="default"):
            yield SchemaProblem(f"{path}.default", cause.message)


def _default_problems(node: Schema, path: str) -> Iterator[SchemaProblem]:
    """Yield a problem for each undeclared field of a node's default, and for each of the node's rules that it breaks.

    An API server would refuse each object that gets the default.
    """
    if node.default is MISSING:
        return
    for field in prune(node, node.default)[1]:
        yield SchemaProblem(f"{path}.default", f"must not have the undeclared field {field}")
    for cause in check_rules(node, apply_defaults(node, node.default), path="default"):
        yield SchemaProblem(f"{path}.default", cause.message)


def _map_problems(node: Schema, path: str) -> Iterator[SchemaProblem]:
    keys = f"{path}.x-kubernetes-list-map-keys"
    if not node.list_keys:
        yield SchemaProblem(keys, "must not be empty if x-kubernetes-list-type is map")
    item = node.items
    if item is None or item.type is not JsonType.OBJECT:
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield SchemaProblem(f"{path}.items.type", text)
        return
    for key in node.list_keys:
        child, where = item.properties.get(key), f"{path}.items.properties[{key}]"
        if child is None:
            yield SchemaProblem(keys, f"{key!r} must be a property of the items")
        elif child.type not in _SCALARS and not child.int_or_string:
            yield SchemaProblem(f"{where}.type", "must be a scalar type if it is a list map key")
        elif key not in item.required and child.default is MISSING:
            yield SchemaProblem(where, "a list map key must be required or have a default")


def _branch_problems(branch: Schema, node: Schema, path: str) -> Iterator[SchemaProblem]:
    """Yield a problem for each undeclared field that a branch of `allOf`, `anyOf`, `oneOf` or `not` restricts."""
    for key, restricted in branch.properties.items():
        declared, where = node.child(key), f"{path}.properties[{key}]"
        if declared is not None:
            yield from _branch_problems(restricted, declared, where)
        elif not node.preserve_unknown:
            yield SchemaProblem(where, "must be declared, because a junctor restricts it")
    if branch.items is not None and node.items is not None:
        yield from _branch_problems(branch.items, node.items, f"{path}.items")
    for inner in _branches(branch.checks):
        yield from _branch_problems(inner, node, path)


def _branches(checks: ValueChecks | None) -> tuple[Schema, ...]:
    if checks is None:
        return ()
    negated = (checks.negated,) if checks.negated is not None else ()
    return (*checks.all_of, *checks.any_of, *checks.one_of, *negated)


def _set_item(item: Schema) -> bool:
    match item.type:
        case JsonType.OBJECT:
            return item.atomic_map
        case JsonType.ARRAY:
            return item.list_type is ListType.ATOMIC
        case _:
            return True


_BOUNDS: Final = {
    "minimum": "minimum",
    "maximum": "maximum",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_items",
    "maxItems": "max_items",
    "minProperties": "min_properties",
    "maxProperties": "max_properties",
}
_CHECKS: Final = frozenset((*_BOUNDS, "enum", "pattern", "allOf", "anyOf", "oneOf", "not"))
_STRUCTURAL: Final = (
    "type",
    "title",
    "description",
    "default",
    "nullable",
    "additionalProperties",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
)


def compile_schema(openapi: Mapping[str, Any], known: "Compiled | None" = None) -> Schema:
    """Compile the `openAPIV3Schema` of one version of a CRD, or of a built-in kind.

    `known` caches parts that several kinds share, such as the template of a pod, so that each is compiled once. Raises
    SchemaError with every problem: parts that are not structural, malformed patterns, CEL rules outside the supported
    subset, defaults that break their own schema.
    """
    root, problems = compile_node(openapi, "", known)
    if root.type is not JsonType.OBJECT:
        problems.insert(0, SchemaProblem("type", "must be object at the root"))
    if problems:
        raise SchemaError(problems)
    return root


def compile_node(
    openapi: Mapping[str, Any], path: str, known: "Compiled | None" = None
) -> tuple[Schema, list[SchemaProblem]]:
    """Return the compiled schema node with its nested nodes, and the problems found.

    `path` is the node's path in the whole schema. `known`, if given, caches nodes that several schemas share.
    """
    compiler = _Compiler(known=known)
    node = compiler.node(openapi, path, _TOP)
    return node, compiler.reading.problems


@attrs.frozen
class _Above:
    """The properties that a schema node inherits from the nodes above it while a schema is compiled.

    `free` says that one of them preserves unknown fields. `correlatable` says that an update can find the old value
    that corresponds to a value of the node.
    """

    free: bool = False
    correlatable: bool = True


_TOP: Final = _Above()

Compiled: TypeAlias = dict[tuple[int, _Above], tuple[Any, Schema]]
"""A cache of compiled nodes. The key is the `id()` of a node's OpenAPI source, and what the node inherits from above.

The value has the source next to the compiled node, so that the source stays alive and Python does not reuse its id.
"""


@attrs.define
class _Compiler:
    """One compilation of a schema, which collects problems while it builds the tree of schema nodes."""

    reading: KeywordReader = attrs.field(factory=KeywordReader)
    known: Compiled | None = None

    def node(self, raw: Any, path: str, above: _Above) -> Schema:
        if self.known is None:
            return self._node(raw, path, above)
        key = (id(raw), above)
        if key not in self.known:
            self.known[key] = (raw, self._node(raw, path, above))
        return self.known[key][1]

    def _node(self, raw: Any, path: str, above: _Above) -> Schema:
        if not isinstance(raw, Mapping):
            self.reading.problem(path, f"a schema is an object, not {type(raw).__name__}")
            return Schema()
        self.reading.refuse_unstructural(raw, path)
        kind = self.reading.type_of(raw, path)
        preserve = raw.get("x-kubernetes-preserve-unknown-fields") is True
        above = attrs.evolve(above, free=above.free or preserve)
        properties = {
            key: self.node(child, f"{path}.properties[{key}]", above)
            for key, child in self.reading.mapping(raw, "properties", path).items()
        }
        additional, any_additional = self._additional(raw, path, above)
        items = self.node(raw["items"], f"{path}.items", _item(raw, above)) if raw.get("items") is not None else None
        children = [*properties.values(), *(child for child in (additional, items) if child is not None)]
        node = Schema(
            type=kind,
            properties=properties,
            additional=additional,
            items=items,
            free=any_additional or (additional is None and (above.free or not properties)),
            required=tuple(raw.get("required") or ()),
            nullable=bool(raw.get("nullable")),
            int_or_string=bool(raw.get("x-kubernetes-int-or-string")),
            preserve_unknown=preserve or any_additional,
            embedded=bool(raw.get("x-kubernetes-embedded-resource")),
            # A null default is none: in Go the field is a pointer (apiextensions v1: JSONSchemaProps.Default).
            default=raw.get("default", MISSING) if raw.get("default") is not None else MISSING,
            list_type=self.reading.list_type(raw, path),
            list_keys=tuple(raw.get("x-kubernetes-list-map-keys") or ()),
            is_indexed=kind is JsonType.ARRAY and not raw.get("x-kubernetes-list-type"),
            atomic_map=raw.get("x-kubernetes-map-type") == "atomic",
            patch_key=raw.get("x-kubernetes-patch-merge-key") or "",
            format=raw.get("format") or "",
            checks=self._checks(raw, path),
            has_defaults=raw.get("default") is not None or any(child.has_defaults for child in children),
            has_keys=raw.get("x-kubernetes-list-type") in ("set", "map") or any(child.has_keys for child in children),
            has_embedded=any(child.embedded or child.has_embedded for child in children),
        )
        for problem in node_problems(node, path):
            self.reading.problem(problem.path, problem.message)
        node = self._with_rules(node, raw, path, above, children)
        for problem in _default_problems(node, path):
            self.reading.problem(problem.path, problem.message)
        return node

    def restriction(self, raw: Any, path: str) -> Schema:
        """Compile a node below `allOf`, `anyOf`, `oneOf` or `not`, which may restrict values but not add structure."""
        if not isinstance(raw, Mapping):
            self.reading.problem(path, f"a schema is an object, not {type(raw).__name__}")
            return Schema()
        for word in _STRUCTURAL:
            # x-kubernetes-int-or-string is written with `anyOf` over these two types (apiserver/schema/validation.go,
            # validateNestedValueValidation).
            if raw.get(word) and not (word == "type" and raw[word] in ("integer", "string")):
                self.reading.problem(f"{path}.{word}", "must be undefined below a junctor to be structural")
        return Schema(
            type=self.reading.json_type(raw, path),
            properties={
                key: self.restriction(child, f"{path}.properties[{key}]")
                for key, child in self.reading.mapping(raw, "properties", path).items()
            },
            items=self.restriction(raw["items"], f"{path}.items") if raw.get("items") is not None else None,
            required=tuple(raw.get("required") or ()),
            format=raw.get("format") or "",
            checks=self._checks(raw, path),
        )

    def _with_rules(
        self, node: Schema, raw: Mapping[str, Any], path: str, above: _Above, children: list[Schema]
    ) -> Schema:
        declared = raw.get("x-kubernetes-validations")
        transitions = any(child.has_transitions for child in children)
        if not declared:
            below = any(child.has_rules for child in children)
            return attrs.evolve(node, has_rules=True, has_transitions=transitions) if below else node
        rules, problems = compile_rules(declared, node, root=not path, correlatable=above.correlatable)
        for index, problem in problems:
            self.reading.problem(f"{path}.x-kubernetes-validations[{index}]", problem)
        transitions = transitions or any(rule.transition for rule in rules)
        return attrs.evolve(node, rules=rules, has_rules=True, has_transitions=transitions)

    def _checks(self, raw: Mapping[str, Any], path: str) -> ValueChecks | None:
        if _CHECKS.isdisjoint(raw):
            return None
        text = raw.get("pattern") or ""
        if raw.get("multipleOf") is not None and raw["multipleOf"] <= 0:
            self.reading.problem(f"{path}.multipleOf", "must be greater than zero")
            raw = {key: value for key, value in raw.items() if key != "multipleOf"}
        return ValueChecks(
            enum=tuple(raw["enum"]) if raw.get("enum") is not None else None,
            pattern=self.reading.pattern(text, path) if text else None,
            pattern_text=text,
            exclusive_minimum=bool(raw.get("exclusiveMinimum")),
            exclusive_maximum=bool(raw.get("exclusiveMaximum")),
            all_of=self._branches(raw, "allOf", path),
            any_of=self._branches(raw, "anyOf", path),
            one_of=self._branches(raw, "oneOf", path),
            negated=self.restriction(raw["not"], f"{path}.not") if raw.get("not") is not None else None,
            **{name: raw[key] for key, name in _BOUNDS.items() if raw.get(key) is not None},
        )

    def _branches(self, raw: Mapping[str, Any], key: str, path: str) -> tuple[Schema, ...]:
        branches = raw.get(key) or ()
        return tuple(self.restriction(branch, f"{path}.{key}[{index}]") for index, branch in enumerate(branches))

    def _additional(self, raw: Mapping[str, Any], path: str, above: _Above) -> tuple[Schema | None, bool]:
        declared = raw.get("additionalProperties")
        if declared is None:
            return None, False
        if raw.get("properties"):
            self.reading.problem(f"{path}.additionalProperties", "mutual exclusion with properties")
        if declared is False:
            self.reading.problem(f"{path}.additionalProperties", "cannot be set to false")
        if isinstance(declared, bool):
            return None, declared
        return self.node(declared, f"{path}.additionalProperties", above), False


def _item(raw: Mapping[str, Any], above: _Above) -> _Above:
    """Return what the items of the list with the schema `raw` inherit: only items of map lists can be matched with old
    values.
    """
    keyed = raw.get("x-kubernetes-list-type") == "map"
    return above if keyed else attrs.evolve(above, correlatable=False)
