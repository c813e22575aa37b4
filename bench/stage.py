"""The cluster that operators are measured on, as a process: an API server with a quick simulated Flux.

    python -m bench.stage AUDIT_FILE [--without-flux]

prints its address and tokens as a line of JSON when it serves, and writes the audit log to AUDIT_FILE. The API server
is the embedded one; if KUBEBUILDER_ASSETS names a folder with etcd and kube-apiserver, it is these, with Flux as one of
their clients. Without Flux another process plays it (`bench.burst`).
"""

import os
import signal
import sys
from pathlib import Path

import anyio
import attrs
import msgspec
from lightkube.config.kubeconfig import KubeConfig

from bench.reaching import Access
from bench.writes import POLICY
from kubelab.cluster.access import audited
from kubelab.cluster.embedded import EmbeddedCluster
from kubelab.flux import FluxBehaviour, FluxSimulator
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube
from kubelab.simulation.queue import workers
from kubelab.simulation.running import run_simulator
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import CLUSTER_ROLE_BINDING, NAMESPACE
from purekube.ports import KubeApi
from purekube_http import KubeApiClient
from purekube_kit.kube_apiserver import OPERATOR_USER, Assets, RealServer, assets_of, audit_flags, started
from purekube_run.process.machine import SystemClock
from tests.support.definitions import have_defined
from vworkspace_core.api.crd import crd_manifests

SPACES = tuple(f"bench-{at}" for at in range(20))
"""The managed namespaces: a cluster has many, and Helm's storage is searched namespace by namespace."""
OWN = "vworkspace-system"
QUICK = FluxBehaviour(source_fetch_seconds=0.02, install_seconds=0.05, upgrade_seconds=0.05, uninstall_seconds=0.05)
"""A Flux with short delays, so that mostly the operator is measured."""
WORKERS = 16
"""The number of objects on which Flux works at once, if it is a client of the API server."""


def gated(name: str) -> Manifest:
    return {**NAMESPACE.manifest(name), "metadata": {"name": name, "labels": {"managed-by": "vworkspace"}}}


async def prepare(api: KubeApi) -> None:
    """Create the namespaces."""
    for namespace in (*map(gated, SPACES), NAMESPACE.manifest(OWN)):
        await api.create(namespace, kind=NAMESPACE, field_manager="bench")


def announce(access: Access) -> None:
    print(msgspec.json.encode(attrs.asdict(access)).decode(), flush=True)


async def embedded(audit: Path, with_flux: bool) -> None:
    crds = crd_manifests() if with_flux else (*crd_manifests(), *flux_crds())
    cluster = EmbeddedCluster.start(crds, ("flux",) if with_flux else ())
    if cluster.flux is not None:
        cluster.flux.behaviour = QUICK
    await prepare(InProcessKube(cluster.server))
    with audited(cluster.server.audit, audit):
        async with cluster.serving() as url:
            announce(Access(url))
            await anyio.sleep_forever()


async def real(server: RealServer, with_flux: bool) -> None:
    """Create CRDs, namespaces, every right for the operator (roles are not measured), and run Flux."""
    access = Access(server.url, server.token, server.operator_token, server.authority.decode())
    config = KubeConfig.from_dict(access.kubeconfig(access.admin)).get()
    assert config is not None
    async with KubeApiClient(config) as api:
        await have_defined((*crd_manifests(), *flux_crds()), api)
        await prepare(api)
        await api.create(everything_for(OPERATOR_USER), kind=CLUSTER_ROLE_BINDING, field_manager="bench")
        announce(access)
        if with_flux:
            await run_simulator(api, SystemClock(), FluxSimulator(api, QUICK, together=workers(WORKERS)))
        await anyio.sleep_forever()


def everything_for(user: str) -> Manifest:
    role = {"apiGroup": CLUSTER_ROLE_BINDING.group, "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": CLUSTER_ROLE_BINDING.group, "kind": "User", "name": user}
    return {**CLUSTER_ROLE_BINDING.manifest("bench"), "roleRef": role, "subjects": [subject]}


def on_real(assets: Assets, audit: Path, with_flux: bool) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that both executables are stopped as well
    with started(assets, *audit_flags(audit, POLICY)) as server:
        anyio.run(real, server, with_flux)


def main(audit: Path, with_flux: bool) -> None:
    assets = assets_of(os.environ)
    if isinstance(assets, Assets):
        on_real(assets, audit, with_flux)
    elif "KUBEBUILDER_ASSETS" in os.environ:
        raise SystemExit(assets)
    else:
        anyio.run(embedded, audit, with_flux)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--without-flux" not in sys.argv)
