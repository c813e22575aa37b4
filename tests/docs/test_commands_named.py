"""Every command of ours that a page names is one, with options that it has: in blocks, in sentences, in tables."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.docs.test_links import PAGES, named
from tools.commands_page import commands_page
from vworkspace_app.settings.loading import markdown as settings_page

_ANYWHERE = ("--help", "--version", "-h")
_PAST = {"CHANGELOG.md"}
"""Pages that tell of what was."""
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*(?![\w/*])")


@cache
def options() -> dict[str, set[str]]:
    """By command, from the page that is generated of the parser; of `run`, from the one about settings."""
    page = commands_page()
    found = {
        name: set(_OPTION.findall(section))
        for name, section in re.findall(r"^## `vworkspace-operator ([a-z -]+)`\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    }
    of_run = set(_OPTION.findall(settings_page())) | found["run"]
    found["run"] = found["box run"] = of_run | {f"--no-{option[2:]}" for option in of_run} | found.get("box run", set())
    return found


def said(page: Path) -> Iterator[str]:
    """Every command line that begins with a command of ours, or with one of its subcommands."""
    text = page.read_text(encoding="utf-8")
    for language, block in _FENCE.findall(text):
        if language in ("sh", "console"):
            for line in re.sub(r"\\\n\s*", "", block).splitlines():
                yield from re.findall(r"(?:^\$? ?|\| |bin/)vworkspace-operator ([^|>#;]*)", line)
    for code in re.findall(r"`([^`]+)`", _FENCE.sub("", text)):
        words = " ".join(code.split()).removeprefix("vworkspace-operator ")
        if code.startswith("vworkspace-operator ") or (" --" in words and words.split()[0] in options()):
            yield words.split(" | ")[0]


def problem(words: str) -> str:
    """What is wrong with a command line; empty where nothing is."""
    name = next((name for name in sorted(options(), key=len, reverse=True) if f"{words} ".startswith(f"{name} ")), "")
    if not name:
        is_part = words.strip() in {option.split()[0] for option in options()} or words.startswith(("-", "…"))
        return "" if is_part else f"no command: {words}"
    unknown = set(_OPTION.findall(re.sub(r"'[^']*'|\"[^\"]*\"|=\S+", "", words))) - options()[name] - {*_ANYWHERE}
    return f"{name} has no {', '.join(sorted(unknown))}" if unknown else ""


def test_every_command_that_is_named_is_one_with_options_that_it_has() -> None:
    pages = [page for page in PAGES if page.name not in _PAST]
    assert [f"{named(page)}: {told}" for page in pages for words in said(page) if (told := problem(words))] == []


def test_a_command_or_an_option_that_is_not_there_is_found() -> None:
    assert problem("statsu") == "no command: statsu"
    assert problem("check --pree") == "check has no --pree"
    assert problem("run --no-agent --cluster-id x") == ""
