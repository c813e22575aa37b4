"""The check that a box lends tenants none of its rights: an expression is judged by the power of its place (RUN-12).

The value of an expression is followed into the maps and lists that it constructs, through both branches of a condition:
`cond ? {'name': self.spec.name} : none` is judged at `name`, with what decides the condition.
"""

import re
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from purekube.apimachinery.manifest import Kind
from purekube.boxes.functions import FUNCTIONS
from purekube.boxes.model import Power
from purekube.boxes.powers import Steps, is_allowed, power_at, powers_below, refusal
from purekube.boxes.problems import Findings
from purekube.boxes.scoping import Variables
from purekube.boxes.taint import TRUSTED, Taint, taint_of
from purekube.boxes.templates import OPENING
from purekube.cel import DYN, CelSyntaxError, CelType, Program
from purekube.cel.check import check
from purekube.cel.syntax import Bind, Call, Conditional, Expression, ListLiteral, Literal, Macro, MapLiteral
from purekube.schema.node import Schema

_STEP: Final = re.compile(r"""\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|\.([^.\[]+)""")


@attrs.frozen
class ImpersonationRules:
    """The judge of the templates of one box, whose parents are of a kind and are trusted with some powers."""

    findings: Findings
    parent: Kind
    trusted: frozenset[Power]

    def of(self, kind: Kind, root: str, *, elsewhere: bool) -> "ImpersonatedTemplate":
        """Return the judge of a template of that kind at a path. `elsewhere`: not in the namespace of the parent."""
        return ImpersonatedTemplate(self, kind, root, elsewhere)


@attrs.frozen
class ImpersonatedTemplate:
    """The template of one object."""

    deputies: ImpersonationRules
    kind: Kind
    root: str
    elsewhere: bool

    def judge(
        self, program: Program, path: str, at: int, variables: Variables, schema: Schema | None, in_text: bool
    ) -> None:
        """Report what an expression at a path decides and may not. `schema` is that of its place, if known."""
        for power in sorted(self._refused(program, _steps(path.removeprefix(self.root)), variables, schema, in_text)):
            if power not in self.deputies.trusted:
                self.deputies.findings.problem(path, refusal(power, self.deputies.parent.kind), at)

    def _refused(
        self, program: Program, steps: Steps, variables: Variables, schema: Schema | None, in_text: bool
    ) -> set[Power]:
        if in_text:  # a part of a text, or of a key, which may then be that of any field
            taint = attrs.evolve(taint_of(program.tree, variables.taints).whole, owned=False)
            key = bool(steps) and OPENING in steps[-1]
            return set(self._at(steps[:-1] if key else steps, taint, DYN if key else program.type, schema))
        looked_at = _Outcomes(program.text, variables.types, variables.taints).of(program.tree)
        return {
            power
            for below, taint, given in looked_at
            for power in self._at((*steps, *below), taint, given, _below(schema, below))
        }

    def _at(self, steps: Steps, taint: Taint, cel_type: CelType, schema: Schema | None) -> Iterator[Power]:
        power = power_at(self.kind, steps, elsewhere=self.elsewhere)
        powers = [power] if power is not None else [*powers_below(self.kind, steps, cel_type, schema)]
        return (power for power in powers if not is_allowed(power, taint))


def _steps(path: str) -> Steps:
    """Return the keys of a path below a template."""
    return tuple(match[2] or str(literal_eval(match[1])) for match in _STEP.finditer(path))


def _below(schema: Schema | None, steps: Sequence[str]) -> Schema | None:
    for step in steps:
        while schema is not None and schema.items is not None:
            schema = schema.items
        schema = None if schema is None else schema.child(step)
    return schema


@attrs.frozen
class _Outcomes:
    """The values that an expression may give: each with the keys below which it is written, its origin and its type."""

    text: str
    types: Mapping[str, CelType]
    taints: Mapping[str, Taint]
    decided: Taint = TRUSTED

    def of(self, node: Expression) -> Iterator[tuple[Steps, Taint, CelType]]:
        """Yield each value that a node may give."""
        match node:
            case Conditional(condition, positive, negative):
                inner = attrs.evolve(self, decided=self.decided.under(self._taint(condition).whole))
                yield from inner._any_of(positive, negative)
            case Call("of" | "ofNonZeroValue" | "none", _, arguments):
                yield from self._any_of(*arguments)
            case Call("orValue" | "or", target, arguments) if target is not None:
                yield from self._any_of(target, *arguments)
            case ListLiteral(items):
                yield from self._any_of(*items)
            case MapLiteral(entries) if all(map(_is_name, entries)):
                for key, value in entries:
                    yield from (((_name(key), *below), taint, given) for below, taint, given in self.of(value))
            case Macro("optMap" | "optFlatMap" | "map"):
                yield from self._macro(node)
            case Bind(name, value, body):
                yield from self._with(name, self._taint(value), self._type(value), TRUSTED).of(body)
            case _:
                yield (), self._taint(node).whole.under(self.decided), self._type(node)

    def _any_of(self, *nodes: Expression) -> Iterator[tuple[Steps, Taint, CelType]]:
        return (outcome for node in nodes for outcome in self.of(node))

    def _macro(self, node: Macro) -> Iterator[tuple[Steps, Taint, CelType]]:
        taint, given = self._taint(node.target), self._type(node.target)
        assert node.body is not None
        inner = self._with(node.variables[0], taint.item if node.name == "map" else taint, given.item, taint.presence)
        if node.transform is None:
            return inner.of(node.body)
        decided = inner.decided.under(inner._taint(node.body).whole)
        return attrs.evolve(inner, decided=decided).of(node.transform)

    def _with(self, name: str, taint: Taint, cel_type: CelType, decided: Taint) -> "_Outcomes":
        types, taints = {**self.types, name: cel_type}, {**self.taints, name: taint}
        return attrs.evolve(self, types=types, taints=taints, decided=self.decided.under(decided))

    def _taint(self, node: Expression) -> Taint:
        return taint_of(node, self.taints)

    def _type(self, node: Expression) -> CelType:
        try:
            return check(node, self.text, self.types, FUNCTIONS).type
        except CelSyntaxError:
            return DYN


def _is_name(entry: tuple[Expression, Expression]) -> bool:
    return isinstance(entry[0], Literal) and isinstance(entry[0].value, str)


def _name(key: Expression) -> str:
    assert isinstance(key, Literal)
    return str(key.value)
