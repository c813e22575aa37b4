"""The simulated controllers (of Flux, Velero, Jobs and others): names, CRDs, behaviour, functions that run them."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import attrs

from kubelab.cluster.definitions import KubelabError, read_documents
from kubelab.downstream import CONTROLLERS, DownstreamSimulator
from kubelab.downstream.behaviour import DownstreamBehaviour, DownstreamRule
from kubelab.downstream.crds import downstream_crds
from kubelab.flux import FluxSimulator
from kubelab.flux.behaviour import FluxBehaviour
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from kubelab.simulation.running import run_simulator
from kubelab.simulation.simulator import Simulator
from purekube.apimachinery.converters import STRICT
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.structuring import structure_patiently
from purekube.ports import KubeRequest, KubeVerb, Send

Behaviour: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
"""The content of a behaviour file, or the path of one."""
_OPTION = "behaviour"


@attrs.frozen
class ClusterBehaviour:
    """The behaviour of all simulated controllers of a cluster: which actions fail, and how long they take.

    `flux` is the behaviour of Flux's controllers, `downstream` that of all others. If one of the two is None, all
    actions of these controllers succeed.
    """

    flux: FluxBehaviour | None = None
    downstream: DownstreamBehaviour | None = None


def read_behaviour(behaviour: Behaviour) -> ClusterBehaviour:
    """Return the behaviour of the simulated controllers that a YAML file or a mapping describes.

    `behaviour` is the path of the file, or the mapping. The keys are the names of the fields of ClusterBehaviour and
    its parts, in camelCase. Raises KubelabError that names the file, and each wrong field with its path.
    """
    if isinstance(behaviour, Mapping):
        return _structured(behaviour, "")
    documents = read_documents(Path(behaviour), _OPTION)
    if len(documents) != 1:
        raise KubelabError(f"{behaviour}: must hold one document, not {len(documents)}", option=_OPTION)
    return _structured(documents[0], f"{behaviour}: ")


def _structured(value: Any, source: str) -> ClusterBehaviour:
    try:
        return structure_patiently(STRICT, ClusterBehaviour, value)
    except ValidationProblems as error:
        raise KubelabError(f"{source}{error}", option=_OPTION) from error


_FLUX = "flux"
SIMULATORS = (_FLUX, *CONTROLLERS)
"""The names of all simulated controllers."""
_CALLERS: dict[type, Caller] = {
    FluxSimulator: Caller("system:serviceaccount:flux-system:flux", agent="flux/v2"),
    DownstreamSimulator: Caller("system:serviceaccount:kube-system:downstream", agent="downstream-controllers/v1"),
}
"""The callers as which simulated controllers write: administrators, so that no roles need to be installed for them."""


def chosen_simulators(names: Sequence[str]) -> Sequence[str]:
    """Return the names of the simulators to run. The name `all` selects every simulator.

    Raises KubelabError for an unknown name.
    """
    if "all" in names:
        return SIMULATORS
    for name in names:
        if name not in SIMULATORS:
            known = ", ".join(SIMULATORS)
            text = f"{name}: there is no such simulator; there is: {known}, all"
            raise KubelabError(text, option="simulate", is_misuse=True)
    return names


def missing_crds(crds: Sequence[Manifest], names: Sequence[str]) -> Iterator[Manifest]:
    """Yield the CRDs of the simulators `names`, except those that `crds` already defines."""
    present = {crd["metadata"]["name"] for crd in crds}
    ours = (*(flux_crds() if _FLUX in names else ()), *downstream_crds(name for name in names if name != _FLUX))
    yield from (crd for crd in ours if crd["metadata"]["name"] not in present)


def simulators(
    server: ApiServer, names: Sequence[str], behaviour: ClusterBehaviour
) -> tuple[FluxSimulator | None, DownstreamSimulator | None]:
    """Return the Flux simulator and the simulator of all other controllers. Each is None if `names` does not select it.

    They act on the API server `server`, but do not run yet (see `simulate`). Raises KubelabError if `behaviour` has
    settings for a simulator that is not selected.
    """
    others = [name for name in names if name != _FLUX]
    for part, value, is_simulated in (
        (_FLUX, behaviour.flux, _FLUX in names),
        ("downstream", behaviour.downstream, bool(others)),
    ):
        if value is not None and not is_simulated:
            text = f"sets {part}, which is not simulated; add it with --simulate"
            raise KubelabError(text, option="behaviour", is_misuse=True)
    flux = FluxSimulator(_api_for(server, FluxSimulator), behaviour.flux) if _FLUX in names else None
    if not others:
        return flux, None
    downstream = DownstreamSimulator(_api_for(server, DownstreamSimulator), behaviour.downstream, names=others)
    if behaviour.downstream is not None:
        _check_kinds(behaviour.downstream.rules, {kind.kind for kind, _ in downstream.watched})
    return flux, downstream


def _check_kinds(rules: Sequence[DownstreamRule], known: set[str]) -> None:
    """Raise KubelabError for a rule that can never apply, since its kind is not one of `known`."""
    for index, rule in enumerate(rules):
        if rule.kind is not None and rule.kind not in known:
            text = f"no simulated controller has the kind {rule.kind}; there are: {', '.join(sorted(known))}"
            raise KubelabError(f"downstream.rules[{index}].kind: {text}", option=_OPTION, is_misuse=True)


async def simulate(server: ApiServer, simulator: Simulator) -> None:
    """Run `simulator` on the API server `server` until cancelled.

    An error in the pass over one object does not end the simulator, just as a panic in a reconcile function does not
    end a controller of controller-runtime.
    """
    simulator.recovers = True
    await run_simulator(_api_for(server, type(simulator)), _WallClock(), simulator)


class _WallClock:
    """A clock that shows the machine's time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


async def _yield_first(request: KubeRequest, proceed: Send) -> Manifest:
    """Let other tasks run, and then return the answer of `proceed` to the request.

    Only a GET or PATCH lets them run. A request inside the process never waits for a network, so without these pauses
    a simulator would keep other clients from running.
    """
    if request.verb in (KubeVerb.GET, KubeVerb.PATCH):
        await anyio.lowlevel.checkpoint()
    return await proceed(request)


def _api_for(server: ApiServer, simulator: type) -> InProcessKube:
    """Return the client by which a set of simulated controllers calls `server` in this process.

    Its requests have a user of their own, so that the audit log shows them.
    """
    return InProcessKube(server, caller=_CALLERS[simulator]).through(_yield_first)
