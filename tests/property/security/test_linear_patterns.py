"""RUN-11: every pattern of the core costs time linear in the text it is asked about, counted in steps."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import vworkspace_core
from purekube.apimachinery import nesting
from purekube.apimachinery.redaction import RULES
from tests.support.effort import effort
from tests.support.regex_matching import Matcher, growth, patterns_in, pieces_of
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.operations.builtin import builtin_templates

pytestmark = pytest.mark.slow


def of_schemas(schema: Any) -> Iterator[re.Pattern[str]]:
    if isinstance(schema, list):
        for item in schema:
            yield from of_schemas(item)
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield re.compile(schema["pattern"])
        for item in schema.values():
            yield from of_schemas(item)


def every_pattern() -> list[re.Pattern[str]]:
    modules = [
        importlib.import_module(package.name)
        for package in pkgutil.walk_packages(vworkspace_core.__path__, "vworkspace_core.")
    ]
    schemas = [crd_manifests(), [dict(template.schema) for template in builtin_templates().items]]
    return sorted({*patterns_in(modules), *of_schemas(schemas)}, key=lambda pattern: pattern.pattern)


def attacks(pattern: re.Pattern[str]) -> st.SearchStrategy[tuple[str, str, str]]:
    pieces = st.sampled_from(pieces_of(pattern))
    ends = st.lists(pieces, max_size=3).map("".join)
    return st.tuples(ends, st.lists(pieces, min_size=1, max_size=3).map("".join), ends)


@pytest.mark.parametrize("pattern", every_pattern(), ids=lambda pattern: pattern.pattern[:60])
@given(data=st.data())
@settings(max_examples=effort(0.1))
def test_twice_the_text_is_at_most_three_times_the_steps(pattern: re.Pattern[str], data: st.DataObject) -> None:
    assert growth(pattern, *data.draw(attacks(pattern))) <= 3


@pytest.mark.parametrize(
    ("before", "pumped", "after"),
    [
        ("token=a", ",", "b"),
        ("token=a", ")", "b"),
        ("token=", ",", "b"),
        ("", "eyJaaaaaaaa-", ""),
        ("eyJaaaaaaaa", "-", "."),
        ("", "pass: a,", " b"),
        ("", "pass:", " b"),
        ("secret:", "\n  ", "-"),
        ("secret:", "\n- a", ""),
        ("", "name: ", "secret"),
        ("", "password 'a ", ""),
        ("-p", ",", "a"),
        ("token=", "\\", "a"),
        ("", '"auth":', ""),
        ("://", "@sha1", ":"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.pattern[:40])
def test_texts_made_to_be_dear_to_redact_are_not(rule: re.Pattern[str], before: str, pumped: str, after: str) -> None:
    assert growth(rule, before, pumped, after) <= 3


@pytest.mark.parametrize("pattern", list(patterns_in([nesting])), ids=lambda pattern: pattern.pattern[:40])
@pytest.mark.parametrize(
    ("before", "pumped", "after"),
    [('"', '\\"', ""), ('[["', '\\"', "\\"), ("]", " ", ""), ('"', '"', ""), ("", '"\\\\', "")],
    ids=repr,
)
def test_brackets_and_strings_of_what_is_no_json_are_found_in_linear_time(
    pattern: re.Pattern[str], before: str, pumped: str, after: str
) -> None:
    assert growth(pattern, before, pumped, after) <= 3


@pytest.mark.parametrize(
    ("pattern", "before", "pumped", "after"),
    [
        (r"token=\S+?(?=[,;)\]}]*(?:\s|\Z))", "token=a", ",", "b"),
        (r"\beyJ[-\w]{8,}\.", "", "eyJaaaaaaaa-", ""),
        (r"[^A-Za-z0-9]+\Z", "", "-", "a"),
        (r"(a|b|ab)*c", "", "ab", ""),
    ],
)
def test_what_is_quadratic_or_worse_is_seen_to_be(pattern: str, before: str, pumped: str, after: str) -> None:
    with pytest.raises((AssertionError, OverflowError)):
        assert growth(re.compile(pattern), before, pumped, after) <= 3


@given(st.sampled_from(every_pattern()).flatmap(lambda pattern: st.tuples(st.just(pattern), attacks(pattern))))
@example((re.compile(r"(?P<open>\\*[\"']).*?(?P<close>(?<!\\)(?P=open)|\Z)", re.DOTALL), ("", "\\'\\a'", "\\\\'")))
def test_the_matcher_finds_what_pythons_own_finds(case: tuple[re.Pattern[str], tuple[str, str, str]]) -> None:
    pattern, (before, pumped, after) = case
    text = before + 3 * pumped + after

    assert Matcher(pattern).spans(text) == [match.span() for match in pattern.finditer(text)]
