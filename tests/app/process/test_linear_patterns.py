"""RUN-11: every pattern of the app and of the adapters costs time linear in the text, counted in steps."""

import importlib
import pkgutil
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import purekube_http
import vworkspace_app
import vworkspace_odoo
from tests.support.effort import effort
from tests.support.regex_matching import growth, patterns_in, pieces_of


def every_pattern() -> list[re.Pattern[str]]:
    found = [
        module.name
        for package in (vworkspace_app, purekube_http, vworkspace_odoo)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not module.name.endswith("__main__")
    ]
    return sorted({*patterns_in(map(importlib.import_module, found))}, key=lambda pattern: pattern.pattern)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", every_pattern(), ids=lambda pattern: pattern.pattern[:60])
@given(data=st.data())
@settings(max_examples=effort(0.1))
def test_twice_the_text_is_at_most_three_times_the_steps(pattern: re.Pattern[str], data: st.DataObject) -> None:
    pieces = st.sampled_from(pieces_of(pattern))
    ends = st.lists(pieces, max_size=3).map("".join)
    before, after = data.draw(ends), data.draw(ends)
    pumped = data.draw(st.lists(pieces, min_size=1, max_size=3).map("".join))

    assert growth(pattern, before, pumped, after) <= 3
