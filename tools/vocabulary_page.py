"""The vocabulary of conditions as a page for people."""

from collections.abc import Iterator

from vworkspace_core.api.vocabulary import TABLE


def markdown() -> str:
    """The vocabulary as the page `docs/conditions.md`."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield "# Conditions"
    yield ""
    yield "Generated from `vworkspace_core.api.vocabulary`; change the table there."
    for kind, rows in TABLE.items():
        yield from ("", f"## {kind}", "", "| type | status | reasons | meaning |", "|---|---|---|---|")
        for entry in rows:
            reasons = [f"`{reason}`" for reason in entry.reasons]
            passed_on = [f"those of {entry.foreign}"] if entry.foreign else []
            yield f"| {entry.type} | {entry.status} | {', '.join(reasons + passed_on)} | {entry.meaning} |"
