"""The embedded API server, with simulated downstream controllers if requested.

Without them they are not imported: so it starts faster, and people start it often.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import anyio
import attrs

from kubelab.http.serving import serve
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube_run.process.errors import CommandError
from vworkspace_app.embedded.access import OPEN, ClusterAccess

if TYPE_CHECKING:
    from kubelab.downstream import DownstreamSimulator
    from kubelab.flux import FluxSimulator
    from kubelab.simulation.simulator import Simulator


@attrs.define
class EmbeddedCluster:
    """An API server in memory and the simulators in it."""

    server: ApiServer
    flux: "FluxSimulator | None" = None
    downstream: "DownstreamSimulator | None" = None

    @classmethod
    def start(cls, crds: Sequence[Manifest], simulate: Sequence[str] = (), *, rbac: bool = False) -> "EmbeddedCluster":
        """Return a cluster with these CRDs installed, and those of the simulated controllers that `crds` lacks.

        With `rbac`, its roles and bindings are enforced.
        """
        server = ApiServer(now=lambda: datetime.now(UTC), rbac=rbac)
        if not simulate:
            install(server, crds)
            return cls(server)
        from vworkspace_app.embedded.simulators import missing_crds, simulators

        install(server, [*crds, *missing_crds(crds, simulate)])
        return cls(server, *simulators(server, simulate))

    async def run(
        self, host: str, port: int, ready: anyio.Event, urls: list[str], access: ClusterAccess = OPEN
    ) -> None:
        """Serve and simulate until cancelled; set `ready` and append the URL to `urls`."""

        def announce(url: str) -> None:
            urls.append(url)
            ready.set()

        async with anyio.create_task_group() as group:
            for simulator in (self.flux, self.downstream):
                if simulator is not None:
                    group.start_soon(self._simulate, simulator)
            await serve(self.server, host, port, ready=announce, tokens=access.tokens, tls=access.tls)

    async def _simulate(self, simulator: "Simulator") -> None:
        from vworkspace_app.embedded.simulators import simulate

        await simulate(self.server, simulator)


def install(server: ApiServer, crds: Sequence[Manifest]) -> None:
    """Create CRDs. Raises CommandError naming the one that is refused, and why."""
    api = InProcessKube(server)
    for crd in crds:
        try:
            run_sync(api.create(crd, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="vworkspace-cluster"))
        except OperatorError as error:
            raise CommandError(f"CRD {crd['metadata']['name']} is refused: {error.message}") from error
