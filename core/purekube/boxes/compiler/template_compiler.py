"""The compilation of a box's templates and expressions, each checked against its place and schema (PH-6)."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.problems import Problem, index, join, type_name
from purekube.boxes.compiler.impersonation import PowerGuard
from purekube.boxes.compiler.scoping import ExpressionCompiler, Variables
from purekube.boxes.expressions import BoxExpression
from purekube.boxes.read import Findings
from purekube.boxes.templates import OPENING, Template, TextPart, compile_template, whole_expression
from purekube.cel import BOOL, STRING, CelSyntaxError, CelType, Program
from purekube.cel.syntax import unescape
from purekube.schema.node import JsonType, Schema
from purekube.schema.structure import check_structure

_DEEPEST: Final = 12
"""The depth to which types are compared: schemas may be recursive."""

_TEXTS: Final = frozenset(("string", "timestamp", "duration", "bytes"))
_NO_JSON: Final = frozenset(("type", "quantity", "url", "ip", "cidr", "semver"))
_FITTING: Final[Mapping[JsonType, frozenset[str]]] = {
    JsonType.STRING: _TEXTS,
    JsonType.INTEGER: frozenset(("int", "uint")),
    JsonType.NUMBER: frozenset(("int", "uint", "double")),
    JsonType.BOOLEAN: frozenset(("bool",)),
    JsonType.ARRAY: frozenset(("list",)),
    JsonType.OBJECT: frozenset(("map", "object")),
}


def misfits(raw: Any, schema: Schema, path: str = "") -> Iterator[Problem]:
    """Yield a problem for each literal in the template `raw` that its schema refuses.

    `path` is the path of the template in the file. Expressions are checked elsewhere.
    """
    match raw:
        case Mapping():
            yield from _object(raw, schema, path)
        case list() | tuple():
            yield from _items(raw, schema, path)
        case str() if OPENING in raw:
            if schema.type not in (JsonType.STRING, JsonType.ANY) and not raw.startswith(OPENING):
                yield Problem(path, f"expected {_type_name(schema)}, found text")
        case _:
            yield from _scalar(raw, schema, path)


def _object(raw: Mapping[str, Any], schema: Schema, path: str) -> Iterator[Problem]:
    if schema.type not in (JsonType.OBJECT, JsonType.ANY) or schema.int_or_string:
        yield Problem(path, f"expected {_type_name(schema)}, found an object")
        return
    fixed = True
    for key, value in raw.items():
        where = join(path, key)
        if OPENING in key:
            fixed = False
            child = schema.additional
        else:
            child = schema.child(key)
            if child is None and not schema.preserve_unknown and schema.type is JsonType.OBJECT:
                yield Problem(where, undefined(key, schema))
        if child is not None:
            yield from misfits(value, child, where)
    if fixed:
        yield from (Problem(join(path, name), "is required") for name in schema.required if name not in raw)


def undefined(name: str, schema: Schema) -> str:
    """Return the message for the field `name`, which `schema` does not declare."""
    near = get_close_matches(name, schema.properties, 1)
    return f"undefined field{f'; did you mean {near[0]}?' if near else ''}"


def _items(raw: Sequence[Any], schema: Schema, path: str) -> Iterator[Problem]:
    if schema.type not in (JsonType.ARRAY, JsonType.ANY) or schema.int_or_string:
        yield Problem(path, f"expected {_type_name(schema)}, found a list")
        return
    if schema.items is not None:
        for at, item in enumerate(raw):
            yield from misfits(item, schema.items, index(path, at))


def _scalar(raw: Any, schema: Schema, path: str) -> Iterator[Problem]:
    for cause in check_structure(schema, raw):
        if cause.reason == "FieldValueTypeInvalid" and "must be of type" in cause.message:
            hint = "; quote it" if schema.type is JsonType.STRING and raw is not None else ""
            yield Problem(path, f"expected {_type_name(schema)}, found {type_name(raw)}{hint}")
        else:
            yield Problem(path, cause.message)


def _type_name(schema: Schema) -> str:
    if schema.int_or_string:
        return "integer or string"
    return str(schema.type) or "any value"


def mismatch(actual: CelType, schema: Schema, path: str = "", deep: int = 0) -> Problem | None:
    """Return the reason why no value of the CEL type `actual` can satisfy `schema`. Return None if a value can satisfy
    it, or if type or schema is unknown.

    `path` is the path of the value, for the message. `deep` is the number of levels above the value that were compared
    already; beyond a limit nothing is compared, since schemas may be recursive.
    """
    if actual.name == "optional":
        return mismatch(actual.item, schema, path, deep)
    if actual.name in _NO_JSON:
        return Problem(path, f"a value of type {actual} cannot be written: make a string of it")
    if actual.name in ("dyn", "null_type") or deep > _DEEPEST:
        return None if actual.name != "null_type" or schema.nullable else Problem(path, "null is no value of it")
    if schema.int_or_string:
        return None if actual.name in ("int", "uint", "string") else _expected(actual, schema, path)
    if schema.type is JsonType.ANY:
        return None
    if actual.name not in _FITTING[schema.type]:
        return _expected(actual, schema, path)
    if schema.type is JsonType.ARRAY and schema.items is not None:
        return mismatch(actual.item, schema.items, f"{path}[*]", deep + 1)
    return _member_mismatch(actual, schema, path, deep) if schema.type is JsonType.OBJECT else None


def _member_mismatch(actual: CelType, schema: Schema, path: str, deep: int) -> Problem | None:
    if actual.fields is None:
        children = [schema.additional] if schema.additional is not None else []
        found = [mismatch(actual.item, child, f"{path}[*]", deep + 1) for child in children]
        return next((problem for problem in found if problem is not None), None)
    for escaped, field in actual.fields.items():
        name = unescape(escaped)
        child = schema.child(name)
        if child is None and not schema.preserve_unknown:
            return Problem(join(path, name), undefined(name, schema))
        problem = mismatch(field.type, child, join(path, name), deep + 1) if child is not None else None
        if problem is not None:
            return problem
    return None


def _expected(actual: CelType, schema: Schema, path: str) -> Problem:
    hint = ""
    if schema.type is JsonType.STRING and actual.name in ("int", "uint", "double", "bool"):
        hint = ": write string(…)"
    elif schema.type is JsonType.INTEGER and actual.name in ("string", "double"):
        hint = ": write int(…)"
    return Problem(path, f"expected {_type_name(schema)}, found {actual}{hint}")


def leaf_schemas(raw: Any, schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield the path and the schema of every string in a template that contains an expression, except keys.

    `raw` is the template, `schema` the schema of its value, and `path` its path in the file.
    """
    match raw:
        case Mapping():
            for key, value in raw.items():
                child = schema.additional if OPENING in key else schema.child(key)
                if child is not None:
                    yield from leaf_schemas(value, child, join(path, key))
        case list() | tuple() if schema.items is not None:
            for at, item in enumerate(raw):
                yield from leaf_schemas(item, schema.items, index(path, at))
        case str() if OPENING in raw:
            yield path, schema


