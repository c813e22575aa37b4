"""The CEL libraries for lists and sets: CEL's own extensions and those of Kubernetes."""

from collections.abc import Callable
from functools import cmp_to_key
from itertools import pairwise
from typing import Any, Final

from purekube.cel.limits import Budget, EvaluationError, no_overload, of_type
from purekube.cel.signatures import built, function, list_cost, square_cost
from purekube.cel.values import Duration, Uint, cel_equal, compare_values, int64, is_number, uint64

_SORTED: Final = ("int", "uint", "double", "bool", "string", "bytes", "timestamp", "duration", "dyn")
_SUMMED: Final = ("int", "uint", "double", "duration", "dyn")


def _distinct(budget: Budget, items: Any) -> list[Any]:
    out: list[Any] = []
    seen = set[str]()
    for item in of_type(list, items):
        if type(item) is str:
            if item in seen:
                continue
            seen.add(item)
        else:
            budget.spend(len(out))
            if any(cel_equal(item, known, budget) for known in out):
                continue
        out.append(item)
    return list(built(budget, out))


def _flatten(budget: Budget, items: Any, depth: Any = 1) -> list[Any]:
    if of_type(int, depth) < 0:
        raise EvaluationError("level must be non-negative")
    out: list[Any] = []
    pending = [(item, int(depth)) for item in reversed(of_type(list, items))]
    while pending:
        budget.spend(1)
        item, left = pending.pop()
        if isinstance(item, list) and left > 0:
            pending += [(nested, left - 1) for nested in reversed(item)]
        else:
            out.append(item)
    return list(built(budget, out))


def _range(budget: Budget, count: Any) -> list[int]:
    numbers = range(of_type(int, count))
    budget.build_items(len(numbers))
    return list(numbers)


def _reverse(budget: Budget, items: Any) -> list[Any]:
    return list(built(budget, of_type(list, items)[::-1]))


def _slice(budget: Budget, items: Any, start: Any, end: Any) -> list[Any]:
    if not 0 <= of_type(int, start) <= of_type(int, end) <= len(of_type(list, items)):
        raise EvaluationError(f"cannot slice {len(items)} items from {start} to {end}")
    return list(built(budget, items[start:end]))


def _compare(left: Any, right: Any) -> int:
    order = compare_values(left, right)
    return 0 if order == 2 else order


def _sort(budget: Budget, items: Any) -> list[Any]:
    return sorted_by(budget, of_type(list, items), of_type(list, items))


def sorted_by(budget: Budget, items: list[Any], keys: list[Any]) -> list[Any]:
    """Return `items` sorted by the `keys` at the same positions. The cost of the sort is subtracted from `budget`."""
    budget.spend(len(keys) * max(1, len(keys).bit_length()))
    in_order = cmp_to_key(_compare)
    ordered = sorted(enumerate(keys), key=lambda pair: in_order(pair[1]))
    return list(built(budget, [items[at] for at, _ in ordered]))


def _is_sorted(items: Any) -> bool:
    values = of_type(list, items)
    return all(compare_values(left, right) <= 0 for left, right in pairwise(values))


def _extreme(sign: int) -> Callable[[Any], Any]:
    def run(items: Any) -> Any:
        values = of_type(list, items)
        if not values:
            raise EvaluationError("min and max need an item at the least")
        best = values[0]
        for item in values:
            if compare_values(item, best) == sign:
                best = item
        return best

    return run


def _sum(items: Any) -> Any:
    values = of_type(list, items)
    if all(isinstance(item, Duration) for item in values) and values:
        return Duration(int64(sum(item.nanos for item in values), "duration overflow"))
    if not all(is_number(item) for item in values) or len(set(map(type, values))) > 1:
        raise no_overload()
    total = sum(values)
    if isinstance(total, float):
        return total
    return uint64(total) if values and isinstance(values[0], Uint) else int64(total)


def _index_of(budget: Budget, items: Any, what: Any) -> int:
    return next((at for at, item in enumerate(of_type(list, items)) if cel_equal(item, what, budget)), -1)


def _last_index_of(budget: Budget, items: Any, what: Any) -> int:
    return max((at for at, item in enumerate(of_type(list, items)) if cel_equal(item, what, budget)), default=-1)


def _contains(budget: Budget, items: Any, part: Any) -> bool:
    return all(any(cel_equal(wanted, item, budget) for item in of_type(list, items)) for wanted in of_type(list, part))


def _intersects(budget: Budget, items: Any, part: Any) -> bool:
    return any(any(cel_equal(wanted, item, budget) for item in of_type(list, items)) for wanted in of_type(list, part))


def _equivalent(budget: Budget, items: Any, part: Any) -> bool:
    return _contains(budget, items, part) and _contains(budget, part, items)


FUNCTIONS: Final = (
    function("list($A).distinct() -> list($A)", _distinct, cost=list_cost, with_budget=True),
    function("list($A).flatten() -> list(dyn)", _flatten, with_budget=True),
    function("list($A).flatten(int) -> list(dyn)", _flatten, with_budget=True),
    function("lists.range(int) -> list(int)", _range, with_budget=True),
    function("list($A).reverse() -> list($A)", _reverse, cost=list_cost, with_budget=True),
    function("list($A).slice(int, int) -> list($A)", _slice, cost=list_cost, with_budget=True),
    function([f"list({kind}).sort() -> list({kind})" for kind in _SORTED], _sort, cost=list_cost, with_budget=True),
    function([f"list({kind}).isSorted() -> bool" for kind in _SORTED], _is_sorted, cost=list_cost),
    function([f"list({kind}).min() -> {kind}" for kind in _SORTED], _extreme(-1), cost=list_cost),
    function([f"list({kind}).max() -> {kind}" for kind in _SORTED], _extreme(1), cost=list_cost),
    function([f"list({kind}).sum() -> {kind}" for kind in _SUMMED], _sum, cost=list_cost),
    function("list($A).indexOf($A) -> int", _index_of, cost=list_cost, with_budget=True),
    function("list($A).lastIndexOf($A) -> int", _last_index_of, cost=list_cost, with_budget=True),
    function("sets.contains(list($A), list($A)) -> bool", _contains, cost=square_cost, with_budget=True),
    function("sets.intersects(list($A), list($A)) -> bool", _intersects, cost=square_cost, with_budget=True),
    function("sets.equivalent(list($A), list($A)) -> bool", _equivalent, cost=square_cost, with_budget=True),
)
