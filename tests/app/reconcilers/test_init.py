"""`init reconciler` writes a project that passes its tests, and mypy, as it is; `init box` is `box init` (PH-7)."""

import subprocess
import sys
from pathlib import Path

import pytest

from purekube_run.process.command_line import CommandError
from vworkspace_app.__main__ import run_command
from vworkspace_app.commands.init_reconciler import write_project

ROOT = Path(__file__).parents[3]
PARTS = ("core", "adapters/kube", "adapters/odoo", "adapters/fake", "app", "kit")


def test_a_project_is_written_whole_and_over_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_project("my-shops", "example.com", "Shop", tmp_path)

    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {
        "pyproject.toml",
        "README.md",
        "my_shops/__init__.py",
        "my_shops/api.py",
        "my_shops/reconciler.py",
        "tests/test_my_shops.py",
    }
    assert 'my-shops = "my_shops.reconciler:my_shops"' in (tmp_path / "pyproject.toml").read_text()
    assert "$" not in "".join((tmp_path / name).read_text() for name in written)
    assert capsys.readouterr().out.count("wrote ") == len(written)

    (tmp_path / "pyproject.toml").unlink()
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(CommandError, match=r"README\.md exists: give --directory for another folder"):
        write_project("my-shops", "example.com", "Shop", tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"
    assert not (tmp_path / "pyproject.toml").exists(), "the whole or nothing"


@pytest.mark.parametrize(
    ("name", "group", "kind", "told"),
    [
        ("My Shops", "example.com", "Shop", "My Shops: not a name such as shops"),
        ("shops", "example", "Shop", "example: not a name such as example.com"),
        ("shops", "example.com", "shop", "shop: not a name such as WebApp"),
        ("class", "example.com", "Shop", "class: a word of Python cannot be the name of a module"),
    ],
)
def test_names_that_make_no_sense_are_refused(tmp_path: Path, name: str, group: str, kind: str, told: str) -> None:
    with pytest.raises(CommandError) as refused:
        write_project(name, group, kind, tmp_path)

    assert (refused.value.message, refused.value.status) == (told, 2)
    assert list(tmp_path.iterdir()) == []


def test_init_box_writes_what_box_init_writes(tmp_path: Path) -> None:
    assert run_command(["box", "init", "WebApp", "--directory", str(tmp_path / "a")]) == 0
    assert run_command(["init", "box", "WebApp", "--directory", str(tmp_path / "b")]) == 0

    for name in ("webapp.yaml", "webapp-crd.yaml"):
        assert (tmp_path / "a" / name).read_text() == (tmp_path / "b" / name).read_text()


def in_project(project: Path, *words: str) -> str:
    """What a command of Python says in the folder of a project. AssertionError where it fails."""
    environment = {
        "PYTHONPATH": ":".join(map(str, (ROOT / part for part in PARTS))),
        "MYPYPATH": ":".join(map(str, (ROOT / part for part in PARTS))),
        "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache"),
        "PATH": "",
    }
    ended = subprocess.run(
        [sys.executable, "-m", *words], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shops", "my-shops"])
def test_a_project_passes_its_tests_and_mypy_at_once(tmp_path: Path, name: str) -> None:
    write_project(name, "example.com", "Shop", tmp_path)

    assert "2 passed" in in_project(tmp_path, "pytest", "-q", "-p", "no:cacheprovider")
    assert "Success" in in_project(tmp_path, "mypy", ".")
    in_project(tmp_path, "ruff", "check", "--isolated", "--select", "E,F,I,UP,B", "--line-length", "120", ".")
    in_project(tmp_path, "ruff", "format", "--isolated", "--check", "--line-length", "120", ".")


@pytest.mark.slow
def test_the_crd_of_a_project_is_printed_by_its_module(tmp_path: Path) -> None:
    write_project("shops", "example.com", "Shop", tmp_path)

    assert "name: shops.example.com" in in_project(
        tmp_path, "vworkspace_app", "controllers", "crds", "shops.reconciler:shops"
    )
