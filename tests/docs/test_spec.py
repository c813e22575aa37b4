"""The specification is in the repository: every code that is cited stands there, and every clause has a proof."""

import re

import pytest

from tests.docs.spec_pages import PROOFS, SPEC, citations, clauses, laws, page, proofs_of
from vworkspace_app.simulation.operator_faults import FAULTS
from vworkspace_app.simulation.run import draw, perform


def test_every_code_that_is_cited_is_written_down_and_every_clause_is_named_by_a_test() -> None:
    dangling = {code: sorted(paths) for code, paths in citations().items() if code not in clauses()}

    assert dangling == {}
    assert [f"{code}: {clause.title}" for code, clause in clauses().items() if not proofs_of(code)] == []


@pytest.mark.slow
def test_the_page_of_proofs_on_the_site_has_a_row_with_tests_for_every_clause() -> None:
    rows = re.findall(r"^\| \[(\S+)\]\(\S+\) \| (.+) \| (.+) \|$", page(), re.MULTILINE)

    assert [code for code, _, _ in rows] == list(clauses())
    assert all("](../../tests/" in tests for _, tests, _ in rows)


@pytest.mark.slow
def test_the_page_of_proofs_names_the_laws_the_checks_and_the_servers_of_a_clause() -> None:
    """CONF-3."""
    text = page()
    part = text.split("### [REC-7]", 1)[1].split("###", 1)[0]

    assert "* law: observedGeneration does not fall" in part
    assert "* law: Ready only when Flux confirmed" in part
    assert "* check: Ready=True waits for Flux to confirm this generation" in part
    row = next(line for line in text.splitlines() if line.startswith("| [REC-4]"))
    assert row.endswith("| pure, embedded, kube-apiserver, real controllers |")
    assert (
        "* check: none: it is about the simulation: `simulate`" in text.split("### [RUN-10]", 1)[1].split("###", 1)[0]
    )


@pytest.mark.slow
def test_the_page_of_proofs_names_every_law_that_a_simulation_checks() -> None:
    """CONF-3."""
    outcome = perform(draw(1, seconds=600, instances=3, replicas=2, faults=tuple(FAULTS)))

    assert {(code, law) for code, law in outcome.laws if law not in laws().get(code, ())} == set()
    assert len(outcome.laws) > 30


def test_every_page_of_the_specification_leads_to_the_proofs() -> None:
    for path in SPEC.glob("*.md"):
        if path != PROOFS:
            assert "(proofs.md)" in path.read_text(encoding="utf-8"), path.name
