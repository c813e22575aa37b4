"""`demo`: tells the story of `vworkspace_app.demo` and answers whether everything was as it should be."""

import signal

import anyio

from vworkspace_app import VERSION, logs
from vworkspace_app.demo.board import board
from vworkspace_app.demo.spectator import TooSlow
from vworkspace_app.demo.stage import Stage
from vworkspace_app.demo.story import QUICK, tell
from vworkspace_app.demo.world import World, open_world
from vworkspace_app.problems import FAILURE

__all__ = ["run_demo"]


def run_demo(*, keep: bool, plain: bool, payloads: bool) -> int:
    """Run the demo; the exit status: 0 when all that was shown is as it should be."""
    logs.configure(level="error", operator_version=VERSION)
    stage = Stage(plain=plain, payloads=payloads)
    anyio.run(_play, stage, keep)
    failures = stage.verdicts.failures
    stage.say("")
    if not failures:
        stage.say(f"all {stage.verdicts.passed} checks hold")
        return 0
    stage.say(f"{len(failures)} of {stage.verdicts.passed + len(failures)} checks do not hold:")
    for failure in failures:
        stage.say(f"  {failure}")
    return FAILURE


async def _play(stage: Stage, keep: bool) -> None:
    async with open_world(QUICK) as world:
        stage.say(f"API server     {world.cluster_url}")
        stage.say(f"control plane  {world.control_url}")
        try:
            with stage.live(lambda waiting_for: board(world.spectator, world.control, waiting_for)):
                await tell(world, stage)
        except TooSlow as error:
            stage.verdicts.failures.append(str(error))
        if keep:
            await _linger(stage, world)


async def _linger(stage: Stage, world: World) -> None:
    """Leave everything up until a signal."""
    stage.act("Both servers stay up", "Ctrl-C ends them")
    stage.say(f"  export KUBECONFIG={world.kubeconfig}")
    stage.say("  kubectl get applicationinstances,helmreleases,ocirepositories,events -A")
    stage.say(f"  curl -H 'Authorization: Bearer demo-admin-token' {world.control_url}/api/admin/jobs")
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            return
