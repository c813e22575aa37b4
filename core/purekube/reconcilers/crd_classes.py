"""The source text of attrs classes for a given structural schema (PH-7).

`resource` makes the same schema again from these classes. A keyword that no type implies goes into
`schema_field(schema=…)` or into the `SCHEMA` of a class. Where Python has a wider type than the schema, a note says so.
"""

import builtins
import json
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.fields import camel
from purekube.apimachinery.problems import join
from purekube.reconcilers.source_text import Group, Node, Text, call, docstring, laid_out, literal

FREE: Final = "x-kubernetes-preserve-unknown-fields"
RULES: Final = "x-kubernetes-validations"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_SCALARS: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
_IN_A_FIELD: Final = frozenset(("default", "nullable"))
"""Keywords of an object that belong to the field, so that fields with and without them share a class."""
_IN_A_CLASS: Final = frozenset(("type", "description", "properties", "required", RULES))
_IN_A_RULE: Final = frozenset(("rule", "message", "fieldPath", "reason"))
_INT_OR_STRING_BRANCHES: Final = ([{"type": "integer"}, {"type": "string"}], [{"type": "string"}, {"type": "integer"}])
_JUNCTORS: Final = ("allOf", "anyOf", "oneOf", "not")
_LONGEST_LITERAL: Final = 60
"""The longest `Literal` of an enumeration, in characters, that is written in a field; a longer one gets a name."""
USED: Final = (
    "Any",
    "ClassVar",
    "Literal",
    "Mapping",
    "TypeAlias",
    "Column",
    "Object",
    "resource",
    "rule",
    "schema_field",
)
"""Names that a generated module may import."""
_TAKEN: Final = frozenset((*dir(builtins), *USED, "Spec", "Status"))
_NO_ATTRIBUTES: Final = frozenset(
    ("self", "attrs", "SCHEMA", "l", "I", "O", *USED, *_SCALARS.values(), "tuple", "dict")
)
"""Names that no attribute may have: it would hide the name from later annotations, or ruff would mistake it for a
number.
"""


@attrs.frozen
class Note:
    """A note about a part of a CRD that a generated class cannot express, with the path of the field."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@attrs.frozen
class Attribute:
    """A field of a generated class: annotation and default as source text, and arguments of its `schema_field`."""

    name: str
    annotation: str
    doc: str
    default: Node | None
    publishes: bool
    """True if the default is also in the schema."""
    schema: Mapping[str, Any]
    rules: Sequence[Mapping[str, Any]]

    @property
    def is_call(self) -> bool:
        """Report whether the field is written as a call of `schema_field`, because it has a description, a published
        default, schema keywords or rules.
        """
        return bool(self.doc or self.publishes or self.schema or self.rules)


@attrs.frozen
class ClassSource:
    """A generated class: its docstring, its fields, schema keywords that fields cannot express, and CEL rules."""

    name: str
    doc: str
    attributes: Sequence[Attribute]
    schema: Mapping[str, Any]
    rules: Sequence[Mapping[str, Any]]


@attrs.frozen
class _Type:
    """The Python type of a field as source text, with the keywords of the schema that the type expresses."""

    text: str
    says: frozenset[str]
    doc: str = ""
    """The description in the type's schema, which applies if the field has none."""


