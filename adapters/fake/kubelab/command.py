"""The command `kubelab serve`, and the options and functions that other command lines share with it."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import attrs

from kubelab.cluster.access import access_for, audited, callers, write_kubeconfig
from kubelab.cluster.definitions import KubelabError, read_definitions
from kubelab.cluster.embedded import EmbeddedCluster
from kubelab.cluster.serving import serve_cluster, stop_event
from kubelab.model.calls import Caller
from purekube.apimachinery.manifest import Manifest

_EXAMPLES = """examples:
  kubelab serve --kubeconfig-out kc --simulate workloads,job
  kubelab serve --port 8001 --crds crds/ --crds more.yaml
  kubelab serve --kubeconfig-out kc --tls --token T --tokens users.csv --rbac --audit-log log
"""

HELP: Final[Mapping[str, str]] = {
    "kubeconfig_out": "write a kubeconfig there; beside tokens it needs --tls",
    "crds": "YAML file or folder of CRDs; repeatable",
    "simulate": "controllers to simulate, by comma: flux, velero, workflow, job, volsync, snapshot, workloads; or all",
    "behaviour": "YAML file that says what fails in the simulated controllers",
    "tls": "serve HTTPS with a new authority, which the kubeconfig carries",
    "token": "bearer token of the administrator; other callers get 401",
    "tokens": 'CSV file of further callers: token,user,uid,"group,group"',
    "rbac": "let roles and bindings decide what callers may do; needs tokens",
    "service_accounts": "give each namespace the account default, and each pod an account and its token",
    "audit_log": "append every request to this file, as JSON lines",
}
"""The help texts of the flags by which a command line serves a cluster, keyed by the flag's name in Python."""


@attrs.frozen
class ServeOptions:
    """The options of a command that serves a cluster, such as `kubelab serve`.

    `kubeconfig_out` is the file into which a kubeconfig is written, `audit_log` the file for the audit log. The other
    options are those of the function `serve` with the same names.
    """

    host: str = "127.0.0.1"
    port: int = 0
    kubeconfig_out: Path | None = None
    crds: Sequence[Manifest] = ()
    simulate: str = ""
    behaviour: Path | None = None
    tls: bool = False
    tokens: Mapping[str, Caller] = attrs.field(factory=dict, repr=False)
    rbac: bool = False
    audit_log: Path | None = None
    service_accounts: bool = False


def serve_until_signal(options: ServeOptions) -> None:
    """Serve until SIGINT or SIGTERM; print `ready <url>` once requests are accepted.

    Raises KubelabError for options that do not work, OSError if the address cannot be bound.
    """
    if options.kubeconfig_out is not None and options.tokens and not options.tls:
        text = "needs --tls beside tokens: kubectl and Helm send no token over plain HTTP"
        raise KubelabError(text, option="kubeconfig-out", is_misuse=True)
    access = access_for(options.host, tls=options.tls, tokens=options.tokens, rbac=options.rbac)
    cluster = EmbeddedCluster.start(
        options.crds,
        options.simulate,
        rbac=options.rbac,
        service_accounts=options.service_accounts,
        behaviour=options.behaviour,
    )
    with (
        stop_event() as stop,
        audited(cluster.server.audit, options.audit_log),
        serve_cluster(cluster, options.host, options.port, access) as server,
    ):
        if options.kubeconfig_out is not None:
            write_kubeconfig(options.kubeconfig_out, server.url, access)
        print(f"ready {server.url}", flush=True)
        server.thread.ended.add_done_callback(lambda _: stop.set())
        stop.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `kubelab`, and return its exit status. By default the arguments are those of the process."""
    options = _parser().parse_args(arguments)
    try:
        serve_until_signal(
            ServeOptions(
                host=options.host,
                port=options.port,
                kubeconfig_out=options.kubeconfig_out,
                crds=read_definitions(options.crds),
                simulate=options.simulate,
                behaviour=options.behaviour,
                tls=options.tls,
                tokens=callers(options.token, options.tokens),
                rbac=options.rbac,
                audit_log=options.audit_log,
                service_accounts=options.service_accounts,
            )
        )
    except KubelabError as error:
        return _failed(error.as_flag, 2 if error.is_misuse else 1)
    except OSError as error:
        return _failed(f"cannot listen on {options.host}:{options.port}: {error.strerror or error}", 1)
    return 0


def _failed(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("kubelab", description="A Kubernetes API server in memory.")
    parser.add_argument("--version", action="version", version=version("kubelab"))
    serve = parser.add_subparsers(required=True, metavar="COMMAND").add_parser(
        "serve",
        help="serve a cluster until a signal",
        description="Serve a Kubernetes API server in memory; print `ready URL` when it accepts requests.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = serve.add_argument
    add("--host", default="127.0.0.1", help="address to listen on; others than loopback need tokens")
    add("--port", type=int, default=0, help="port to listen on; 0, the default, takes a free one")
    add("--kubeconfig-out", type=Path, metavar="FILE", help=HELP["kubeconfig_out"])
    add("--crds", type=Path, action="append", default=[], metavar="PATH", help=HELP["crds"])
    add("--simulate", default="", metavar="NAMES", help=HELP["simulate"])
    add("--behaviour", type=Path, metavar="FILE", help=HELP["behaviour"])
    add("--tls", action="store_true", help=HELP["tls"])
    add("--token", default="", help=HELP["token"])
    add("--tokens", type=Path, metavar="FILE", help=HELP["tokens"])
    add("--rbac", action="store_true", help=HELP["rbac"])
    add("--service-accounts", action="store_true", help=HELP["service_accounts"])
    add("--audit-log", type=Path, metavar="FILE", help=HELP["audit_log"])
    return parser
