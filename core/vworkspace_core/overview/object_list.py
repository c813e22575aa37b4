"""The list of objects for people: one row for each object, filtered, counted, and page by page (SEE-3).

A row has only what may be shown: messages are redacted, and of a spec only a short description is kept.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, assert_never

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.problems import amount
from purekube.apimachinery.secret_material import safe
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.overview.severity import Severity, needs_person, severity_of, urgency
from vworkspace_core.overview.summary import LONGEST_COMMAND, OverviewState, summary_of
from vworkspace_core.overview.timeline import last_transition

PAGE_SIZE: Final = 100
DENSE_PAGE_SIZE: Final = 200
_MOST_NEEDS: Final = 3
"""The maximum number of objects that the headline names."""
_LONGEST: Final = 240
"""The maximum length of a string in a row in bytes. The page of the object shows the whole message."""
_MOST_CHOICES: Final = 200
"""The maximum number of namespaces that a filter offers as choices; users can type others."""


@attrs.frozen
class ListRow:
    """One row of the object list: an object with its state, for people.

    `about` is a short description, such as an instance's chart. `moved` is when a condition last changed its status.
    """

    ref: ObjectRef
    state: OverviewState
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    about: str = ""
    moved: datetime | None = None
    state_text: str = ""
    wanted: str = ""
    deployed: str = ""
    remedy: str = ""
    """The command to show as the remedy for the object's state; "" if there is none."""
    lead: str = ""
    """The words to show before the command in `remedy`; "" if it is enough to run the command."""
    advice: str = ""
    is_helpable: bool = False

    @property
    def severity(self) -> Severity:
        """The severity with which the object's state is shown."""
        return severity_of(self.state)

    @property
    def needs_person(self) -> bool:
        """True if the object's state is BAD, or if it waits, also with its deletion, for what only a person can do."""
        return needs_person(self.state, is_helpable=self.is_helpable)


@attrs.frozen
class ListQuery:
    """The filters of a request for the object list. An empty filter matches every row.

    `text` is searched for in names, reasons and messages. `needs` selects objects that need a person. `dense` is not a
    filter, but shows one short line for each object.
    """

    kind: str = ""
    state: str = ""
    namespace: str = ""
    text: str = ""
    page: int = 1
    needs: bool = False
    dense: bool = False

    @property
    def is_filtered(self) -> bool:
        """True if the query has a filter."""
        return any((self.kind, self.state, self.namespace, self.text, self.needs))


@attrs.frozen
class Headline:
    """The headline of the object list: a sentence about all objects, and the most urgent objects that need a person.

    `left_out` is the number of further objects that need a person. `gaps` are sentences about what the list lacks, such
    as a kind that could not be listed.
    """

    text: str
    severity: Severity
    needs: tuple[ListRow, ...] = ()
    left_out: int = 0
    gaps: tuple[str, ...] = ()


@attrs.frozen
class Choice:
    """A value that a filter offers, and the number of rows that match this value."""

    value: str
    count: int
    is_chosen: bool = False


@attrs.frozen
class ListView:
    """One page of the object list. `found` counts the rows on all pages, `total` all rows without any filter.

    `kinds`, `states` and `namespaces` are the choices of the filters. The count of a choice is the number of rows that
    match it together with the other filters. `needing` is the number of rows that need a person and match them.
    """

    query: ListQuery
    rows: tuple[ListRow, ...]
    found: int
    total: int
    pages: int
    kinds: tuple[Choice, ...]
    states: tuple[Choice, ...]
    namespaces: tuple[Choice, ...]
    headline: Headline
    needing: int = 0


def headline_of(rows: Sequence[ListRow], gaps: Sequence[str] = ()) -> Headline:
    """Return the headline of the list of `rows`: how many objects need a person, and the most urgent of them.

    `gaps` are sentences about what the rows lack. With gaps, no headline says that nothing needs a person.
    """
    needs = sorted((row for row in rows if row.needs_person), key=_by_urgency)
    total = amount(len(rows), "object")
    if needs:
        text = f"{len(needs)} of {total} {'needs' if len(needs) == 1 else 'need'} you"
        shown = tuple(needs[:_MOST_NEEDS])
        return Headline(text, needs[0].severity, shown, len(needs) - len(shown), tuple(gaps))
    if gaps:
        return Headline("It is not known whether anything needs you", Severity.WAITING, gaps=tuple(gaps))
    worst = min((row.severity for row in rows), key=urgency, default=Severity.QUIET)
    match worst:
        case Severity.BAD | Severity.WAITING | Severity.MOVING:
            moving = sum(urgency(row.severity) <= urgency(Severity.MOVING) for row in rows)
            return Headline(f"Nothing needs you; {moving} of {total} in progress", worst)
        case Severity.GOOD | Severity.QUIET:
            return Headline(f"Nothing needs you: {total}" if rows else "Nothing is here yet", worst)
        case _:
            assert_never(worst)


