"""SEE-5: Helm installs, upgrades and uninstalls the chart in a cluster; tenants may do there what their roles say."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from ssl import SSLContext, create_default_context
from typing import Any

import attrs
import pytest
import yaml

from kubelab.http.authority import certificates_for
from kubelab.http.serving import kubeconfig
from kubelab.model.calls import ADMIN
from kubelab.server import ApiServer
from tests.support.chart_values import EVERYTHING
from tests.support.commands import call
from tests.support.helm import UNAVAILABLE, documents, helm_in
from tests.support.lent_server import lent
from tests.support.server_thread import served
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)]

CHART = Path(__file__).resolve().parents[2] / "deploy" / "chart"
SYSTEM = "vworkspace-system"
TOKEN = "admin-t0ken-0123456789"
VALUES: dict[str, Any] = {
    **EVERYTHING,
    # cert-manager and the Prometheus operator are not there.
    "webhooks": {"enabled": True, "certManager": False, "caBundle": "-----BEGIN CERTIFICATE-----"},
    "serviceMonitor": {},
    "prometheusRule": {},
}
RBAC = "rbac.authorization.k8s.io"


@attrs.frozen
class Cluster:
    """An API server without any of our kinds."""

    url: str
    token: str
    file: Path
    trust: SSLContext | None = None

    def ask(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Any:
        return call(method, f"{self.url}/{path}", body, token=self.token, content=content, trust=self.trust)


@contextmanager
def embedded(folder: Path) -> Iterator[Cluster]:
    server = ApiServer(now=lambda: datetime.now(UTC), rbac=True)
    made = certificates_for(("localhost", "127.0.0.1"), datetime.now(UTC))
    trust = create_default_context(cadata=made.authority.decode())
    # Over plain HTTP a client of Go shows no token.
    with served(server, tokens={TOKEN: ADMIN}, tls=made) as url:
        found = Cluster(url, TOKEN, folder / "kubeconfig", trust)
        yield written(folder, kubeconfig(url, TOKEN, authority=made.authority), found)


@contextmanager
def real(folder: Path) -> Iterator[Cluster]:
    with lent() as server:
        trust = create_default_context(cadata=server.authority.decode())
        found = Cluster(server.url, server.token, folder / "kubeconfig", trust)
        yield written(folder, server.kubeconfig(), found)


def written(folder: Path, config: dict[str, Any], cluster: Cluster) -> Cluster:
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    for name in (SYSTEM, "org-a", "org-b", "velero"):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        cluster.ask("POST", "api/v1/namespaces", namespace)
    return cluster


@pytest.fixture(params=[embedded, real], ids=["embedded", "kube-apiserver"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    with request.param(tmp_path) as found:
        yield found


def names(cluster: Cluster, path: str) -> set[str]:
    return {item["metadata"]["name"] for item in cluster.ask("GET", path)["items"]}


def newer(folder: Path) -> Path:
    """The chart with a CRD that says something new."""
    chart = folder / "newer"
    shutil.copytree(CHART, chart)
    crds = chart / "templates" / "crds.yaml"
    text = crds.read_text(encoding="utf-8")
    assert "shortNames:\n      - appinst\n" in text
    crds.write_text(text.replace("      - appinst\n", "      - appinst\n      - appinstance\n"), encoding="utf-8")
    return chart


def test_helm_installs_upgrades_and_uninstalls(cluster: Cluster, tmp_path: Path) -> None:
    deployments = f"apis/apps/v1/namespaces/{SYSTEM}/deployments"
    crd = "apis/apiextensions.k8s.io/v1/customresourcedefinitions/applicationinstances.apps.vworkspace.io"
    with helm_in(CHART) as helm:
        assert helm.acted("install", cluster.file, VALUES) == "deployed"

        for document in documents(helm.rendered(VALUES)):
            assert cluster.ask("GET", place(document)) is not None, document["kind"]
        assert names(cluster, deployments) == {"vworkspace-operator-shard-0", "vworkspace-operator-shard-1"}
        may_what_roles_say(cluster)

    with helm_in(newer(tmp_path)) as helm:
        assert helm.acted("upgrade", cluster.file, {**VALUES, "shards": 1}) == "deployed"
        assert names(cluster, deployments) == {"vworkspace-operator"}
        assert "appinstance" in cluster.ask("GET", crd)["spec"]["names"]["shortNames"], "CRDs are upgraded"

        assert helm.acted("uninstall", cluster.file, {}) == "uninstalled"
        assert names(cluster, deployments) == set()
        assert names(cluster, f"apis/{RBAC}/v1/namespaces/org-a/roles") == {"vworkspace-release"}, "for Flux"
        assert "vworkspace-release" in names(cluster, "api/v1/namespaces/org-a/serviceaccounts")
        assert cluster.ask("GET", crd) is not None, "U3: CRDs stay, and so does every instance"


def place(manifest: dict[str, Any]) -> str:
    """Where an object of a built-in kind is."""
    version, meta = manifest["apiVersion"], manifest["metadata"]
    plural = {"NetworkPolicy": "networkpolicies"}.get(manifest["kind"], manifest["kind"].lower() + "s")
    within = f"namespaces/{meta['namespace']}/" if "namespace" in meta else ""
    return f"{'apis' if '/' in version else 'api'}/{version}/{within}{plural}/{meta['name']}"


# --- what people may do ----------------------------------------------------------------------------------------------

_READ = ("get", "list", "watch")
_WRITE = ("create", "update", "patch", "delete", "deletecollection")


def may_what_roles_say(cluster: Cluster) -> None:
    """As the aggregating controller would have it: a viewer and an editor of one namespace."""
    roles = {role["metadata"]["name"]: role for role in cluster.ask("GET", f"apis/{RBAC}/v1/clusterroles")["items"]}
    for suffix, into in (("view", {"view", "edit", "admin"}), ("edit", {"edit", "admin"})):
        labels = roles[f"vworkspace-operator-{suffix}"]["metadata"]["labels"]
        assert {key.rpartition("-")[2] for key in labels if key.startswith(f"{RBAC}/aggregate-to-")} == into
    bind(cluster, "vera", "vworkspace-operator-view")
    bind(cluster, "edna", "vworkspace-operator-view")
    bind(cluster, "edna", "vworkspace-operator-edit")

    for kind in (APPLICATION_INSTANCE, OPERATION):
        for verb in (*_READ, *_WRITE):
            assert may(cluster, "vera", verb, kind.group, kind.plural) is (verb in _READ), (verb, kind)
            assert may(cluster, "edna", verb, kind.group, kind.plural), (verb, kind)
            assert not may(cluster, "edna", verb, kind.group, kind.plural, "org-b"), "the namespace is the tenant"
            assert not may(cluster, "edna", verb, kind.group, kind.plural, ""), "not in all namespaces"
        for below in ("status", "finalizers"):
            for verb in ("update", "patch"):
                assert not may(cluster, "edna", verb, kind.group, f"{kind.plural}/{below}"), "the operator's"
        assert may(cluster, "vera", "get", kind.group, f"{kind.plural}/status")
    for verb in (*_READ, *_WRITE):
        assert not may(cluster, "edna", verb, CLUSTER.group, CLUSTER.plural, ""), "the administrators'"
        assert not may(cluster, "edna", verb, "helm.toolkit.fluxcd.io", "helmreleases"), "Flux's own roles say that"
    assert not may(cluster, "nobody", "get", APPLICATION_INSTANCE.group, APPLICATION_INSTANCE.plural)


def bind(cluster: Cluster, user: str, role: str) -> None:
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{user}-{role}"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
    cluster.ask("POST", f"apis/{RBAC}/v1/namespaces/org-a/rolebindings", binding)


def may(cluster: Cluster, user: str, verb: str, group: str, resource: str, namespace: str = "org-a") -> bool:
    plural, _, below = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": plural, "subresource": below, "namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": asked},
    }
    return bool(cluster.ask("POST", "apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"])
