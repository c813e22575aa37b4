"""The actions of simulated users, drawn from a seed or taken from the recording of a cluster (SIM-1).

A recording determines the kinds of actions, their order and their times; names and versions are those of a simulation.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from random import Random
from typing import Any, Final

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube_run.simulation.script import Act
from vworkspace_app.simulation.recording import Recording
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import IDEMPOTENCY_KEY


class Do(StrEnum):
    """The kinds of actions that simulated users carry out."""

    CREATE = "create"
    UPGRADE = "upgrade"
    BREAK = "upgrade to a broken version"
    ROLL_BACK = "roll back"
    VALUES = "change values"
    SUSPEND = "suspend"
    RESUME = "resume"
    RETRY = "retry"
    DELETE = "delete"
    ANNOTATE = "annotate"
    DELETE_CHILD = "delete the HelmRelease"
    ANNOTATE_CHILD = "annotate the HelmRelease"
    GITOPS = "a GitOps tool applies values"
    GITOPS_CHILD = "a GitOps tool takes over a value of the HelmRelease"
    LET_GO = "the GitOps tool lets go of the HelmRelease"
    HOLD = "set or remove a finalizer"
    JOB = "job that applies"
    JOBS = "jobs that come together"
    DELETE_JOB = "job that deletes"
    REPLAY = "job offered again"
    FORGED_JOB = "job with a signature for other content"
    OPERATION_JOB = "job that asks for an Operation"
    BACKUP = "backup"
    OPERATE = "Operation"
    APPROVED = "Operation with an approval"
    CONFLICT = "two Operations that conflict"
    APPROVE = "approve an Operation"
    CANCEL = "cancel an Operation"
    DELETE_OPERATION = "delete an Operation"
    OPEN = "open the namespace"
    CLOSE = "close the namespace"
    END = "delete the namespace"
    ABANDON = "abandon"
    FORBID = "forbid a version and upgrade to it"
    PERMIT = "permit all versions"
    ROTATE = "ask for a new credential"
    DELETE_CLUSTER = "delete the Cluster object"
    STRAY_JOB = "job that deletes an instance of others"
    LATE_APPROVAL = "Operation with an approval that has expired"
    FAILING_UPGRADE = "Operation that upgrades to a broken version"
    FORGED_APPROVAL = "Operation with a forged approval"
    MISFIT = "Operation that may not start"
    OUTSIDE_JOB = "job that reaches beyond its scope"
    TAKEN = "create an instance whose HelmRelease others have made"
    WITHDRAWN_JOB = "job that is withdrawn at once"
    DELETE_RUN = "delete the engine's object of an Operation"


_OPERATING: Final = (
    *((Do.BACKUP, 1), (Do.OPERATE, 5), (Do.APPROVED, 2), (Do.CONFLICT, 1)),
    *((Do.APPROVE, 3), (Do.CANCEL, 1), (Do.DELETE_OPERATION, 1)),
)
_EDITS: Final = (
    *((Do.UPGRADE, 5), (Do.VALUES, 3), (Do.BREAK, 1), (Do.SUSPEND, 1), (Do.RESUME, 2), (Do.DELETE, 2), (Do.CREATE, 1)),
    *((Do.ANNOTATE, 1), (Do.DELETE_CHILD, 1), (Do.ANNOTATE_CHILD, 1), (Do.ROLL_BACK, 1), (Do.RETRY, 1)),
    *((Do.GITOPS, 1), (Do.GITOPS_CHILD, 1), (Do.LET_GO, 1), (Do.HOLD, 1), *_OPERATING),
)
_JOBS: Final = (
    *(
        (Do.JOB, 6),
        (Do.JOBS, 4),
        (Do.DELETE_JOB, 2),
        (Do.REPLAY, 3),
        (Do.FORGED_JOB, 1),
        (Do.OPERATION_JOB, 2),
        (Do.GITOPS, 1),
    ),
    *_OPERATING,
)
_FURTHER: Final = (
    *(Do.ABANDON, Do.FORBID, Do.FORBID, Do.PERMIT, Do.ROTATE, Do.ROTATE, Do.DELETE_CLUSTER, Do.STRAY_JOB),
    *(Do.LATE_APPROVAL, Do.FAILING_UPGRADE, Do.FAILING_UPGRADE),
)
_REFUSED: Final = (
    *(Do.RETRY, Do.RETRY, Do.FORGED_APPROVAL, Do.FORGED_APPROVAL, Do.MISFIT, Do.MISFIT, Do.MISFIT),
    *(Do.OUTSIDE_JOB, Do.OUTSIDE_JOB, Do.TAKEN),
)
"""The acts that must be refused, and retries."""
_FOLLOWING: Final[Mapping[str, Sequence[Do]]] = {
    Do.UPGRADE: (Do.ROLL_BACK, Do.OPERATE, Do.CONFLICT),
    Do.SUSPEND: (Do.RESUME, Do.DELETE, Do.UPGRADE),
    Do.BREAK: (Do.RETRY, Do.ROLL_BACK),
    Do.RETRY: (Do.RETRY, Do.ANNOTATE),
    Do.FAILING_UPGRADE: (Do.RETRY, Do.UPGRADE),
    Do.FORBID: (Do.PERMIT, Do.UPGRADE),
    Do.GITOPS_CHILD: (Do.LET_GO,),
    Do.DELETE: (Do.CREATE,),
    Do.BACKUP: (Do.DELETE_OPERATION, Do.CANCEL, Do.CONFLICT),
    Do.OPERATE: (Do.APPROVE, Do.APPROVE, Do.CANCEL, Do.DELETE_OPERATION, Do.BACKUP, Do.CONFLICT),
    Do.OPERATION_JOB: (Do.APPROVE, Do.CANCEL, Do.DELETE_OPERATION),
    Do.APPROVED: (Do.APPROVED, Do.CANCEL, Do.DELETE_OPERATION),
    Do.CONFLICT: (Do.CONFLICT, Do.CANCEL, Do.DELETE_OPERATION),
    Do.JOB: (Do.REPLAY, Do.JOBS, Do.DELETE_JOB, Do.FORGED_JOB),
    Do.DELETE_JOB: (Do.JOB, Do.REPLAY),
    Do.APPROVE: (Do.APPROVE, Do.CANCEL, Do.DELETE_OPERATION),
}
"""The actions by which users go on with what they have begun, by the action that began it."""
_MEDDLING: Final[Mapping[str, Sequence[Do]]] = dict.fromkeys(
    (Do.BACKUP, Do.OPERATE, Do.OPERATION_JOB, Do.APPROVED, Do.CONFLICT, Do.APPROVE), (Do.DELETE_RUN,)
)
"""The actions by which users interfere with what the operator has begun, by the action that began it."""
_AT_ONCE: Final = 3.0
_SOON: Final = 30.0
"""The mean seconds until users go on: while what they began is at work, or when it is done."""
_LARGEST_STEP: Final = 12
"""The largest difference of the numbers of two successive actions; greater than the divisors of their remainders."""
_OF_JOBS: Final = 3
"""Every third instance is managed by jobs of the control plane, the others by users."""
_OF_GUESTS: Final = 5
"""Every fifth instance is in the guests' namespace, which is opened, closed and deleted during the run."""


