"""The vocabulary of conditions as a page for people."""

from collections.abc import Iterator

from vworkspace_core.api.advice import ADVICE, Advice
from vworkspace_core.api.vocabulary import TABLE


def markdown() -> str:
    """The vocabulary as the page `docs/conditions.md`."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield "# Conditions"
    yield ""
    yield "Generated from `vworkspace_core.api.vocabulary` and `vworkspace_core.api.advice`; change the tables there."
    for kind, rows in TABLE.items():
        yield from ("", f"## {kind}", "", "| type | status | reasons | meaning |", "|---|---|---|---|")
        for entry in rows:
            reasons = [f"`{reason}`" for reason in entry.reasons]
            passed_on = [f"those of {entry.foreign}"] if entry.foreign else []
            yield f"| {entry.type} | {entry.status} | {', '.join(reasons + passed_on)} | {entry.meaning} |"
        yield from ("", "| reason | what helps |", "|---|---|")
        yield from (f"| `{reason}` | {_help(advice)} |" for reason, advice in sorted(ADVICE[kind].items()))


def _help(advice: Advice) -> str:
    """The sentence, and whether there is a command to paste."""
    if advice.verb:
        return f"`vworkspace-operator {advice.verb} NAME`. {advice.text}"
    return f"The command in the message. {advice.text}" if advice.names_command else advice.text
