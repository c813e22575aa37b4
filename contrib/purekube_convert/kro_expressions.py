"""The rewriting of kro's expressions for a box: variables are renamed, and kro's functions replaced by those of a box.

An expression of kro waits until a field that may be absent is present. A box waits if the expression says
`.?field.value()`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from purekube.boxes.expressions import FUNCTIONS
from purekube.cel import CelSyntaxError, CelType, Environment, compile_expression
from purekube.cel.parser import parse
from purekube.cel.signatures import named
from purekube.cel.syntax import Bind, Call, Expression, Identifier, Macro, children, dotted

_HINTS: Final[Mapping[str, str]] = {
    "omit": "write an optional: a field whose value is optional.none() is left out",
    "runtime.newCondition": "write it under spec.status.conditions",
    "runtime.condition": "write an expression over status.conditions",
}
_OPTIONAL: Final = ("or", "orValue")
"""Methods of optional values that are part of CEL."""
_RENAMED: Final = {"json.marshal": "json"}
_STEP: Final = re.compile(r"\.\s*([A-Za-z_]\w*)")


@attrs.frozen
class Rewritten:
    """An expression in the form that a box needs, its variables, and the problems of rewriting it.

    `names` are the variables before they were renamed, `problems` are texts about functions that a box lacks.
    """

    text: str
    names: frozenset[str]
    problems: tuple[str, ...]


def rewrite(text: str, renamed: Mapping[str, str], bound: frozenset[str] = frozenset()) -> Rewritten:
    """Return the expression `text` with its variables renamed, and kro's functions replaced by those of a box.

    `renamed` maps variables to their new names. A variable that a macro such as `map` binds, or that is in `bound`, is
    not renamed. Raises CelSyntaxError.
    """
    tree = parse(text)
    edits: dict[int, tuple[str, str]] = {}
    names: set[str] = set()
    problems: list[str] = []
    for node, hidden in _walk(tree, bound):
        if isinstance(node, Identifier) and node.name not in hidden:
            names.add(node.name)
            if node.name in renamed:
                edits[node.at] = (node.name, renamed[node.name])
        elif isinstance(node, Call) and (full := _unknown_function(node)):
            if full in _RENAMED and _written(text, node, full) is not None:
                edits[_written(text, node, full) or 0] = (full, _RENAMED[full])
            else:
                problems.append(f"the function {full} is not known: {_HINTS.get(full, 'see docs/expressions.md')}")
    for at in sorted(edits, reverse=True):
        before, after = edits[at]
        begin = text.index(before, at)
        text = text[:begin] + after + text[begin + len(before) :]
    return Rewritten(text, frozenset(names), tuple(dict.fromkeys(problems)))


def _walk(node: Expression, bound: frozenset[str]) -> Iterator[tuple[Expression, frozenset[str]]]:
    """Yield every node of an expression's syntax tree with the names of the variables that are bound there.

    The namespace of a function, such as `lists` in `lists.range`, is not a variable.
    """
    yield node, bound
    match node:
        case Macro(_, target, variables, body, transform):
            yield from _walk(target, bound)
            for part in (body, transform):
                if part is not None:
                    yield from _walk(part, bound | frozenset(variables))
        case Bind(variable, value, body):
            yield from _walk(value, bound)
            yield from _walk(body, bound | {variable})
        case Call(_, target, arguments) if target is not None and _is_namespace(node):
            for argument in arguments:
                yield from _walk(argument, bound)
        case _:
            for child in children(node):
                yield from _walk(child, bound)


def _is_namespace(node: Call) -> bool:
    """Report whether the target of a call is part of the function's name, such as `lists` in `lists.range`."""
    full = f"{dotted(node.target)}.{node.name}" if node.target is not None else ""
    return full in _HINTS or full in _RENAMED or named(FUNCTIONS, full, False, len(node.arguments)) is not None


def _unknown_function(node: Call) -> str:
    """Return the name of the called function if a box does not have this function, and otherwise an empty string."""
    count = len(node.arguments)
    if node.target is None:
        return "" if named(FUNCTIONS, node.name, False, count) else node.name
    if node.name in _OPTIONAL and count == 1:
        return ""
    full = f"{dotted(node.target)}.{node.name}"
    if _is_namespace(node):
        return "" if named(FUNCTIONS, full, False, count) else full
    return "" if named(FUNCTIONS, node.name, True, count) else node.name


def _written(text: str, node: Call, full: str) -> int | None:
    """Return the index in `text` at which the called function's full name begins, or None if blanks interrupt it."""
    begin = node.at - len(full) + len(node.name)
    return begin if begin >= 0 and text.startswith(full, begin) else None


@attrs.frozen
class PresenceChecks:
    """A rewriter of kro's expressions for a box. A box waits for an absent field only if the expression says so.

    `types` are the types of the variables. Only the type of `self`, the parent (the custom resource), says which fields
    may be absent.
    """

    types: Mapping[str, CelType]

    def text(self, text: str, bound: Mapping[str, CelType]) -> str:
        """Return the expression `text` with `.?field.value()` for each field of the parent that may be absent.

        `bound` has the types of further variables, such as those of a loop. An invalid expression is returned
        unchanged.
        """
        try:
            checked = compile_expression(text, Environment({**self.types, **bound}, FUNCTIONS)).checked
        except CelSyntaxError:
            return text  # the check of the box reports what is wrong with it
        absences = checked.absences if checked is not None else ()
        places = {absence.at for absence in absences if absence.path[0] in ("self", *bound)}
        for at in sorted(places, reverse=True):
            if (step := _STEP.match(text, at)) is not None:
                text = f"{text[:at]}.?{step[1]}.value(){text[step.end() :]}"
        return text
