"""The cluster that operators are measured on, as a process: the embedded API server with a quick simulated Flux.

    python -m bench.stage AUDIT_FILE

prints `ready URL` when it serves, and writes the audit log to AUDIT_FILE.
"""

import sys
from pathlib import Path

import anyio

from vworkspace_app.commands.cluster import EmbeddedCluster
from vworkspace_app.commands.cluster_access import audited
from vworkspace_core.kinds.crd import crd_manifests
from vworkspace_core.known import NAMESPACE
from vworkspace_core.manifest import Manifest
from vworkspace_fake.apiserver.inprocess import InProcessKube, run_sync
from vworkspace_fake.flux import FluxBehaviour

SPACES = tuple(f"bench-{at}" for at in range(20))
"""Gated namespaces: a cluster has many, and Helm's storage is searched one by one."""
OWN = "vworkspace-system"
QUICK = FluxBehaviour(source_fetch_seconds=0.02, install_seconds=0.05, upgrade_seconds=0.05, uninstall_seconds=0.05)
"""A Flux that waits for little, so that the operator is what is measured."""


def gated(name: str) -> Manifest:
    return {**NAMESPACE.manifest(name), "metadata": {"name": name, "labels": {"managed-by": "vworkspace"}}}


async def main(audit: Path) -> None:
    cluster = EmbeddedCluster.start(crd_manifests(), ("flux",))
    assert cluster.flux is not None
    cluster.flux.behaviour = QUICK
    admin = InProcessKube(cluster.server)
    for namespace in (*map(gated, SPACES), NAMESPACE.manifest(OWN)):
        run_sync(admin.create(namespace, kind=NAMESPACE, field_manager="bench"))
    up, told = anyio.Event(), list[str]()
    with audited(cluster.server.audit, audit):
        async with anyio.create_task_group() as group:
            group.start_soon(cluster.run, "127.0.0.1", 0, up, told)
            await up.wait()
            print(f"ready {told[0]}", flush=True)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
