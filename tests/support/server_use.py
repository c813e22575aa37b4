"""The tests that use the API server of `KUBEBUILDER_ASSETS`: those whose code can reach `real_assets`.

The search begins with a test's function, its parameters and its fixtures, and follows what their code names in `tests`.
So no list is kept by hand: a new test that uses the server is chosen because it does.
"""

import os
from collections.abc import Iterator
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Final

import attrs
import pytest

if TYPE_CHECKING:
    from purekube_kit.kube_apiserver import Assets

_OURS: Final = "tests."
_CURRENT: Final[list[pytest.Item]] = []


def uses_server(item: pytest.Item) -> bool:
    """Report whether the test can reach the server's programs."""
    return isinstance(item, pytest.Function) and any(part is real_assets for part in _reached(_roots(item)))


def real_assets() -> "Assets":
    """Return the programs of the API server; skip the test where there are none."""
    from purekube_kit.kube_apiserver import assets_of  # the tests of the pure parts have no kit

    require_choice()
    assets = assets_of(os.environ)
    if isinstance(assets, str):
        pytest.skip(assets)
    return assets


def note(item: pytest.Item) -> None:
    """Remember which test runs."""
    _CURRENT[:] = [item]


def require_choice() -> None:
    """Fail a test that uses the server although the search does not find out: `make test-cluster` would omit it."""
    for item in _CURRENT:
        assert uses_server(item), f"{item.nodeid} uses the API server in a way that {__name__} does not see"


def _roots(item: pytest.Function) -> Iterator[object]:
    """Yield the test's function, its parameters, and the functions of its fixtures."""
    yield item.function
    if hasattr(item, "callspec"):
        yield from item.callspec.params.values()
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        yield from (definition.func for definition in definitions)


def _reached(roots: Iterator[object]) -> Iterator[object]:
    """Yield every object that the roots' code and data lead to, each once."""
    waiting, seen = list(roots), dict[int, object]()
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen[id(part)] = part
            yield part
            waiting += _next(part)


def _next(part: object) -> Iterator[object]:
    """Yield what one object leads to. Objects of other packages lead nowhere."""
    match part:
        case FunctionType():
            yield from _of_function(part)
        case MethodType():
            yield from (part.__func__, part.__self__)
        case partial():
            yield from (part.func, *part.args, *part.keywords.values())
        case tuple() | list():
            yield from part
        case dict():
            yield from part.values()
        case staticmethod() | classmethod():
            yield part.__func__
        case property():
            yield part.fget
        case type() if part.__module__.startswith(_OURS):
            yield from (*vars(part).values(), *part.__bases__)
        case _ if attrs.has(type(part)):
            names = [field.name for field in type(part).__attrs_attrs__]  # type: ignore[attr-defined]  # attrs.has
            yield from (type(part), *(getattr(part, name, None) for name in names))
        case _:
            yield getattr(part, "__wrapped__", None)


def _of_function(function: FunctionType) -> Iterator[object]:
    yield getattr(function, "__wrapped__", None)
    if not function.__module__.startswith(_OURS):
        return
    yield from (_content(cell) for cell in function.__closure__ or ())
    yield from function.__defaults__ or ()
    names = set(_names(function.__code__))
    for name in names & function.__globals__.keys():
        named = function.__globals__[name]
        if isinstance(named, ModuleType) and named.__name__.startswith(_OURS):
            yield from (vars(named)[inner] for inner in names & vars(named).keys())
        else:
            yield named


def _content(cell: CellType) -> object:
    """Return what a closure holds; nothing while it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that the code uses, and those of functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
