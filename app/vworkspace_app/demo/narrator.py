"""The common parts of the demo's stories: the recorder of changes, and waits for changes and for results of jobs.

The recorder watches the cluster's API server over HTTP like any other client.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

import anyio
import attrs

from kubelab.simulation.running import reflect
from purekube.apimachinery.conditions import condition_of, conditions_by_type, conditions_of
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import EVENT, HELM_RELEASE, OCI_REPOSITORY
from purekube.ports import KubeApi, PatchType, WatchEvent, WatchEventType
from vworkspace_app.demo.stage import Stage
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_fake.controlplane.jobs import JobEntry

PATIENCE: Final = 180.0
"""The time limit in seconds of a wait. It is generous, so that a busy machine does not exceed it."""
_RELIST_SECONDS: Final = 0.05
WATCHED = (APPLICATION_INSTANCE, OCI_REPOSITORY, HELM_RELEASE, EVENT)


class TooSlow(Exception):
    """The error raised when a change or a result did not occur within the time limit."""


@attrs.frozen
class Sighting:
    """A recorded change of an object: the type of the watch event, and the object after it.

    `at` is the time of the change in seconds since the demo started.
    """

    at: float
    kind: Kind
    type: WatchEventType
    object: Manifest

    @property
    def is_gone(self) -> bool:
        """True if the change is the deletion of the object."""
        return self.type is WatchEventType.DELETED

    def is_of(self, kind: Kind, name: str = "") -> bool:
        """Report whether the object has this kind and this name; an empty `name` matches any name."""
        return self.kind == kind and name in ("", get_path(self.object, "metadata", "name"))


class Spectator:
    """A recorder of every change of the watched kinds, in order of arrival, for which a story can wait."""

    def __init__(
        self,
        api: KubeApi,
        started: float,
        kinds: Iterable[Kind] = WATCHED,
        namespace: str | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """Prepare to watch `namespace`, or all namespaces if None.

        `started` is the monotonic time at which the demo started; `patience` is the time limit of waits in seconds.
        """
        self.patience = patience
        self._api = api
        self._kinds = tuple(kinds)
        self._started = started
        self._namespace = namespace
        self._changed = anyio.Event()
        self.sightings: list[Sighting] = []

    def elapsed(self) -> float:
        """Return the seconds since the demo started."""
        return time.monotonic() - self._started

    async def run(self) -> None:
        """Watch the cluster and record changes until cancelled."""
        pause = partial(anyio.sleep, _RELIST_SECONDS)
        follow = partial(reflect, namespace=self._namespace)
        async with anyio.create_task_group() as group:
            for kind in self._kinds:
                group.start_soon(follow, self._api, kind, _Notebook(self, kind), pause)

    def record(self, sighting: Sighting) -> None:
        """Record a change, and wake up all waits."""
        self.sightings.append(sighting)
        self._changed.set()

    async def until(self, desired: Callable[[Sighting], bool], what: str, *, since: int = 0) -> Sighting:
        """Return the first recorded change, from index `since` on, for which `desired` is true; wait for it if needed.

        Raises TooSlow after the time limit, with `what` in its message.
        """
        with anyio.move_on_after(self.patience):
            position = since
            while True:
                while position < len(self.sightings):
                    if desired(self.sightings[position]):
                        return self.sightings[position]
                    position += 1
                self._changed = anyio.Event()
                await self._changed.wait()
        raise TooSlow(f"{what}: not seen within {self.patience:g} seconds")


@attrs.frozen
class _Notebook:
    """The handler of the watch of one kind, which records each change.

    After a new list of the kind, all listed objects are recorded again.
    """

    spectator: Spectator
    kind: Kind

    def replace(self, items: Sequence[Manifest]) -> None:
        for manifest in items:
            self.handle(WatchEvent(WatchEventType.ADDED, manifest))

    def handle(self, event: WatchEvent) -> None:
        self.spectator.record(Sighting(self.spectator.elapsed(), self.kind, event.type, event.object))


Wanted = Callable[[Sighting], bool]


def conditions(manifest: Manifest) -> dict[str, str]:
    """Return the conditions of an object by type, each as `status/reason`, such as `True/Succeeded`."""
    return {entry["type"]: f"{entry['status']}/{entry['reason']}" for entry in conditions_of(manifest)}


def condition_summary(manifest: Manifest) -> str:
    """Return the object's conditions as one line of text: Ready, and all others that are True."""
    by_type = conditions_by_type(manifest)
    entries = [entry for name, entry in by_type.items() if entry["status"] == "True" or name == "Ready"]
    return ", ".join(f"{entry['type']} {entry['status']} ({entry['reason']})" for entry in entries)


def appeared(kind: Kind, name: str = "") -> Wanted:
    """Return a predicate that is true for a change by which the operator created an object of this kind and name.

    An empty `name` matches any name.
    """

    def wanted(seen: Sighting) -> bool:
        managers = {entry.get("manager") for entry in get_path(seen.object, "metadata", "managedFields") or ()}
        return seen.is_of(kind, name) and seen.type is WatchEventType.ADDED and FIELD_MANAGER in managers

    return wanted


