"""The page `docs/conditions.md`: the vocabulary of conditions for readers."""

from collections.abc import Iterator

from tools.reason_sites import reason_sites
from vworkspace_core.api.advice import ADVICE, Advice
from vworkspace_core.api.vocabulary import TABLE


def markdown() -> str:
    """Return the page as Markdown."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield "# Conditions"
    yield ""
    yield "Generated from `vworkspace_core.api.vocabulary` and `vworkspace_core.api.advice`; change the tables there."
    yield "\\* The condition's message has the command. Where a row has neither that nor a command, no command helps."
    for kind, rows in TABLE.items():
        yield from ("", f"## {kind}", "", "| type | status | reasons | meaning |", "|---|---|---|---|")
        for entry in rows:
            reasons = [f"`{reason}`" for reason in entry.reasons]
            passed_on = [f"those of {entry.foreign}"] if entry.foreign else []
            yield f"| {entry.type} | {entry.status} | {', '.join(reasons + passed_on)} | {entry.meaning} |"
        yield from ("", "| reason | what helps | decided in (below `core/`) |", "|---|---|---|")
        for reason, advice in sorted(ADVICE[kind].items()):
            yield f"| `{reason}` | {_help(advice)} | {_sites(kind, reason)} |"


def _sites(kind: str, reason: str) -> str:
    """Return the files and functions of the core that give the reason."""
    files = reason_sites().get((kind, reason), {})
    return ", ".join(f"`{file}`: {', '.join(f'`{each}`' for each in functions)}" for file, functions in files.items())


def _help(advice: Advice) -> str:
    """Return the advice, with the command if there is one."""
    if advice.verb:
        return f"`vworkspace-operator {advice.verb} NAME`. {advice.text}"
    text = advice.text.removeprefix("No command fixes this: ")
    text = text[:1].upper() + text[1:]
    return f"{text} \\*" if advice.names_command else text
