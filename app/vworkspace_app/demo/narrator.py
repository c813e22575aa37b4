"""The common parts of every story: waiting for results and sightings, and the time on the demo's clock."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import anyio
import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.ports import KubeApi
from vworkspace_app.demo.sightings import Wanted
from vworkspace_app.demo.spectator import Sighting, Spectator, TooSlow
from vworkspace_app.demo.stage import Stage
from vworkspace_fake.controlplane.jobs import JobEntry


class StoryWorld(Protocol):
    """The parts of a world that every story needs."""

    @property
    def spectator(self) -> Spectator:
        """The spectator that watches it."""
        ...

    @property
    def admin(self) -> KubeApi:
        """The connection of an administrator."""
        ...


SeenT = TypeVar("SeenT", bound=StoryWorld)


@attrs.define
class Narrator(Generic[SeenT]):
    """The narrator of one story: prints to a stage, and waits for events in a world."""

    world: SeenT
    stage: Stage

    def posted(self, number: int | str, result: Mapping[str, Any]) -> None:
        """Print a result: its outcome and reason, and all of it if payloads are shown."""
        why = f", {result['error']}" if result.get("error") else ""
        self.stage.step(number, self.now, f"result posted: {result.get('outcome')}{why}", {"result": dict(result)})

    async def result(self, job: JobEntry) -> Mapping[str, Any]:
        """Wait for the job's result and return it."""
        with self.stage.waiting(f"waiting for the result of {job.id}"):
            await self.until(lambda: job.result is not None, f"a result of {job.id}")
        result: Mapping[str, Any] = job.result
        return result

    async def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until something holds. Raises TooSlow naming `what`."""
        seconds = self.world.spectator.patience
        with anyio.move_on_after(seconds):
            while not holds():
                await anyio.sleep(0.002)
            return
        raise TooSlow(f"{what}: not within {seconds:g} seconds")

    async def see(self, desired: Wanted, what: str, since: int = 0) -> Sighting:
        """Wait for a sighting, with a spinner meanwhile."""
        with self.stage.waiting(what):
            return await self.world.spectator.until(desired, what, since=since)

    @property
    def now(self) -> float:
        """Seconds since the demo started."""
        return self.world.spectator.elapsed()

    @property
    def mark(self) -> int:
        """The index of the next sighting."""
        return len(self.world.spectator.sightings)

    async def live(self, ref: ObjectRef) -> Manifest:
        """Return an object as it is now."""
        return await self.world.admin.get(ref)
