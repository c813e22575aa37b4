"""A day with an operator, to the letter, on a narrow and on a wide screen (SEE-1, SEE-2, RUN-7, REC-14).

What people see is read here first: record it anew (`python -m tests.e2e.day.record`), and read the difference.
"""

import difflib
import re

import pytest

from tests.e2e.day.picture import DEMO, demo, pictures, timeless, words
from tests.e2e.day.story import WIDTHS, golden, replayed


@pytest.mark.slow
def test_the_day_is_shown_as_it_was_recorded_SEE_1_SEE_2() -> None:
    shown = replayed()
    differences = [difference for width in WIDTHS if (difference := _difference(width, shown[width]))]
    assert not differences, "\n\n".join([*differences, "if that is meant: python -m tests.e2e.day.record"])


def _difference(width: int, shown: str) -> str:
    recorded = golden(width).read_text(encoding="utf-8")
    lines = difflib.unified_diff(recorded.splitlines(), shown.splitlines(), f"{width} columns", "now", lineterm="")
    return "\n".join(lines)


@pytest.mark.parametrize("width", WIDTHS)
def test_what_status_and_check_say_fits_the_screen_but_for_what_is_copied_SEE_1(width: int) -> None:
    command, wide = "", []
    for line in golden(width).read_text(encoding="utf-8").splitlines():
        if line.startswith("$ "):
            command = line
        elif command.split()[2:3] in (["status"], ["check"]) and len(line) > width and "  -> " not in line:
            wide.append(line)
    assert not wide


def test_the_pictures_in_the_docs_are_of_what_was_recorded_and_fetch_nothing_SEE_1() -> None:
    for file, now in pictures().items():
        drawn = file.read_text(encoding="utf-8")
        assert words(drawn) == words(now), f"{file.name}: draw it anew: python -m tests.e2e.day.record"
        assert len(words(drawn)) > 1000
        assert re.findall(r"(?:href|src|url)\W+https?:[^\s\"')]*", drawn) == []


@pytest.mark.slow
def test_the_demo_still_shows_what_its_picture_shows() -> None:
    assert timeless(demo()) == timeless(DEMO.read_text(encoding="utf-8"))
