"""The acts of the operator's users: what people and jobs do to each instance, drawn from a seed."""

from collections.abc import Iterator
from enum import StrEnum
from random import Random
from typing import Final

from purekube_run.simulation.script import Act


class Do(StrEnum):
    """The kinds of acts of the workload."""

    CREATE = "create"
    UPGRADE = "upgrade"
    BREAK = "upgrade to a broken version"
    VALUES = "change values"
    SUSPEND = "suspend"
    RESUME = "resume"
    DELETE = "delete"
    ANNOTATE = "annotate"
    DELETE_CHILD = "delete the HelmRelease"
    ANNOTATE_CHILD = "annotate the HelmRelease"
    JOB = "job that applies"
    DELETE_JOB = "job that deletes"
    REPLAY = "job offered again"
    BACKUP = "backup"


_EDITS: Final = (
    *((Do.UPGRADE, 5), (Do.VALUES, 3), (Do.BREAK, 1), (Do.SUSPEND, 1), (Do.RESUME, 2), (Do.DELETE, 2), (Do.CREATE, 1)),
    *((Do.ANNOTATE, 1), (Do.DELETE_CHILD, 1), (Do.ANNOTATE_CHILD, 1), (Do.BACKUP, 1)),
)
_JOBS: Final = ((Do.JOB, 6), (Do.DELETE_JOB, 2), (Do.REPLAY, 2), (Do.BACKUP, 1))
_OF_JOBS: Final = 3
"""Every third instance is managed by jobs of the control plane, the others by people."""


def lives(random: Random, instances: int, seconds: float) -> Iterator[Act]:
    """Yield the acts of the users on all instances."""
    for number in range(instances):
        yield from _life(random, number, seconds)


def _life(random: Random, number: int, seconds: float) -> Iterator[Act]:
    """Yield the acts on one instance: it is made early, then changed about once in half an hour."""
    by_jobs = number % _OF_JOBS == _OF_JOBS - 1
    name = f"{'job' if by_jobs else 'app'}-{number}"
    at = random.uniform(1.0, 0.3 * seconds)
    yield Act(round(at, 3), Do.JOB if by_jobs else Do.CREATE, name)
    kinds, weights = zip(*(_JOBS if by_jobs else _EDITS), strict=True)
    step = 0
    while (at := at + random.expovariate(1 / min(1800.0, seconds / 2))) < seconds:
        step += 1
        yield Act(round(at, 3), random.choices(kinds, weights)[0], name, step)
