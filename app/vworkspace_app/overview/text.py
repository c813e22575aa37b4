"""The text of `status` for people: tables and trees, wrapped to the width of the screen."""

import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final, Self

import attrs

from purekube.apimachinery.durations import human_duration
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.problems import amount
from purekube.apimachinery.resources import LEASE
from purekube.apimachinery.secret_material import LONGEST_SHOWN, safe
from purekube.apimachinery.timestamps import parse_time
from purekube_run.process.terminal import shows_colours
from vworkspace_app.overview.reading import ObjectContext, event_time
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OWN_KINDS
from vworkspace_core.overview.origin import origin_of
from vworkspace_core.overview.remedy import parts_of, short, without_commands
from vworkspace_core.overview.summary import SETTLED, OverviewState, Summary
from vworkspace_core.overview.tree import AtWork, Branch, Workers, is_alive, state_counts

WIDEST: Final = 100_000
"""The width in columns of output to a file or program, so large that no text is wrapped."""
_GREEN, _RED, _MAGENTA, _DIM = "32", "31", "35", "2"
_COLOURS: Final = {
    OverviewState.READY: _GREEN,
    OverviewState.SUCCEEDED: _GREEN,
    OverviewState.STALLED: _RED,
    OverviewState.DEGRADED: _RED,
    OverviewState.FAILED: _RED,
    OverviewState.WAITING: _MAGENTA,
    OverviewState.NOT_READY: _MAGENTA,
}
"""The colours of states, readable on light and dark backgrounds. A colour says no more than the state's word."""

_HEAD: Final = ("NAMESPACE", "OBJECT", "STATE", "WANTED", "DEPLOYED", "SINCE", "REASON")
_VERSIONS: Final = ("WANTED", "DEPLOYED")
"""The columns that are left out if no shown object has a wanted version."""
_LINK_IN_NOTE: Final = re.compile(r" Page: \S+\Z")
_CONDITION_IN_NOTE: Final = re.compile(r"\A\w+ is (?:True|False|Unknown)(?:: |\Z)")


@attrs.frozen
class Screen:
    """The screen for which text is wrapped and coloured: its width in columns, and whether it shows colours."""

    width: int = WIDEST
    colours: bool = False

    @classmethod
    def of_output(cls) -> Self:
        """Return the screen of standard output."""
        return cls(columns(), shows_colours(sys.stdout, os.environ))

    def less(self, columns: int) -> "Screen":
        """Return a screen that is narrower by this number of columns."""
        return attrs.evolve(self, width=max(self.width - columns, 1))

    def folded(self, text: str, indent: str = "") -> list[str]:
        """Return a string as lines wrapped to the screen, each indented by `indent`."""
        if len(indent) + len(text) <= self.width and "\n" not in text:
            return [f"{indent}{text}"]
        inside = max(self.width - len(indent), 1)
        return [f"{indent}{line}" for line in textwrap.wrap(text, inside, break_on_hyphens=False)]

    def coloured(self, text: str, colour: str) -> str:
        """Return a string in a colour, which is the number of an SGR sequence.

        The text is unchanged if the screen shows no colours.
        """
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colours else text


def columns() -> int:
    """Return the terminal's width in columns.

    Output to another program has no limit unless the variable COLUMNS is set.
    """
    asked = os.environ.get("COLUMNS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return os.get_terminal_size().columns if sys.stdout.isatty() else WIDEST


def list_table(summaries: Sequence[Summary], now: datetime, screen: Screen) -> Iterator[str]:
    """Yield a table with a line for each object.

    Below an unhealthy object are the reason, the next check and the remedy.
    """
    shown = [name for name in _HEAD if name not in _VERSIONS or any(summary.wanted for summary in summaries)]
    rows = [_cells(each, now) for each in summaries]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in shown}
    yield _row({name: name for name in shown}, widths)
    for summary, row in zip(summaries, rows, strict=True):
        line = _row(row, widths)
        below = [] if len(line) <= screen.width else _below(row["REASON"], screen)
        line = line if not below else _row({**row, "REASON": ""}, widths)
        yield _coloured(line, summary, screen)
        yield from (*below, *_details(summary, screen))


def _below(text: str, screen: Screen) -> list[str]:
    """Return a string as indented lines, wrapped to the screen, to print below an object's line."""
    return screen.folded(" ".join(text.split()), "  ")


def _coloured(line: str, summary: Summary, screen: Screen) -> str:
    """Return a line of the table with the object's state in colour."""
    state, colour = f"  {summary.state_text}", _COLOURS.get(summary.state, "")
    return line.replace(state, screen.coloured(state, colour), 1) if colour else line


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