def lives(random: Random, instances: int, seconds: float) -> Iterator[Act]:
    """Yield random actions of users on a number of `instances` within `seconds`.

    Some instances are in the namespace of guests, which is not always managed and is deleted during the run. If there
    are such instances, also yield the actions on that namespace.
    """
    # Each has random numbers of its own, so that a seed keeps the other actions that it had.
    further, refused = Random(str(random.getstate())), Random(f"refused {random.getstate()}")
    going_on = Random(f"going on {random.getstate()}")
    withdrawn, meddling = Random(f"withdrawn {random.getstate()}"), Random(f"meddling {random.getstate()}")
    acts = [act for number in range(instances) for act in _life(random, number, seconds)]
    names = sorted({act.name for act in acts if act.name.startswith("app")})
    acts += _further(further, names, seconds, _FURTHER, 1000)  # no other action on an instance has such a number
    acts += _further(refused, names, seconds, _REFUSED, 4000)
    yield from acts
    yield from _further(withdrawn, names, seconds, (Do.WITHDRAWN_JOB,), 8000)
    # Their numbers are beyond those of the retries of `SimulatedWorkload.help_out`, too.
    following = tuple(_going_on(going_on, acts, seconds, 20_000))
    yield from following
    yield from _going_on(meddling, (*acts, *following), seconds, 40_000, _MEDDLING, 0.15)
    if any(act.name.startswith("guest") for act in acts):
        yield from _life_of_namespace(random, seconds)


def _life(random: Random, number: int, seconds: float) -> Iterator[Act]:
    """Yield random actions on one instance: its creation early in the run, then about one change every 45 minutes.

    In a run of less than an hour, changes are more frequent. Users go on with about every third (`_going_on`).
    """
    by_jobs = number % _OF_JOBS == _OF_JOBS - 1
    is_guest = not by_jobs and number % _OF_GUESTS == _OF_GUESTS - 2
    name = f"{'job' if by_jobs else 'guest' if is_guest else 'app'}-{number}"
    at = random.uniform(0.1 if is_guest else 0.0, 0.3) * seconds + 1.0
    yield Act(round(at, 3), Do.JOB if by_jobs else Do.CREATE, name)
    kinds, weights = zip(*(_JOBS if by_jobs else _EDITS), strict=True)
    numbers = _numbers(random, 0)
    while (at := at + random.expovariate(1 / min(2700.0, seconds / 1.33))) < seconds:
        yield Act(round(at, 3), random.choices(kinds, weights)[0], name, next(numbers))


