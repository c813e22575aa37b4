"""Expressions of a box with their places in the file, and functions on objects in addition to CEL's (PH-5)."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs
import msgspec

from purekube.apimachinery.manifest import canonical_json, content_hash
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.problems import Place
from purekube.boxes.kro_functions import KRO
from purekube.cel import FUNCTIONS as LANGUAGE
from purekube.cel import Budget, CelError, Missing, Program
from purekube.cel.json_values import spend_for_parts
from purekube.cel.limits import EvaluationError, no_overload
from purekube.cel.signatures import FunctionTable, built, function, list_cost, table
from purekube.cel.values import OptionalValue, look_up
from purekube.readiness import readiness
from purekube.readiness.result import Conditions, count, mapping, text

_HIDDEN: Final = "it cannot be evaluated, and what it reads is secret"


class ExpressionFailure(Exception):
    """The error for an expression that could not be evaluated, with its place in the file.

    `is_missing` says that the expression reads a value that does not exist yet, so that waiting may help.
    """

    def __init__(self, place: Place, error: CelError) -> None:
        self.place = place
        self.is_missing = isinstance(error, Missing)
        self.problem = str(error)
        super().__init__(f"{place}: {self.problem}")


@attrs.frozen(eq=False)
class BoxExpression:
    """A compiled expression, with the place of its text in the file."""

    program: Program
    place: Place
    is_secret: bool = False
    """True if the expression's value reveals data of a Secret. The message of a failure is then hidden."""
    refuses: Callable[[Any], str] | None = None
    """The function that returns why a value, as JSON, may not be written; "" if it may. None: every value may be."""

    def evaluate(self, scope: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """Return the expression's value, which may be an `OptionalValue`. `scope` has the values of its variables.

        `budget` limits the cost, and may be shared with other evaluations; without it, the evaluation has one of its
        own. Raises ExpressionFailure if the evaluation fails.
        """
        try:
            return self.program.evaluate(scope, budget)
        except CelError as error:
            raise self.failure(error) from error

    def evaluate_in(self, scope: dict[Any, Any]) -> Any:
        """Return the expression's value in `scope`, which `cel.prepared` made from the values of variables and a
        budget. Raises ExpressionFailure if the evaluation fails.
        """
        try:
            return self.program.evaluate_in(scope)
        except CelError as error:
            raise self.failure(error) from error

    def failure(self, error: CelError) -> ExpressionFailure:
        """Return the ExpressionFailure for an evaluation error of this expression."""
        return ExpressionFailure(self.place, type(error)(_HIDDEN) if self.is_secret else error)

    def holds(self, scope: Mapping[str, Any], budget: Budget | None = None) -> bool:
        """Report whether the expression is true. `scope` and `budget` are those of `evaluate`.

        Raises ExpressionFailure if its evaluation fails.
        """
        return self.evaluate(scope, budget) is True


_LONGEST_NAME: Final = 63
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_/-]*(\.[A-Za-z0-9_/-]+)*")
_SWITCHES: Final = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
_WORDS: Final = frozenset(form for word in _SWITCHES for form in (word, word.title(), word.upper()))
"""Texts that some readers of YAML convert to another type."""


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise no_overload()
    return value


def _load_balancer(value: Any, key: str) -> str:
    listed = mapping(_object(value), "status", "loadBalancer").get("ingress")
    entries = listed if isinstance(listed, list) else []
    address = next((text(entry, key) for entry in entries if isinstance(entry, Mapping) and text(entry, key)), "")
    if not address:
        raise Missing(f"the load balancer has no {'address' if key == 'ip' else 'host name'} yet")
    return address


def _get(value: Any, *path: Any) -> Any:
    """Return the value at the path of keys and indices `path` in `value`. Raises Missing if the path does not exist."""
    for step in path:
        if isinstance(value, Mapping):
            value = look_up(value, step)
        elif isinstance(value, list) and isinstance(step, int) and not isinstance(step, bool):
            if not 0 <= step < len(value):
                raise Missing(f"index out of bounds: {step}")
            value = value[step]
        else:
            raise Missing(f"no such key: {step}")
    return value


def _default(value: Any, other: Any) -> Any:
    """Return `value`, unwrapped from an optional; `other` if it is null, an empty string or an absent optional."""
    if isinstance(value, OptionalValue):
        return value.value if value.present else other
    return other if value is None or value == "" else value


def _encoded(budget: Budget, value: Any) -> str:
    spend_for_parts(value, budget)
    try:
        return str(built(budget, canonical_json(value).decode()))
    except (TypeError, ValueError) as error:
        raise EvaluationError("the value cannot be written as JSON") from error


def _yaml(budget: Budget, value: Any) -> str:
    """Return `value` as YAML in block style with sorted keys. Texts that YAML would read as another type are quoted."""
    spend_for_parts(value, budget)
    try:
        plain = msgspec.json.decode(canonical_json(value))
    except (TypeError, ValueError) as error:
        raise EvaluationError("the value cannot be written as YAML") from error
    return str(built(budget, "\n".join(_lines(plain)) + "\n"))


def _lines(value: Any) -> Iterator[str]:
    match value:
        case dict() if value:
            for key, item in value.items():
                yield from _entry(f"{_quoted(key)}:", item)
        case list() if value:
            for item in value:
                yield from _entry("-", item)
        case _:
            yield _quoted(value)


def _entry(head: str, item: Any) -> Iterator[str]:
    if not isinstance(item, dict | list) or not item:
        yield f"{head} {_quoted(item)}"
        return
    yield head
    yield from (f"  {line}" for line in _lines(item))


def _quoted(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value not in _WORDS:
        return value
    return msgspec.json.encode(value).decode()


def _hash(budget: Budget, value: Any) -> str:
    spend_for_parts(value, budget)
    try:
        return content_hash(value)[:16]
    except (TypeError, ValueError) as error:
        raise EvaluationError("the value cannot be written as JSON") from error


def _name(*parts: Any) -> str:
    if not all(isinstance(part, str) for part in parts):
        raise no_overload()
    return bounded_name("-".join(part for part in parts if part), _LONGEST_NAME)


OBJECTS: Final = (
    function("isReady(dyn) -> bool", lambda value: readiness(_object(value)).is_ready, cost=list_cost),
    function("readyReplicas(dyn) -> int", lambda value: count(mapping(_object(value), "status"), "readyReplicas")),
    function("desiredReplicas(dyn) -> int", lambda value: count(mapping(_object(value), "spec"), "replicas", 1)),
    function("jobSucceeded(dyn) -> bool", lambda value: Conditions.of(_object(value)).holds("Complete")),
    function("jobFailed(dyn) -> bool", lambda value: Conditions.of(_object(value)).holds("Failed")),
    function("serviceLoadBalancerIP(dyn) -> string", lambda value: _load_balancer(value, "ip")),
    function("serviceLoadBalancerHost(dyn) -> string", lambda value: _load_balancer(value, "hostname")),
    function("get(dyn...) -> dyn", _get),
    function(["default($A, $A) -> $A", "default(optional($A), $A) -> $A"], _default),
    function("hash(dyn) -> string", _hash, cost=list_cost, with_budget=True),
    function("json(dyn) -> string", _encoded, cost=list_cost, with_budget=True),
    function("yaml(dyn) -> string", _yaml, cost=list_cost, with_budget=True),
    function("name(string...) -> string", _name),
    *KRO,
)

FUNCTIONS: Final[FunctionTable] = {**LANGUAGE, **table(OBJECTS)}
"""All functions of expressions: CEL's, and those of this module."""
