"""The simulated Flux against any API server."""

from kubelab.flux.simulator import FluxSimulator
from kubelab.simulation.running import run_simulator
from purekube.ports import Clock, KubeApi


async def run(api: KubeApi, clock: Clock, simulator: FluxSimulator | None = None) -> None:
    """Simulate Flux until cancelled. Keep `simulator` (made with the same `api`) to change its behaviour meanwhile.

    Needs asyncio's event loop. An unreachable API server is retried every second; kinds that are not served yet are
    waited for.
    """
    await run_simulator(api, clock, simulator or FluxSimulator(api))
