"""Metrics as they stand in a snapshot: pure."""

import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TypeAlias

from vworkspace_app import VERSION
from vworkspace_app.controller.informer_stats import InformerStats
from vworkspace_app.controller.worker_stats import WorkerPoolStats
from vworkspace_app.observability import catalogue as c
from vworkspace_app.observability.snapshot import AgentNumbers, Snapshot
from vworkspace_core.control_plane.connection import Connectivity
from vworkspace_core.controller.health import DriverVitals
from vworkspace_core.controller.informer.state import InformerPhase

Samples: TypeAlias = list[tuple[tuple[str, ...], float]]
Reading: TypeAlias = tuple[c.Metric, Samples]

_PYTHON = ".".join(map(str, sys.version_info[:3]))


def readings(snapshot: Snapshot, now: float) -> Iterator[Reading]:
    """Each metric with its samples. `now` is on the clock that the snapshot was taken by."""
    yield c.BUILD, [((VERSION, _PYTHON), 1.0)]
    yield c.LOOP_SILENCE, [((), max(0.0, now - snapshot.taken_at))]
    yield c.NAMESPACES, [((), float(snapshot.managed_namespaces))]
    yield c.CREDENTIAL_AGE, [((), age)] if (age := snapshot.credential_age) is not None else []
    yield c.EVENTS, [((outcome,), float(count)) for outcome, count in snapshot.events]
    yield c.LEADER, [((name,), float(leads)) for name, leads in snapshot.leases]
    yield c.INSTANCES, [(said, float(count)) for said, count in snapshot.instances]
    yield c.OPERATION_STATES, [(said, float(count)) for said, count in snapshot.operations]
    yield from _agent(snapshot.agent)
    yield from _drivers(list(zip(snapshot.vitals.drivers, snapshot.drivers, strict=True)))
    yield from _informers(snapshot.informers)


def _agent(agent: AgentNumbers | None) -> Iterator[Reading]:
    state = Connectivity.UNKNOWN if agent is None else agent.connectivity
    yield c.CONNECTIVITY, [((one.value,), float(one is state)) for one in Connectivity]
    yield c.OPEN_JOBS, [((), float(agent.open_jobs))] if agent else []
    yield c.JOB_LAG, [((), agent.lag)] if agent else []
    yield c.OCCUPANCY, [((), agent.occupancy)] if agent else []


def _drivers(drivers: list[tuple[DriverVitals, WorkerPoolStats]]) -> Iterator[Reading]:
    yield c.MAX_WORKERS, [((one.name,), float(one.workers)) for one, _ in drivers]
    yield c.ACTIVE_WORKERS, [((one.name,), float(one.running)) for one, _ in drivers]
    yield c.LONGEST, [((one.name, one.name), one.oldest) for one, _ in drivers]
    yield c.UNFINISHED, [((one.name, one.name), one.unfinished) for one, _ in drivers]
    yield c.LIVE_READS, [((one.name,), float(stats.live_reads)) for one, stats in drivers]
    yield c.ADDS, [((one.name, one.name), float(stats.queue.adds)) for one, stats in drivers]
    yield c.RETRIES, [((one.name, one.name), float(stats.queue.retries)) for one, stats in drivers]
    yield (
        c.DEPTH,
        [
            ((one.name, one.name, priority.name.lower()), float(count))
            for one, stats in drivers
            for priority, count in stats.queue.ready.items()
        ],
    )


def _informers(informers: Iterable[InformerStats]) -> Iterator[Reading]:
    """By kind: several informers of one kind, each of a namespace, count as one."""

    def by_kind(one: InformerStats) -> tuple[str, str]:
        return one.kind.group, one.kind.kind

    kinds = [(key, list(found)) for key, found in groupby(sorted(informers, key=by_kind), by_kind)]
    yield c.SYNCED, [(key, float(all(one.has_synced for one in found))) for key, found in kinds]
    yield c.MISSING, [(key, float(any(one.phase is InformerPhase.MISSING for one in found))) for key, found in kinds]
    yield c.LAST_EVENT, [(key, max(one.contact_age for one in found)) for key, found in kinds]
    yield c.TROUBLES, [(key, float(sum(one.troubles for one in found))) for key, found in kinds]
    yield c.OBJECTS, [(key, float(sum(one.objects for one in found))) for key, found in kinds]
    yield c.BYTES, [(key, float(sum(one.bytes for one in found))) for key, found in kinds]
    yield (
        c.RELISTS,
        [
            ((*key, cause), float(sum(one.relists.get(cause, 0) for one in found)))
            for key, found in kinds
            for cause in sorted({cause for one in found for cause in one.relists})
        ],
    )
