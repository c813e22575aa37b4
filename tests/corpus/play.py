"""Plays a world of the corpus: what our code makes of it, in the corpus's words.

A world is `{"of": what is played, "given": …}`. Decisions are functions of what is given; machines are given a
beginning and what happens to them, one `[event, time]` after the other.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from purekube.controller.informer import machine as informer
from purekube.controller.informer.messages import InformerState
from purekube.controller.lease import machine as lease
from purekube.controller.lease.messages import LeaseContext, LeaseState
from purekube.controller.shard import Shard
from tests.corpus.neutral import Json, decision_data, from_data, to_data
from vworkspace_core.clusters.decision import decide as decide_cluster
from vworkspace_core.credentials import machine as rotation
from vworkspace_core.instances.reconcile import decide_unreadable, reconcile
from vworkspace_core.jobs import machine
from vworkspace_core.jobs.payload_security import Security
from vworkspace_core.jobs.scope import JobScope
from vworkspace_core.operations.reconcile import reconcile_operation
from vworkspace_core.operations.unreadable import decide_unreadable_operation

DECISIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "instance": reconcile,
    "unreadable instance": decide_unreadable,
    "operation": reconcile_operation,
    "unreadable operation": decide_unreadable_operation,
    "cluster": decide_cluster,
}
"""Decisions by what they are about; `given` is the list of their arguments."""


def play(world: Mapping[str, Any]) -> Json:
    """What comes of `world`."""
    about, given = world["of"], world["given"]
    if about in DECISIONS:
        return decision_data(DECISIONS[about](*map(from_data, given)))
    return list(MACHINES[about](given))


def _jobs(given: Mapping[str, Any]) -> Iterable[Json]:
    """Effects of each event, and when time counts next."""
    security = from_data(given.get("security")) or Security()
    state = machine.AgentState(JobScope(given["cluster"], security=security))
    for event, at in given["happens"]:
        state, effects = machine.step(state, from_data(event), from_data(at))
        yield [*map(to_data, effects), {"next deadline": to_data(machine.next_deadline(state))}]


def _credential(given: Mapping[str, Any]) -> Iterable[Json]:
    """Effects of the beginning and of each event, and when time counts next."""
    state, effects = rotation.start(from_data(given["kept"]), from_data(given["at"]), jitter=given["jitter"])
    yield [*map(_credential_effect, effects), {"next deadline": to_data(rotation.next_deadline(state))}]
    for event, at in given["happens"]:
        state, effects = rotation.step(state, from_data(event), from_data(at))
        yield [*map(_credential_effect, effects), {"next deadline": to_data(rotation.next_deadline(state))}]


def _credential_effect(effect: Any) -> Json:
    """Jobs and the credential write notes of one class."""
    data = to_data(effect)
    return {**data, "~": "credential note"} if data["~"] == "job note" else data


def _lease(given: Mapping[str, Any]) -> Iterable[Json]:
    shard = Shard.of(given.get("shard", "0/1"))
    state = LeaseState(given["namespace"], given["name"], given["identity"], shard=shard)
    policy = from_data(given["policy"])
    for event, (now, wall, jitter) in given["happens"]:
        state, effects = lease.step(state, from_data(event), LeaseContext(now, from_data(wall), jitter, policy))
        yield [*map(to_data, effects)]


def _informer(given: Mapping[str, Any]) -> Iterable[Json]:
    state, policy = InformerState(), from_data(given["policy"])
    for event, (now, jitter) in given["happens"]:
        state, effects = informer.step(state, from_data(event), now, jitter, policy)
        yield [*map(to_data, effects)]


MACHINES: Final[Mapping[str, Callable[[Any], Iterable[Json]]]] = {
    "jobs": _jobs,
    "credential": _credential,
    "lease": _lease,
    "informer": _informer,
}
"""Machines by what they are about."""
