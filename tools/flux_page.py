"""The page `docs/flux-scenarios.md`: every scenario of Flux by topic, as its docstring says (RUN-9)."""

from collections.abc import Iterator

from tests.support.flux_scenarios import BY_THEIR_END, SCENARIOS, TOPICS


def flux_page() -> str:
    """Return the whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Scenarios of Flux"
    yield from ("", "Recorded on the real controllers, and compared with the simulated ones: [flux.md](flux.md).")
    for topic in TOPICS:
        yield from ("", f"## {topic.__name__.rpartition('.')[2].capitalize()}", "")
        yield from ("| scenario | what happens | simulated Flux |", "|---|---|---|")
        for name, scenario in SCENARIOS.items():
            if scenario.__module__ == topic.__name__:
                verdict = "equal in its end" if name in BY_THEIR_END else "equal"
                yield f"| `{name}` | {str(scenario.__doc__).splitlines()[0]} | {verdict} |"
