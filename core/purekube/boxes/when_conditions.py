"""`when` gates (conditions for writes) that are written as mappings, each short for one CEL expression (PH-4).

`{field: children.web.status.readyReplicas, equals: 3}` is `children.?web.?status.?readyReplicas.optMap(v, v == 3)
.orValue(false)`: a gate on a missing path is closed, negated or not, and that is no error. Only `exists` tests for
presence: its gate is open if the value is present and not empty, since controllers write empty objects at first.

`{field: web.metadata.creationTimestamp, after: 5m}` depends on the present time, which expressions cannot read: the
gate opens five minutes after the time in the field.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

import attrs
import msgspec

from purekube.apimachinery.formats import GO_DURATION
from purekube.apimachinery.problems import Problem, ValidationProblems

Resolve: TypeAlias = Callable[[list[str | int]], list[str | int]]

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NO_NAMES: Final = frozenset(("in", "true", "false", "null"))
_STEP: Final = re.compile(r"\.?([^.\[\]'\"]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_WHOLE: Final = re.compile(r"\$\{(.*)\}", re.DOTALL)
_LONGEST: Final = 1_024


def _compare(sign: str) -> Callable[[str], str]:
    return lambda value: f"v {sign} {value}"


_TESTS: Final[Mapping[str, Callable[[str], str]]] = {
    "equals": lambda value: f"dyn(v) == {value}",
    "notEquals": lambda value: f"dyn(v) != {value}",
    "in": lambda value: f"dyn(v) in {value}",
    "notIn": lambda value: f"!(dyn(v) in {value})",
    "greaterThan": _compare(">"),
    "greaterOrEqual": _compare(">="),
    "lessThan": _compare("<"),
    "lessOrEqual": _compare("<="),
    "matches": lambda value: f"v.matches({value})",
    "contains": lambda value: f"(type(v) == string ? string(v).contains(string({value})) : {value} in dyn(v))",
    "isReady": lambda value: f"isReady(v) == {value}",
}
_TYPED: Final[Mapping[str, Callable[[str], str]]] = {
    "equals": lambda value: f"v == {value}",
    "notEquals": lambda value: f"v != {value}",
    "in": lambda value: f"v in {value}",
    "notIn": lambda value: f"v in {value}",
}
"""The comparisons without `dyn`, for the type check: `dyn` would hide that two types are never equal."""

OPERATORS: Final = (*_TESTS, "exists")
"""The keys by which a `when` gate (a condition for writes) tests a value. A gate has exactly one, or `after`."""

AFTER: Final = "after"
"""The key that makes a `when` gate (a condition for writes) wait: its value says how long ago the time in the field has
to be.
"""

_MEANT: Final = tuple(f"did you mean {word}?" for word in (*OPERATORS, AFTER))
"""The hints at the end of messages about an unknown key that is probably a misspelt test."""
_CREATED: Final = "metadata.creationTimestamp"
"""The field from whose time `after` counts if the gate names none: the creation of the parent."""

_FILLED: Final = "dyn(v) != null && dyn(v) != '' && dyn(v) != [] && dyn(v) != {}"


@attrs.frozen
class WhenCondition:
    """A `when` gate (a condition for writes) as written in the file: the path `field` of a value, and a test of the
    value. If `negated` is true, the gate is open when the test is false.

    The test has an `operator`, such as `equals`, and the `value` to compare with.
    """

    field: str
    operator: str
    value: Any
    negated: bool = False


def read_when_condition(raw: Any, path: str = "") -> WhenCondition:
    """Read a `when` gate (a condition for writes) from its mapping `raw`. Raises ValidationProblems with all problems
    of the mapping.

    `path` is the path of the mapping in the file, with which the paths of the problems begin.
    """
    if not isinstance(raw, Mapping):
        raise ValidationProblems([Problem(path, "must be an object such as {field: spec.host, exists: true}")])
    field = raw.get("field", _CREATED if AFTER in raw else None)
    problems = [*_unknown(raw, path), *_field_problems(field, path, AFTER in raw), *_after_problems(raw, path)]
    asked = [name for name in (*OPERATORS, AFTER) if name in raw]
    is_misspelt = any(problem.message.endswith(_MEANT) for problem in problems)
    if len(asked) > 1 or not (asked or is_misspelt):
        problems.append(Problem(path, f"must ask exactly one of {', '.join((*OPERATORS, AFTER))}"))
    if not isinstance(raw.get("not", False), bool):
        problems.append(Problem(f"{path}.not", "must be true or false"))
    if asked and asked[0] in ("exists", "isReady") and not isinstance(raw[asked[0]], bool):
        problems.append(Problem(f"{path}.{asked[0]}", "must be true or false"))
    if asked and asked[0] in ("in", "notIn") and not isinstance(raw[asked[0]], (list, str)):
        problems.append(Problem(f"{path}.{asked[0]}", "must be a list, or an expression that gives one"))
    if problems:
        raise ValidationProblems(problems)
    return WhenCondition(field, asked[0], raw[asked[0]], raw.get("not", False))


def _unknown(raw: Mapping[str, Any], path: str) -> list[Problem]:
    known = ("field", "not", *OPERATORS, AFTER)
    problems = []
    for key in raw:
        if key not in known:
            near = get_close_matches(str(key), [word for word in known if word not in raw], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            problems.append(Problem(f"{path}.{key}", f"is unknown to a gate{hint}"))
    return problems


def _after_problems(raw: Mapping[str, Any], path: str) -> list[Problem]:
    problems: list[Problem] = []
    if AFTER in raw:
        length = raw[AFTER]
        if not isinstance(length, str) or len(length) > _LONGEST or not re.fullmatch(GO_DURATION, length):
            problems.append(Problem(f"{path}.{AFTER}", "must be a length of time such as 90s, 5m or 1h30m"))
        if "not" in raw:
            problems.append(Problem(f"{path}.not", "cannot be asked of `after`: what has begun does not end"))
    return problems


def _field_problems(field: Any, path: str, is_time: bool) -> list[Problem]:
    if is_time and isinstance(field, str) and len(field) <= _LONGEST and _WHOLE.fullmatch(field):
        return []
    if not isinstance(field, str) or len(field) > _LONGEST or not _steps(field):
        return [Problem(f"{path}.field", "must be a path such as spec.host or children.web.status.phase")]
    return []


def _steps(field: str) -> list[str | int]:
    """Return the keys and indices of the path `field`; [] if the text is not a path."""
    out: list[str | int] = []
    at = 0
    while at < len(field):
        match = _STEP.match(field, at)
        if match is None or (at == 0 and match[1] is None):
            return []
        keys = (group for group in match.group(1, 3, 4) if group is not None)
        out.append(int(match[2]) if match[2] is not None else next(keys))
        at = match.end()
    return out


def expression_of(gate: WhenCondition, variables: Collection[str], resolve: Resolve = list) -> str:
    """Return the CEL text of a `when` gate (a condition for writes), which is true if the gate is open.

    The gate's path is a field of `self` if it does not begin with one of `variables`, the names that expressions may
    read. `resolve` turns a path that begins with `children` into a path that begins with a resource's id.
    """
    place = place_of(gate, variables, resolve)
    if gate.operator == "exists":
        desired = gate.value is not gate.negated
        expression = f"{place}.optMap(v, {_FILLED}).orValue(false)"
        return expression if desired else f"!{expression}"
    test = _TESTS[gate.operator](_literal(gate.value))
    return f"{place}.optMap(v, {f'!({test})' if gate.negated else test}).orValue(false)"


def place_of(gate: WhenCondition, variables: Collection[str], resolve: Resolve = list) -> str:
    """Return the CEL text for the value that a `when` gate (a condition for writes) reads, as an optional: the field
    may be absent.

    A path that does not begin with one of `variables` is a field of `self`. `resolve` replaces `children` in a path by
    a resource's id.
    """
    steps = resolve(path_of(gate))
    root = steps.pop(0) if steps[0] in variables else "self"
    return f"optional.of({root})" + "".join(map(_optional, steps))


def time_of(gate: WhenCondition, variables: Collection[str], resolve: Resolve = list) -> str:
    """Return the CEL text for the time from which the delay `after` of a `when` gate (a condition for writes) counts.
    The time is an optional if the gate names a field instead of an expression. `variables` and `resolve` are those of
    `place_of`.
    """
    match = _WHOLE.fullmatch(gate.field)
    return match[1] if match is not None else place_of(gate, variables, resolve)


def path_of(gate: WhenCondition) -> list[str | int]:
    """Return the path (keys and indices) of the value that a `when` gate (a condition for writes) reads."""
    return _steps(gate.field)


def comparison_of(gate: WhenCondition, variables: Collection[str], resolve: Resolve = list) -> str | None:
    """Return the comparison that a `when` gate (a condition for writes) makes, as CEL text for the type checker. Return
    None if the gate compares no values.

    `variables` and `resolve` are those of `place_of`.
    """
    form = _TYPED.get(gate.operator)
    if form is None:
        return None
    return f"{place_of(gate, variables, resolve)}.optMap(v, {form(_literal(gate.value))})"


def _optional(step: str | int) -> str:
    if isinstance(step, int):
        return f"[?{step}]"
    return f".?{step}" if _NAME.fullmatch(step) and step not in _NO_NAMES else f"[?{_quoted(step)}]"


def _quoted(value: str) -> str:
    return msgspec.json.encode(value).decode()


def _literal(value: Any) -> str:
    """Return a value of the box's file as CEL text; a string `${…}` becomes its expression in parentheses."""
    match value:
        case str() if whole := _WHOLE.fullmatch(value.strip()):
            return f"({whole[1]})"
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
        case int() | float():
            return repr(value)
        case Mapping():
            return "{" + ", ".join(f"{_quoted(str(key))}: {_literal(item)}" for key, item in value.items()) + "}"
        case _:
            return "[" + ", ".join(_literal(item) for item in value) + "]"


def all_of(texts: Sequence[str]) -> str:
    """Return the CEL text for `when`: all of `texts` must be true. With no strings it is true."""
    return " && ".join(f"({text})" for text in texts) or "true"


def any_of(texts: Sequence[str]) -> str:
    """Return the CEL text for `any`: at least one of `texts` must be true. With no strings it is true."""
    return " || ".join(f"({text})" for text in texts) or "true"
