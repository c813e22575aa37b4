"""The simulated downstream controllers of an embedded API server: their names, their CRDs, running them."""

from collections.abc import Iterator, Sequence

import anyio.lowlevel

from kubelab.downstream import CONTROLLERS, DownstreamSimulator
from kubelab.downstream.crds import downstream_crds
from kubelab.flux import FluxSimulator
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from kubelab.simulation.running import run_simulator
from kubelab.simulation.simulator import Simulator
from purekube.apimachinery.manifest import Manifest
from purekube.ports import KubeRequest, KubeVerb, Send
from purekube_run.process.clock import SystemClock
from purekube_run.process.errors import USAGE, CommandError

_FLUX = "flux"
SIMULATORS = (_FLUX, *CONTROLLERS)
_CALLERS: dict[type, Caller] = {
    FluxSimulator: Caller("system:serviceaccount:flux-system:flux", agent="flux/v2"),
    DownstreamSimulator: Caller("system:serviceaccount:kube-system:downstream", agent="downstream-controllers/v1"),
}
"""The callers as which simulated controllers write: administrators, so that no roles need to be installed for them."""


def chosen_simulators(names: str) -> tuple[str, ...]:
    """Return the simulators of a comma-separated list. Raises CommandError for one that does not exist."""
    wanted = tuple(name.strip() for name in names.split(",") if name.strip())
    if "all" in wanted:
        return SIMULATORS
    for name in wanted:
        if name not in SIMULATORS:
            known = ", ".join(SIMULATORS)
            raise CommandError(f"--simulate {name}: there is no such simulator; there is: {known}, all", status=USAGE)
    return wanted


def missing_crds(crds: Sequence[Manifest], names: Sequence[str]) -> Iterator[Manifest]:
    """Yield the simulators' CRDs that are not among the real ones given."""
    present = {crd["metadata"]["name"] for crd in crds}
    ours = (*(flux_crds() if _FLUX in names else ()), *downstream_crds(name for name in names if name != _FLUX))
    yield from (crd for crd in ours if crd["metadata"]["name"] not in present)


def simulators(server: ApiServer, names: Sequence[str]) -> tuple[FluxSimulator | None, DownstreamSimulator | None]:
    """Return the simulators of these names, not running yet."""
    others = [name for name in names if name != _FLUX]
    return (
        FluxSimulator(_api_for(server, FluxSimulator)) if _FLUX in names else None,
        DownstreamSimulator(_api_for(server, DownstreamSimulator), names=others) if others else None,
    )


async def simulate(server: ApiServer, simulator: Simulator) -> None:
    """Run until cancelled: no object ends the process, as controller-runtime recovers from panics."""
    simulator.recovers = True
    await run_simulator(_api_for(server, type(simulator)), SystemClock(), simulator)


async def _yield_first(request: KubeRequest, proceed: Send) -> Manifest:
    """Yield to the event loop first: in-process answers would otherwise starve all other clients."""
    if request.verb in (KubeVerb.GET, KubeVerb.PATCH):
        await anyio.lowlevel.checkpoint()
    return await proceed(request)


def _api_for(server: ApiServer, simulator: type) -> InProcessKube:
    """Return the client of one set of simulated controllers, with a name of its own in the audit log."""
    return InProcessKube(server, caller=_CALLERS[simulator]).through(_yield_first)
