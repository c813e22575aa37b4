"""The history of a simulated run as a trace, which the web page shows moment by moment (SIM-3, SEE-3).

The tables of a moment, such as that of the objects, are made when it is read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Final, overload

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import LEASE, SECRET
from purekube.apimachinery.secret_material import safe
from purekube_run.simulation.laws import clock
from vworkspace_app.simulation.run_history import ObjectHistory, RunHistory, RunMoment
from vworkspace_core.api.kinds import CLUSTER, OWN_KINDS
from vworkspace_core.jobs.store.codec import CorruptSecret, Head, read_record
from vworkspace_core.overview.object_graph import ObjectGraph, graph_of_tree
from vworkspace_core.overview.origin import origin_of
from vworkspace_core.overview.summary import Summary, summary_of, summary_of_child
from vworkspace_core.overview.trace import Moment, Trace, TraceTable
from vworkspace_core.overview.tree import tree_of

_REMEMBERED: Final = 64
"""The number of moments that are cached, for a reader who goes back and forth."""


class RunMoments(Sequence[Moment]):
    """The moments of a simulated run as a sequence, for the web page. Each moment is created only when it is read."""

    def __init__(self, history: RunHistory) -> None:
        self._history = history
        self._moment = lru_cache(maxsize=_REMEMBERED)(self._put_together)
        self._decided = tuple(history.decisions())

    def __len__(self) -> int:
        return len(self._history.moments)

    @overload
    def __getitem__(self, number: int) -> Moment: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Moment]: ...

    def __getitem__(self, number: int | slice) -> Moment | Sequence[Moment]:
        numbers = range(len(self))[number]
        return self._moment(numbers) if isinstance(numbers, int) else [self._moment(each) for each in numbers]

    def _put_together(self, number: int) -> Moment:
        moment = self._history.moments[number]
        objects = self._history.objects.at(moment.changes)
        decided = self._decisions_until(number)
        subject = _subject(moment, decided)
        facts = {"virtual time": clock(moment.at), "actor": moment.actor}
        return Moment(
            self._history.start + timedelta(seconds=moment.at),
            str(subject or moment.actor),
            _graph(subject, objects),
            (f"{moment.actor}: {moment.text}",),
            facts,
            (
                objects_table(objects),
                self._decisions_table(decided),
                *_tables_of_replicas(moment),
                *_tables_of_store(self._history.objects, moment.changes),
            ),
            moment.text if moment.is_broken else "",
        )

    def _decisions_until(self, number: int) -> Mapping[ObjectRef, int]:
        """Return, for each object, the index of the last moment up to `number` with a decision about the object."""
        decided: dict[ObjectRef, int] = {}
        for at in self._decided:
            if at > number:
                break
            if (decision := self._history.moments[at].decision) is not None:
                decided[decision.ref] = at
        return decided

    def _decisions_table(self, decided: Mapping[ObjectRef, int]) -> TraceTable:
        columns = ("Object", "At", "Row", "Writes", "Next look", "Error")
        rows = (self._decision_row(ref, at) for ref, at in sorted(decided.items()))
        return TraceTable("Last decisions", columns, tuple(rows))

    def _decision_row(self, ref: ObjectRef, number: int) -> tuple[str, ...]:
        moment = self._history.moments[number]
        decision = moment.decision
        assert decision is not None
        return str(ref), clock(moment.at), decision.row, ", ".join(decision.effects), decision.next_look, decision.error


def _subject(moment: RunMoment, decided: Mapping[ObjectRef, int]) -> ObjectRef | None:
    """Return the object of a moment: that of its decision, or else that of the last decision before it."""
    if moment.decision is not None:
        return moment.decision.ref
    return max(decided, key=decided.__getitem__) if decided else None


def _graph(subject: ObjectRef | None, objects: Mapping[ObjectRef, Manifest]) -> ObjectGraph:
    manifest = None if subject is None else objects.get(subject)
    if subject is None or manifest is None or subject.kind == CLUSTER:
        return ObjectGraph((), ())
    below = {ref: live for ref, live in objects.items() if ref.namespace == subject.namespace}
    return graph_of_tree(tree_of(subject.kind, manifest, below), origin_of(manifest))


# --- tables ----------------------------------------------------------------------------------------------------------


def objects_table(objects: Mapping[ObjectRef, Manifest]) -> TraceTable:
    """Return a table with a row for each object: its reference, generation, state, reason and message."""
    columns = ("Object", "Generation", "State", "Reason", "Message")
    return TraceTable("Objects", columns, tuple(_object_row(ref, live) for ref, live in objects.items()))


def _object_row(ref: ObjectRef, live: Manifest) -> tuple[str, ...]:
    summary: Summary = (summary_of if ref.kind in OWN_KINDS else summary_of_child)(ref.kind, live)
    generation = str(metadata(live).get("generation", ""))
    return str(ref), generation, summary.state_text, safe(summary.reason), safe(summary.message)


def _tables_of_replicas(moment: RunMoment) -> Iterator[TraceTable]:
    replicas = moment.replicas
    conditions = tuple((replica.name, replica.condition) for replica in replicas)
    yield TraceTable("Replicas", ("Replica", "State"), conditions)
    queue = tuple((f"{replica.name} {key}", *cells) for replica in replicas for key, *cells in replica.queue)
    yield TraceTable("Queue", ("Key", "State", "At"), queue)
    jobs = tuple((f"{replica.name} {job}", *cells) for replica in replicas for job, *cells in replica.jobs)
    yield TraceTable("Open jobs", ("Job", "Stage", "Object"), jobs)
    outbox = tuple((replica.name, *replica.outbox) for replica in replicas if replica.outbox)
    yield TraceTable("Outbox", ("Replica", "Connection", "Results", "Statuses", "Events", "Dropped"), outbox)


def _tables_of_store(history: ObjectHistory, changes: int) -> Iterator[TraceTable]:
    leases = tuple(_lease_row(ref, live) for ref, live in history.at(changes, (LEASE,)).items())
    yield TraceTable("Leases", ("Lease", "Holder", "Renewed", "Transitions"), leases)
    records = (read_record(live) for live in history.at(changes, (SECRET,)).values())
    yield TraceTable("Job records", ("Record", "Job", "State"), tuple(_record_rows(records)))


def _lease_row(ref: ObjectRef, live: Manifest) -> tuple[str, ...]:
    fields = ("holderIdentity", "renewTime", "leaseTransitions")
    return str(ref), *(str(get_path(live, "spec", field) or "") for field in fields)


def _record_rows(records: Iterable[object]) -> Iterator[tuple[str, ...]]:
    """Yield the table rows of job records.

    Of a record's state only the names of fields are shown, because their values contain the job's payload.
    """
    for record in records:
        match record:
            case Head():
                yield (
                    record.name,
                    safe(record.job_id, 120),
                    ", ".join(sorted(record.state)) if record.is_whole else "not whole",
                )
            case CorruptSecret():
                yield record.name, safe(record.job_id, 120), f"damaged: {safe(record.why)}"
            case _:
                pass


def trace_of(history: RunHistory, title: str) -> Trace:
    """Return the trace of a simulated run, which the web page shows moment by moment with the heading `title`.

    Moments at which a law (required property) was broken are marked.
    """
    marked = {number: moment.text for number, moment in enumerate(history.moments) if moment.is_broken}
    return Trace(title, RunMoments(history), marked)
