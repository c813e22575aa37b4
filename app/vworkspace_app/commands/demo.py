"""`demo`: tells a story of `vworkspace_app.demo` and answers whether everything was as it should be."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import attrs

from vworkspace_app import VERSION
from vworkspace_app.demo import playground
from vworkspace_app.demo.board import board, box_board, operations_board
from vworkspace_app.demo.box_story import furnish, lines, tell_box
from vworkspace_app.demo.box_world import open_box_scene
from vworkspace_app.demo.narrator import Narrator
from vworkspace_app.demo.operations_scene import ENGINES, FLUX
from vworkspace_app.demo.operations_story import tell_operations
from vworkspace_app.demo.scene import QUICK
from vworkspace_app.demo.spectator import TooSlow
from vworkspace_app.demo.stage import Stage
from vworkspace_app.demo.story import tell
from vworkspace_app.demo.world import World, open_world
from vworkspace_app.process import logs
from vworkspace_app.process.errors import FAILURE, INTERRUPTED, USAGE, CommandError
from vworkspace_app.process.signals import run_until_signal


def run_demo(*, keep: bool, plain: bool, payloads: bool, operations: bool = False, box: bool = False) -> int:
    """Run the demo of the main job, of operations or of a box.

    The exit status is 0 when all that was shown is as it should be. Raises CommandError when a signal ends it before
    everything was shown.
    """
    if box and operations:
        raise CommandError("--box and --operations tell different stories: give one of them", status=USAGE)
    logs.configure(level="error", operator_version=VERSION)
    stage = Stage(plain=plain, payloads=payloads)
    play = _Play(stage, keep, operations, box)
    run_until_signal(play.run)
    if not play.is_told:
        raise CommandError("interrupted", status=INTERRUPTED)
    return FAILURE if stage.verdicts.failures else 0


@attrs.define
class _Play:
    """One performance; `is_told` once the story has come to its end, a good one or not."""

    stage: Stage
    keep: bool
    operations: bool
    box: bool
    is_told: bool = False

    async def run(self) -> None:
        await (self._box() if self.box else self._operator())

    async def _operator(self) -> None:
        flux = FLUX if self.operations else QUICK
        engines = ENGINES if self.operations or self.keep else None
        draw, story = (operations_board, tell_operations) if self.operations else (board, tell)
        async with open_world(flux, engines) as world:
            self.stage.say(f"API server     {world.cluster_url}")
            self.stage.say(f"control plane  {world.control_url}")
            with self.stage.live(lambda waiting_for: draw(world.spectator, world.control, waiting_for)):
                await self._tell(lambda: story(world, self.stage))
            self._end()
            if self.keep:
                await self._linger(world)

    async def _box(self) -> None:
        async with open_box_scene() as scene:
            self.stage.say(f"API server  {scene.cluster_url}")
            self.stage.say(f"box         {scene.box.name}: {scene.box.kind.crd_name}")
            with self.stage.live(lambda waiting_for: box_board(scene.spectator, scene.kinds, waiting_for)):
                await self._tell(lambda: tell_box(scene, self.stage))
            self._end()
            if self.keep:
                self.stage.act("A playground")
                await furnish(scene)
                for line in lines(scene):
                    self.stage.say(line)
                await anyio.sleep_forever()

    async def _tell(self, story: Callable[[], Awaitable[None]]) -> None:
        try:
            await story()
        except TooSlow as error:
            self.stage.verdicts.failures.append(str(error))

    def _end(self) -> None:
        self.is_told = True
        self.stage.verdict()

    async def _linger(self, world: World) -> None:
        """Leave a playground until a signal; a story that went wrong leaves what there is."""
        self.stage.act("A playground")
        with suppress(TooSlow):
            await playground.furnish(Narrator(world, self.stage))
        for line in playground.lines(world):
            self.stage.say(line)
        await anyio.sleep_forever()
