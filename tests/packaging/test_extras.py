"""What the extras bring, and that each part of the product imports no more than its extra has (RUN-7)."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from vworkspace_app.missing_packages import LABORATORY, ONLY_EMBEDDED

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
PACKAGES = [Path(path) for path in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]
OURS = {path.name for path in PACKAGES}
KIT = "purekube_kit"
CONFORMANCE = ("conformance", "commands/conformance.py")


def distributions(lines: Iterable[str]) -> set[str]:
    """Names of required distributions, without versions and extras."""
    return {re.split(r"[<>=\[ ]", line)[0] for line in lines}


def modules(lines: Iterable[str]) -> set[str]:
    """What they are imported as; `referencing` is jsonschema's own face for references."""
    names = {name.lower().replace("-", "_") for name in distributions(lines)}
    return {"yaml" if name == "pyyaml" else name for name in names} | {"referencing"}


BASE = modules(PROJECT["project"]["dependencies"])
OPERATOR = BASE | modules(EXTRAS["operator"])


def imported(folders: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Every package that is imported, with the file that does."""
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((alias.name.partition(".")[0], str(path.relative_to(ROOT))) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                yield str(node.module).partition(".")[0], str(path.relative_to(ROOT))


def beyond(known: set[str], folders: Iterable[Path]) -> set[tuple[str, str]]:
    """Imports of what is neither known, nor Python's, nor ours."""
    allowed = known | OURS | {"__future__"} | set(sys.stdlib_module_names)
    return {(name, path) for name, path in imported(folders) if name not in allowed}


def test_the_operator_imports_nothing_that_its_extra_does_not_bring() -> None:
    """The image has the extra `operator` and nothing more.

    The command `conformance` says what is missing where its own extra is not installed.
    """
    product = [path for path in PACKAGES if path.name not in (*LABORATORY, KIT)]
    found = beyond(OPERATOR, product)

    conformance = tuple("app/vworkspace_app/" + part for part in CONFORMANCE)
    assert {(name, path) for name, path in found if not path.startswith(conformance)} == set()
    assert {name for name, path in found if path.startswith(conformance)} == {"pytest"}


def test_the_laboratory_imports_nothing_that_its_extra_does_not_bring() -> None:
    laboratory = [path for path in PACKAGES if path.name in LABORATORY]

    assert {name for name, _ in beyond(OPERATOR, laboratory)} == {"cryptography"}
    assert [path for path in laboratory if path.parent != Path("adapters/fake")] == []


def test_the_kit_imports_nothing_that_its_extra_does_not_bring() -> None:
    own, *beside = EXTRAS["kit"]
    folders = [path for path in PACKAGES if path.name == KIT]

    assert own == f"{PROJECT['project']['name']}[embedded]"
    assert distributions(beside) == {"hypothesis", "pytest"}
    assert beyond(OPERATOR | modules(EXTRAS["embedded"]) | modules(beside), folders) == set()
    assert PROJECT["project"]["entry-points"]["pytest11"] == {"vworkspace": f"{KIT}.plugin"}


def test_the_extra_of_the_embedded_servers_is_the_operators_and_what_a_missing_package_is_told_by() -> None:
    own, *beside = EXTRAS["embedded"]

    assert own == f"{PROJECT['project']['name']}[operator]"
    assert distributions(beside) == set(ONLY_EMBEDDED)
    assert distributions(EXTRAS["conformance"]) == {"pytest"}


def test_every_import_package_is_in_the_wheel_once_and_says_that_it_is_typed() -> None:
    folders = {
        path.parent.relative_to(ROOT) for floor in ("core", "adapters", "app", "kit") for path in _roots(ROOT / floor)
    }

    assert sorted(PACKAGES) == sorted(folders)
    assert [path for path in PACKAGES if not (ROOT / path / "py.typed").is_file()] == []


def _roots(floor: Path) -> Iterator[Path]:
    """The `__init__.py` of every package that stands in none."""
    return (path for path in floor.rglob("__init__.py") if not (path.parents[1] / "__init__.py").exists())
