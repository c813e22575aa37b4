"""The overview for people: tables and trees, in the width that there is."""

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from vworkspace_app.overview.reading import Surroundings, happened
from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, get_path
from vworkspace_core.apimachinery.timestamps import parse_time
from vworkspace_core.overview.data import counts
from vworkspace_core.overview.remedy import short
from vworkspace_core.overview.replicas import AtWork
from vworkspace_core.overview.summary import SETTLED, OverviewState, Summary
from vworkspace_core.overview.tree import Branch, origin_of

_COLOURS: Final = {
    OverviewState.READY: "green",
    OverviewState.SUCCEEDED: "green",
    OverviewState.STALLED: "red",
    OverviewState.DEGRADED: "red",
    OverviewState.FAILED: "red",
    OverviewState.WAITING: "magenta",
    OverviewState.NOT_READY: "magenta",
}
"""Colours that can be read on light and on dark; the word says the same without them."""

_HEAD: Final = ("NAMESPACE", "OBJECT", "STATE", "SINCE")
WIDEST: Final = 100_000
"""Columns where nobody looks: nothing is folded."""


def console(width: int) -> Console:
    """Where it is printed, in so many columns; in colour on a terminal."""
    return Console(width=width, highlight=False, markup=False)


def columns() -> int:
    """How wide the screen is. What is piped into another program is not folded, unless COLUMNS asks for it."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return os.get_terminal_size().columns if sys.stdout.isatty() else WIDEST


def fleet_table(summaries: Sequence[Summary], now: datetime) -> RenderableType:
    """A line for each object; below one that is not well, why, when it is looked at again, and what would help."""
    rows = [(each.ref.namespace or "", short(each.ref), each.state.value, age(each.since, now)) for each in summaries]
    widths = [max(len(cell) for cell in column) for column in zip(_HEAD, *rows, strict=True)]
    parts: list[RenderableType] = [_row(_HEAD, widths, "REASON")]
    for summary, row in zip(summaries, rows, strict=True):
        parts.append(_row(row, widths, summary.reason, _COLOURS.get(summary.state, "")))
        parts += _details(summary)
    return Group(*parts)


def _row(cells: Sequence[str], widths: Sequence[int], reason: str, style: str = "") -> Text:
    namespace, name, state, since = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    line = Text.assemble(f"{namespace}  {name}  ", (state, style), f"  {since}  {reason}")
    line.rstrip()
    return line


def _details(summary: Summary) -> list[RenderableType]:
    """Of what is settled and well nothing."""
    lines: list[RenderableType] = []
    if summary.message and not _is_well(summary):
        lines.append(_below(summary.message))
    lines += [_command(f"  -> {command}") for command in summary.remedies]
    if summary.next_look and not _is_well(summary):
        lines.append(_below(f"next look: {summary.next_look}"))
    return lines


def _below(text: str) -> RenderableType:
    """Folded below what it belongs to; line breaks of whoever wrote it are none of the screen's."""
    return Padding(Text(" ".join(text.split()), overflow="fold"), (0, 0, 0, 2))


def _command(line: str) -> Text:
    """Never folded: it is there to be copied."""
    return Text(line, no_wrap=True, overflow="ignore")


def _is_well(summary: Summary) -> bool:
    return summary.state in SETTLED and summary.state is not OverviewState.FAILED


def footer(summaries: Sequence[Summary], shards: Sequence[AtWork], unreadable: Iterable[str], now: datetime) -> str:
    """How many stand how, who is at work, and what could not be seen."""
    told = ", ".join(f"{number} {state}" for state, number in counts(summaries).items())
    number = "1 object" if len(summaries) == 1 else f"{len(summaries)} objects"
    lines = [f"{number}: {told}" if summaries else "no objects of the operator's kinds are here"]
    lines += operator_lines(shards, now)
    lines += [f"not shown: {each}" for each in unreadable]
    return "\n".join(lines)


