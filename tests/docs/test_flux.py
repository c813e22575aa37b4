"""docs/flux.md says how the scenarios of Flux end, and the site's page has a row for each (RUN-9)."""

from tests.docs.markdown import ROOT
from tests.support.flux_scenarios import BY_THEIR_END, SCENARIOS
from tools.flux_page import flux_page

_PAGE = (ROOT / "docs" / "flux.md").read_text(encoding="utf-8")


def test_the_page_of_flux_names_the_scenarios_that_are_equal_in_their_end_alone_RUN_9() -> None:
    assert f"Each of the {len(SCENARIOS)} scenarios" in _PAGE
    assert [name for name in BY_THEIR_END if f"`{name}`" not in _PAGE] == []


def test_the_page_of_the_site_has_a_row_for_each_scenario_RUN_9() -> None:
    rows = [line for line in flux_page().splitlines() if line.startswith("| `")]
    assert sorted(row.split("`")[1] for row in rows) == sorted(SCENARIOS)
    assert all(len(row.split("|")[2].split()) > 3 for row in rows)
