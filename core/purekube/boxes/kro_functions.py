"""Functions that expressions of kro, the Kube Resource Orchestrator, have in addition to CEL's, for boxes: hashes,
seeds, JSON, merging. They have the same results as in kro.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from purekube.cel import Budget
from purekube.cel.limits import EvaluationError, no_overload, of_type
from purekube.cel.signatures import built, function, list_cost, text_cost

_SIGNS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_DEEPEST: Final = 64
"""The deepest nesting of JSON that `json.unmarshal` accepts."""
_OFFSET: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3


def _text(value: Any) -> bytes:
    return of_type(str, value).encode("utf-8", "surrogatepass")


def _fnv64a(value: Any) -> bytes:
    """Return the FNV-1a hash of 64 bits."""
    state = _OFFSET
    for byte in _text(value):
        state = (state ^ byte) * _PRIME % 2**64
    return state.to_bytes(8, "big")


def _digest(name: str) -> Callable[[Any], bytes]:
    return lambda value: hashlib.new(name, _text(value), usedforsecurity=False).digest()


def _seeded_string(budget: Budget, length: Any, seed: Any) -> str:
    """Return text of the given length that depends only on `seed`; as in kro, the text repeats after eight
    characters.
    """
    if of_type(int, length) <= 0:
        raise EvaluationError("the length must be positive")
    budget.build_text(of_type(int, length))
    digest = hashlib.sha256(_text(seed)).digest()
    period = [_SIGNS[int.from_bytes(digest[at : at + 4], "big") % len(_SIGNS)] for at in range(0, len(digest), 4)]
    return "".join(period[at % len(period)] for at in range(of_type(int, length)))


def _seeded_int(least: Any, end: Any, seed: Any) -> int:
    """Return an integer that depends only on `seed`, at least `least` and less than `end`."""
    if of_type(int, least) >= of_type(int, end):
        raise EvaluationError("the first number must be less than the second")
    drawn = int.from_bytes(hashlib.sha256(_text(seed)).digest()[:8], "big")
    return int(least) + drawn % (int(end) - int(least))


def _unmarshal(budget: Budget, text: Any) -> Any:
    """Return the value of a JSON text, in which all numbers become doubles."""
    try:
        value = msgspec.json.decode(_text(text))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise EvaluationError("the text is no JSON") from error
    return _with_doubles(budget, value, 0)


def _with_doubles(budget: Budget, value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise EvaluationError(f"the JSON is nested more than {_DEEPEST} levels deep")
    match value:
        case dict():
            return built(budget, {key: _with_doubles(budget, item, depth + 1) for key, item in value.items()})
        case list():
            return built(budget, [_with_doubles(budget, item, depth + 1) for item in value])
        case int() if not isinstance(value, bool):
            return _double(value)
        case float():
            return _double(value)
    return value


def _double(value: float) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise EvaluationError("the JSON has a number beyond 64 bits") from error


def _merge(budget: Budget, value: Any, other: Any) -> Any:
    """Return a map with the keys of both maps; the second map's value wins. Raises an error for other types."""
    if not isinstance(value, Mapping) or not isinstance(other, Mapping):
        raise no_overload()
    return built(budget, {**value, **other})


def _with_item(budget: Budget, items: Any, index: Any, value: Any) -> Any:
    return _spliced(budget, items, index, 1, [value])


def _inserted(budget: Budget, items: Any, index: Any, value: Any) -> Any:
    return _spliced(budget, items, index, 0, [value])


def _without_item(budget: Budget, items: Any, index: Any) -> Any:
    return _spliced(budget, items, index, 1, [])


def _spliced(budget: Budget, items: Any, index: Any, removed: int, put: list[Any]) -> Any:
    """Return a copy of a list in which `put` replaces `removed` items from `index` on."""
    if not 0 <= of_type(int, index) <= len(of_type(list, items)) - removed:
        raise EvaluationError(f"index out of bounds: {index}")
    return built(budget, [*items[:index], *put, *items[index + removed :]])


KRO: Final = (
    function("hash.sha256(string) -> bytes", _digest("sha256"), cost=text_cost),
    function("hash.fnv64a(string) -> bytes", _fnv64a, cost=text_cost),
    function("hash.md5(string) -> bytes", _digest("md5"), cost=text_cost),
    function("random.seededString(int, string) -> string", _seeded_string, cost=text_cost, with_budget=True),
    function("random.seededInt(int, int, string) -> int", _seeded_int, cost=text_cost),
    function("json.unmarshal(string) -> dyn", _unmarshal, cost=text_cost, with_budget=True),
    function("map($A, $B).merge(map($A, $B)) -> map($A, $B)", _merge, cost=list_cost, with_budget=True),
    function("lists.setAtIndex(list($A), int, $A) -> list($A)", _with_item, cost=list_cost, with_budget=True),
    function("lists.insertAtIndex(list($A), int, $A) -> list($A)", _inserted, cost=list_cost, with_budget=True),
    function("lists.removeAtIndex(list($A), int) -> list($A)", _without_item, cost=list_cost, with_budget=True),
)
"""The functions of kro, each declared with its CEL signature."""