def operator_lines(shards: Sequence[AtWork], now: datetime) -> list[str]:
    """Whether an operator is at work: a line, and where several share the cluster one for each of them (RUN-13)."""
    if not shards:
        return ["operator: no Lease was found, so nobody is seen at work; look closer with: vworkspace-operator check"]
    if len(shards) == 1:
        return [f"operator: {_at_work(shards[0], now, 'nothing goes on until one does')}"]
    working = sum(bool(each.holder) for each in shards)
    lines = [f"operator: {working} of {len(shards)} shards are at work"]
    return lines + [
        f"  {each.shard}  {_at_work(each, now, 'nothing goes on in its namespaces until one does')}" for each in shards
    ]


def _at_work(one: AtWork, now: datetime, otherwise: str) -> str:
    if one.holder:
        return f"{one.holder} leads, and was heard of {age(one.heard, now)} ago"
    heard = "it has never run here" if one.heard is None else f"the last was heard of {age(one.heard, now)} ago"
    return f"NONE RUNS; {heard}, and {otherwise}"


def object_report(branch: Branch, around: Surroundings, now: datetime) -> RenderableType:
    """One object whole: who asked for it, the tree, its events, and what helps."""
    parts: list[RenderableType] = [Text(f"asked for by {origin_of(around.manifest)}"), _tree(branch, now)]
    if branch.summary.next_look:
        parts.append(Text(f"next look: {branch.summary.next_look}"))
    if remedies := _remedies(branch):
        parts += [Text("what helps:"), *(_command(f"  {command}") for command in remedies)]
    if around.events:
        told = "" if _is_well(branch.summary) else " ".join(branch.summary.message.split())
        parts += [Text("last events:"), *(_event(event, told, now) for event in around.events)]
    parts += [Text(f"not shown: {each}") for each in around.unreadable]
    return Group(*parts)


def _tree(branch: Branch, now: datetime) -> Tree:
    tree = Tree(_label(branch, now), guide_style="dim")
    _grow(tree, branch, now)
    return tree


def _grow(tree: Tree, branch: Branch, now: datetime) -> None:
    for child in branch.children:
        _grow(tree.add(_label(child, now)), child, now)


def _label(branch: Branch, now: datetime) -> RenderableType:
    """A line, and below it why, where it is not well."""
    summary, since = branch.summary, age(branch.summary.since, now)
    node = f"{branch.node}: " if branch.node else ""
    reason = "" if summary.reason == summary.state.value else summary.reason
    said = "  ".join(part for part in (reason, f"({since})" if since else "") if part)
    line = Text.assemble(f"{node}{_named(summary.ref)}  ", _state(summary), f"  {said}" if said else "")
    more = [f"deployed: {branch.runs}"] if branch.runs else []
    more += [summary.message] if summary.message and not _is_well(summary) else []
    return Group(line, *map(_below, more)) if more else line


def _named(ref: ObjectRef) -> str:
    """Its kind alone where its name is not known yet."""
    return short(ref) if ref.name else ref.kind.kind.lower()


def _remedies(branch: Branch) -> list[str]:
    """Of the object and everything below it, each once."""
    own = list(branch.summary.remedies)
    return list(dict.fromkeys([*own, *(each for child in branch.children for each in _remedies(child))]))


def _state(summary: Summary) -> Text:
    return Text(summary.state.value, style=_COLOURS.get(summary.state, ""))


def _event(event: Manifest, told: str, now: datetime) -> RenderableType:
    """What stands above already is not told again."""
    reason, note = (" ".join(str(get_path(event, field) or "").split()) for field in ("reason", "message"))
    note = note.replace(told, "as above") if told else note
    text = happened(event)
    since = age(parse_time(text), now) if text else ""
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_column(width=6, justify="right")
    line.add_column(overflow="fold")
    line.add_row(since, Text(f"{reason}: {note}"))
    return line


def age(since: datetime | None, now: datetime) -> str:
    """How long ago, as kubectl tells it: one unit, or two while they are small."""
    if since is None:
        return ""
    seconds = max(timedelta(0), now - since) // timedelta(seconds=1)
    days, hours, minutes = seconds // 86_400, seconds // 3_600, seconds // 60
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{hours}h" if days < 2 else f"{days}d"
