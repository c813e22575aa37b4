"""The common parts of the demo's stories: waits for job results and changes of objects, and predicates for changes."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import anyio
import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import EVENT
from purekube.ports import KubeApi, WatchEventType
from vworkspace_app.demo.spectator import Sighting, Spectator, TooSlow
from vworkspace_app.demo.stage import Stage
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_fake.controlplane.jobs import JobEntry

Wanted = Callable[[Sighting], bool]


def condition(manifest: Manifest, kind: str) -> dict[str, Any]:
    """Return the status condition of type `kind` of an object, or {} if there is none."""
    entries = get_path(manifest, "status", "conditions") or ()
    return next((dict(entry) for entry in entries if entry.get("type") == kind), {})


def conditions(manifest: Manifest) -> dict[str, str]:
    """Return the conditions of an object by type, each as `status/reason`, such as `True/Succeeded`."""
    return {
        entry["type"]: f"{entry['status']}/{entry['reason']}"
        for entry in get_path(manifest, "status", "conditions") or ()
    }


def condition_summary(manifest: Manifest) -> str:
    """Return the object's conditions as one line of text: Ready, and all others that are True."""
    by_type = {entry["type"]: entry for entry in get_path(manifest, "status", "conditions") or ()}
    entries = [entry for name, entry in by_type.items() if entry["status"] == "True" or name == "Ready"]
    return ", ".join(f"{entry['type']} {entry['status']} ({entry['reason']})" for entry in entries)


def appeared(kind: Kind, name: str = "") -> Wanted:
    """Return a predicate that is true for a change by which the operator created an object of this kind and name.

    An empty `name` matches any name.
    """

    def wanted(sighting: Sighting) -> bool:
        managers = {entry.get("manager") for entry in get_path(sighting.object, "metadata", "managedFields") or ()}
        is_ours = sighting.kind == kind and sighting.type is WatchEventType.ADDED and FIELD_MANAGER in managers
        return is_ours and name in ("", get_path(sighting.object, "metadata", "name"))

    return wanted


def gone(kind: Kind, name: str) -> Wanted:
    """Return a predicate that is true for the deletion of the object with this kind and name."""
    return lambda sighting: (
        sighting.kind == kind
        and sighting.type is WatchEventType.DELETED
        and get_path(sighting.object, "metadata", "name") == name
    )


def has_condition(kind: str, status: str, reason: str = "") -> Wanted:
    """Return a predicate that is true for a change after which an instance has a condition for its present generation.

    The condition has the type `kind`, this status and this reason; an empty `reason` matches any reason.
    """

    def wanted(sighting: Sighting) -> bool:
        if sighting.kind != APPLICATION_INSTANCE:
            return False
        entry = condition(sighting.object, kind)
        if get_path(sighting.object, "status", "observedGeneration") != get_path(
            sighting.object, "metadata", "generation"
        ):
            return False
        return entry.get("status") == status and reason in ("", entry.get("reason"))

    return wanted


def phase_is(name: str, phase: str) -> Wanted:
    """Return a predicate that is true for a change after which the Operation with this name is in `phase`."""

    def wanted(sighting: Sighting) -> bool:
        named = sighting.kind == OPERATION and get_path(sighting.object, "metadata", "name") == name
        return named and get_path(sighting.object, "status", "phase") == phase

    return wanted


def operation_says(name: str, kind: str, state: str) -> Wanted:
    """Return a predicate that is true for a change after which the Operation's condition `kind` has the state `state`.

    A state is status and reason, such as `True/Running`.
    """

    def wanted(sighting: Sighting) -> bool:
        named = sighting.kind == OPERATION and get_path(sighting.object, "metadata", "name") == name
        return named and conditions(sighting.object).get(kind) == state

    return wanted


def created_for(name: str) -> Wanted:
    """Return a predicate that is true for the creation of an engine object, such as a Job, for this Operation."""
    return lambda sighting: (
        sighting.type is WatchEventType.ADDED
        and get_path(sighting.object, "metadata", "labels", labels.OPERATION) == name
        and sighting.kind not in (OPERATION, EVENT)
    )


def event(reason: str) -> Wanted:
    """Return a predicate that is true for a change of a Kubernetes Event with this reason."""
    return lambda sighting: sighting.kind == EVENT and sighting.object.get("reason") == reason


def spec_of(manifest: Manifest) -> dict[str, Any]:
    """Return the parts of a downstream object that the demo shows: kind, name and spec."""
    return {"kind": manifest["kind"], "name": get_path(manifest, "metadata", "name"), "spec": manifest.get("spec")}


class StoryWorld(Protocol):
    """The interface to the parts of the demo that every story uses: an API connection, and the recorder of changes."""

    @property
    def spectator(self) -> Spectator:
        """The recorder of changes to objects. A story waits for changes that it records."""
        ...

    @property
    def admin(self) -> KubeApi:
        """The API connection of an administrator."""
        ...


SeenT = TypeVar("SeenT", bound=StoryWorld)


@attrs.define
class Narrator(Generic[SeenT]):
    """The narrator of a story: it prints the steps on a stage, and waits for changes of objects."""

    world: SeenT
    stage: Stage

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