def _row(cells: Mapping[str, str], widths: Mapping[str, int]) -> str:
    return "  ".join(f"{cells[name]:<{width}}" for name, width in widths.items()).rstrip()


def _details(summary: Summary, screen: Screen) -> Iterator[str]:
    """Yield the lines with details to print below an object's line. Yield nothing if the object is healthy."""
    if _is_well(summary):
        return
    yield from _explained(summary, screen)
    if summary.next_look:
        yield from _below(f"Next check: {summary.next_look}", screen)


def _explained(summary: Summary, screen: Screen) -> Iterator[str]:
    """Yield the object's message with each remedy on its own line, then advice and other remedies.

    A command is never wrapped, so that it can be copied.
    """
    for text, is_command in parts_of(summary.message, summary.remedies):
        # What follows a command in a sentence begins with the dot after it.
        yield from [f"  -> {text}"] if is_command else _below(text.lstrip(". "), screen)
    others = [command for command in summary.remedies if command not in summary.message]
    if summary.advice and (others or not (summary.remedies and summary.message)):
        yield from _below(summary.advice, screen)
    yield from (f"  -> {command}" for command in others)


def _is_well(summary: Summary) -> bool:
    return summary.state in SETTLED and summary.state is not OverviewState.FAILED


def footer(summaries: Sequence[Summary], workers: Workers, unreadable: Iterable[str], now: datetime) -> list[str]:
    """Return the last lines of a list: how many objects are in each state, which operators run, and what is not shown.

    `workers` has the signs of running operators, such as their Leases. `unreadable` has the plurals of the kinds that
    could not be read, each with a colon and the reason.
    """
    told = ", ".join(f"{number} {state}" for state, number in state_counts(summaries).items())
    number = amount(len(summaries), "object")
    unreadable = tuple(unreadable)
    unread = {each.partition(":")[0] for each in unreadable}
    none = "shown" if unread & {kind.plural for kind in OWN_KINDS} else "here"
    lines = [f"{number}: {told}" if summaries else f"no objects of the operator's kinds are {none}"]
    is_own = [summary.ref.kind in OWN_KINDS for summary in summaries]
    if LEASE.plural in unread:
        is_seen = is_alive(workers.heartbeat, now)
        sign = f"at work, last heartbeat {age(workers.heartbeat, now)} ago" if is_seen else "UNKNOWN"
        lines += [f"operator: {sign} (its Leases cannot be read)"]
    else:
        lines += operator_lines(workers, now, is_needed=any(is_own) or not summaries)
    if not _is_seen(workers, now) and not all(is_own):
        lines += ["boxes may be at work in a process of their own (box run), which is not seen here"]
    return [*lines, *(f"not shown: {each}" for each in unreadable)]


def _is_seen(workers: Workers, now: datetime) -> bool:
    return any(each.holder for each in workers.shards) or is_alive(workers.heartbeat, now)


def operator_lines(workers: Workers, now: datetime, *, is_needed: bool) -> list[str]:
    """Return a line that says whether an operator runs, and a line for each shard if there are several (RUN-13).

    `workers` has the signs of running operators, such as their Leases. If there are none, and `is_needed` is True, the
    line advises the user to run the command `check`. `is_needed` is False where only boxes are used, which need none of
    what `check` looks for.
    """
    shards = workers.shards
    if not shards:
        advice = "; check with: vworkspace-operator check" if is_needed and not is_alive(workers.heartbeat, now) else ""
        return [f"operator: {_without_lease(workers.heartbeat, now)}{advice}"]
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
    return f"NONE SEEN ({last})"


def _at_work(one: AtWork, now: datetime, otherwise: str) -> str:
    if one.holder:
        return f"{one.holder} leads, last renewed {age(one.heard, now)} ago"
    heard = "it has never run here" if one.heard is None else f"last seen {age(one.heard, now)} ago"
    return f"NONE RUNS; {heard}, and {otherwise}"


def object_report(branch: Branch, around: ObjectContext, now: datetime, screen: Screen) -> Iterator[str]:
    """Yield the lines of the report on one object.

    `branch` is the object's tree, and `around` has the objects and Events that were read. The report says who requested
    the object, and shows the tree of objects that were created for it, how to fix what is wrong, and the latest Events.
    """
    yield from screen.folded(f"Source: {origin_of(around.manifest)}")
    yield from _tree(branch, now, screen)
    if branch.summary.next_look:
        yield from screen.folded(f"Next check: {branch.summary.next_look}")
    if steps := _steps(branch):
        yield "To fix:"
    for lead, command in steps:
        yield from (*(_below(lead, screen) if lead else ()), f"  {command}")
    if not steps and branch.summary.advice:
        yield from screen.folded(branch.summary.advice)
    if around.events:
        said = "" if _is_well(branch.summary) else " ".join(branch.summary.message.split())
        yield from ("Last events:", *_events(around.events, said, [each for _, each in steps], now, screen))
    for each in around.unreadable:
        yield from screen.folded(f"not shown: {each}")


