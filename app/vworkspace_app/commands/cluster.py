"""`cluster`: run the embedded API server as a process, with simulated downstream controllers if requested."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from kubelab.cluster.access import callers
from kubelab.cluster.definitions import read_definitions
from kubelab.cluster.errors import KubelabError
from kubelab.command import ServeOptions, serve_until_signal
from purekube.apimachinery.manifest import Manifest
from purekube_run.process.addresses import cannot_listen, parse_address
from purekube_run.process.errors import FAILURE, USAGE, CommandError


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
    try:
        serve_until_signal(
            ServeOptions(
                host=host,
                port=port,
                kubeconfig_out=options.kubeconfig_out,
                crds=list(_definitions(options)),
                simulate=options.simulate,
                tls=options.tls,
                tokens=callers(options.token, options.tokens),
                rbac=options.rbac,
                audit_log=options.audit_log,
            )
        )
    except KubelabError as error:
        raise CommandError(error.as_flag, status=USAGE if error.is_misuse else FAILURE) from error
    except OSError as error:
        raise cannot_listen(error, options.listen) from error


def _definitions(options: ClusterOptions) -> Iterator[Manifest]:
    """Yield the CRDs of the files, and this project's CRDs that the files lack, unless the server is to be bare."""
    given = read_definitions(options.crds)
    yield from given
    if not options.bare:
        from vworkspace_core.api.crd import crd_manifests

        present = {crd["metadata"]["name"] for crd in given}
        yield from (crd for crd in crd_manifests() if crd["metadata"]["name"] not in present)
