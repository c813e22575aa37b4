"""Templates: values with expressions in them, compiled to functions of a scope, the variables with their values (PH-6).

A text that consists of one `${…}` becomes the value of the expression, of any type; an expression within a longer text
must return text. An optional value that is absent removes its field, or its item of a list. `$${` writes `${`. The end
of an expression is found by the lexer of CEL, so that braces and quotes inside it do not matter.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.problems import index, join
from purekube.boxes.expressions import BoxExpression
from purekube.boxes.read import offset_of
from purekube.cel import Budget, CelError, CelSyntaxError, EvaluationError, LimitExceeded, prepared
from purekube.cel.json_values import as_json, spend_for_parts
from purekube.cel.lexer import tokens
from purekube.cel.values import ABSENT, OptionalValue, type_name

OPENING: Final = "${"


@attrs.frozen
class TextPart:
    """A part of a string: literal characters, or an expression. `at` is its position in the whole text."""

    text: str
    at: int
    is_expression: bool = False


def text_parts(text: str) -> list[TextPart]:
    """Return the literal and the expression parts of a string, in order.

    Raises CelSyntaxError for an expression without an end, with its place in the whole text.
    """
    found: list[TextPart] = []
    literal, begin, at = "", 0, 0
    while (dollar := text.find("$", at)) >= 0:
        if text.startswith("$${", dollar):
            literal, at = literal + text[at:dollar] + OPENING, dollar + 3
        elif text.startswith(OPENING, dollar):
            literal += text[at:dollar]
            if literal:
                found.append(TextPart(literal, begin))
            end = _end(text, dollar + 2)
            found.append(TextPart(text[dollar + 2 : end], dollar + 2, is_expression=True))
            literal, begin, at = "", end + 1, end + 1
        else:
            literal, at = literal + text[at : dollar + 1], dollar + 1
    literal += text[at:]
    return [*found, TextPart(literal, begin)] if literal else found


def _end(text: str, begin: int) -> int:
    """Return the position of the brace that ends the expression which begins at `begin`."""
    depth = 0
    try:
        for token in tokens(text[begin:]):
            if token.kind == "sign" and token.text in "{}":
                depth += 1 if token.text == "{" else -1
                if depth < 0:
                    return begin + token.position
    except CelSyntaxError as error:
        raise CelSyntaxError(error.problem, text, begin + offset_of(error, text[begin:])) from error
    raise CelSyntaxError("${ without its }; write $${ for a ${ that is plain text", text, begin - 2)


def whole_expression(text: str) -> TextPart | None:
    """Return the expression if `text` as a whole is one expression `${…}`; None for any other string. One final
    newline, which YAML's `|` adds, is ignored.
    """
    found = text_parts(text.removesuffix("\n"))
    return found[0] if len(found) == 1 and found[0].is_expression else None


Render: TypeAlias = Callable[[dict[Any, Any]], Any]
"""A function from a prepared scope to the rendered value, or `ABSENT`. It raises ExpressionFailure if that fails."""

Compile: TypeAlias = Callable[[str, TextPart, bool], BoxExpression | None]
"""A function that compiles one part of the text at a path. The flag is True if the text has other parts, too.

