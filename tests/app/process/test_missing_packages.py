"""`pip install vworkspace-operator` without extras: every command says in one line what to install (U6, SEE-5)."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.projects import ours_below
from vworkspace_app import VERSION
from vworkspace_app import missing_packages as bare
from vworkspace_app.commands.program import PROGRAM

OURS = tuple(sorted(ours_below("vworkspace-operator")))
BASE = ("attr", "attrs", "cattr", "cattrs", "jsonschema", "jsonschema_specifications", "msgspec", "referencing", "rpds")
"""What the base dependencies of the package and theirs are imported as."""

BLOCKED = """
import contextlib, io, json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if package not in ALLOWED and package not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return None

sys.meta_path.insert(0, Blocked())
from vworkspace_app.__main__ import run_command

for arguments in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run_command(arguments)
    print(json.dumps([status, out.getvalue(), err.getvalue()]))
"""


def with_base_packages(*calls: list[str], beside: tuple[str, ...] = ()) -> list[Any]:
    """Status, output and errors of each call in a Python that cannot import anything else."""
    allowed = (*OURS, *BASE, "typing_extensions", *beside)
    script = BLOCKED.replace("ALLOWED", repr(allowed))
    ended = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps(calls), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_every_command_says_in_one_line_what_to_install() -> None:
    calls = [[name, *more] for name in bare.COMMANDS for more in ([], ["--help"], ["--nonsense"])]

    calls.append(["nonsense"])
    for words, (status, out, err) in zip(calls, with_base_packages(*calls), strict=True):
        assert (status, out) == (2 if words[0] in ("diff", "simulate") else 1, ""), words  # 1 is a verdict of these
        assert err.startswith("error: the command line needs more packages (")
        assert err.endswith(" is missing): pip install 'vworkspace-operator[operator]'\n")


def test_version_and_help_work_all_the_same() -> None:
    version, help_, short, nothing = with_base_packages(["--version"], ["--help"], ["-h"], [])

    assert version == [0, f"{VERSION}\n", ""]
    assert help_ == short == nothing
    status, out, err = help_
    assert (status, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")] == [*bare.COMMANDS]
    assert out.endswith("pip install 'vworkspace-operator[operator]'\n")
    assert max(map(len, out.splitlines())) <= 110


def test_a_package_that_is_missing_further_in_is_named_too() -> None:
    (ended,) = with_base_packages(["run"], beside=("anyio", "idna", "sniffio"))

    status, _, err = ended
    assert status == 1
    assert err.count("\n") == 1, err
    assert "pip install" in err


def test_the_list_of_commands_is_that_of_the_program() -> None:
    assert PROGRAM.below.keys() == bare.COMMANDS.keys()
    assert PROGRAM.about == bare.ABOUT


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'vworkspace_app.nonsense'", name="vworkspace_app.nonsense"),
        ModuleNotFoundError("No module named 'tkinter'", name="tkinter"),
        ModuleNotFoundError("somebody's own words"),
        ValueError("pip"),
    ],
)
def test_a_defect_of_ours_is_no_missing_package(error: BaseException) -> None:
    assert bare.install_hint(error) is None


def test_the_entry_of_the_installed_command_needs_the_core_alone() -> None:
    """What pip writes imports `vworkspace_app.__main__` before anything can be said."""
    text = Path(sys.modules["vworkspace_app"].__file__ or "").with_name("__main__.py").read_text(encoding="utf-8")

    top = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert all(line.split()[1].split(".")[0] in (*OURS, *sys.stdlib_module_names) for line in top)