def row_of(kind: Kind, manifest: Manifest) -> ListRow:
    """Return the row of the object list that shows the object `manifest` of the kind `kind`.

    This is one of the operator's own kinds, or a kind whose operator is a box (a YAML file).
    """
    summary = summary_of(kind, manifest)
    lead, remedy = next(iter(summary.steps), ("", ""))
    return ListRow(
        summary.ref,
        summary.state,
        safe(summary.reason, _LONGEST),
        safe(summary.message, _LONGEST),
        summary.since,
        about=safe(_description(kind, manifest), _LONGEST),
        moved=last_transition(manifest),
        state_text=safe(summary.state_text, _LONGEST),
        wanted=safe(summary.wanted, _LONGEST),
        deployed=safe(summary.deployed, _LONGEST),
        remedy=safe(remedy, LONGEST_COMMAND),
        lead=safe(lead),
        advice=safe(summary.advice),
        is_helpable=summary.is_helpable,
    )


def _description(kind: Kind, manifest: Manifest) -> str:
    if kind == APPLICATION_INSTANCE:
        return " ".join(_texts(manifest, ("spec", "chart", "name")))
    if kind == OPERATION:
        what = " by ".join(_texts(manifest, ("spec", "type"), ("spec", "engine")))
        return " on ".join([part for part in (what, *_texts(manifest, ("spec", "targetRef", "name"))) if part])
    return ""


def _texts(manifest: Manifest, *paths: tuple[str, ...]) -> list[str]:
    values: list[Any] = [get_path(manifest, *path) for path in paths]
    return [value for value in values if isinstance(value, str) and value]


def list_view(rows: Iterable[ListRow], query: ListQuery, gaps: Sequence[str] = ()) -> ListView:
    """Return the page of the list that `query` requests, or the last page if there are fewer pages.

    The page has only rows that match the filters of `query`. The most urgent rows come first. `gaps` are sentences
    about what the rows lack.
    """
    rows, size = tuple(rows), DENSE_PAGE_SIZE if query.dense else PAGE_SIZE
    filters = _filters(query)
    others = [passes for name, passes in filters.items() if name != "needs"]
    found = [row for row in rows if all(passes(row) for passes in filters.values())]
    found.sort(key=_by_urgency)
    pages = max(1, -(-len(found) // size))
    page = min(max(1, query.page), pages)
    return ListView(
        attrs.evolve(query, page=page),
        tuple(found[(page - 1) * size : page * size]),
        len(found),
        len(rows),
        pages,
        _choices(rows, filters, "kind", lambda row: row.ref.kind.kind, query.kind),
        _choices(rows, filters, "state", lambda row: row.state.value, query.state, by_urgency=True),
        _bounded(_choices(rows, filters, "namespace", lambda row: row.ref.namespace or "", query.namespace)),
        headline_of(rows, gaps),
        sum(row.needs_person and all(passes(row) for passes in others) for row in rows),
    )


def _bounded(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return the first choices, and the chosen one even if it comes later, since a hidden filter would hide objects
    unnoticed.
    """
    return tuple(choice for at, choice in enumerate(choices) if at < _MOST_CHOICES or choice.is_chosen)


def _by_urgency(row: ListRow) -> tuple[object, ...]:
    return (urgency(row.severity), row.ref.namespace or "", row.ref.kind.kind, row.ref.name)


_Filters = dict[str, Callable[[ListRow], bool]]


def _filters(query: ListQuery) -> _Filters:
    """Return the filters that `query` uses, by name. Filters that match every row are left out."""
    text = query.text.casefold()
    every: _Filters = {
        "kind": lambda row: row.ref.kind.kind == query.kind,
        "state": lambda row: row.state.value == query.state,
        "namespace": lambda row: (row.ref.namespace or "") == query.namespace,
        "needs": lambda row: row.needs_person,
        "text": lambda row: any(text in part.casefold() for part in _searched(row)),
    }
    return {name: passes for name, passes in every.items() if getattr(query, name)}


def _searched(row: ListRow) -> tuple[str, ...]:
    return (row.ref.name, row.ref.namespace or "", row.about, row.reason, row.message)


def _choices(
    rows: Sequence[ListRow],
    filters: _Filters,
    name: str,
    value_of: Callable[[ListRow], str],
    chosen: str,
    *,
    by_urgency: bool = False,
) -> tuple[Choice, ...]:
    others = [passes for other, passes in filters.items() if other != name]
    numbers = Counter(value_of(row) for row in rows if all(passes(row) for passes in others))
    values = sorted({*numbers, *([chosen] if chosen else [])} - {""}, key=_place if by_urgency else None)
    return tuple(Choice(value, numbers[value], value == chosen) for value in values)


def _place(state: str) -> tuple[int, str]:
    known = state in {one.value for one in OverviewState}
    return (urgency(severity_of(OverviewState(state))) if known else len(Severity), state)