It returns None if the part has a problem.
"""


@attrs.frozen(eq=False)
class Template:
    """A compiled template. `raw` is its content in the file; `expressions` are all its expressions."""

    raw: Any
    expressions: tuple[BoxExpression, ...]
    run: Render = attrs.field(repr=False)

    def render(self, scope: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """Return the template's value as JSON, with its expressions evaluated in `scope` (variables with their values).

        Return `ABSENT` if the template is one expression whose optional has no value. Raises ExpressionFailure if an
        expression fails.
        """
        return self.run(prepared(scope, Budget() if budget is None else budget))


@attrs.frozen
class TemplateProblem:
    """A syntax error of an expression in a template. `path` is the path in the file of the text that has the
    expression.
    """

    path: str
    error: CelSyntaxError


def compile_template(raw: Any, path: str, compile_piece: Compile) -> tuple[Template, list[TemplateProblem]]:
    """Compile the template `raw`, whose path in the file is `path`. `compile_piece` compiles each expression in its
    texts.

    Return the compiled template, and a problem for each text that could not be parsed and stays unchanged.
    """
    builder = _Builder(compile_piece)
    run = _as_render(builder.value(raw, path))
    return Template(raw, tuple(builder.expressions), run), builder.problems


@attrs.frozen
class _Scalar:
    """A part of a template that is a constant value without expressions."""

    value: Any


_Part: TypeAlias = _Scalar | Render


def _as_render(part: _Part) -> Render:
    if not isinstance(part, _Scalar):
        return part
    value = part.value
    return lambda scope: value


class _Builder:
    def __init__(self, compile_piece: Compile) -> None:
        self._compile = compile_piece
        self.expressions: list[BoxExpression] = []
        self.problems: list[TemplateProblem] = []

    def value(self, raw: Any, path: str) -> _Part:
        match raw:
            case str():
                return self._text(raw, path)
            case Mapping():
                paths = {key: join(path, key) for key in raw}
                entries = [
                    (self._text(key, paths[key], is_key=True), self.value(item, paths[key]))
                    for key, item in raw.items()
                ]
                return _mapping(entries)
            case list() | tuple():
                return _list([_as_render(self.value(item, index(path, at))) for at, item in enumerate(raw)])
            case _:
                return _Scalar(raw)

    def _text(self, text: str, path: str, *, is_key: bool = False) -> _Part:
        if "$" not in text:
            return _Scalar(text)
        try:
            found = text_parts(text)
            piece = None if is_key else whole_expression(text)
        except CelSyntaxError as error:
            self.problems.append(TemplateProblem(path, error))
            return _Scalar(text)
        if piece is not None:
            return self._whole(piece, path)
        parts = [self._part(part, path) for part in found]
        if all(isinstance(part, str) for part in parts):
            return _Scalar("".join(part for part in parts if isinstance(part, str)))
        return _text_of(parts)

    def _whole(self, piece: TextPart, path: str) -> _Part:
        expression = self._made(piece, path, in_text=False)
        if expression is None:
            return _Scalar(None)
        return lambda scope: _value_of(expression, scope)

    def _part(self, piece: TextPart, path: str) -> str | BoxExpression:
        if not piece.is_expression:
            return piece.text
        return self._made(piece, path, in_text=True) or ""

    def _made(self, piece: TextPart, path: str, *, in_text: bool) -> BoxExpression | None:
        expression = self._compile(path, piece, in_text)
        if expression is not None:
            self.expressions.append(expression)
        return expression


def _value_of(expression: BoxExpression, scope: dict[Any, Any]) -> Any:
    value = expression.evaluate_in(scope)
    if type(value) is str:
        return value
    if isinstance(value, OptionalValue):
        if not value.present:
            return ABSENT
        value = value.value
    try:
        found = _written_out(value, scope)
        if expression.refuses is not None and (why := expression.refuses(found)):
            raise EvaluationError(why)
    except CelError as error:
        raise expression.failure(error) from error
    return found


def _written_out(value: Any, scope: dict[Any, Any]) -> Any:
    if isinstance(value, list | Mapping):
        spend_for_parts(value, scope[None])
    try:
        return as_json(value)
    except RecursionError as error:
        raise LimitExceeded("the data is nested too deeply") from error


def _text_of(parts: list[str | BoxExpression]) -> Render:
    def run(scope: dict[Any, Any]) -> Any:
        texts: list[str] = []
        for part in parts:
            text = part if isinstance(part, str) else part.evaluate_in(scope)
            if not isinstance(text, str):
                assert not isinstance(part, str)
                error = EvaluationError(f"text is made of texts, not of {type_name(text)}: write string(…)")
                raise part.failure(error)
            texts.append(text)
        return "".join(texts)

    return run


def _mapping(entries: list[tuple[_Part, _Part]]) -> Render:
    """Return a function that renders an object from `entries`, a new one in each call. Values without expressions are
    computed only once.
    """
    named = [(key.value, item) for key, item in entries if isinstance(key, _Scalar)]
    if len(named) < len(entries):
        return _mapping_of_any_keys([(_as_render(key), _as_render(item)) for key, item in entries])
    plain = {key: item.value if isinstance(item, _Scalar) else None for key, item in named}
    asked = [(key, item) for key, item in named if not isinstance(item, _Scalar)]

    def run(scope: dict[Any, Any]) -> Any:
        out = plain.copy()
        for key, item in asked:
            value = item(scope)
            if value is ABSENT:
                del out[key]
            else:
                out[key] = value
        return out

    return run


def _mapping_of_any_keys(entries: list[tuple[Render, Render]]) -> Render:
    def run(scope: dict[Any, Any]) -> Any:
        out = {}
        for key, item in entries:
            value = item(scope)
            if value is not ABSENT:
                out[key(scope)] = value
        return out

    return run


def _list(items: list[Render]) -> Render:
    return lambda scope: [value for item in items if (value := item(scope)) is not ABSENT]


def renders(raw: Any, path: Sequence[str]) -> bool:
    """Report whether the template `raw` sets the value at `path`. An expression in place of an object counts as setting
    all its fields.
    """
    for step in path:
        if isinstance(raw, str):
            try:
                return whole_expression(raw) is not None
            except CelSyntaxError:
                return False
        if isinstance(raw, Mapping):
            if step not in raw:
                return False
            raw = raw[step]
        else:
            return isinstance(raw, list | tuple)  # items are identified by their content, not by their index
    return True
