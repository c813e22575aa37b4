"""README.md and the pages beside it say what is: commands, options, targets, tests, conditions and files exist, and the
example runs."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from tools.commands_page import commands_page
from vworkspace_app.__main__ import run_command
from vworkspace_app.missing_packages import ABOUT
from vworkspace_app.settings.loading import markdown as settings_page
from vworkspace_core.api.vocabulary import TABLE

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in (
        "README.md",
        "docs/README.md",
        "docs/install.md",
        "docs/troubleshooting.md",
        "docs/security.md",
        "docs/guarantees.md",
        "docs/benchmarks.md",
        "docs/cli.md",
        "docs/upgrade.md",
        "docs/uninstall.md",
        "docs/quickstart.md",
        "docs/compatibility.md",
        "docs/air-gapped.md",
        "examples/README.md",
    )
}
ALL = "\n".join(PAGES.values())
COMMAND = "vworkspace-operator"
COMMANDS = commands_page()


def table(heading: str, text: str = README) -> list[list[str]]:
    """Cells of the rows below the table's head line."""
    rows = text.split(f"| {heading} |", 1)[1].splitlines()[2:]
    found = []
    for row in rows:
        if not row.startswith("|"):
            break
        found.append([cell.strip() for cell in row.replace("\\|", "\0").strip("|").split("|")])
    return found


def code(text: str) -> list[str]:
    """What stands between backticks."""
    return [part.replace("\0", "|") for part in re.findall(r"`([^`]+)`", text)]


def blocks(language: str) -> list[str]:
    """Fenced blocks of a language, of all pages."""
    return re.findall(rf"```{language}\n(.*?)```", ALL, re.DOTALL)


def shell_commands() -> Iterator[list[str]]:
    """Every command of the shell blocks, pipes taken apart, comments left out."""
    for block in blocks("sh"):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"[|>]", line):
                words = shlex.split(part, comments=True)
                if words:
                    yield words


