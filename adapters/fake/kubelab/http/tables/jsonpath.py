"""The subset of JSONPath in printer columns: fields, indexes, wildcards and filters by equality."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

Step = Callable[[Any], Iterable[Any]]

_STEP: Final = re.compile(
    r"""
    \.(?P<field>(?:\\.|[^.\[\]\\])+)            # .spec, .metadata.annotations.a\.b
    | \[(?P<index>-?\d+)\]                      # [0]
    | \[(?P<all>\*)\]                           # [*]
    | \[['"](?P<key>[^'"]*)['"]\]               # ['key']
    | \[\?\(@(?P<path>[^=!<>]*?)\s*(?P<op>==|!=)\s*(?P<value>"[^"]*"|'[^']*'|[^)]*)\)\]
    """,
    re.VERBOSE,
)


def find(path: str, value: Any) -> list[Any]:
    """Return every value that `path` selects in `value`, such as `.status.conditions[?(@.type=="Ready")].status`.

    The list is empty if the field is absent, or if `path` uses JSONPath syntax that is not supported.
    """
    matches = [value]
    for step in _steps(path):
        matches = [result for item in matches for result in step(item)]
    return matches


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[Step, ...]:
    # Validation of a CRD requires the dot; the paths of built-in columns come without one.
    text = path if path.startswith((".", "[")) else f".{path}"
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            # apiextensions: registry/customresource/tableconvertor/tableconvertor.go, New refuses the column. Here an
            # unknown syntax only leaves the cell empty.
            return (lambda _: iter(()),)
        steps.append(_step(match))
        at = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    groups = match.groupdict()
    if groups["field"] is not None:
        name = re.sub(r"\\(.)", r"\1", groups["field"])
        return _members if name == "*" else lambda value: _member(value, name)
    if groups["key"] is not None:
        return lambda value: _member(value, groups["key"])
    if groups["index"] is not None:
        return lambda value: _item(value, int(groups["index"]))
    if groups["all"] is not None:
        return _members
    return _filter(groups["path"], groups["op"], _literal(groups["value"]))


def _filter(path: str, operator: str, desired: Any) -> Step:
    def step(value: Any) -> Iterator[Any]:
        for item in _members(value):
            if (desired in find(path, item)) is (operator == "=="):
                yield item

    return step


def _literal(text: str) -> Any:
    text = text.strip()
    if text[:1] in ("'", '"'):
        return text[1:-1]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _member(value: Any, name: str) -> Iterator[Any]:
    if isinstance(value, Mapping) and name in value:
        yield value[name]


def _item(value: Any, index: int) -> Iterator[Any]:
    if isinstance(value, Sequence) and not isinstance(value, str) and -len(value) <= index < len(value):
        yield value[index]


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()
