"""`cluster`: run the embedded API server as a process, with simulated downstream controllers if requested."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import attrs

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube_run.process.addresses import parse_address
from purekube_run.process.errors import CommandError
from purekube_run.process.signals import run_until_signal
from purekube_run.process.yaml_documents import read_documents
from vworkspace_app.embedded.access import access_for, audited, write_kubeconfig
from vworkspace_app.embedded.cluster import EmbeddedCluster


@attrs.frozen
class ClusterOptions:
    """Options of `cluster`; the command's help says what each means."""

    listen: str = "127.0.0.1:0"
    kubeconfig_out: Path | None = None
    crds: Sequence[Path] = ()
    simulate: str = ""
    tls: bool = False
    token: str = attrs.field(default="", repr=False)
    tokens: Path | None = None
    rbac: bool = False
    audit_log: Path | None = None
    bare: bool = False


def run_cluster(options: ClusterOptions) -> None:
    """Serve until a signal. Raises CommandError for wrong options, CRDs that are refused, an address in use."""
    host, port = parse_address(options.listen)
    chosen = _chosen(options.simulate)
    access = access_for(host, tls=options.tls, token=options.token, tokens=options.tokens, rbac=options.rbac)
    crds = list(_definitions(options))
    cluster = EmbeddedCluster.start(crds, chosen, rbac=options.rbac)

    async def work() -> None:
        ready, urls = anyio.Event(), list[str]()
        async with anyio.create_task_group() as group:
            group.start_soon(cluster.run, host, port, ready, urls, access)
            await ready.wait()
            if options.kubeconfig_out is not None:
                write_kubeconfig(options.kubeconfig_out, urls[0], access)
            print(f"ready {urls[0]}", flush=True)

    with audited(cluster.server.audit, options.audit_log):
        run_until_signal(work, listen=options.listen)


def _definitions(options: ClusterOptions) -> Iterator[Manifest]:
    """Yield the CRDs of the files, and this project's CRDs that the files lack, unless the server is to be bare."""
    given = [crd for path in options.crds for crd in _read_crds(path)]
    yield from given
    if not options.bare:
        from vworkspace_core.api.crd import crd_manifests

        present = {crd["metadata"]["name"] for crd in given}
        yield from (crd for crd in crd_manifests() if crd["metadata"]["name"] not in present)


def _chosen(names: str) -> tuple[str, ...]:
    if not names.strip():
        return ()
    from vworkspace_app.embedded.simulators import chosen_simulators

    return chosen_simulators(names)


def _read_crds(path: Path) -> Iterator[Manifest]:
    """Yield the CRDs of a file, or of every YAML file in a folder; other kinds are left out."""
    files = sorted((*path.glob("*.yaml"), *path.glob("*.yml"))) if path.is_dir() else [path]
    if not files:
        raise CommandError(f"--crds {path}: the folder holds no .yaml file")
    for document in read_documents([str(file) for file in files]):
        if document.get("kind") == CUSTOM_RESOURCE_DEFINITION.kind:
            yield document
