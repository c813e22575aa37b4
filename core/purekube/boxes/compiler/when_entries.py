"""The compilation of `when` gates (conditions for writes) of phases and resources, written as mappings or as
expressions (PH-4).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.durations import seconds_of
from purekube.apimachinery.problems import index
from purekube.boxes.box import BoxWhen, WhenElapsed
from purekube.boxes.compiler.scoping import ExpressionCompiler, Variables
from purekube.boxes.expressions import BoxExpression
from purekube.boxes.model import BoxPhase, BoxResource, WhenEntry
from purekube.boxes.read import Findings
from purekube.boxes.templates import whole_expression
from purekube.boxes.when_conditions import AFTER, WhenCondition, any_of, comparison_of, expression_of, path_of, time_of
from purekube.cel import BOOL, CelSyntaxError, CelType
from purekube.cel.syntax import Binary, Expression, HasMacro, Literal, Select, children
from purekube.schema.node import JsonType, Schema

_OMITTED: Final = frozenset(
    (
        *("replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "unavailableReplicas"),
        *("currentReplicas", "terminatingReplicas", "active", "succeeded", "failed", "ready", "terminating"),
    )
)
"""Fields of a status that built-in controllers omit when zero."""


@attrs.frozen(eq=False)
class _EntryText:
    """One entry of a `when` gate (a list of conditions for writes) as text, before it is compiled.

    It has the CEL text of its expression, its path in the file, and a text for people (`shown`). `begin` is the
    position of the expression in the field's text; None if the entry is written as a mapping. If `after` is set, the
    expression gives a time, and the entry holds from `after` seconds after that time on.
    """

    text: str
    path: str
    shown: str
    begin: int | None
    after: float | None = None


@attrs.frozen(eq=False)
class _Entry:
    """One entry of a `when` gate (a list of conditions for writes) with its compiled expression."""

    asked: _EntryText
    expression: BoxExpression

    @property
    def is_choice(self) -> bool:
        """Report whether only a change of the parent (object of the box's kind) can open the gate.

        The entry of the gate then reads the parent alone, and no time.
        """
        return self.asked.after is None and _looks_at_parent(self.expression)


@attrs.frozen(eq=False)
class WhenEntries:
    """A compiler for `when` gates (conditions for writes) of phases and resources.

    `schemas` maps the names of variables to the schemas of their objects, for hints in messages.
    """

    expressions: ExpressionCompiler
    schemas: Mapping[str, Schema]

    @property
    def _findings(self) -> Findings:
        return self.expressions.findings

    def when_conditions_of(
        self, phase: BoxPhase | None, phase_path: str, resource: BoxResource, path: str, seen: Variables
    ) -> tuple[BoxWhen, ...]:
        """Return the compiled `when` gates (conditions for writes) of the resource's phase, then those of the resource
        itself.

        `phase` is None for a resource outside of phases. `phase_path` and `path` are the paths of the phase and of the
        resource in the file. `seen` are the variables that their expressions may read.
        """
        gates: list[BoxWhen] = []
        if phase is not None:
            gates += self._gates(phase, phase_path, seen, phase.name)
        return (*gates, *self._gates(resource, path, seen, ""))

    def _gates(self, said: BoxPhase | BoxResource, path: str, seen: Variables, phase: str) -> Iterator[BoxWhen]:
        for at, entry in enumerate(said.when):
            if (made := self._entry(entry, index(f"{path}.when", at), seen)) is not None:
                yield self._gate([made], made.asked.path, seen, phase, said.optional)
        yield from self._any(said.any, f"{path}.any", seen, phase, said.optional)

    def _any(
        self, entries: Sequence[WhenEntry], path: str, seen: Variables, phase: str, optional: bool | None
    ) -> Iterator[BoxWhen]:
        """Yield one gate that opens if any of `entries` is true. Yield nothing if one of them cannot be compiled.

        `phase` is the name of the phase whose gate it is, empty for a gate of the resource itself.
        """
        made = [one for at, entry in enumerate(entries) if (one := self._entry(entry, index(path, at), seen))]
        if made and len(made) == len(entries):
            yield self._gate(made, path, seen, phase, optional)

    def _gate(
        self, entries: Sequence[_Entry], path: str, seen: Variables, phase: str, optional: bool | None
    ) -> BoxWhen:
        times = tuple(
            WhenElapsed(entry.expression, entry.asked.after) for entry in entries if entry.asked.after is not None
        )
        asked = [entry for entry in entries if entry.asked.after is None]
        choice = all(entry.is_choice for entry in entries) if optional is None else optional
        shown = " or ".join(entry.asked.shown for entry in entries)
        place = entries[0].expression.place if len(entries) == 1 else self._findings.place(path)
        return BoxWhen(place, self._together(asked, path, seen), times, phase, shown, choice)

    def _together(self, entries: Sequence[_Entry], path: str, seen: Variables) -> BoxExpression | None:
        """Return one expression that is true if any of `entries` is true, even if another entry fails. Return None if
        there are no entries.

        Each entry has been compiled alone before, so that an error message names the place of the entry.
        """
        if len(entries) < 2:
            return entries[0].expression if entries else None
        return self.expressions.text(any_of([entry.asked.text for entry in entries]), path, seen, wanted=BOOL)

    def _entry(self, entry: WhenEntry, path: str, seen: Variables) -> _Entry | None:
        asked = self._asked(entry, path, seen)
        made = None if asked is None else self._compiled(asked, seen)
        return None if asked is None or made is None else _Entry(asked, made)

    def _asked(self, entry: WhenEntry, path: str, seen: Variables) -> _EntryText | None:
        if entry.gate is not None:
            return self._of_mapping(entry.gate, path, seen)
        try:
            piece = whole_expression(entry.expression)
        except CelSyntaxError as error:
            self._findings.syntax(path, error, entry.expression, 0)
            return None
        if piece is None:
            message = f"must be a gate such as {{field: spec.host, exists: true}}, or ${{{entry.expression.strip()}}}"
            self._findings.problem(path, message)
            return None
        return _EntryText(piece.text, path, piece.text.strip(), piece.at)

    def _of_mapping(self, gate: WhenCondition, path: str, seen: Variables) -> _EntryText | None:
        variables = seen.types.keys() - {"children"}
        resolve = self.expressions.children.resolve_path
        try:
            if gate.operator == AFTER:
                return self._of_time(gate, time_of(gate, variables, resolve), path, seen)
            steps = resolve(path_of(gate))
            comparison = comparison_of(gate, variables, resolve)
            text = expression_of(gate, variables, resolve)
        except LookupError as error:
            self._findings.problem(f"{path}.field", f"{gate.field}: {error.args[0]}")
            return None
        self._hint_of_zero(gate, steps, path)
        if comparison is not None and not self._compares(comparison, path, seen):
            return None
        return _EntryText(text, path, _shown(gate), None)

    def _of_time(self, gate: WhenCondition, text: str, path: str, seen: Variables) -> _EntryText | None:
        try:
            given = self.expressions.program(text, seen).type
        except CelSyntaxError as error:
            self._findings.problem(f"{path}.field", error.problem)
            return None
        if not _may_be_time(given):
            self._findings.problem(f"{path}.field", f"must be a time such as metadata.creationTimestamp, not {given}")
            return None
        shown = f"{gate.value} have passed since {gate.field}"
        return _EntryText(text, f"{path}.field", shown, None, seconds_of(gate.value))

    def _compares(self, comparison: str, path: str, seen: Variables) -> bool:
        """Report whether `comparison` compares values whose types can be equal; add a problem if not."""
        try:
            self.expressions.program(comparison, seen)
        except CelSyntaxError as error:
            types = error.problem.partition("applied to ")[2]
            message = f"compares values of types that are never equal: {types}" if types else error.problem
            self._findings.problem(f"{path}.field", message)
            return False
        return True

    def _compiled(self, asked: _EntryText, seen: Variables) -> BoxExpression | None:
        desired = BOOL if asked.after is None else None
        made = self.expressions.text(asked.text, asked.path, seen, begin=asked.begin, wanted=desired)
        if made is not None and asked.begin is not None:
            self._hint_of_presence(made, asked)
            self._hint_of_comparison(made.program.tree, asked)
        return made

    # --- hints --------------------------------------------------------------------------------------------------------

    def _hint_of_zero(self, gate: WhenCondition, steps: Sequence[str | int], path: str) -> None:
        if gate.operator in ("equals", "lessOrEqual", "lessThan") and gate.value in (0, 1) and not gate.negated:
            never = gate.value == 0 or gate.operator == "lessThan"
            if never and not isinstance(gate.value, bool) and self._is_omitted(steps):
                message = f"{steps[-1]} is absent at zero, so that this never holds: write `exists: false`"
                self._findings.warning(path, message)

    def _is_omitted(self, steps: Sequence[str | int]) -> bool:
        return len(steps) == 3 and steps[1] == "status" and steps[2] in _OMITTED and steps[0] in self.schemas

    def _hint_of_comparison(self, node: Expression, asked: _EntryText) -> None:
        match node:
            case Binary("==" | "<=", Select() as place, Literal(0)):
                steps = _steps(place)
                if self._is_omitted(steps):
                    message = f"{steps[-1]} is absent at zero, so that this never holds: write .?{steps[-1]}.orValue(0)"
                    self._findings.warning(asked.path, message, asked.begin)
        for child in children(node):
            self._hint_of_comparison(child, asked)

    def _hint_of_presence(self, made: BoxExpression, asked: _EntryText) -> None:
        """Warn if the expression `made` tests an object with `has()`.

        Controllers write empty objects first, so that such a test is true too early (PH-4).
        """
        for node in _all(made.program.tree):
            if isinstance(node, HasMacro):
                steps = [*_steps(node.operand), node.field]
                if "status" in steps and self._is_object(steps):
                    message = (
                        f"has(…{node.field}) holds for {{}} too, which controllers write at first: ask for a field "
                        f"below it, or write the gate {{field: {'.'.join(steps)}, exists: true}}"
                    )
                    self._findings.warning(asked.path, message, asked.begin)

    def _is_object(self, steps: Sequence[str]) -> bool:
        schema: Schema | None = self.schemas.get(steps[0])
        for step in steps[1:]:
            schema = schema.child(step) if schema is not None else None
        return schema is not None and schema.type is JsonType.OBJECT


def _may_be_time(cel_type: CelType) -> bool:
    """Report whether values of the type `cel_type` may be times, which JSON writes as strings."""
    inner = cel_type.item if cel_type.name == "optional" else cel_type
    return inner.name in ("string", "dyn")


def _looks_at_parent(expression: BoxExpression) -> bool:
    checked = expression.program.checked
    return checked is not None and all(read.path[0] == "self" for read in checked.reads)


def _shown(gate: WhenCondition) -> str:
    """Return the condition of a `when` gate as text for people, such as `spec.host exists`."""
    holds = (gate.value is True) is not gate.negated
    match gate.operator:
        case "exists":
            return f"{gate.field} {'exists' if holds else 'does not exist'}"
        case "isReady":
            return f"{gate.field} {'is ready' if holds else 'is not ready'}"
        case operator:
            return f"{gate.field} {'not ' if gate.negated else ''}{operator} {_value(gate.value)}"


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _steps(node: Expression) -> list[str]:
    """Return the names of a select expression `a.b.c` as a list; [] for any other expression."""
    match node:
        case Select(operand, field, optional=False):
            return [*_steps(operand), field]
        case _:
            name = getattr(node, "name", "")
            return [name] if isinstance(name, str) and name and not children(node) else []


def _all(node: Expression) -> Iterator[Expression]:
    yield node
    for child in children(node):
        yield from _all(child)