@attrs.define
class Classes:
    """The classes and enumerations of one generated module. Equal classes are generated once; `notes` lists what the
    classes do not express.
    """

    taken: set[str]
    """Names that are in use, so that no further class may have them."""
    classes: list[ClassSource] = attrs.field(factory=list)
    enumerations: dict[tuple[str, ...], str] = attrs.field(factory=dict)
    notes: list[Note] = attrs.field(factory=list)
    _known: dict[str, list[ClassSource]] = attrs.field(factory=dict)
    _of_status: set[str] = attrs.field(factory=set)
    """The names of classes that are part of a status.

    In these a default is also in the schema only if the field has `publish_default=True`.
    """
    _status: bool = False

    def add(self, name: str, schema: Mapping[str, Any], path: str, *, status: bool = False) -> None:
        """Add a class called `name` for the schema of a spec or, with `status`, of a status. With `status`, all fields
        of the class get defaults.

        `path` is the schema's field path, for the notes.
        """
        self._status = status
        self._of_status |= {name} if status else set()
        if schema.keys() & {FREE, "additionalProperties"}:
            self.notes.append(Note(path, "may have fields of any name: read them from the object's `manifest`"))
        self._note_junctors(schema, path)
        parts = self._parts(normal(schema), path, (name,), status=status)
        self.classes.append(ClassSource(name, normal(schema).get("description", ""), *parts))

    def lines(self) -> Iterator[str]:
        """Yield the lines of the module with all enumerations and classes."""
        yield from [""] if self.enumerations else []
        for values, name in self.enumerations.items():
            yield from laid_out(f"{name}: TypeAlias = ", _literal_type(values))
        for one in self.classes:
            yield from ("", "", *self._class_lines(one))

    # --- types -------------------------------------------------------------------------------------------------------

    def _type(self, schema: Mapping[str, Any], path: str, words: tuple[str, ...], *, inner: bool = False) -> _Type:
        """Return the Python type for a schema. Names of classes are made from `words`. `inner` says that the type is
        that of an item or value, to which no field can add schema keywords.
        """
        self._note_junctors(schema, path)
        match schema.get("type"):
            case _ if schema.get(INT_OR_STRING):
                return _Type("int | str", frozenset((INT_OR_STRING,)))
            case "object":
                return self._object(schema, path, words, inner=inner)
            case "array":
                return self._inner("tuple[{}, ...]", "items", schema, path, words)
            case "string" if _is_enumeration(schema.get("enum")):
                return _Type(self._enumeration(tuple(schema["enum"]), words), frozenset(("type", "enum")))
            case str(scalar):
                return _Type(_SCALARS[scalar], frozenset(("type",)))
            case _:
                return _Type("Any", frozenset((FREE,)))

    def _object(self, schema: Mapping[str, Any], path: str, words: tuple[str, ...], *, inner: bool) -> _Type:
        if "additionalProperties" in schema and "properties" not in schema:
            return self._inner("Mapping[str, {}]", "additionalProperties", schema, path, words)
        if schema.get(FREE) and "properties" not in schema:
            return _Type("Mapping[str, Any]", frozenset(("type", FREE)))
        kept = schema if inner else {key: value for key, value in schema.items() if key not in _IN_A_FIELD}
        made = self._class(kept, path, words, inner=inner)
        return _Type(made.name, frozenset(kept), made.doc)

    def _inner(self, form: str, key: str, schema: Mapping[str, Any], path: str, words: tuple[str, ...]) -> _Type:
        """Return the Python type for a list or a map whose items or values have the schema `schema[key]`.

        `form` is the source text of the type, with a placeholder for the type of items or values. `words` are the words
        of which names of classes are made.
        """
        item = schema[key]
        of = self._type(item, f"{path}[]", (*words[:-1], singular(words[-1])), inner=True)
        nullable = item.get("nullable") and of.text != "Any"
        says = ("type", key) if item.keys() <= of.says else ("type",)
        return _Type(form.format(f"{of.text} | None" if nullable else of.text), frozenset(says))

    def _enumeration(self, values: tuple[str, ...], words: tuple[str, ...]) -> str:
        text = "".join(laid_out("", _literal_type(values)))
        if len(text) <= _LONGEST_LITERAL:
            return text
        if values not in self.enumerations:
            self.enumerations[values] = self._free_name(words)
        return self.enumerations[values]

    def _note_junctors(self, schema: Mapping[str, Any], path: str) -> None:
        self.notes += (
            Note(path, f"{key}: is in the schema, but not in the type") for key in _JUNCTORS if key in schema
        )

    # --- classes -----------------------------------------------------------------------------------------------------

    def _class(self, schema: Mapping[str, Any], path: str, words: tuple[str, ...], *, inner: bool) -> ClassSource:
        parts, doc = self._parts(schema, path, words), schema.get("description", "")
        same = self._known.setdefault(json.dumps(attrs.asdict(ClassSource("", "", *parts)), default=repr), [])
        full = "".join(map(pascal, words))
        fit = (known for known in same if full.endswith(known.name) and (not inner or doc in ("", known.doc)))
        found = next(fit, None)
        if found is None:
            found = ClassSource(self._free_name(words), doc, *parts)
            same.append(found)
            self.classes.append(found)
        self._of_status |= {found.name} if self._status else set()
        return found

    def _parts(
        self, schema: Mapping[str, Any], path: str, words: tuple[str, ...], *, status: bool = False
    ) -> tuple[Sequence[Attribute], dict[str, Any], Sequence[Mapping[str, Any]]]:
        """Return three parts of a class: its fields, its `SCHEMA` (schema keywords for fields without an attribute),
        and its CEL rules.
        """
        attributes, untyped, required = [], {}, set(schema.get("required", ()))
        if status:
            self.notes += (Note(join(path, key), _NOT_IN_A_NEW_STATUS) for key in sorted(required))
            required = set()
        for key, child in schema.get("properties", {}).items():
            where = join(path, key)
            if (name := attribute_name(key)) is None:
                untyped[key] = child
                self.notes.append(Note(where, "no attribute can have this name: read it from the object's `manifest`"))
                continue
            if key in required and child.get("nullable"):
                self.notes.append(Note(where, _NO_NULL))
            needed = key in required and not child.get("nullable")
            required -= {key} if needed else set()
            attributes.append(self._attribute(name, child, where, (*words, key), needed=needed))
        rules, more = split_rules(schema)
        rest = {key: value for key, value in schema.items() if key not in _IN_A_CLASS}
        added = {"properties": untyped, "required": sorted(required)}
        # Without a default first, as attrs wants; mypy takes every call for one.
        attributes.sort(key=lambda one: (one.default is not None, one.default is None and one.is_call))
        return attributes, {**rest, **more, **{key: value for key, value in added.items() if value}}, rules

    def _attribute(
        self, name: str, schema: Mapping[str, Any], path: str, words: tuple[str, ...], *, needed: bool
    ) -> Attribute:
        of = self._type(schema, path, words)
        rules, more = split_rules(schema)
        rest = {key: value for key, value in schema.items() if key not in (*of.says, "description", RULES)}
        rest |= {} if RULES in of.says else more
        rules = () if RULES in of.says else rules
        doc = "" if (said := schema.get("description", "")) == of.doc else said
        publishes = isinstance(schema.get("default"), str | int | float) and not schema.get("nullable")
        if publishes:
            return Attribute(name, of.text, doc, literal(rest.pop("default")), True, rest, rules)
        text, default = (of.text, None) if needed and "default" not in schema else _optional(of.text, schema)
        return Attribute(name, text, doc, default, False, rest, rules)

    def _free_name(self, words: tuple[str, ...]) -> str:
        """Return a class name that is not in use, joined from as few of the last `words` as possible."""
        names = ["".join(map(pascal, words[-count:])) for count in range(1, len(words) + 1)]
        numbered = (f"{names[-1]}{number}" for number in range(2, 1 + 2 + len(self.taken)))
        name = next(each for each in (*names, *numbered) if each not in self.taken and each not in _TAKEN)
        self.taken.add(name)
        return name

    # --- source text -------------------------------------------------------------------------------------------------

    def _class_lines(self, one: ClassSource) -> Iterator[str]:
        yield from ("@attrs.frozen", f"class {one.name}:")
        if one.doc or not (one.attributes or one.schema or one.rules):
            yield from docstring(one.doc or "An object without fields.", 4)
            if one.attributes or one.schema or one.rules:
                yield ""
        for attribute in one.attributes:
            yield from self._attribute_lines(attribute, status=one.name in self._of_status)
        if one.schema:
            yield from laid_out("SCHEMA: ClassVar[Mapping[str, Any]] = ", literal(one.schema), indent=4)
        if one.rules:
            yield from laid_out(
                "CEL_RULES = ", Group("(", [("", rule_call(each)) for each in one.rules], ")"), indent=4
            )

    def _attribute_lines(self, one: Attribute, *, status: bool) -> Iterator[str]:
        name = f"{one.name}_" if one.name in self.taken else one.name
        named: dict[str, Node] = {} if one.default is None else {"default": one.default}
        # A spec publishes its defaults anyway, except an empty text.
        publishes = one.publishes and (status or one.default == Text(""))
        named |= {"publish_default": "True"} if publishes else {}
        named |= {"schema": literal(one.schema)} if one.schema else {}
        named |= {"rules": Group("[", [("", rule_call(each)) for each in one.rules], "]")} if one.rules else {}
        prefix = f"{name}: {one.annotation}"
        if one.doc or named.keys() - {"default"}:
            yield from laid_out(f"{prefix} = ", call("schema_field", literal(one.doc), **named), indent=4)
        else:
            yield from laid_out(prefix if one.default is None else f"{prefix} = ", one.default or "", indent=4)