def gone(kind: Kind, name: str) -> Wanted:
    """Return a predicate that is true for the deletion of the object with this kind and name."""
    return lambda seen: seen.is_of(kind, name) and seen.is_gone


def has_condition(kind: str, status: str, reason: str = "") -> Wanted:
    """Return a predicate that is true for a change after which an instance has a condition for its present generation.

    The condition has the type `kind`, this status and this reason; an empty `reason` matches any reason.
    """

    def wanted(seen: Sighting) -> bool:
        entry, observed = condition_of(seen.object, kind), get_path(seen.object, "status", "observedGeneration")
        is_current = observed == get_path(seen.object, "metadata", "generation")
        says = entry.get("status") == status and reason in ("", entry.get("reason"))
        return seen.is_of(APPLICATION_INSTANCE) and is_current and says

    return wanted


def phase_is(name: str, phase: str) -> Wanted:
    """Return a predicate that is true for a change after which the Operation with this name is in `phase`."""
    return lambda seen: seen.is_of(OPERATION, name) and get_path(seen.object, "status", "phase") == phase


def operation_says(name: str, kind: str, state: str) -> Wanted:
    """Return a predicate that is true for a change after which the Operation's condition `kind` has the state `state`.

    A state is status and reason, such as `True/Running`.
    """
    return lambda seen: seen.is_of(OPERATION, name) and conditions(seen.object).get(kind) == state


def created_for(name: str) -> Wanted:
    """Return a predicate that is true for the creation of an engine object, such as a Job, for this Operation."""
    return lambda seen: (
        seen.type is WatchEventType.ADDED
        and get_path(seen.object, "metadata", "labels", labels.OPERATION) == name
        and seen.kind not in (OPERATION, EVENT)
    )


def event(reason: str) -> Wanted:
    """Return a predicate that is true for a change of a Kubernetes Event with this reason."""
    return lambda seen: seen.is_of(EVENT) and seen.object.get("reason") == reason


def spec_of(manifest: Manifest) -> dict[str, Any]:
    """Return the parts of a downstream object that the demo shows: kind, name and spec."""
    return {"kind": manifest["kind"], "name": get_path(manifest, "metadata", "name"), "spec": manifest.get("spec")}


@attrs.frozen
class StoryWorld:
    """The parts of the demo that every story uses: an administrator's API connection, and the recorder of changes."""

    admin: KubeApi
    spectator: Spectator


SeenT = TypeVar("SeenT", bound=StoryWorld)


@attrs.define
class Narrator(Generic[SeenT]):
    """The narrator of a story: it prints the steps on a stage, and waits for changes of objects."""

    world: SeenT
    stage: Stage

    def show(self, number: int | str, seen: Sighting, title: str, **payload: Any) -> None:
        """Print a recorded change as step `number`, with the object's conditions and further payload if the stage shows
        payloads.
        """
        self.stage.step(number, seen.at, title, {"conditions": conditions(seen.object), **payload})

    def posted(self, number: int | str, result: Mapping[str, Any]) -> None:
        """Print as step `number` that the result of a job was posted: outcome and error, and the whole result if the
        stage shows payloads.
        """
        why = f", {result['error']}" if result.get("error") else ""
        self.stage.step(number, self.now, f"result posted: {result.get('outcome')}{why}", {"result": dict(result)})

    async def result(self, job: JobEntry) -> Mapping[str, Any]:
        """Wait until the operator has posted the result of a job, and return the result."""
        with self.stage.waiting(f"waiting for the result of {job.id}"):
            await self.until(lambda: job.result is not None, f"a result of {job.id}")
        result: Mapping[str, Any] = job.result
        return result

    async def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until `holds` returns a true value. Raises TooSlow with the text `what` if that takes too long."""
        seconds = self.world.spectator.patience
        with anyio.move_on_after(seconds):
            while not holds():
                await anyio.sleep(0.002)
            return
        raise TooSlow(f"{what}: not within {seconds:g} seconds")

    async def see(self, desired: Wanted, what: str, since: int = 0) -> Sighting:
        """Wait for a change for which `desired` is true, and return it. The display shows `what` meanwhile.

        Changes before the index `since` are ignored. Raises TooSlow after the time limit.
        """
        with self.stage.waiting(what):
            return await self.world.spectator.until(desired, what, since=since)

    @property
    def now(self) -> float:
        """The seconds since the demo started."""
        return self.world.spectator.elapsed()

    @property
    def mark(self) -> int:
        """The number of changes recorded so far, for the argument `since` of a later wait."""
        return len(self.world.spectator.sightings)

    async def live(self, ref: ObjectRef) -> Manifest:
        """Return the present state of an object from the API server."""
        return await self.world.admin.get(ref)

    async def edit(self, ref: ObjectRef, patch: Mapping[str, Any], manager: str = "kubectl-edit") -> Manifest:
        """Change an object by a merge patch, as a user does, and return the changed object.

        `manager` is the field manager of the change.
        """
        return await self.world.admin.patch(ref, patch, patch_type=PatchType.MERGE, field_manager=manager)

    async def play(self, *acts: Callable[[], Awaitable[None]]) -> None:
        """Play acts of the story, one after the other. Raises TooSlow if a step takes too long."""
        for act in acts:
            await act()
