"""Kinds of two versions, written and read by an unmodified kubectl in both (PH-8).

On the embedded API server, and on a real one where the environment names one. What converts runs here.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
import yaml
from anyio.abc import TaskStatus
from anyio.from_thread import start_blocking_portal

from kubelab.flux.crds import flux_crds
from kubelab.http.authority import certificates_for
from kubelab.http.serving import kubeconfig
from kubelab.server import ApiServer
from purekube.versions import Converter, preservation_annotation
from purekube_kit.kube_apiserver import started
from purekube_run.process.machine import SystemClock
from tests.support.builders import instance_manifest
from tests.support.commands import Running, free_port, run
from tests.support.effort import unused_name
from tests.support.kubectl import Kubectl, why_not
from tests.support.patience import PATIENCE
from tests.support.second_version import converter, definition
from tests.support.server_thread import served, wall_clock
from tests.support.server_use import real_assets
from vworkspace_app.install import InstallOptions
from vworkspace_app.install.extension_manifests import with_conversion
from vworkspace_app.webhooks import CertificateFiles, ServedKinds, serve_webhooks

REASON = why_not()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(REASON), reason=REASON)]

BOXES = Path(__file__).resolve().parents[2] / "examples" / "boxes"
CLUSTER = "cluster-versions"
LABELS = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
INSTANCES = "applicationinstances.{}.apps.vworkspace.io"


@attrs.frozen
class Site:
    """A cluster, kubectl and a certificate that webhooks of this machine can show."""

    kubectl: Kubectl
    folder: Path
    authority: bytes

    @property
    def kubeconfig(self) -> Path:
        return self.kubectl.home / "config"

    def apply(self, *manifests: Mapping[str, Any], status: int = 0) -> str:
        return self.kubectl.run("apply", "--server-side", "-f", "-", given=yaml.safe_dump_all(manifests), status=status)

    def until_read(self, *arguments: str) -> Any:
        """What kubectl reads, once the API server serves it."""

        def read() -> Any:
            try:
                return self.kubectl.json("get", *arguments)
            except AssertionError as error:
                if "the server doesn't have a resource type" in str(error) or "not found" in str(error):
                    return None
                raise

        return _until(read)


def _until(found: Any) -> Any:
    limit = time.monotonic() + PATIENCE
    while (result := found()) is None:
        assert time.monotonic() < limit
        time.sleep(0.1)
    return result


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home, folder = tmp_path_factory.mktemp("kubectl"), tmp_path_factory.mktemp("tls")
    made = certificates_for(("localhost", "127.0.0.1"), datetime.now(UTC))
    (folder / "tls.crt").write_bytes(made.certificate)
    (folder / "tls.key").write_bytes(made.key)
    with _cluster() as config:
        (home / "config").write_text(yaml.safe_dump(config))
        yield Site(Kubectl(home), folder, made.authority)


@contextmanager
def _cluster() -> Iterator[dict[str, Any]]:
    """How kubectl reaches a kube-apiserver, or an embedded one: over plain HTTP it sends no token.

    It is this module's alone: its definitions name webhooks that are gone afterwards.
    """
    if os.environ.get("KUBEBUILDER_ASSETS"):
        with started(real_assets()) as server:
            yield server.kubeconfig()
    else:
        with served(ApiServer(now=wall_clock), gc_delay=None) as url:
            yield kubeconfig(url)


@contextmanager
def converting(site: Site, *converters: Converter) -> Iterator[str]:
    """Our webhooks in a thread of their own; their address."""

    async def work(*, task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED) -> None:
        kinds = ServedKinds(converters)
        files = CertificateFiles(site.folder)
        await serve_webhooks(None, files, "127.0.0.1", 0, SystemClock(), ready=task_status.started, kinds=kinds)

    with start_blocking_portal() as portal:
        future, url = portal.start_task(work)
        try:
            yield url
        finally:
            future.cancel()


def test_our_own_kind_in_two_versions_with_the_operator_on_the_one_that_is_stored(site: Site, tmp_path: Path) -> None:
    """A renamed field, a moved one, and one kept by an annotation; the operator never hears of v1alpha2."""
    namespace = unused_name("versions")
    with converting(site, converter()) as url:
        site.kubectl.run("create", "namespace", namespace)
        site.kubectl.run("label", "namespace", namespace, "managed-by=vworkspace")
        ours = list(yaml.safe_load_all(run("manifests", "--crds-only").out))
        printed = with_conversion(definition(), "vworkspace-operator", InstallOptions(webhook_ca=site.authority).trust)
        others = [one for one in ours if one["spec"]["names"]["kind"] != "ApplicationInstance"]
        site.apply(*others, *flux_crds(), _on_this_machine(dict(printed), int(url.rpartition(":")[2])))
        read = ("-n", namespace, "shop", "--show-managed-fields")
        site.until_read("-n", namespace, INSTANCES.format("v1alpha2"))

        newer = instance_manifest("shop", namespace)
        spec = {**newer["spec"], "paused": True, "host": "shop.example.test"}
        made = {**newer, "apiVersion": "apps.vworkspace.io/v1alpha2", "spec": spec}
        site.apply({**made, "metadata": {**made["metadata"], "labels": LABELS}})

        stored = site.kubectl.json("get", INSTANCES.format("v1alpha1"), *read)
        assert stored["spec"]["suspend"] is True
        assert stored["spec"]["integrations"]["ingress"] == {"host": "shop.example.test", "enabled": True}
        patch = {"spec": {"integrations": {"ingress": {"enabled": False}}, "suspend": False}}
        site.kubectl.run(
            "patch", INSTANCES.format("v1alpha1"), "shop", "-n", namespace, "--type=merge", "-p", json.dumps(patch)
        )
        seen = site.kubectl.json("get", INSTANCES.format("v1alpha2"), *read)
        assert (seen["spec"]["host"], seen["spec"]["paused"]) == ("shop.example.test", False)
        assert "integrations" not in seen["spec"]
        assert preservation_annotation("v1alpha1") in seen["metadata"]["annotations"]

        words = ("run", "--no-agent", "--cluster-id", CLUSTER, "--kubeconfig", site.kubeconfig)
        with Running(tmp_path, *words, "--namespace", namespace, "--log-format=json", "--no-leader-elect") as operator:
            release = ("get", "helmreleases.helm.toolkit.fluxcd.io", "-n", namespace, "-o", "name")
            operator.until(lambda: site.kubectl.run(*release).strip(), "a release")

            def told() -> Any:
                found = site.kubectl.json("get", INSTANCES.format("v1alpha2"), *read)
                return found.get("status", {}).get("conditions")

            assert operator.until(told, "a status, in the version that the operator does not know")
            site.kubectl.run(
                *("patch", INSTANCES.format("v1alpha2"), "shop", "-n", namespace, "--type=merge"),
                *("-p", '{"spec":{"paused":true}}'),
            )
            both = site.kubectl.json("get", INSTANCES.format("v1alpha1"), *read)
            assert both["spec"]["suspend"] is True
            assert both["spec"]["integrations"]["ingress"]["enabled"] is False, "what v1alpha2 cannot say is kept"
            assert preservation_annotation("v1alpha1") not in both["metadata"].get("annotations", {})

            def suspended() -> bool:
                items = site.kubectl.json("get", "helmreleases.helm.toolkit.fluxcd.io", "-n", namespace)["items"]
                return all(item["spec"].get("suspend") for item in items)

            operator.until(suspended, "the change reaches the release")
        site.kubectl.run("delete", INSTANCES.format("v1alpha2"), "shop", "-n", namespace, "--wait=false")


def test_a_box_converts_fills_in_and_refuses_by_its_webhooks(site: Site, tmp_path: Path) -> None:
    """What `box manifests` prints and `box run` serves, in both versions."""
    namespace, port = unused_name("registry"), free_port()
    ca = tmp_path / "ca.crt"
    ca.write_bytes(site.authority)
    text = (BOXES / "registry.yaml").read_text(encoding="utf-8")
    rule = "    - rule: \"!('barred' in self.metadata.?labels.orValue({}))\"\n      message: barred\n"
    (tmp_path / "registry.yaml").write_text(
        text.replace("    - rule: self.spec.components.all", f"{rule}    - rule: self.spec.components.all", 1)
    )
    (tmp_path / "registry-crd.yaml").write_text((BOXES / "registry-crd.yaml").read_text(encoding="utf-8"))
    file = tmp_path / "registry.yaml"
    words = ("box", "run", file, "--kubeconfig", site.kubeconfig, "--no-leader-elect", "--log-format=json")
    hooks = ("--webhook-listen", f"127.0.0.1:{port}", "--webhook-certificates", site.folder)
    site.kubectl.run("create", "namespace", namespace)
    with Running(tmp_path / "run", *words, *hooks) as box:
        box.until(lambda: box.log("webhooks are served"), "the webhooks")
        printed = []
        for more in ((), ("--crds-only",)):
            ended = run("box", "manifests", file, "--webhook-ca", ca, *more)
            assert ended.status == 0, ended
            printed += list(yaml.safe_load_all(ended.out))
        desired = [one for one in printed if one["kind"].endswith("WebhookConfiguration") or "Custom" in one["kind"]]
        assert len(desired) == 3
        reachable = [_on_this_machine(one, port) for one in desired]
        for one in reachable:
            for webhook in one.get("webhooks", ()):
                chosen = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
                webhook["namespaceSelector"] = chosen
        site.apply(*reachable)
        site.until_read("-n", namespace, "registries.v1alpha1.example.com")

        def registry(version: str, name: str, **spec: Any) -> dict[str, Any]:
            meta = {"name": name, "namespace": namespace}
            given = {"externalURL": "https://r.example", "version": "1.0.0", **spec}
            return {"apiVersion": f"example.com/{version}", "kind": "Registry", "metadata": meta, "spec": given}

        parts = [{"name": "core", "image": "core:1"}, {"name": "jobs", "image": "jobs:1", "replicas": 2}]

        def filled() -> Any:
            """A configuration counts a moment after it is written."""
            site.apply(registry("v1", "main", components=parts, tls={"secretName": "x"}))
            site.kubectl.run("delete", "registries.v1.example.com", "main", "-n", namespace, "--wait=false")
            found = site.kubectl.run(
                "apply",
                "--server-side",
                "--dry-run=server",
                "-f",
                "-",
                given=yaml.safe_dump(registry("v1", "probe", components=parts)),
                status=None,
            )
            return True if "serverside-applied" in found else None

        _until(filled)
        site.apply(registry("v1", "shop", components=parts))
        assert site.until_read("registries.v1.example.com", "shop", "-n", namespace)["spec"]["tls"] == {
            "secretName": "shop-tls"
        }
        old = site.kubectl.json("get", "registries.v1alpha1.example.com", "shop", "-n", namespace)
        assert old["spec"]["coreImage"] == "core:1"
        assert "components" not in old["spec"]
        patch = '{"spec":{"coreImage":"core:2"}}'
        site.kubectl.run(
            "patch", "registries.v1alpha1.example.com", "shop", "-n", namespace, "--type=merge", "-p", patch
        )
        new = site.kubectl.json("get", "registries.v1.example.com", "shop", "-n", namespace)
        images = {part["name"]: (part["image"], part.get("replicas")) for part in new["spec"]["components"]}
        assert images == {"core": ("core:2", None), "jobs": ("jobs:1", 2)}

        site.apply(registry("v1alpha1", "older", coreImage="core:1", tls={"secretName": "mine"}))
        shown = site.kubectl.json("get", "registries.v1.example.com", "older", "-n", namespace)["spec"]
        assert [part["image"] for part in shown["components"]] == ["core:1"]
        lower = '{"spec":{"version":"0.9.0"}}'
        for version in ("v1", "v1alpha1"):
            named = (f"registries.{version}.example.com", "shop", "-n", namespace, "--type=merge", "-p", lower)
            refused = site.kubectl.run("patch", *named, status=1)
            assert "no downgrade" in refused
        for version, spec in (
            ("v1", {"components": parts}),
            ("v1alpha1", {"coreImage": "c", "tls": {"secretName": "x"}}),
        ):
            made = registry(version, "marked", **spec)
            made["metadata"]["labels"] = {"barred": "yes"}
            refused = site.apply(made, status=1)
            assert "The request is invalid: object: barred" in refused
        site.kubectl.run("delete", "registries.v1alpha1.example.com", "--all", "-n", namespace, "--wait=false")
        for one in desired[:2]:
            site.kubectl.run("delete", one["kind"].lower(), one["metadata"]["name"])


def _on_this_machine(manifest: dict[str, Any], port: int) -> dict[str, Any]:
    """Every client that asks a Service asks a port here."""

    def changed(value: Any) -> Any:
        if isinstance(value, list):
            return [changed(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "service" in value and "path" in value["service"]:
            rest = {key: item for key, item in value.items() if key != "service"}
            return {**rest, "url": f"https://127.0.0.1:{port}{value['service']['path']}"}
        return {key: changed(item) for key, item in value.items()}

    found: dict[str, Any] = changed(manifest)
    return found