def _numbers(random: Random, after: int) -> Iterator[int]:
    """Yield random increasing numbers of actions, which are greater than `after`.

    Their remainders select engines, approvals and variants, so that even the first actions of a run try all of them.
    """
    while True:
        after += random.randint(1, _LARGEST_STEP)
        yield after


def _further(random: Random, names: Sequence[str], seconds: float, kinds: Sequence[Do], after: int) -> Iterator[Act]:
    """Yield rarer random actions of these kinds, on the instances `names`: about three in an hour.

    In a run of less than an hour, they are more frequent. Their numbers are greater than `after`.
    """
    numbers = _numbers(random, after)
    at = 0.25 * seconds
    while (at := at + random.expovariate(1 / min(1200.0, seconds / 3))) < seconds:
        yield Act(round(at, 3), random.choice(kinds), random.choice(names), next(numbers))


def _going_on(
    random: Random,
    acts: Sequence[Act],
    seconds: float,
    after: int,
    ways: Mapping[str, Sequence[Do]] = _FOLLOWING,
    share: float = 0.5,
) -> Iterator[Act]:
    """Yield for a `share` of `acts` a random action by which users go on with it soon, if there is one in `ways`, and
    so on.

    What takes several actions, such as the cancellation of an Operation that is at work, would hardly ever happen among
    independent actions. Their numbers are greater than `after`.
    """
    numbers, left = _numbers(random, after), deque(acts)
    while left:
        act = left.popleft()
        following = ways.get(act.do)
        if following is None or random.random() < 1.0 - share:
            continue
        at = round(act.at + 1.0 + random.expovariate(1 / random.choice((_AT_ONCE, _SOON))), 3)
        if at < seconds:
            left.append(Act(at, random.choice(following), act.name, next(numbers)))
            yield left[-1]


def _life_of_namespace(random: Random, seconds: float) -> Iterator[Act]:
    """Yield actions on the namespace of guests, at random times.

    The namespace is created as managed. Later it loses the label that makes it managed, gets it again, is deleted, and
    is created again; or it loses the label once more, and is not managed at the end.
    """
    shares = (random.uniform(0.0, 0.1), *sorted(random.uniform(0.3, 0.9) for _ in range(4)))
    end = (Do.END, Do.OPEN) if int(shares[0] * 1e6) % 2 else (Do.CLOSE,)
    for step, (share, do) in enumerate(zip(shares, (Do.OPEN, Do.CLOSE, Do.OPEN, *end), strict=False)):
        yield Act(round(share * seconds, 3), do, "guest-0", step)


def acts_in(recording: Recording) -> Iterator[Act]:
    """Yield the actions of users that a recording of a cluster shows: changes of instances, and new Operations."""
    before: dict[ObjectRef, Manifest] = {}
    names: dict[tuple[str | None, str], str] = {}
    for number, change in enumerate(recording.changes):
        old = before.get(change.ref)
        if change.ref.kind == APPLICATION_INSTANCE:
            key = (change.ref.namespace, change.ref.name)
            by_job = bool(get_path(change.last, "metadata", "annotations", IDEMPOTENCY_KEY))
            name = names.setdefault(key, f"{'job' if by_job else 'app'}-{len(names)}")
            for do in _acts(old, change.manifest, by_job=by_job):
                yield Act(change.at, do, name, number)
        elif change.ref.kind == OPERATION and old is None and change.manifest is not None:
            target = (change.ref.namespace, str(get_path(change.last, "spec", "targetRef", "name")))
            if target in names:
                yield Act(change.at, Do.BACKUP, names[target], number)
        if change.manifest is None:
            before.pop(change.ref, None)
        else:
            before[change.ref] = change.manifest


def _acts(old: Manifest | None, new: Manifest | None, *, by_job: bool) -> Iterator[Do]:
    """Yield the kinds of actions that turn an instance's version `old` into the version `new`.

    `old` is None if the instance did not exist before, `new` if it no longer exists. `by_job` is True if a job of the
    control plane made the change.
    """
    if new is None or get_path(new, "metadata", "deletionTimestamp"):
        if old is not None and not get_path(old, "metadata", "deletionTimestamp"):
            yield Do.DELETE_JOB if by_job else Do.DELETE
        return
    if old is None or get_path(old, "metadata", "uid") != get_path(new, "metadata", "uid"):
        yield Do.JOB if by_job else Do.CREATE
        return
    if by_job:
        if _spec(old) != _spec(new):
            yield Do.JOB
        return
    if _spec(old, "chart") != _spec(new, "chart"):
        yield Do.UPGRADE
    if _spec(old, "values") != _spec(new, "values"):
        yield Do.VALUES
    if bool(_spec(old, "suspend")) != bool(_spec(new, "suspend")):
        yield Do.SUSPEND if _spec(new, "suspend") else Do.RESUME


def _spec(manifest: Manifest, *path: str) -> Any:
    return get_path(manifest, "spec", *path)
