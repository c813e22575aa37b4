"""The CEL libraries of Kubernetes for quantities, semantic versions and regular expressions."""

import re
from decimal import Decimal
from typing import Any, Final

from purekube.apimachinery.formats import is_quantity, parse_quantity
from purekube.cel.library.standard import pattern_of, text_of
from purekube.cel.limits import Budget, EvaluationError, no_overload, of_type
from purekube.cel.signatures import built, function, text_cost
from purekube.cel.values import INT_MAX, INT_MIN, Semver, compare_values

_SEMVER: Final = re.compile(
    r"(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)
_CORE: Final = re.compile(r"([^-+]*)(.*)", re.DOTALL)
_LONGEST: Final = 256


def _quantity(text: Any) -> Decimal:
    number = parse_quantity(text) if len(text_of(text)) <= _LONGEST else None
    if number is None:
        raise EvaluationError(f"{text[:64]!r} is no quantity such as 500m or 1Gi")
    return number


def _is_quantity(text: Any) -> bool:
    return is_quantity(text_of(text)) and len(text) <= _LONGEST


def _decimal(value: Any) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(int(of_type(int, value)))


def _is_integer(value: Any) -> bool:
    number = _decimal(value)
    return number.adjusted() < 20 and number == number.to_integral_value() and INT_MIN <= number <= INT_MAX


def _as_integer(value: Any) -> int:
    if not _is_integer(value):
        raise EvaluationError("the quantity is no integer of 64 bits")
    return int(_decimal(value))


def _sign(value: Any) -> int:
    number = _decimal(value)
    return (number > 0) - (number < 0)


# apiserver: pkg/cel/library/semverlib.go, normalizeAndParse.
def _trimmed(text: str) -> str:
    """Return a version text in the normal form of semantic versions: `v1.2` becomes `1.2.0`."""
    core, rest = _CORE.fullmatch(text.removeprefix("v")).groups()  # type: ignore[union-attr]
    parts = [part.lstrip("0") or part[:1] for part in core.split(".")]
    missing = [] if rest else ["0"] * (3 - len(parts))  # as in Go, a short version has no pre-release
    return ".".join([*parts, *missing]) + rest


def parse_semver(text: str, *, generous: bool = False) -> Semver | None:
    """Return the semantic version in `text`; None if the text is not a semantic version.

    With `generous`, incomplete versions such as `v1.2` are accepted.
    """
    match = _SEMVER.fullmatch(_trimmed(text) if generous else text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    major, minor, patch, pre, build = match.groups()
    return Semver(int(major), int(minor), int(patch), tuple(pre.split(".")) if pre else (), build or "")


def _semver(text: Any, generous: Any = False) -> Semver:
    version = parse_semver(text_of(text), generous=generous is True)
    if version is None:
        raise EvaluationError(f"{text[:64]!r} is no semantic version such as 1.2.3")
    return version


def _part(name: str) -> Any:
    return lambda value: int(getattr(of_type(Semver, value), name))


def _compare(left: Any, right: Any) -> int:
    if not isinstance(left, (Decimal, Semver)):
        raise no_overload()
    return compare_values(left, right)


def _find(budget: Budget, text: Any, pattern: Any) -> str:
    compiled, text = pattern_of(pattern), text_of(text)
    budget.spend(1 + len(text) * compiled.size // 16)
    place = compiled.find(text)
    return str(built(budget, text[place[0] : place[1]])) if place else ""


def _find_all(budget: Budget, text: Any, pattern: Any, most: Any = -1) -> list[str]:
    compiled, text = pattern_of(pattern), text_of(text)
    out: list[str] = []
    at = 0
    for match in compiled.find_all(text, of_type(int, most)):
        at += len(match)
        budget.spend(1 + len(text) * compiled.size // 16)
        budget.build_items(1)
        budget.build_text(len(match))
        out.append(match)
    budget.spend(1 + (len(text) - at) * compiled.size // 16)
    return out


FUNCTIONS: Final = (
    function("quantity(string) -> quantity", _quantity, cost=text_cost),
    function("isQuantity(string) -> bool", _is_quantity, cost=text_cost),
    function("quantity.isInteger() -> bool", _is_integer),
    function("quantity.asInteger() -> int", _as_integer),
    function("quantity.asApproximateFloat() -> double", lambda value: float(_decimal(value))),
    function("quantity.sign() -> int", _sign),
    function(
        ["quantity.add(quantity) -> quantity", "quantity.add(int) -> quantity"],
        lambda left, right: _decimal(left) + _decimal(right),
    ),
    function(
        ["quantity.sub(quantity) -> quantity", "quantity.sub(int) -> quantity"],
        lambda left, right: _decimal(left) - _decimal(right),
    ),
    function(["quantity.compareTo(quantity) -> int", "semver.compareTo(semver) -> int"], _compare),
    function(
        ["quantity.isGreaterThan(quantity) -> bool", "semver.isGreaterThan(semver) -> bool"],
        lambda left, right: _compare(left, right) == 1,
    ),
    function(
        ["quantity.isLessThan(quantity) -> bool", "semver.isLessThan(semver) -> bool"],
        lambda left, right: _compare(left, right) == -1,
    ),
    function("semver(string) -> semver", _semver, cost=text_cost),
    function("semver(string, bool) -> semver", _semver, cost=text_cost),
    function("isSemver(string) -> bool", lambda text: parse_semver(text_of(text)) is not None, cost=text_cost),
    function(
        "isSemver(string, bool) -> bool",
        lambda text, generous: parse_semver(text_of(text), generous=generous is True) is not None,
        cost=text_cost,
    ),
    function("semver.major() -> int", _part("major")),
    function("semver.minor() -> int", _part("minor")),
    function("semver.patch() -> int", _part("patch")),
    function("string.find(string) -> string", _find, with_budget=True),
    function("string.findAll(string) -> list(string)", _find_all, with_budget=True),
    function("string.findAll(string, int) -> list(string)", _find_all, with_budget=True),
)