def _tree(branch: Branch, now: datetime, screen: Screen, head: str = "", below: str = "") -> Iterator[str]:
    """Yield the lines of an object and its children.

    `head` is the prefix of the first line, `below` the prefix of all others.
    """
    guides = [screen.coloured(guide, _DIM) if guide else "" for guide in (head, below)]
    first, *others = _label(branch, now, screen.less(len(head)))
    yield f"{guides[0]}{first}"
    yield from (f"{guides[1]}{line}" for line in others)
    for number, child in enumerate(branch.children, 1):
        corner, line = ("└── ", "    ") if number == len(branch.children) else ("├── ", "│   ")
        yield from _tree(child, now, screen, below + corner, below + line)


def _label(branch: Branch, now: datetime, screen: Screen) -> Iterator[str]:
    """Yield the line of an object in a tree, then lines with its versions, and its message if it is unhealthy."""
    summary, since = branch.summary, age(branch.summary.since, now)
    node = f"{branch.node}: " if branch.node else ""
    reason = "" if summary.reason == summary.state.value else summary.reason
    parts = (f"{node}{_named(summary.ref)}", summary.state.value, reason, f"({since})" if since else "")
    first, *others = screen.folded("  ".join(filter(None, parts)))
    yield _coloured(first, summary, screen)
    yield from others
    if branch.runs:
        yield from _below(f"deployed: {branch.runs}", screen)
    if summary.wanted != summary.deployed:
        yield from _below(_versions(summary), screen)
    elif summary.wanted and summary.ref.kind != APPLICATION_INSTANCE:  # the release below an instance has its version
        yield from _below(f"revision: {summary.wanted}", screen)
    if summary.message and not _is_well(summary):
        yield from _below(without_commands(summary.message, summary.remedies), screen)


def _versions(summary: Summary) -> str:
    """Return a string with the desired and the deployed version."""
    by = f" (requested by Operation {summary.override})" if summary.override else ""
    return f"wanted: {summary.wanted}; deployed: {summary.deployed or 'nothing'}{by}"


def _named(ref: ObjectRef) -> str:
    """Return kind and name of an object, or only the kind if the object has no name yet."""
    return short(ref) if ref.name else ref.kind.kind.lower()


def _steps(branch: Branch) -> list[tuple[str, str]]:
    """Return the remedies for the object and its children, each once, and each with words that introduce it."""
    own = branch.summary.steps
    return list(dict.fromkeys([*own, *(each for child in branch.children for each in _steps(child))]))


def _events(
    events: Sequence[Manifest], said: str, commands: Sequence[str], now: datetime, screen: Screen
) -> Iterator[str]:
    """Yield a line for each Event; successive Events with the same time and text share a line.

    `said` is a message and `commands` are commands that were printed above. Where an Event repeats them, its line only
    refers to them.
    """
    for (since, note), same in groupby(events, key=lambda event: (_since(event, now), _note(event))):
        reasons = ", ".join(dict.fromkeys(safe(str(get_path(event, "reason") or "")) for event in same))
        note = "as above" if said and note == said else note
        for command in commands:
            note = note.replace(command, "(command above)")
        first, *others = screen.less(8).folded(": ".join(filter(None, (reasons, note)))) or [""]
        yield f"{since:>6}  {first}"
        yield from (" " * 8 + line for line in others)


def _since(event: Manifest, now: datetime) -> str:
    text = event_time(event)
    return age(parse_time(text), now) if text else ""


def _note(event: Manifest) -> str:
    """Return the Event's message without the condition at its beginning and the link at its end.

    Any client may write an Event, so its text is redacted like a message.
    """
    note = " ".join(safe(str(get_path(event, "message") or ""), LONGEST_SHOWN).split())
    return _LINK_IN_NOTE.sub("", _CONDITION_IN_NOTE.sub("", note))


def age(since: datetime | None, now: datetime) -> str:
    """Return the time from `since` to `now` as kubectl prints it, such as `90s` or `5m30s`, but only whole days: `3d`.

    Return an empty string if `since` is None.
    """
    if since is None:
        return ""
    span = max(timedelta(0), now - since)
    return f"{span.days}d" if span.days >= 2 else human_duration(span)