@cache
def help_of(*command: str) -> str:
    """Return what `--help` prints on a wide terminal."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setenv("COLUMNS", "200")
        status = run_command([*command, "--help"])
    assert status == 0
    return out.getvalue()


def options_in(text: str) -> set[str]:
    """Names of options that a text mentions."""
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))


@cache
def targets() -> dict[str, str]:
    """Targets of the Makefile with what they do."""
    return dict(re.findall(r"^([a-z-]+):.*?## (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


# --- commands and options ---------------------------------------------------------------------------------------------


DESCRIBED = re.findall(rf"^## `{COMMAND} ([a-z -]+)`$", COMMANDS, re.MULTILINE)


def test_the_page_about_commands_has_the_options_of_each_and_no_other() -> None:
    for name in DESCRIBED:
        section = COMMANDS.split(f"## `{COMMAND} {name}`\n", 1)[1].split("\n## ", 1)[0]
        listed = {option for row in re.findall(r"^\| (`-.*?) \|", section, re.MULTILINE) for option in code(row)}
        helped = options_in(help_of(*name.split()))
        assert listed <= helped, name
        if name == "run":
            assert "settings.md" in section, "its options are on a page of their own"
            continue
        known = {option for option in helped if option.startswith("--") and not option.startswith("--no-")}
        shown = " ".join(re.findall(r"```sh.*?```", section, re.DOTALL)) + section.split("| option", 1)[0]
        assert known - {"--help", "--output", "--exit-code"} <= listed | options_in(shown), name


def test_the_page_about_commands_leaves_none_out() -> None:
    described = {name.split()[0] for name in DESCRIBED}

    assert described == set(re.findall(r"^  ([a-z][a-z-]*) ", help_of(), re.MULTILINE))


def test_the_front_page_is_short_and_begins_with_a_picture() -> None:
    assert len(README.splitlines()) <= 125
    assert len(README.split()) <= 700
    assert "![" in "\n".join(README.splitlines()[:15])


def test_every_claim_has_a_command_that_shows_it() -> None:
    rows = table("claim | shown by | on", PAGES["docs/guarantees.md"])

    assert len(rows) >= 15
    assert all(code(shown)[0].startswith("make ") for _, shown, _ in rows)


def test_every_option_of_run_is_on_the_page_about_settings_and_none_beside() -> None:
    page = settings_page()
    described = set(re.findall(r"^\| `(--[a-z-]+)` \|", page, re.MULTILINE)) | options_in(page.split("|", 1)[0])
    known = {option for option in options_in(help_of("run")) if not option.startswith("--no-")}

    assert described == {option for option in known if option.startswith("--")} - {"--help"}


EXAMPLES = {
    " ".join(shell_command): shell_command
    for shell_command in shell_commands()
    if Path(shell_command[0]).name == COMMAND
}


PARENTS = ("box", "conformance", "controllers", "init", "versions")
"""Commands that have commands of their own."""


def test_every_command_of_the_examples_exists_with_its_options() -> None:
    for text, words in EXAMPLES.items():
        given = {word.partition("=")[0] for word in words[2:] if word.startswith("-") and word != "-"}
        depth = 3 if words[1] in PARENTS else 2
        assert given - options_in(help_of(*words[1:depth])) == set(), text


# --- make -------------------------------------------------------------------------------------------------------------


def test_every_make_target_named_exists() -> None:
    lines = [words for words in shell_commands() if words[0] == "make"]
    prose = re.sub(r"```.*?```", "", ALL, flags=re.DOTALL)
    lines += [shlex.split(text) for text in code(prose) if text.startswith("make ")]
    named = {word for words in lines for word in words[1:] if "=" not in word}

    assert {"demo", "test", "test-pure", "lint", "types", "contracts", "bench", "manifests"} <= named
    assert named - set(targets()) == set()


def test_every_target_of_the_makefile_runs_something_that_is_there() -> None:
    recipes = (ROOT / "Makefile").read_text(encoding="utf-8")

    for file in re.findall(r"\$\(BIN\)/python (\S+\.py)|^\t@?(scripts/\S+)", recipes, re.MULTILINE):
        assert (ROOT / next(filter(None, file))).is_file()
    for module in re.findall(r"python -m ((?:vworkspace_app|bench)[\w.]*)", recipes):
        found = subprocess.run(
            [sys.executable, "-c", f"import importlib.util as u, sys; sys.exit(not u.find_spec({module!r}))"], cwd=ROOT
        )
        assert found.returncode == 0, module


WRITTEN = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")) + ALL
SELECTIONS = sorted({shlex.split(match)[0] for match in re.findall(r"PYTEST_ARGS=(\"[^\"…]*\")", WRITTEN)})


def names_below(path: Path) -> Iterator[str]:
    """What `-k` can match of each test: the names of its file and its function."""
    for file in [path] if path.is_file() else sorted(path.rglob("test_*.py")):
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE):
            yield f"{file.relative_to(ROOT)} {name}"


def fits(name: str, words: str) -> bool:
    """Whether a test is meant by the words of `-k`."""
    found = re.sub(r"\w+", lambda word: word[0] if word[0] in ("and", "or", "not") else str(word[0] in name), words)
    return bool(eval(found, {"__builtins__": {}}))


def test_every_selection_of_tests_selects_some() -> None:
    for arguments in SELECTIONS:
        paths, _, words = arguments.partition(" -k ")
        for path in shlex.split(paths):
            names = names_below(ROOT / path)
            assert any(fits(name, (words or "test_").strip("'")) for name in names), arguments


# --- what else it says ------------------------------------------------------------------------------------------------


def test_the_python_example_runs_as_it_is_written() -> None:
    (example,) = blocks("python")

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(example, "README.md", "exec"), {})

    url, kubeconfig = printed.getvalue().split()
    assert url.startswith("http://127.0.0.1:")
    assert not Path(kubeconfig).exists(), "the server has ended"


def test_every_condition_of_the_troubleshooting_table_is_in_the_vocabulary() -> None:
    known = {
        (str(entry.type), str(entry.status), str(reason))
        for entry in TABLE["ApplicationInstance"]
        for reason in (*entry.reasons, "")
    }
    named = [text for row in table("you see", PAGES["docs/troubleshooting.md"]) for text in code(row[0]) if "=" in text]

    assert len(named) >= 8
    for text in named:
        kind, status, reason = re.fullmatch(r"(\w+)=(\w+)(?:/(\w+))?", text).groups("")  # type: ignore[union-attr]
        assert (kind, status, reason) in known, text


def test_help_package_and_chart_begin_as_the_readme_does() -> None:
    """A user who finds the operator by one of them reads the same sentence, not one about a control plane."""
    headline = re.search(r"^\*\*(.+)\.\*\*", README, re.MULTILINE)
    assert headline is not None

    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["description"]
    chart = yaml.safe_load((ROOT / "deploy/chart/Chart.yaml").read_text(encoding="utf-8"))["description"]

    assert [text.startswith(headline[1]) for text in (ABOUT, package, chart)] == [True, True, True]
