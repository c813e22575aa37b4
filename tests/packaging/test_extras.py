"""What the projects and their extras bring, and that no part imports more than its project requires (RUN-7)."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.packaging.projects import OPERATOR, PACKAGES, ROOT, ours_below, parts_of, projects
from vworkspace_app.missing_packages import LABORATORY, ONLY_EMBEDDED

CONFORMANCE = ("conformance", "commands/conformance/control_plane.py")
SIGNATURES = ("adapters/odoo/vworkspace_odoo/jose.py", "adapters/odoo/vworkspace_odoo/keys.py")
"""What is imported with the first signed or encrypted job."""


def _excepted() -> Iterator[tuple[str, str]]:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in table["tool"]["importlinter"]["contracts"]:
        for line in contract.get("ignore_imports", ()) if contract["id"] == "parts" else ():
            importer, _, imported_module = line.partition(" -> ")
            yield imported_module.partition(".")[0], importer.split(".")[-2]


IMAGE = "compile --extra operator --extra signatures "
"""How `scripts/lock` says what the image installs."""

EXCEPTED = set(_excepted())
"""What the contract of the parts still permits: an import package, and the room that imports it."""


def distributions(lines: Iterable[str]) -> set[str]:
    """Names of required distributions, without versions and extras."""
    return {parts_of(line)[0] for line in lines}


def modules(lines: Iterable[str]) -> set[str]:
    """What they are imported as; `referencing` is jsonschema's own face for references."""
    names = {name.lower().replace("-", "_") for name in distributions(lines)}
    return {"yaml" if name == "pyyaml" else name for name in names} | {"referencing"}


def imported(folders: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Every package that is imported, with the file that does."""
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((alias.name.partition(".")[0], str(path.relative_to(ROOT))) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                yield str(node.module).partition(".")[0], str(path.relative_to(ROOT))


def beyond(known: set[str], folders: Iterable[Path]) -> set[tuple[str, str]]:
    """Imports of what is neither known nor Python's."""
    allowed = known | {"__future__"} | set(sys.stdlib_module_names)
    return {(name, path) for name, path in imported(folders) if name not in allowed}


@pytest.mark.slow
def test_the_operator_imports_nothing_that_its_extra_does_not_bring() -> None:
    """The image has the extras `operator` and `signatures`, and nothing more.

    The laboratory and the conversion are imported where a command wants them; the command says what is missing.
    """
    operator = projects()[OPERATOR]
    known = modules(operator.required("operator")) | ours_below(OPERATOR, "operator")
    found = beyond(known, [path for path in operator.packages if path.name not in LABORATORY])

    conformance = tuple("app/vworkspace_app/" + part for part in CONFORMANCE)
    elsewhere = {(name, path) for name, path in found if not path.startswith(conformance) and path not in SIGNATURES}
    demo = {("rich", path) for _, path in elsewhere if path.startswith("app/vworkspace_app/demo/")}
    assert {name for name, _ in elsewhere - demo} <= {*LABORATORY}, elsewhere
    assert {name for name, path in found if path.startswith(conformance)} == {"pytest"}
    assert {name for name, path in found if path in SIGNATURES} == distributions(operator.extras["signatures"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "package", "extras"),
    [
        ("purekube", "purekube", ()),
        ("purekube", "purekube_http", ("run",)),
        ("kubelab", "kubelab", ("tls",)),
        ("purekube-convert", "purekube_convert", ()),
        ("purekube-kit", "purekube_kit", ()),
        (OPERATOR, "vworkspace_core", ()),
        (OPERATOR, "vworkspace_odoo", ("operator", "signatures")),
        (OPERATOR, "vworkspace_fake", ("embedded",)),
    ],
)
def test_a_package_imports_nothing_that_its_project_does_not_require(
    name: str, package: str, extras: tuple[str, ...]
) -> None:
    project = projects()[name]
    known = modules(project.required(*extras)) | ours_below(name, *extras)

    found = beyond(known, [path for path in project.packages if path.name == package])
    plugin = {("pytest", path) for _, path in found if path.endswith("/plugin.py")}  # which pytest alone imports
    assert {(name, Path(path).parent.name) for name, path in found - plugin} - EXCEPTED == set()


@pytest.mark.slow
def test_the_runtime_imports_the_laboratory_for_trials_and_simulations_only() -> None:
    project = projects()["purekube"]
    known = modules(project.required("run")) | ours_below("purekube")
    found = beyond(known, [path for path in project.packages if path.name == "purekube_run"])

    rooms = {(name, path.partition("purekube_run/")[2].partition("/")[0]) for name, path in found}
    assert rooms - EXCEPTED <= {
        ("kubelab", "trials"),
        ("kubelab", "simulation"),
        ("kubelab", "examination"),
    }


def test_the_extras_of_the_operator_contain_each_other_and_a_missing_package_is_told_by_the_smallest() -> None:
    operator = projects()[OPERATOR]

    assert f"{OPERATOR}[operator,signatures]" in operator.extras["embedded"]
    assert IMAGE in (ROOT / "scripts" / "lock").read_text(encoding="utf-8")
    assert f"{OPERATOR}[embedded]" in operator.extras["kit"]
    assert set(ONLY_EMBEDDED) == {*distributions(projects()["kubelab"].extras["tls"]), "rich"}
    assert ours_below(OPERATOR, "embedded") - ours_below(OPERATOR, "operator") == {"kubelab", "purekube_convert"}
    assert set(LABORATORY) == {"kubelab", "purekube_convert", "vworkspace_fake"}
    assert distributions(operator.extras["conformance"]) == {"pytest"}


def test_the_parts_have_one_version_and_require_just_that_of_each_other() -> None:
    versions = {project.metadata["version"] for project in projects().values()}
    lines = [
        line
        for project in projects().values()
        for line in [*project.base, *(line for extra in project.extras.values() for line in extra)]
        if parts_of(line)[0] in projects() and parts_of(line)[0] != project.name
    ]

    assert len(versions) == 1
    assert [line for line in lines if not line.endswith(f"=={next(iter(versions))}")] == []


def test_every_import_package_is_in_one_wheel_and_says_that_it_is_typed() -> None:
    folders = {
        path.parent.relative_to(ROOT)
        for floor in ("core", "adapters", "app", "kit", "contrib")
        for path in _roots(ROOT / floor)
    }

    assert sorted(PACKAGES) == sorted(folders)
    assert [path for path in PACKAGES if not (ROOT / path / "py.typed").is_file()] == []


def test_make_installs_every_project_from_here() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installed = {word.removeprefix("./") for word in re.findall(r"--editable '?([\w./]+)", makefile)}

    assert installed == {project.folder for project in projects().values()}


def test_make_says_that_it_sets_up_before_it_takes_its_time(tmp_path: Path) -> None:
    """From a copy, into an environment that is not there; `-n` prints what would be run."""
    for name in ("Makefile", *(f"{project.folder}/pyproject.toml" for project in projects().values())):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    command = ["make", "--no-print-directory", "-n", "demo"]
    steps = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    assert steps.startswith("echo 'setting up .venv (about 30 s)' >&2\n")


def _roots(floor: Path) -> Iterator[Path]:
    """The `__init__.py` of every package that stands in none."""
    return (path for path in floor.rglob("__init__.py") if not (path.parents[1] / "__init__.py").exists())
