"""What `manifests` prints is taken by the embedded API server and a kube-apiserver, and again without a change (RUN-7).

Each test has a server of its own: what is installed here, webhooks that nobody answers among it, would be in the way
of stories.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from kubelab.http.authority import certificates_for
from kubelab.http.serving import kubeconfig
from kubelab.server import ApiServer
from tests.support.commands import run
from tests.support.lent_server import lent
from tests.support.patience import PATIENCE
from tests.support.server_thread import Wire, served, wall_clock, wired, wired_to
from tests.support.violations import CRD

pytestmark = pytest.mark.slow

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NAMESPACES = ("org-myteam", "velero")
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


@attrs.frozen
class Server:
    """An API server where nothing is installed yet: a connection of its administrator, and a kubeconfig."""

    wire: Wire
    kubeconfig: dict[str, Any]


@contextmanager
def embedded() -> Iterator[Server]:
    with served(ApiServer(now=wall_clock)) as url, wired(url) as wire:
        yield Server(wire, kubeconfig(url))


@contextmanager
def real() -> Iterator[Server]:
    with lent() as found, wired_to(found) as wire:
        yield Server(wire, found.kubeconfig())


@pytest.fixture(params=[embedded, real], ids=["embedded", "kube-apiserver"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with request.param() as found:
        for name in NAMESPACES:
            manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            assert found.wire.send("POST", "/api/v1/namespaces", manifest).status == 201
        yield found


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """The certificate that the webhooks' own is signed with."""
    (tmp_path / "ca.crt").write_bytes(certificates_for(("a",), datetime.now(UTC)).authority)
    return tmp_path / "ca.crt"


def printed(*words: str) -> str:
    ended = run("manifests", *words)
    assert ended.status == 0, ended.err
    return ended.out


# --- by server-side apply, judged strictly ---------------------------------------------------------------------------


def test_an_api_server_takes_every_manifest_and_a_second_time_changes_nothing(server: Server, authority: Path) -> None:
    operator = ("--webhook-ca", str(authority), "--velero-namespace", "velero")
    words = ("--crds-only",), operator, ("--namespace", "org-myteam")
    manifests = [one for some in words for one in yaml.safe_load_all(printed(*some))]

    first = [applied(server.wire, manifest, 201) for manifest in manifests]
    second = [applied(server.wire, manifest, 200) for manifest in manifests]

    assert second == first


def test_an_api_server_takes_every_example_and_knows_all_of_it(server: Server) -> None:
    """Strictly: a field that is misspelt would be refused."""
    for manifest in yaml.safe_load_all(printed("--crds-only")):
        applied(server.wire, manifest, 201)
    examples = Path(__file__).resolve().parents[2] / "examples"
    paths = [path for path in sorted(examples.rglob("*.yaml")) if "boxes" not in path.parts]  # no cluster takes a box
    found = [one for path in paths for one in yaml.safe_load_all(path.read_text())]
    kinds = {one["kind"] for one in found}
    assert kinds == {"Namespace", "Secret", "ApplicationInstance", "Operation", "Cluster"}
    for manifest in sorted(found, key=lambda one: one["kind"] != "Namespace"):
        wait_until_served(server.wire, manifest)
        applied(server.wire, manifest, 200 if manifest["kind"] == "Namespace" else 201)


def test_an_api_server_alone_refuses_each_violation_in_words(server: Server) -> None:
    """U7, U8, RES-6: without the webhook; no pattern, and never the password of an address."""
    for manifest in yaml.safe_load_all(printed("--crds-only")):
        applied(server.wire, manifest, 201)
    new = [violation for violation in CRD if violation.old is None]
    for violation in new:
        manifest = dict(violation.manifest)
        wait_until_served(server.wire, manifest)
        where = path_of(server.wire.send("GET", api_of(manifest)).json["resources"], manifest)
        answer = server.wire.send("POST", where.rpartition("/")[0] + "?dryRun=All", manifest)
        assert answer.status == 422, (violation.name, answer.raw)
        for cause in answer.json["details"]["causes"]:
            assert "should match" not in cause["message"], violation.name
        assert "ada:pw" not in answer.raw.decode(), violation.name


