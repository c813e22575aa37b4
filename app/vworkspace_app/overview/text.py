"""The overview for people: tables and trees, folded to the width of the screen."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.timestamps import parse_time
from vworkspace_app.overview.reading import ObjectContext, event_time
from vworkspace_app.overview.screen import WIDEST
from vworkspace_core.overview.remedy import parts_of, short, without_commands
from vworkspace_core.overview.replicas import AtWork, Workers, is_alive
from vworkspace_core.overview.summary import SETTLED, OverviewState, Summary
from vworkspace_core.overview.tree import Branch, origin_of, state_counts

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

_HEAD: Final = ("NAMESPACE", "OBJECT", "STATE", "WANTED", "DEPLOYED", "SINCE", "REASON")
_OF_INSTANCES: Final = ("WANTED", "DEPLOYED")
"""Columns that are empty if no instance is shown."""
_LINK_IN_NOTE: Final = re.compile(r" Page: \S+\Z")
_CONDITION_IN_NOTE: Final = re.compile(r"\A\w+ is (?:True|False|Unknown)(?:: |\Z)")


def console(width: int) -> Console:
    """Return the console for output of `width` columns, in colour on a terminal."""
    return Console(width=width, highlight=False, markup=False)


def list_table(summaries: Sequence[Summary], now: datetime, width: int = WIDEST) -> RenderableType:
    """Return a table with a line for each object. Below an unhealthy one are the reason, the next check and
    the remedy.
    """
    shown = [name for name in _HEAD if name not in _OF_INSTANCES or any(summary.wanted for summary in summaries)]
    rows = [_cells(each, now) for each in summaries]
    widths = [max(len(name), *(len(row[name]) for row in rows)) for name in shown]
    parts: list[RenderableType] = [_row([Text(name) for name in shown], widths)]
    for summary, row in zip(summaries, rows, strict=True):
        style = _COLOURS.get(summary.state, "")
        line = _row([Text(row[name], style if name == "STATE" else "") for name in shown], widths)
        parts += [line] if len(line) <= width else _folded(line, row["REASON"])
        parts += _details(summary)
    return Group(*parts)


def _cells(summary: Summary, now: datetime) -> dict[str, str]:
    return {
        "NAMESPACE": summary.ref.namespace or "",
        "OBJECT": short(summary.ref),
        "STATE": summary.state_text,
        "WANTED": summary.wanted,
        "DEPLOYED": summary.deployed,
        "SINCE": age(summary.since, now),
        "REASON": summary.reason,
    }


def _row(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    for text, width in zip(cells, widths, strict=True):
        text.pad_right(width - len(text))
    line = Text("  ").join(cells)
    line.rstrip()
    return line


def _folded(line: Text, reason: str) -> list[RenderableType]:
    """Return a row that is wider than the screen: its last cell, the reason, on a line of its own."""
    line.right_crop(len(reason))
    line.rstrip()
    return [line, _below(reason)]


def _details(summary: Summary) -> list[RenderableType]:
    """Return the lines below an object; none if it is settled and well."""
    lines: list[RenderableType] = []
    if not _is_well(summary):
        lines += _explained(summary)
    if summary.next_look and not _is_well(summary):
        lines.append(_below(f"Next check: {summary.next_look}"))
    return lines


def _explained(summary: Summary) -> list[RenderableType]:
    """Return the message with each remedy on a line of its own, then other remedies, or who can help without one."""
    parts = parts_of(summary.message, summary.remedies)
    pieces = [_command(f"  -> {text}") if is_command else _below(text) for text, is_command in parts]
    pieces += [_command(f"  -> {command}") for command in summary.remedies if command not in summary.message]
    if summary.advice and not (summary.remedies and summary.message):
        pieces.append(_below(summary.advice))
    return pieces


def _below(text: str) -> RenderableType:
    """Return a text folded and indented below its object; its own line breaks are removed."""
    return Padding(Text(" ".join(text.split()), overflow="fold"), (0, 0, 0, 2))


def _command(line: str) -> Text:
    """Return a command that is never folded, so that it can be copied."""
    return Text(line, no_wrap=True, overflow="ignore")


def _is_well(summary: Summary) -> bool:
    return summary.state in SETTLED and summary.state is not OverviewState.FAILED


def footer(summaries: Sequence[Summary], workers: Workers, unreadable: Iterable[str], now: datetime) -> str:
    """Return the number of objects in each state, which operators are running, and what could not be read."""
    told = ", ".join(f"{number} {state}" for state, number in state_counts(summaries).items())
    number = "1 object" if len(summaries) == 1 else f"{len(summaries)} objects"
    lines = [f"{number}: {told}" if summaries else "no objects of the operator's kinds are here"]
    lines += operator_lines(workers, now)
    lines += [f"not shown: {each}" for each in unreadable]
    return "\n".join(lines)


def operator_lines(workers: Workers, now: datetime) -> list[str]:
    """Return a line that says whether an operator runs, or one line for each of several shards (RUN-13)."""
    shards = workers.shards
    if not shards:
        return [f"operator: {_without_lease(workers.heartbeat, now)}"]
    if len(shards) == 1:
        return [f"operator: {_at_work(shards[0], now, 'nothing is reconciled until one does')}"]
    working = sum(bool(each.holder) for each in shards)
    lines = [f"operator: {working} of {len(shards)} shards are at work"]
    return lines + [
        f"  {each.shard}  {_at_work(each, now, 'nothing in its namespaces is reconciled until one does')}"
        for each in shards
    ]


def _without_lease(heartbeat: datetime | None, now: datetime) -> str:
    if is_alive(heartbeat, now):
        return f"at work without leader election, last heartbeat {age(heartbeat, now)} ago"
    last = "no Lease and no heartbeat" if heartbeat is None else f"no Lease, last heartbeat {age(heartbeat, now)} ago"
    return f"NONE SEEN ({last}); check with: vworkspace-operator check"


def _at_work(one: AtWork, now: datetime, otherwise: str) -> str:
    if one.holder:
        return f"{one.holder} leads, last renewed {age(one.heard, now)} ago"
    heard = "it has never run here" if one.heard is None else f"last seen {age(one.heard, now)} ago"
    return f"NONE RUNS; {heard}, and {otherwise}"


def object_report(branch: Branch, around: ObjectContext, now: datetime) -> RenderableType:
    """Return the report on one object: who requested it, the tree, its events, and the remedy."""
    parts: list[RenderableType] = [Text(f"Source: {origin_of(around.manifest)}"), _tree(branch, now)]
    if branch.summary.next_look:
        parts.append(Text(f"Next check: {branch.summary.next_look}"))
    if remedies := _remedies(branch):
        parts += [Text("To fix:"), *(_command(f"  {command}") for command in remedies)]
    elif branch.summary.advice:
        parts.append(Text(branch.summary.advice))
    if around.events:
        said = "" if _is_well(branch.summary) else " ".join(branch.summary.message.split())
        parts += [Text("Last events:"), *_events(around.events, said, remedies, now)]
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
    """Return a line, and below it the reason if the object is not well."""
    summary, since = branch.summary, age(branch.summary.since, now)
    node = f"{branch.node}: " if branch.node else ""
    reason = "" if summary.reason == summary.state.value else summary.reason
    said = "  ".join(part for part in (reason, f"({since})" if since else "") if part)
    line = Text.assemble(f"{node}{_named(summary.ref)}  ", _state(summary), f"  {said}" if said else "")
    more = [f"deployed: {branch.runs}"] if branch.runs else []
    more += [_versions(summary)] if summary.wanted != summary.deployed else []
    more += [without_commands(summary.message, summary.remedies)] if summary.message and not _is_well(summary) else []
    return Group(line, *map(_below, more)) if more else line


def _versions(summary: Summary) -> str:
    """Return which version is wanted and which is deployed."""
    by = f" (requested by Operation {summary.override})" if summary.override else ""
    return f"wanted: {summary.wanted}; deployed: {summary.deployed or 'nothing'}{by}"


def _named(ref: ObjectRef) -> str:
    """Return kind and name, or the kind alone if the name is not known yet."""
    return short(ref) if ref.name else ref.kind.kind.lower()


def _remedies(branch: Branch) -> list[str]:
    """Return the remedies of the object and everything below it, each once."""
    own = list(branch.summary.remedies)
    return list(dict.fromkeys([*own, *(each for child in branch.children for each in _remedies(child))]))


def _state(summary: Summary) -> Text:
    return Text(summary.state.value, style=_COLOURS.get(summary.state, ""))


def _events(events: Sequence[Manifest], said: str, commands: Sequence[str], now: datetime) -> Iterator[RenderableType]:
    """Return a line for each thing that happened: Events that say the same at the same time are one.

    `said` and `commands` are printed above already, and not repeated.
    """
    for (since, note), same in groupby(events, key=lambda event: (_since(event, now), _note(event))):
        reasons = ", ".join(dict.fromkeys(str(get_path(event, "reason") or "") for event in same))
        note = "as above" if said and note == said else note
        for command in commands:
            note = note.replace(command, "(command above)")
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_column(width=6, justify="right")
        line.add_column(overflow="fold")
        line.add_row(since, Text(": ".join(filter(None, (reasons, note)))))
        yield line


def _since(event: Manifest, now: datetime) -> str:
    text = event_time(event)
    return age(parse_time(text), now) if text else ""


def _note(event: Manifest) -> str:
    """Return the Event's message without a condition at its beginning and a link at its end."""
    note = " ".join(str(get_path(event, "message") or "").split())
    return _LINK_IN_NOTE.sub("", _CONDITION_IN_NOTE.sub("", note))


def age(since: datetime | None, now: datetime) -> str:
    """Return a time span as kubectl prints it: in one unit, or in two if it is short."""
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
