"""As much of Prometheus' language as alerts on gauges use: `max by (labels) (metric{matchers}) > number`, and a number
of series that a label of theirs gives otherwise: `group … unless count_values … ("label", count … (group … (metric)))`.

Whatever else an expression holds is refused: promtool judges those, where it is installed.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

Series: TypeAlias = tuple[str, Mapping[str, str], float]
"""Name, labels and value of a sample."""

_FORM: Final = re.compile(
    r"\s*(?P<how>max|min|sum) by \((?P<by>[\w, ]+)\)\s*\(\s*(?P<metric>\w+)(?:\{(?P<where>[^}]*)\})?\s*\)"
    r"\s*(?P<compare>>|==)\s*(?P<limit>[\d.]+)\s*"
)
_BY: Final = r"by \((?P<{}>[\w, ]+)\)\s*"
_COUNTED: Final = re.compile(
    rf"\s*group {_BY.format('by')}\((?P<metric>\w+)\)\s*unless\s+count_values {_BY.format('kept')}"
    rf"\(\"(?P<label>\w+)\",\s*count {_BY.format('counted')}\(group {_BY.format('each')}\((?P=metric)\)\)\)\s*"
)
_MATCHER: Final = re.compile(r'\s*(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"\s*')


def alerting(expression: str, samples: Iterable[Series]) -> dict[tuple[str, ...], float]:
    """The groups for which the expression holds, with their values. Raises ValueError for one of another form."""
    if (counted := _COUNTED.fullmatch(expression)) is not None:
        return _miscounted(counted, [labels for name, labels, _ in samples if name == counted["metric"]])
    form = _FORM.fullmatch(expression)
    if form is None:
        raise ValueError(f"not of the form that is read here: {expression}")
    by = _labels(form["by"])
    matchers = [_matcher(text) for text in (form["where"] or "").split(",") if text.strip()]
    groups: dict[tuple[str, ...], list[float]] = {}
    for name, labels, value in samples:
        if name == form["metric"] and all(_matches(labels.get(label, ""), *how) for label, *how in matchers):
            groups.setdefault(tuple(labels.get(label, "") for label in by), []).append(value)
    limit = float(form["limit"])
    told = {key: _together(form["how"], values) for key, values in groups.items()}
    return {key: value for key, value in told.items() if (value > limit if form["compare"] == ">" else value == limit)}


def _miscounted(form: re.Match[str], series: list[Mapping[str, str]]) -> dict[tuple[str, ...], float]:
    """The groups whose label does not say how many series there are in them."""
    each = {tuple((label, labels.get(label, "")) for label in _labels(form["each"])) for labels in series}
    numbers = Counter(tuple((label, dict(one)[label]) for label in _labels(form["counted"])) for one in each)
    right = [
        {**{label: dict(group)[label] for label in _labels(form["kept"])}, form["label"]: str(number)}
        for group, number in numbers.items()
    ]
    groups = [{label: labels.get(label, "") for label in _labels(form["by"])} for labels in series]
    return {tuple(group.values()): 1.0 for group in groups if group not in right}


def _labels(text: str) -> list[str]:
    return [label.strip() for label in text.split(",")]


def _together(how: str, values: list[float]) -> float:
    match how:
        case "max":
            return max(values)
        case "min":
            return min(values)
        case _:
            return sum(values)


def _matcher(text: str) -> tuple[str, str, str]:
    match = _MATCHER.fullmatch(text)
    if match is None:
        raise ValueError(f"no matcher: {text}")
    return match[1], match[2], match[3]


def _matches(value: str, operator: str, wanted: str) -> bool:
    match operator:
        case "=":
            return value == wanted
        case "!=":
            return value != wanted
        case "=~":
            return re.fullmatch(wanted, value) is not None
        case _:
            return re.fullmatch(wanted, value) is None
