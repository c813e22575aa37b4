"""Which cluster the end-to-end suite runs on, by the ecosystem's conventions (RUN-8).

`E2E_CLUSTER_FOLDER` is the folder of a running `make cluster`, where Flux is the real one.
`E2E_CLUSTER=existing` is the cluster of KUBECONFIG (`E2E_OPERATOR_CONTEXT` names the context that the operator uses
instead of the current one, with only the rights that `manifests` prints). `KUBEBUILDER_ASSETS` is a folder with etcd
and kube-apiserver, which are started on loopback once a run. Otherwise the embedded API server, new for each story.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

import attrs
from lightkube.config.kubeconfig import KubeConfig, SingleConfig

from kubelab.access.authorization import service_account
from kubelab.http.authority import certificates_for
from kubelab.http.certificates import Certificates
from kubelab.http.serving import kubeconfig
from kubelab.model.calls import ADMIN
from kubelab.server import ApiServer
from purekube_http import load_config
from purekube_kit.kube_apiserver import OPERATOR_USER, RealServer, audit_flags, started
from tests.support.audited_story import POLICY, Audit, Remembered, Written
from tests.support.server_thread import served
from tests.support.server_use import real_assets, require_choice
from tools.cluster.up import VARIABLE, Cluster

_ADMIN_TOKEN: Final = "administrator-0123456789"
_OPERATOR_TOKEN: Final = "operator-0123456789"


@attrs.frozen
class Reached:
    """A cluster and how it is reached. `restricted`: the operator has no rights but those it is given by roles.

    `is_ours`: everything in it may be changed, and definitions may come and go; `is_fresh`: nobody used it before,
    and nobody will. `audit` is there where its log can be read. The embedded API server finds in-cluster services by
    `services`: (namespace, name) to a base URL.
    """

    admin: SingleConfig
    operator: SingleConfig
    restricted: bool
    is_ours: bool
    is_fresh: bool = False
    audit: Audit | None = None
    services: dict[tuple[str, str], str] = attrs.field(factory=dict)
    real: Cluster | None = None
    """The cluster of `make cluster`: nothing in it is simulated."""


def is_existing() -> bool:
    """Whether the suite is to use a cluster that is there already. Raises ValueError for what is misspelt."""
    named = os.environ.get("E2E_CLUSTER", "")
    if named not in ("", "existing"):
        raise ValueError(f"E2E_CLUSTER={named}: the only value is `existing`, the cluster of KUBECONFIG")
    return bool(named)


@contextmanager
def reached(*, alone: bool = False) -> Iterator[Reached]:
    """The cluster of the environment for one story; `alone` if it takes away what other tests use."""
    require_choice()
    if (cluster := real_cluster()) is not None:
        with taking_part(alone=alone, operator=True):
            yield _whole(cluster)
    elif is_existing():
        with taking_part(alone=alone, operator=True):
            yield _existing()
    elif os.environ.get("KUBEBUILDER_ASSETS"):
        yield _bare(*_audited())
    else:
        with _embedded() as found:
            yield found


def real_cluster() -> Cluster | None:
    """Return the cluster of real controllers that the environment names, if it names one."""
    folder = os.environ.get(VARIABLE, "")
    return Cluster.load(Path(folder)) if folder else None


def _whole(cluster: Cluster) -> Reached:
    admin, operator = (load_config(path) for path in (cluster.kubeconfig, cluster.operator_kubeconfig))
    return Reached(admin, operator, restricted=True, is_ours=False, real=cluster)


def _existing() -> Reached:
    admin, context = load_config(None), os.environ.get("E2E_OPERATOR_CONTEXT", "")
    operator = load_config(Path(os.environ["KUBECONFIG"]), context) if context else admin
    return Reached(admin, operator, restricted=bool(context), is_ours=False)


@contextmanager
def taking_part(*, alone: bool = False, operator: bool = False) -> Iterator[None]:
    """Share the environment's cluster with other tests, or have it `alone` while the block lasts.

    Tests that run an `operator` follow one another, since each operator sees every namespace.
    """
    with _locked("tests", fcntl.LOCK_EX if alone else fcntl.LOCK_SH), ExitStack() as stack:
        if operator:
            stack.enter_context(_locked("operators", fcntl.LOCK_EX))
        yield


@contextmanager
def _locked(what: str, how: int) -> Iterator[None]:
    folder = os.environ.get(VARIABLE) or tempfile.gettempdir()
    with Path(folder, f"vworkspace-{what}-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, how)
        yield


def _bare(server: RealServer, log: Path) -> Reached:
    admin, operator = (_config(server.url, token, server.authority) for token in (server.token, server.operator_token))
    return Reached(admin, operator, restricted=True, is_ours=True, audit=Written(log, datetime.now(UTC)))


@contextmanager
def _embedded() -> Iterator[Reached]:
    """Tokens, roles, no help of a garbage collector: as bare as a kube-apiserver without controllers."""
    server = ApiServer(now=lambda: datetime.now(UTC), rbac=True)
    namespace, name = OPERATOR_USER.split(":")[2:]
    tokens = {_ADMIN_TOKEN: ADMIN, _OPERATOR_TOKEN: service_account(namespace, name)}
    services: dict[tuple[str, str], str] = {}
    shown = _shown()
    with served(server, tokens=tokens, gc_delay=None, services=services, tls=shown) as url:
        admin, operator = (_config(url, token, shown.authority) for token in tokens)
        yield Reached(
            admin,
            operator,
            restricted=True,
            is_ours=True,
            is_fresh=True,
            audit=Remembered(server.audit),
            services=services,
        )


@cache
def _shown() -> Certificates:
    """With TLS, since kubectl keeps its token to itself without it; one for the whole run."""
    return certificates_for(("127.0.0.1",), datetime.now(UTC))


def _config(url: str, token: str, authority: bytes | None = None) -> SingleConfig:
    found = KubeConfig.from_dict(kubeconfig(url, token, authority=authority)).get()
    assert found is not None
    return found


_real: ExitStack = ExitStack()


def real_server() -> RealServer:
    """One for the whole run; pytest is skipped where there is none to start, and fails where it does not start."""
    return _audited()[0]


@cache
def _audited() -> tuple[RealServer, Path]:
    """The real server, and its audit log."""
    assets = real_assets()
    folder = Path(_real.enter_context(tempfile.TemporaryDirectory(prefix="vworkspace-audit-")))
    log = folder / "audit.log"
    return _real.enter_context(started(assets, *audit_flags(log, POLICY))), log


def stop_real_server() -> None:
    """Stop what `real_server` started."""
    _real.close()
