"""Computed values of a box as one expression of a MutatingAdmissionPolicy, whose value is a JSON patch (PH-10).

The API server evaluates the expression with its own functions and without static types. The result is the same as that
of the box's webhook: an absent or null field gets its value, computed from the object as it was written. Missing
objects around the field are created.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from purekube.boxes.box import CompiledMutation
from purekube.boxes.expressions import BoxExpression
from purekube.boxes.templates import Template, text_parts, whole_expression
from purekube.cel import API_SERVER, CelSyntaxError, CelType, Environment, compile_expression
from purekube.cel.lexer import Token, tokens
from purekube.cel.syntax import Bind, Expression, HasMacro, Select, children, unescape

_DYN: Final = ".optMap(value, dyn(value))"


def patch_of(mutations: Sequence[CompiledMutation]) -> str:
    """Return a CEL expression whose value is a JSON patch that fills in absent fields of `object`.

    In the expression, `self` is the object, as in the box's own expressions. The variable `found` holds a list for each
    field: with its value if it is to be filled in, else empty. Each value is thus computed only once.
    """
    values = ",\n".join(f"{_absent('self', one.path)} ? {_listed(one.value)} : []" for one in mutations)
    parents = dict.fromkeys(one.path[:depth] for one in mutations for depth in range(1, len(one.path)))
    operations = [_parent(path, mutations) for path in sorted(parents, key=len)]
    operations += [f"found[{at}].map(value, {_add(one.path, 'value')})" for at, one in enumerate(mutations)]
    added = " +\n".join(operations)
    return f"[object].map(self, [[\n{values}\n]].map(found,\n{added}\n)[0])[0]"


def _parent(path: Sequence[str], mutations: Sequence[CompiledMutation]) -> str:
    """Return the CEL text of the patch operations that add the object at `path` if it is absent and a field below it
    gets a value.
    """
    below = (f"size(found[{at}])" for at, one in enumerate(mutations) if one.path[: len(path)] == path)
    return f"({_absent('self', path)} && {' + '.join(below)} > 0 ? [{_add(path, '{}')}] : [])"


def _add(path: Sequence[str], value: str) -> str:
    return f'JSONPatch{{op: "add", path: {_text(pointer(path))}, value: {value}}}'


def _absent(place: str, path: Sequence[str]) -> str:
    """Return a CEL condition that is true if the field at `path` in the object `place` is absent or null.

    Each field above it must be an object, absent or null; otherwise the condition is false.
    """
    step = _text(path[0])
    is_empty, below = f"!({step} in {place}) || {place}[{step}] == null", f"{place}[{step}]"
    if len(path) == 1:
        return f"({is_empty})"
    return f"({is_empty} || type({below}) == map && {_absent(below, path[1:])})"


def pointer(path: Sequence[str]) -> str:
    """Return the JSON pointer of a path of fields."""
    # RFC 6901, section 3; `~` goes first, or the `~` of `~1` would be escaped again.
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in path)


# --- values -----------------------------------------------------------------------------------------------------------


def _listed(template: Template) -> str:
    """Return the CEL text of a list with one item, the template's value. The list is empty if that value is an absent
    optional.
    """
    return f"[{_item(template.raw, iter(template.expressions))}]"


def _item(raw: Any, expressions: Iterator[BoxExpression]) -> str:
    """Return the CEL text of a list's item: a value, or `?` and an optional, which adds nothing to the list if it is
    absent.

    Values are wrapped in `dyn(…)`, so that one list or object can have values of several types.
    """
    if isinstance(raw, str) and whole_expression(raw) is not None:
        expression = next(expressions)
        if expression.program.type.name == "optional":
            return f"?({_typed(expression)}\n){_DYN}"
        return f"dyn({_typed(expression)}\n)"
    return f"dyn({_value(raw, expressions)})"


def _value(raw: Any, expressions: Iterator[BoxExpression]) -> str:
    match raw:
        case str():
            return _joined(raw, expressions)
        case Mapping():
            return f"{{{', '.join(_entry(key, value, expressions) for key, value in raw.items())}}}"
        case list() | tuple():
            return f"[{', '.join(_item(value, expressions) for value in raw)}]"
        case _:
            return _text(raw)


def _entry(key: str, value: Any, expressions: Iterator[BoxExpression]) -> str:
    name, item = _joined(key, expressions), _item(value, expressions)
    return f"?{name}: {item[1:]}" if item.startswith("?") else f"{name}: {item}"


def _joined(text: str, expressions: Iterator[BoxExpression]) -> str:
    """Return the CEL text that joins the parts of `text` with `+`. It begins with the empty string, so that an
    expression whose value is not a string fails.
    """
    parts = text_parts(text)
    if not any(part.is_expression for part in parts):
        return _text("".join(part.text for part in parts))
    shown = (f"({_typed(next(expressions))}\n)" if part.is_expression else _text(part.text) for part in parts)
    return " + ".join(('""', *shown))


def _typed(expression: BoxExpression) -> str:
    """Return the text of an expression with the type `dyn` given to each value at an optional index, such as
    `labels[?'a']`.

    Without it, the API server assumes the first type that a function accepts, and `int(text)` fails for such a value.
    """
    text, opened, ends = expression.program.text, list[bool](), list[int]()
    found = [*tokens(text)]
    for at, token in enumerate(found):
        if token.kind != "sign":
            continue
        if token.text in "([{":
            opened.append(token.text == "[" and at > 0 and _ends_value(found[at - 1]) and found[at + 1].text == "?")
        elif token.text in ")]}" and opened.pop():
            ends.append(token.position + 1)
    for end in reversed(ends):
        text = f"{text[:end]}{_DYN}{text[end:]}"
    return text


def _ends_value(token: Token) -> bool:
    return token.text in ")]}" if token.kind == "sign" else token.text != "in"


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# --- what the API server cannot evaluate ------------------------------------------------------------------------------


def beyond_the_api_server(template: Template, type: CelType) -> Iterator[str]:
    """Yield, for each expression of a template that the API server cannot evaluate, the reason as text.

    `type` is the type of `self`.
    """
    environment = Environment({"self": type}, API_SERVER)
    for expression in template.expressions:
        program = expression.program
        try:
            compile_expression(program.text, environment)
        except CelSyntaxError as error:
            yield error.problem
        else:
            yield from _unknown(program.tree)


def _unknown(node: Expression) -> Iterator[str]:
    """Yield the reason for each construct in `node` that boxes may use but the API server does not know.

    Such constructs are `cel.bind`, and names of fields that are not identifiers.
    """
    if isinstance(node, Bind):
        yield "there is no cel.bind()"
    if isinstance(node, Select | HasMacro):
        name = node.field if node.quoted else unescape(node.field)
        if node.quoted or name != node.field:
            yield f"the field {name} is read in brackets, as [{_text(name)}]"
    for below in children(node):
        yield from _unknown(below)
