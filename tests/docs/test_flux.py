"""docs/flux.md names every scenario of Flux with what becomes of it (RUN-9)."""

from pathlib import Path

from tests.support.flux_scenarios import BY_THEIR_END, SCENARIOS

_PAGE = (Path(__file__).resolve().parents[2] / "docs" / "flux.md").read_text(encoding="utf-8")


def test_the_page_of_flux_has_a_row_for_each_scenario_RUN_9() -> None:
    rows = [line for line in _PAGE.splitlines() if line.startswith("| `")]
    verdicts = {name: "equal in its end" if name in BY_THEIR_END else "equal" for name in SCENARIOS}
    wanted = [f"| `{name}` | {str(SCENARIOS[name].__doc__).splitlines()[0]} | {verdicts[name]} |" for name in SCENARIOS]
    assert sorted(rows) == sorted(wanted)