Judge: TypeAlias = Callable[[Program, str, int, Variables, Schema | None, bool], PowerGuard | None]
"""A function that reports a problem if an expression gives power to the authors of parents, and returns the guard of
its values if only these can show it.

Its arguments are the compiled expression, the path of its field, its position in the field's text, the variables, the
field's schema if known, and True if the expression is only a part of the text.
"""


@attrs.frozen(eq=False)
class TemplateCompiler:
    """A compiler for templates, which adds problems to the findings of the box."""

    findings: Findings
    expressions: ExpressionCompiler

    def whole(
        self, text: str, path: str, variables: Variables, cel_type: CelType | None = None
    ) -> BoxExpression | None:
        """Compile the text of a field that must be exactly one expression; report any other string as a problem and
        return None.

        `path` is the path of the field in the file. `variables` are those that the expression may read. `cel_type` is
        the type that the value must have; None for any type.
        """
        try:
            piece = whole_expression(text)
        except CelSyntaxError as error:
            self.findings.syntax(path, error, text, 0)
            return None
        if piece is None:
            self.findings.problem(path, f"must be one expression: ${{{text.strip() or '…'}}}")
            return None
        return self.expressions.piece(piece, path, variables, wanted=cel_type)

    def conditions(self, texts: Sequence[str], path: str, variables: Variables) -> tuple[BoxExpression, ...]:
        """Compile expressions that must be true or false. Report invalid expressions as problems and omit them.

        `path` is the path of the list of `texts` in the file. `variables` are those that the expressions may read.
        """
        made = [self.whole(text, index(path, at), variables, BOOL) for at, text in enumerate(texts)]
        return tuple(expression for expression in made if expression is not None)

    def template(
        self,
        raw: Any,
        path: str,
        variables: Variables,
        *,
        schema: Schema | None = None,
        wanted: CelType | None = None,
        secret_below: Sequence[str] = (),
        judge: Judge | None = None,
    ) -> Template:
        """Compile a template, checking each expression against `schema`, the schema of its value (None: unchecked).

        `raw` is the template's content in the file, `path` its path there. `variables` are those that its expressions
        may read. `wanted` is the type of every expression that is the whole of its text; None for any type.
        `secret_below` are paths below which values are permitted to reveal data of Secrets. `judge` is called for each
        expression, with the schema of its field if known. It reports a problem if the expression gives power to the
        authors of parents (objects of the box's kind), and returns a guard if only its values can show this.
        """
        leaves = dict(leaf_schemas(raw, schema, path)) if schema is not None else {}

        def compile_piece(where: str, piece: TextPart, in_text: bool) -> BoxExpression | None:
            secret = any(where.startswith(prefix) for prefix in secret_below)
            asked = STRING if in_text else wanted
            made = self.expressions.piece(piece, where, variables, wanted=asked, secret=secret)
            leaf = leaves.get(where)
            if made is not None and judge is not None:
                guard = judge(made.program, where, piece.at, variables, leaf, in_text)
                made = made if guard is None else attrs.evolve(made, refuses=guard.refusal)
            if made is not None and leaf is not None:
                self._check_leaf(made, leaf, where, piece, in_text=in_text)
            return made

        template, problems = compile_template(raw, path, compile_piece)
        for problem in problems:
            self.findings.syntax(problem.path, problem.error, _text_at(raw, problem.path, path), 0)
        if schema is not None:
            for misfit in misfits(raw, schema, path):
                self.findings.problem(misfit.path, misfit.message)
        return template

    def _check_leaf(self, made: BoxExpression, leaf: Schema, where: str, piece: TextPart, *, in_text: bool) -> None:
        misfit = mismatch(STRING if in_text else made.program.type, leaf)
        if misfit is not None:
            told = f"{misfit.path}: {misfit.message}" if misfit.path else misfit.message
            self.findings.problem(where, f"{told} ({piece.text.strip()})", piece.at)


def _text_at(raw: Any, path: str, root: str) -> str:
    """Return the text at `path` in the template `raw`, whose own path is `root`; "" if there is no text."""
    below = path.removeprefix(root)
    for step in re.findall(r"\[(\d+)\]|\['([^']*)'\]|\.([^.\[]+)", below):
        number, quoted, plain = step
        key: Any = int(number) if number else quoted or plain
        raw = get_path(raw, key)
    return raw if isinstance(raw, str) else ""