def wait_until_served(wire: Wire, manifest: dict[str, Any]) -> None:
    """A server takes a moment until it serves a new definition."""
    limit = time.monotonic() + PATIENCE
    while True:
        answer = wire.send("GET", api_of(manifest))
        if answer.status == 200 and any(resource["kind"] == manifest["kind"] for resource in answer.json["resources"]):
            return
        assert time.monotonic() < limit, api_of(manifest)
        time.sleep(0.05)


def applied(wire: Wire, manifest: dict[str, Any], status: int) -> dict[str, Any]:
    """What the server keeps, but for what it says of a definition by and by."""
    where = path_of(wire.send("GET", api_of(manifest)).json["resources"], manifest)
    query = "?fieldManager=kubectl&fieldValidation=Strict"
    answer = wire.send("PATCH", where + query, manifest, content_type="application/apply-patch+yaml")
    assert answer.status == status, answer.raw
    assert "warning" not in answer.headers
    kept: dict[str, Any] = answer.json
    if manifest["kind"] == "CustomResourceDefinition":
        kept.pop("status", None)
        del kept["metadata"]["resourceVersion"], kept["metadata"]["managedFields"]
    return kept


def api_of(manifest: dict[str, Any]) -> str:
    version = manifest["apiVersion"]
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def path_of(resources: list[dict[str, Any]], manifest: dict[str, Any]) -> str:
    (found,) = (
        resource for resource in resources if resource["kind"] == manifest["kind"] and "/" not in resource["name"]
    )
    meta = manifest["metadata"]
    place = f"/namespaces/{meta['namespace']}" if found["namespaced"] else ""
    return f"{api_of(manifest)}{place}/{found['name']}/{meta['name']}"


# --- by kubectl ------------------------------------------------------------------------------------------------------


@attrs.frozen
class Kubectl:
    """kubectl with files of its own. What is unknown or twice in a manifest is judged above, by the server."""

    folder: Path

    def run(self, *words: str | Path, text: str = "") -> str:
        """What it says, on either stream, when it succeeds."""
        own = ("--kubeconfig", self.folder / "kubeconfig", "--cache-dir", self.folder / "cache")
        done = subprocess.run(["kubectl", *own, *words], input=text, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def apply(self, *words: str | Path, text: str = "") -> list[str]:
        """How it ends for each object: created, configured or unchanged."""
        said = self.run("apply", *words, text=text).splitlines()
        self.run("wait", "--for=condition=Established", "crd", "--all", "--timeout=300s")
        return [line.split()[-1] for line in said]

    def versions(self, text: str) -> list[str]:
        """The resourceVersions of the objects in `text`."""
        items = json.loads(self.run("get", "-f", "-", "-o", "json", text=text))["items"]
        return [item["metadata"]["resourceVersion"] for item in items]


def overlay(folder: Path, namespace: str) -> Path:
    """What a gated namespace needs, as GitOps has it: the base, and the namespace that its accounts are of."""
    shutil.copytree(DEPLOY / "tenant", folder / "tenant")
    (folder / "team").mkdir()
    kustomization = {"namespace": namespace, "resources": ["../tenant"]}
    (folder / "team" / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return folder / "team"


@needs_kubectl
def test_kubectl_applies_plainly_what_is_printed_and_the_bases_are_the_same(
    server: Server, authority: Path, tmp_path: Path
) -> None:
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(server.kubeconfig))
    kubectl = Kubectl(tmp_path)
    webhooks = printed("--webhook-ca", str(authority), "--velero-namespace", "velero")
    for text, base in (
        (printed("--crds-only"), (DEPLOY.parent / "manifests",)),
        (printed(), (DEPLOY,)),
        (printed("--namespace", "org-myteam"), (overlay(tmp_path, "org-myteam"),)),
        (webhooks, None),
    ):
        assert set(kubectl.apply("-f", "-", text=text)) <= {"created", "configured", "unchanged"}
        before = kubectl.versions(text)
        again = kubectl.apply("-f", "-", text=text)
        if base is not None:
            again += kubectl.apply("-k", *base)
        # A disruption budget's selector is always in kubectl's patch; what counts is that nothing moves.
        assert set(again) <= {"configured", "unchanged"}
        assert kubectl.versions(text) == before
