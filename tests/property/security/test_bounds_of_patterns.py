"""RUN-11: every pattern that meets text of others takes linear time, counted in steps of a matcher (H1).

Twice the text may cost at most three times the steps, for each pattern of the core and each text that some rule could
stumble over. `test_the_counter_matches_what_python_matches` keeps the counter honest.
"""

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import purekube
import vworkspace_core
from purekube.apimachinery import formats as forms_of_texts
from tests.support.regex_steps import TooManySteps, steps_of_search
from tests.support.worst import TEXTS, Grower

pytestmark = pytest.mark.slow

SIZES = 150, 300
WINDOW = 300, 600
"""For patterns that look up to 256 characters back or ahead: below that the work grows with the text."""
SLACK = 400
"""Steps that a longer text may cost by itself: the first word may be another kind of word."""
ALPHABET = "aA0 \n-_.:=\"'\\,;)]}[{(/@|>!#%&*+?ſßé"
PARTS = ("token", "password=", "eyJaaaaaaaaaa", "bearer ", "://", "-----BEGIN PRIVATE KEY", "vws1.a", "--secret ")


def patterns() -> dict[str, re.Pattern[str]]:
    """Every compiled pattern of the core, and every form of a text, by where it stands."""
    found: dict[str, re.Pattern[str]] = {}
    for module in _modules():
        for name, value in vars(module).items():
            for at, pattern in enumerate(_in(value)):
                if not any(pattern is known for known in found.values()):
                    found[f"{module.__name__}.{name}[{at}]"] = pattern
    forms = {name: value for name, value in vars(forms_of_texts).items() if isinstance(value, str) and value[:1] == "^"}
    return found | {
        f"purekube.apimachinery.formats.{name}[0]": forms_of_texts.compiled(value) for name, value in forms.items()
    }


def _is_anchored(name: str) -> bool:
    """Whether nobody looks for it in the midst of a text: `match` and `fullmatch` are all that is asked of it."""
    module, _, variable = name.partition("[")[0].rpartition(".")
    source = inspect.getsource(importlib.import_module(module))
    asked = set(re.findall(rf"\b{variable}\.(\w+)\(", source))
    return bool(asked) and asked <= {"match", "fullmatch"}


def _modules() -> Iterator[Any]:
    for package in (purekube, vworkspace_core):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(info.name)


def _in(value: Any) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _in(item)


PATTERNS = patterns()


@pytest.fixture(autouse=True)
def _deep() -> Iterator[None]:
    """The counter calls itself once for each part of a match."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize("name", PATTERNS)
def test_twice_the_text_costs_at_most_three_times_the_steps(name: str) -> None:
    pattern, anchored = PATTERNS[name], _is_anchored(name)
    found = [
        text.name
        for text in TEXTS
        if not any(_is_linear(pattern, text, *sizes, anchored=anchored) for sizes in (SIZES, WINDOW))
    ]

    assert not found, f"{PATTERNS[name].pattern} is not linear in {found}"


def _is_linear(pattern: re.Pattern[str], text: Grower, small: int, large: int, *, anchored: bool = False) -> bool:
    few, _ = steps_of_search(pattern, text.make(small), anchored=anchored)
    try:
        steps_of_search(pattern, text.make(large), 3 * few + SLACK, anchored=anchored)
    except TooManySteps:
        return False
    return True


@given(st.lists(st.sampled_from(PARTS) | st.text(ALPHABET, max_size=6), max_size=8).map("".join))
@example("0\u017f")  # IGNORECASE takes a long s for an s, and for an i one without a dot, or with one above
@example("pa\u017f\u017fword=\u0130\u0131")
def test_the_counter_matches_what_python_matches(text: str) -> None:
    for name, pattern in PATTERNS.items():
        matches = [match.span() for match in pattern.finditer(text) if match.end() > match.start()]

        assert [span for span in steps_of_search(pattern, text)[1] if span[1] > span[0]] == matches, name


def test_a_quadratic_pattern_is_told() -> None:
    """The two of H1, as they were."""
    commas, tokens = (next(text for text in TEXTS if text.name.startswith(begin)) for begin in ("a word", "beginnings"))

    assert not _is_linear(re.compile(r"token=\S+?(?=[,;)\]}]*(?:\s|\Z))"), commas, *SIZES)
    assert not _is_linear(re.compile(r"\beyJ[-\w]{8,}\."), tokens, *SIZES)
    assert _is_linear(re.compile(r"token=(?:\S*[^\s,;)\]}]|[,;)\]}])"), commas, *SIZES)
    assert _is_linear(re.compile(r"(?<![-\w])eyJ[-\w]{8,}\."), tokens, *SIZES)