_NOT_IN_A_NEW_STATUS: Final = "required, but optional here: the status of a new object says nothing yet"
_NO_NULL: Final = "required and nullable, but None is left out when an object is written"


def normal(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of the same meaning, without keywords that have no effect.

    Such keywords are null, false or empty values, blank descriptions, required fields with a default, and the two
    branches of an int-or-string.
    """
    kept = {key: _normal(key, value) for key, value in schema.items() if value is not None}
    says = [key for key, value in kept.items() if key in _KEPT or (value is not False and value not in ("", [], {}))]
    kept = {key: kept[key] for key in says}
    if kept.get("additionalProperties") is True:
        kept = {FREE: True, **{key: value for key, value in kept.items() if key != "additionalProperties"}}
    if kept.get(INT_OR_STRING) and kept.get("anyOf") in _INT_OR_STRING_BRANCHES:
        del kept["anyOf"]
    if "required" in kept:
        children = kept.get("properties", {})
        kept["required"] = [key for key in kept["required"] if "default" not in children.get(key, {})]
    return kept


def _normal(key: str, value: Any) -> Any:
    match key:
        case "properties":
            return {str(name): normal(child) for name, child in value.items()}
        case "items" | "additionalProperties" if isinstance(value, Mapping):
            return normal(value)
        case "description":
            return value.strip()
        case _:
            return value


_KEPT: Final = frozenset(("default", "enum", "not"))
"""Keywords that say something even if they are false or empty."""


def split_rules(schema: Mapping[str, Any]) -> tuple[Sequence[Mapping[str, Any]], dict[str, Any]]:
    """Return the CEL rules of `schema` in the form in which a class can declare them: as a pair with one empty part.

    The first part has the rules, if `purekube.schema.rule(expression, message, field_path, reason)` can express each of
    them. Otherwise the second part is a schema whose only keyword is `x-kubernetes-validations`, with all rules.
    """
    rules = schema.get(RULES, [])
    if all(rule.keys() <= _IN_A_RULE and rule.get("message") for rule in rules):
        return rules, {}
    return (), {RULES: rules}


def rule_call(one: Mapping[str, Any]) -> Group:
    """Return the source text of a call of `rule`. `one` is the CEL rule as an item of `x-kubernetes-validations`."""
    named = {"field_path": one.get("fieldPath"), "reason": one.get("reason")}
    given = {name: literal(value) for name, value in named.items() if value and value != "FieldValueInvalid"}
    return call("rule", literal(one["rule"]), literal(one["message"]), **given)


def attribute_name(key: str) -> str | None:
    """Return the name of the attribute whose JSON name is `key`; None if no attribute can have that JSON name."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", key) is None:
        return None
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()
    name = name if camel(name) == key else key
    return f"{name}_" if keyword.iskeyword(name) or name in _NO_ATTRIBUTES else name


def pascal(word: str) -> str:
    """Return `word` in PascalCase, as a part of a class's name."""
    text = "".join(part[0].upper() + part[1:] for part in re.findall(r"[A-Za-z0-9]+", word))
    return text if text[:1].isalpha() else f"Field{text}"


def singular(word: str) -> str:
    """Return the singular of a plural by the regular rules of English. Other words are returned unchanged."""
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us")) else word


def _optional(annotation: str, schema: Mapping[str, Any]) -> tuple[str, Node]:
    """Return the annotation and the default of an optional field.

    The default is empty for a list or a map that may not be null, and None for everything else.
    """
    if annotation == "Any":
        return annotation, "None"
    if annotation.startswith("tuple[") and not schema.get("nullable"):
        return annotation, "()"
    if annotation.startswith("Mapping[") and not schema.get("nullable"):
        return annotation, "attrs.Factory(dict)"
    return f"{annotation} | None", "None"


def _is_enumeration(values: Any) -> bool:
    return bool(values) and all(isinstance(value, str) for value in values)


def _literal_type(values: tuple[str, ...]) -> Group:
    return Group("Literal[", [("", literal(value)) for value in values], "]")
