"""The specification is in the repository: every code that is cited stands there, and every clause has a proof."""

import re

import pytest

from tests.docs.spec_pages import PROOFS, SPEC, citations, clauses, page, proofs_of


def test_every_code_that_is_cited_is_written_down() -> None:
    dangling = {code: sorted(paths) for code, paths in citations().items() if code not in clauses()}

    assert dangling == {}


@pytest.mark.parametrize("code", sorted(clauses()))
def test_every_clause_is_named_by_a_test(code: str) -> None:
    assert proofs_of(code), f"{code} ({clauses()[code].title}) is proved by no test"


def test_the_page_of_proofs_on_the_site_has_a_row_with_tests_for_every_clause() -> None:
    rows = re.findall(r"^\| \[(\S+)\]\(\S+\) \| (.+) \|$", page(), re.MULTILINE)

    assert [code for code, _ in rows] == list(clauses())
    assert all("](../../tests/" in tests for _, tests in rows)


def test_every_page_of_the_specification_leads_to_the_proofs() -> None:
    for path in SPEC.glob("*.md"):
        if path != PROOFS:
            assert "(proofs.md)" in path.read_text(encoding="utf-8"), path.name
