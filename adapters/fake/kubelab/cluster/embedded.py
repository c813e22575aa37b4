"""The embedded API server, with simulated controllers (of Flux, Velero, Jobs and others) if requested.

The modules of the simulated controllers are imported only if requested, so that a server without them starts faster.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import attrs

from kubelab.cluster.access import OPEN, ClusterAccess
from kubelab.cluster.definitions import install
from kubelab.http.serving import serve_forever
from kubelab.http.webhook_calls import Services
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Manifest

if TYPE_CHECKING:
    from kubelab.cluster.simulators import Behaviour
    from kubelab.downstream import DownstreamSimulator
    from kubelab.flux import FluxSimulator
    from kubelab.simulation.simulator import Simulator


@attrs.define
class EmbeddedCluster:
    """An API server in memory, with the simulated controllers that run in it."""

    server: ApiServer
    flux: "FluxSimulator | None" = None
    downstream: "DownstreamSimulator | None" = None

    @classmethod
    def start(
        cls,
        crds: Sequence[Manifest],
        simulate: str | Iterable[str] = (),
        *,
        rbac: bool = False,
        service_accounts: bool = False,
        behaviour: "Behaviour | None" = None,
    ) -> "EmbeddedCluster":
        """Return a cluster with these CRDs installed. CRDs of the simulated controllers are added if `crds` lacks them.

        `simulate` names the simulated controllers, in a list or in a string with commas. With `rbac`, the cluster's
        roles and bindings are enforced. With `service_accounts`, each namespace has the account `default`, and pods
        need an account. `behaviour` says which actions of the simulated controllers fail: the path of a YAML file, or
        its content as a mapping. Raises KubelabError for a CRD that is refused, a simulator that does not exist, and a
        behaviour that is wrong.
        """
        server = ApiServer(now=lambda: datetime.now(UTC), rbac=rbac, service_accounts=service_accounts)
        parts = simulate.split(",") if isinstance(simulate, str) else simulate
        names = tuple(name.strip() for name in parts if name.strip())
        if not names and behaviour is None:
            install(server, crds)
            return cls(server)
        from kubelab.cluster.simulators import chosen_simulators, missing_crds, read_behaviour, simulators

        chosen = chosen_simulators(names)
        pair = simulators(server, chosen, read_behaviour(behaviour or {}))
        install(server, [*crds, *missing_crds(crds, chosen)])
        return cls(server, *pair)

    async def run(
        self,
        ready: Callable[[str], None],
        host: str = "127.0.0.1",
        port: int = 0,
        access: ClusterAccess = OPEN,
        services: Services | None = None,
    ) -> None:
        """Serve on `host` and `port`, and run the simulated controllers, until cancelled.

        `ready` is called with the URL once requests are accepted; port 0 takes a free port. `access` has the callers
        and the certificate. `services` maps (namespace, name) of services to base URLs, for webhooks.
        """
        async with anyio.create_task_group() as group:
            for simulator in (self.flux, self.downstream):
                if simulator is not None:
                    group.start_soon(self._simulate, simulator)
            await serve_forever(
                self.server, host, port, ready=ready, tokens=access.tokens, tls=access.tls, services=services
            )

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve on a free port and run the simulated controllers while the block runs; yield the server's URL."""
        async with anyio.create_task_group() as group:
            yield await group.start(self._run_as_task)
            group.cancel_scope.cancel()

    async def _run_as_task(self, *, task_status: anyio.abc.TaskStatus[str]) -> None:
        await self.run(task_status.started)

    async def _simulate(self, simulator: "Simulator") -> None:
        from kubelab.cluster.simulators import simulate

        await simulate(self.server, simulator)
