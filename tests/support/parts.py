"""The part that a test belongs to: the uppermost one that it imports, itself or through helpers of tests.

Parts build on each other: the laboratory (`kubelab`), the framework (`purekube`), the operator (`product`). Rooms of
the framework that the laboratory may not import count to the framework, the others to the ground of both. A test that
imports none of them is about the repository, and counts to the operator. Programs in strings count, too.
"""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PARTS: Final = ("kubelab", "purekube", "product")
_PACKAGES: Final = r"purekube|kubelab|vworkspace|tests|bench|tools"
_IMPORT: Final = re.compile(rf"^\s*(?:from|import) ((?:{_PACKAGES})[\w.]*)(?: import (\w+))?", re.MULTILINE)


def part_of(test: Path) -> str:
    """Return the part that a test module belongs to."""
    reached = _reached(test)
    ground = "purekube" if any(module.startswith("purekube") for module in reached) else "product"
    return max({_part_of_module(module) for module in reached} - {""}, key=PARTS.index, default=ground)


@cache
def _part_of_module(module: str) -> str:
    """Return the part of a module; nothing for the ground and for helpers of tests, which count by what they import."""
    package = module.partition(".")[0]
    if package in ("tests", "purekube"):
        return "purekube" if module.startswith(_above_the_ground()) else ""
    return package if package == "kubelab" else "purekube" if package.startswith("purekube_") else "product"


@cache
def _above_the_ground() -> tuple[str, ...]:
    """Return the rooms of the framework that the laboratory may not import, by the import contracts."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts: list[dict[str, Any]] = pyproject["tool"]["importlinter"]["contracts"]
    return tuple(next(contract for contract in contracts if contract["id"] == "api-server")["forbidden_modules"])


def _reached(test: Path) -> set[str]:
    """Return the modules that a test imports, also through modules of `tests`."""
    reached: set[str] = set()
    waiting = [test]
    while waiting:
        new = _imports(waiting.pop()) - reached
        reached |= new
        waiting += (file for module in new if module.startswith("tests.") for file in _files(module))
    return reached


@cache
def _imports(file: Path) -> frozenset[str]:
    found = _IMPORT.findall(file.read_text(encoding="utf-8"))
    return frozenset(name for module, member in found for name in (module, f"{module}.{member}" if member else module))


def _files(module: str) -> list[Path]:
    path = ROOT / module.replace(".", "/")
    return [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
