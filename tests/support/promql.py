"""As much of Prometheus' language as alerts on gauges use: `max by (labels) (metric{matchers}) > number`.

Whatever else an expression holds is refused: promtool judges those, where it is installed.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

__all__ = ["Series", "alerting"]

Series: TypeAlias = tuple[str, Mapping[str, str], float]
"""Name, labels and value of a sample."""

_FORM: Final = re.compile(
    r"\s*(?P<how>max|min|sum) by \((?P<by>[\w, ]+)\)\s*\(\s*(?P<metric>\w+)(?:\{(?P<where>[^}]*)\})?\s*\)"
    r"\s*(?P<compare>>|==)\s*(?P<limit>[\d.]+)\s*"
)
_MATCHER: Final = re.compile(r'\s*(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"\s*')


def alerting(expression: str, samples: Iterable[Series]) -> dict[tuple[str, ...], float]:
    """The groups for which the expression holds, with their values. Raises ValueError for one of another form."""
    form = _FORM.fullmatch(expression)
    if form is None:
        raise ValueError(f"not of the form that is read here: {expression}")
    by = [label.strip() for label in form["by"].split(",")]
    matchers = [_matcher(text) for text in (form["where"] or "").split(",") if text.strip()]
    groups: dict[tuple[str, ...], list[float]] = {}
    for name, labels, value in samples:
        if name == form["metric"] and all(_matches(labels.get(label, ""), *how) for label, *how in matchers):
            groups.setdefault(tuple(labels.get(label, "") for label in by), []).append(value)
    limit = float(form["limit"])
    told = {key: _together(form["how"], values) for key, values in groups.items()}
    return {key: value for key, value in told.items() if (value > limit if form["compare"] == ">" else value == limit)}


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
