"""The doors: what each package offers to those who embed it, and nothing by accident (decision 110).

A door is an `__init__.py` with `__all__`. All else is the house's own, and may change without a word.
"""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from purekube import Kind
from purekube.cel import CelType
from tests.packaging.projects import PACKAGES, ROOT


def name_of(path: Path) -> str:
    """The dotted name of a file below one of our import packages."""
    (package,) = [ROOT / package for package in PACKAGES if path.is_relative_to(ROOT / package)]
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    """The file, parsed."""
    return ast.parse(path.read_text(encoding="utf-8"))


def assigned(node: ast.stmt) -> list[str]:
    """Names that a statement at the top of a module assigns."""
    targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


FILES = {name_of(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}
DOORS = [
    name
    for name, path in FILES.items()
    if path.name == "__init__.py" and any("__all__" in assigned(node) for node in tree_of(path).body)
]
OURS = {package.name for package in PACKAGES}
EMBEDDED = (
    "purekube",
    "purekube_convert",
    "kubelab",
    "vworkspace_core",
    "purekube.cel",
    "purekube.graph",
    "vworkspace_core.operations",
    "purekube.ports",
    "purekube.readiness",
    "purekube.reconcilers",
    "purekube.regex",
    "purekube.schema",
    "purekube.versions",
    "vworkspace_fake.controlplane",
    "kubelab.downstream",
    "kubelab.flux",
    "purekube_kit",
    "purekube_http",
    "vworkspace_odoo",
)
"""What others embed. The rooms of the app have doors for each other."""

BELOW = {"vworkspace_app": ("purekube_run",)}
"""Packages whose names another package may offer as its own."""

LATE = (
    "purekube",
    "kubelab",
    "vworkspace_app.manager",
    "vworkspace_core",
    "vworkspace_core.operations",
    "purekube_kit",
)
"""Doors of packages that everybody passes who imports anything inside: they load a module when it is asked for."""


def door(name: str) -> ModuleType:
    """The package."""
    return importlib.import_module(name)


def offered(name: str) -> list[tuple[str, Any]]:
    """Every public name, with what it is."""
    return [(public, getattr(door(name), public)) for public in door(name).__all__]


def test_everything_that_others_embed_has_a_door() -> None:
    assert set(EMBEDDED) <= set(DOORS)


@pytest.mark.parametrize("name", DOORS)
def test_each_name_is_ours_and_is_no_module(name: str) -> None:
    """A module of the same name would take its place in a door that loads late, once somebody imports the module."""
    package = name.partition(".")[0]

    for public, value in offered(name):
        assert not inspect.ismodule(value), public
        made_by = getattr(value, "__module__", None)
        if isinstance(value, type) or inspect.isroutine(value):
            assert str(made_by).partition(".")[0] in {package, *BELOW.get(package, ())}, public
    if "__getattr__" in vars(door(name)):
        assert [public for public in door(name).__all__ if f"{name}.{public}" in FILES] == []


@pytest.mark.parametrize("name", DOORS)
def test_nothing_public_stands_beside(name: str) -> None:
    """What a door imports of ours, or defines, it offers; what it builds that of does not count."""
    found, used = set(), set()
    for node in ast.walk(tree_of(FILES[name])):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in OURS:
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.add(node.id)
    found -= used - set(door(name).__all__)
    for statement in tree_of(FILES[name]).body:
        found |= set(assigned(statement)) - {"__all__"}
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(statement.name)

    assert {one for one in found if not one.startswith("_")} == set(door(name).__all__)


@pytest.mark.parametrize("name", DOORS)
def test_the_door_and_each_name_are_documented(name: str) -> None:
    assert door(name).__doc__

    for public, value in offered(name):
        if isinstance(value, type) or inspect.isroutine(value):
            assert (inspect.getdoc(value) or "").strip(), public
        elif not isinstance(value, Kind | CelType):  # which say what they are
            assert documented(home_of(name, public), public), f"{public} has no sentence below it"


def home_of(name: str, public: str) -> str:
    """The module that defines a constant."""
    for node in ast.walk(tree_of(FILES[name])):
        if isinstance(node, ast.ImportFrom) and public in [alias.name for alias in node.names]:
            assert node.module
            return home_of(node.module, public)
    return name


def documented(module: str, constant: str) -> bool:
    """Whether a sentence stands below it, or a comment beside it."""
    body = tree_of(FILES[module]).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if constant in assigned(node):
            return isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    return False


@pytest.mark.parametrize("name", LATE)
def test_a_door_that_loads_late_loads_what_it_says(name: str) -> None:
    """A type checker reads the imports, and the door loads what they name."""
    module = door(name)
    read = {
        alias.name: node.module
        for node in ast.walk(tree_of(FILES[name]))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in OURS
        for alias in node.names
        if alias.name != "lazy_door"
    }

    assert set(dir(module)) == set(module.__all__) == set(read)
    for public, home in read.items():
        assert getattr(module, public) is getattr(door(str(home)), public)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        module.nonsense  # noqa: B018


@pytest.mark.parametrize(
    "name",
    ["purekube", "vworkspace_core", "vworkspace_core.operations", "kubelab", "purekube_kit"],
)
def test_entering_loads_nothing_else(name: str) -> None:
    """Every import of anything inside passes here: `--help` must not wait for it."""
    loaded = f"{{one for one in sys.modules if one.partition('.')[0] in {OURS}}}"
    program = f"import {name}, sys; print(*sorted({loaded}))"
    ended = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)

    own = {".".join(name.split(".")[: depth + 1]) for depth in range(name.count(".") + 1)}
    assert set(ended.stdout.split()) <= {*own, "purekube", "purekube.lazy_door"}


@pytest.mark.slow
def test_an_idle_operator_does_not_load_the_validator_of_parameters() -> None:
    """Only an Operation needs it: 2 MB of an idle operator's memory, and 40 ms of its start."""
    program = "import vworkspace_app.commands.run, sys; print(*{'jsonschema', 'referencing', 'rpds'} & {*sys.modules})"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert not ended.stdout.strip()


@pytest.mark.slow
def test_private_modules_have_no_list_of_names() -> None:
    listing = {name for name, path in FILES.items() if any("__all__" in assigned(node) for node in tree_of(path).body)}

    assert listing == set(DOORS)


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for name, path in FILES.items():
        for found in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            places.setdefault(found, []).append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
