"""Where replicas of the operator run: an API server whose audit log is read, and a control plane.

The API server is the embedded one as a process, or a kube-apiserver, where replicas are what they are in a cluster:
pods of one service account, with tokens of their own and the rights that `manifests` prints.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from ssl import SSLContext, create_default_context
from typing import Any

import attrs
import pytest
from anyio.from_thread import start_blocking_portal
from lightkube.config.kubeconfig import KubeConfig

from kubelab.flux import FluxSimulator
from kubelab.http.authority import certificates_for
from kubelab.http.certificates import Certificates
from kubelab.simulation.running import run_simulator
from purekube.ports import KubeApi
from purekube_http import KubeApiClient
from purekube_kit.kube_apiserver import OPERATOR_USER, RealServer, audit_flags, started
from purekube_run.process.machine import SystemClock
from tests.support.audit_log import POLICY, Act, Log, embedded_log, kube_log
from tests.support.cluster_environment import grant
from tests.support.commands import Running, call
from tests.support.definitions import have_defined
from tests.support.e2e_world import CLUSTER, NS, OWN_NS, instance, usual_crds
from tests.support.server_use import real_assets

ROOT = Path(__file__).resolve().parents[2]
ADMIN, AGENT = "admin-t0ken-0123456789", "agent-t0ken-0123456789"
USERS = {f"replica-{one}": f"token-of-{one}-0123456789" for one in "abcd"}
INSTANCES = f"apis/apps.vworkspace.io/v1alpha1/namespaces/{NS}/applicationinstances"
ACCOUNT = OPERATOR_USER.rpartition(":")[2]


@attrs.frozen
class Site:
    """Both servers. `tokens` are the replicas'; where the API server speaks TLS, `trust` is how to speak to it, and
    `shown` what a proxy before it shows."""

    folder: Path
    url: str
    log: Log
    admin: str = attrs.field(repr=False)
    tokens: Mapping[str, str] = attrs.field(repr=False)
    trust: SSLContext | None = None
    shown: Certificates | None = None
    control: str = ""

    def acts(self, since: datetime) -> list[Act]:
        """What has arrived from that time on."""
        return [act for act in self.log() if act.arrived >= since]

    def ask(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Any:
        """A request of the administrator's; the answer."""
        return call(method, f"{self.url}/{path}", body, token=self.admin, content=content, trust=self.trust)

    def make(self, path: str, kind: str, name: str, more: Mapping[str, Any]) -> Any:
        """Create an object of a core kind at this path."""
        made = {"apiVersion": "v1", "kind": kind, **more}
        return self.ask("POST", f"api/v1/{path}", {**made, "metadata": {"name": name, **more.get("metadata", {})}})

    def apply(self, number: int, version: str) -> None:
        """Somebody asks for an instance, with values that show its version: the release changes as well."""
        name = f"app-{number}"
        manifest = instance(version)
        labels = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
        manifest["metadata"] = {"name": name, "namespace": NS, "labels": labels}
        manifest["spec"]["release"] = {"name": name, "namespace": NS}
        manifest["spec"]["values"]["inline"] = {"title": version}
        self.ask("PATCH", f"{INSTANCES}/{name}?fieldManager=somebody", manifest, "application/apply-patch+yaml")

    def ready(self, version: str) -> list[str]:
        """Instances that run at a version."""
        return [
            item["metadata"]["name"]
            for item in self.ask("GET", INSTANCES)["items"]
            if item.get("status", {}).get("observedGeneration") == item["metadata"]["generation"]
            and item["spec"]["chart"]["version"] == version
            and {"Ready": "True"}.items()
            <= {condition["type"]: condition["status"] for condition in item["status"].get("conditions", ())}.items()
        ]


@contextmanager
def _embedded(folder: Path) -> Iterator[Site]:
    """The embedded API server, with Flux inside."""
    users, log = folder / "users.csv", folder / "audit"
    users.write_text("".join(f"{token},{user},{user}\n" for user, token in USERS.items()), encoding="utf-8")
    words = ("--token", ADMIN, "--tokens", users, "--audit-log", log)
    crds = ("--crds", ROOT / "manifests" / "crds", "--simulate", "flux")
    with Running(folder / "cluster", "cluster", *words, *crds) as api:
        site = Site(folder, api.ready(), embedded_log(log), ADMIN, USERS)
        _namespaces(site)
        with _controlled(site) as sites:
            yield sites


@contextmanager
def _real(folder: Path) -> Iterator[Site]:
    """A kube-apiserver, with Flux as a client. Skips where there is none."""
    assets = real_assets()
    log = folder / "audit"
    with started(assets, *audit_flags(log, POLICY)) as server:
        trust = create_default_context(cadata=server.authority.decode())
        shown = certificates_for(("localhost", "127.0.0.1"), datetime.now(UTC))
        site = Site(folder, server.url, kube_log(log), server.token, {}, trust, shown)
        _namespaces(site)
        tokens = {user: _token(site, user) for user in USERS}
        with _simulated(server), _controlled(attrs.evolve(site, tokens=tokens)) as sites:
            yield sites


SITES: list[Any] = [pytest.param(_embedded, id="embedded"), pytest.param(_real, id="kube-apiserver")]
"""Functions that open one in a folder."""


@contextmanager
def _controlled(site: Site) -> Iterator[Site]:
    """With a control plane, and the agent's credential in the folder."""
    (site.folder / "token").write_text(AGENT, encoding="utf-8")
    words = ("--cluster-id", CLUSTER, "--token", AGENT, "--admin-token", ADMIN)
    with Running(site.folder / "control", "control-plane", *words) as plane:
        yield attrs.evolve(site, control=plane.ready())


def _namespaces(site: Site) -> None:
    """A gated one, and the operator's own."""
    for name, labels in ((NS, {"managed-by": "vworkspace"}), (OWN_NS, {})):
        site.make("namespaces", "Namespace", name, {"metadata": {"labels": labels}})


def _token(site: Site, pod: str) -> str:
    """What a pod of the operator's finds mounted: a token of its service account that names the pod."""
    place = f"namespaces/{OWN_NS}"
    if site.ask("GET", f"api/v1/{place}/serviceaccounts/{ACCOUNT}") is None:
        site.make(f"{place}/serviceaccounts", "ServiceAccount", ACCOUNT, {})
    spec = {"serviceAccountName": ACCOUNT, "containers": [{"name": "operator", "image": "operator"}]}
    site.make(f"{place}/pods", "Pod", pod, {"spec": spec})
    bound = {"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod}}}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", **bound}
    found: str = site.ask("POST", f"api/v1/{place}/serviceaccounts/{ACCOUNT}/token", asked)["status"]["token"]
    return found


@contextmanager
def _simulated(server: RealServer) -> Iterator[None]:
    """The definitions, the operator's rights, and Flux beside."""
    config = KubeConfig.from_dict(server.kubeconfig()).get()
    assert config is not None
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(KubeApiClient(config)) as api:
        portal.call(_prepare, api)
        flux = portal.start_task_soon(run_simulator, api, SystemClock(), FluxSimulator(api))
        yield
        flux.cancel()


async def _prepare(api: KubeApi) -> None:
    await have_defined(usual_crds(False), api)
    await grant(api)
