"""cert-manager issues the certificate of the printed webhooks, and the API server trusts it (RUN-6, RUN-7, PH-8).

`make cluster --with cert-manager`. The tests act as the kubelet: they write the Secret's files where a pod mounts them.
"""

import secrets
import ssl
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
from anyio.abc import TaskStatus
from anyio.from_thread import start_blocking_portal

from purekube.apimachinery.errors import AlreadyExists, NotFound, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, SECRET
from purekube.ports import PatchType
from purekube.versions import Conversion, Converter
from purekube_http import KubeApiClient, load_config
from purekube_run.process.machine import SystemClock
from tests.support.definitions import have_defined
from tests.support.e2e_world import CLUSTER, instance
from tests.support.kube_client import RemoteHands
from tests.support.patience import until
from tests.support.webhooks_in_force import LABELS, SERVICES, configuration_kind, on_this_machine, with_port
from tools.cluster.up import Cluster
from vworkspace_app.install import InstallOptions, installation
from vworkspace_app.install.extension_manifests import with_conversion
from vworkspace_app.install.names import NAME
from vworkspace_app.install.options import TLS_SECRET
from vworkspace_app.install.webhook_manifests import SERVICE
from vworkspace_app.webhooks import CertificateFiles, ServedKinds, serve_webhooks
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import NAMESPACE_GATE, NAMESPACE_GATE_VALUE
from vworkspace_core.webhook.admission import WebhookSettings

_KINDS = {
    "Issuer": Kind("cert-manager.io", "v1", "Issuer", "issuers"),
    "Certificate": Kind("cert-manager.io", "v1", "Certificate", "certificates"),
}
_GROUP = "shops.example.com"
_SHOPS = {version: Kind(_GROUP, version, "Shop", "shops") for version in ("v1", "v2")}
_OPTIONS = InstallOptions(cert_manager=True)
pytestmark = pytest.mark.lone


@attrs.frozen
class Site:
    """A namespace with the printed certificate, and the folder where a pod of the operator would mount its Secret."""

    hands: RemoteHands
    folder: Path
    namespace: str

    def find(self, ref: ObjectRef) -> Manifest:
        """Return an object, empty where there is none."""
        with suppress(NotFound):
            return self.hands.do(lambda api: api.get(ref))
        return {}

    def apply(self, manifest: Manifest, kind: Kind) -> None:
        self.hands.do(lambda api: api.apply(manifest, kind=kind, field_manager="kubectl", force=True))

    def delete(self, ref: ObjectRef) -> None:
        with suppress(NotFound):
            self.hands.do(lambda api: api.delete(ref))

    def certificate(self) -> dict[str, bytes]:
        """Return the files of the Secret that cert-manager keeps."""
        held = self.find(ObjectRef(SECRET, _OPTIONS.namespace, TLS_SECRET)).get("data") or {}
        return {name: b64decode(content) for name, content in held.items()}

    def mount(self) -> None:
        """Write the Secret's files, as a kubelet does some time after a change."""
        for name, content in self.certificate().items():
            (self.folder / name).write_bytes(content)

    def renew(self) -> None:
        """Have cert-manager issue another certificate now, as `cmctl renew` does."""
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        issuing = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "lastTransitionTime": now}
        ref = ObjectRef(_KINDS["Certificate"], _OPTIONS.namespace, SERVICE)
        ready = (self.find(ref)["status"] or {}).get("conditions") or []
        body = {"status": {"conditions": [*ready, issuing]}}
        self.hands.do(
            lambda api: api.patch(ref, body, patch_type=PatchType.MERGE, field_manager="cmctl", subresource="status")
        )

    def refusal(self) -> str:
        """Return how the API server refuses an instance in a namespace that is not managed; empty if it takes it."""
        return self._created(f"{self.namespace}-open")

    def is_admitted(self) -> bool:
        """Report whether the API server takes an instance in a gated namespace."""
        return not self._created(self.namespace)

    def _created(self, namespace: str) -> str:
        given = instance()
        release = {"release": {**given["spec"]["release"], "namespace": namespace}}
        meta = {"name": "guarded", "namespace": namespace, "labels": LABELS}
        manifest = {**given, "metadata": meta, "spec": {**given["spec"], **release}}
        try:
            self.hands.do(lambda api: api.create(manifest, kind=APPLICATION_INSTANCE, field_manager="kubectl"))
        except OperatorError as error:
            return str(error)
        self.delete(ObjectRef(APPLICATION_INSTANCE, namespace, "guarded"))
        return ""


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    if "cert-manager" not in cluster.components:
        pytest.skip("the cluster runs without cert-manager")
    config = load_config(cluster.kubeconfig)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(KubeApiClient(config)) as api:
        found = Site(RemoteHands(portal, api), tmp_path, f"certs-{secrets.token_hex(3)}")
        found.hands.do(partial(have_defined, crd_manifests()))
        gate = {NAMESPACE_GATE: NAMESPACE_GATE_VALUE}
        for name, labels in ((found.namespace, gate), (f"{found.namespace}-open", {}), (_OPTIONS.namespace, {})):
            manifest = {**NAMESPACE.manifest(name), "metadata": {"name": name, "labels": labels}}
            with suppress(AlreadyExists):
                found.hands.do(partial(_create, manifest, NAMESPACE))
        for manifest in installation(_OPTIONS):
            if manifest["kind"] in _KINDS:
                found.apply(manifest, _KINDS[manifest["kind"]])
        yield found
        for manifest in installation(_OPTIONS):
            if manifest["kind"] in _KINDS:
                found.delete(ObjectRef(_KINDS[manifest["kind"]], _OPTIONS.namespace, manifest["metadata"]["name"]))
        for name in (found.namespace, f"{found.namespace}-open"):
            found.delete(ObjectRef(NAMESPACE, None, name))
        for secret in _secrets():
            found.delete(ObjectRef(SECRET, _OPTIONS.namespace, secret))


async def _create(manifest: Manifest, kind: Kind, api: Any) -> None:
    await api.create(manifest, kind=kind, field_manager="kubectl")


def _secrets() -> Iterator[str]:
    for manifest in installation(_OPTIONS):
        if manifest["kind"] == "Certificate":
            yield manifest["spec"]["secretName"]


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """Serve the operator's webhooks with the mounted certificate; yield the port."""

    async def work(*, task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED) -> None:
        files, settings = CertificateFiles(folder), WebhookSettings(CLUSTER)
        kinds = ServedKinds((Converter.of(_GROUP, "Shop", "v1", Conversion("v2", _same, _same)),))
        await serve_webhooks(settings, files, "127.0.0.1", 0, SystemClock(), ready=task_status.started, kinds=kinds)

    with start_blocking_portal() as portal:
        future, url = portal.start_task(work)
        try:
            yield int(url.rpartition(":")[2])
        finally:
            future.cancel()


def _same(manifest: Any) -> Any:
    return manifest


@contextmanager
def configured(site: Site, port: int) -> Iterator[tuple[ObjectRef, ...]]:
    """Configure the printed webhooks, whose Service leads to a port of this machine."""
    site.apply(on_this_machine(), SERVICES)
    manifests = [manifest for manifest in installation(_OPTIONS) if manifest["kind"].endswith("WebhookConfiguration")]
    places = tuple(ObjectRef(configuration_kind(manifest), None, NAME) for manifest in manifests)
    try:
        for manifest, place in zip(manifests, places, strict=True):
            site.apply(with_port(manifest, port), place.kind)
        yield places
    finally:
        for place in (*places, ObjectRef(SERVICES, _OPTIONS.namespace, SERVICE)):
            site.delete(place)


def _bundles(site: Site, places: Iterable[ObjectRef]) -> list[str]:
    hooks = [hook for place in places for hook in site.find(place)["webhooks"]]
    return [b64decode(hook["clientConfig"].get("caBundle", "")).decode() for hook in hooks]


def _trusts(authority: bytes, bundle: str) -> bool:
    return authority.decode().strip() in bundle


def _shown(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port))


def test_the_webhook_serves_with_cert_managers_certificate_and_a_renewal_interrupts_nothing_RUN_6(site: Site) -> None:
    until(lambda: "tls.crt" in site.certificate(), "the certificate is issued")
    site.mount()
    with serving(site.folder) as port, configured(site, port) as places:
        until(lambda: "denied the request" in site.refusal(), "the webhook is trusted, and refuses")
        first = site.certificate()
        assert all(_trusts(first["ca.crt"], bundle) for bundle in _bundles(site, places))
        assert "is not labelled managed-by=vworkspace" in site.refusal()
        assert site.is_admitted()

        site.renew()
        until(lambda: site.certificate()["tls.crt"] != first["tls.crt"], "the certificate is renewed")
        until(
            lambda: all(_trusts(site.certificate()["ca.crt"], bundle) for bundle in _bundles(site, places)),
            "its authority is injected",
        )
        # A kubelet updates a mounted Secret up to a minute and a half later; the injector keeps the former authority.
        assert _shown(port).split() == _first(first["tls.crt"].decode()).split()
        _always(lambda: "denied the request" in site.refusal(), "the old certificate is trusted until then")

        site.mount()
        renewed = site.certificate()["tls.crt"].decode()
        until(lambda: _shown(port).split() == _first(renewed).split(), "the new certificate is served")
        assert "is not labelled managed-by=vworkspace" in site.refusal()


def _first(chain: str) -> str:
    end = "-----END CERTIFICATE-----"
    return f"{chain.partition(end)[0]}{end}"


def _always(holds: Callable[[], bool], what: str, times: int = 30) -> None:
    for _ in range(times):
        assert holds(), what


def test_a_definition_with_conversion_gets_the_authority_and_converts_PH_8(site: Site) -> None:
    until(lambda: "tls.crt" in site.certificate(), "the certificate is issued")
    site.mount()
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"motto": {"type": "string"}}}}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
        for name in _SHOPS
    ]
    crd = {
        **CUSTOM_RESOURCE_DEFINITION.manifest(f"shops.{_GROUP}"),
        "spec": {
            "group": _GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Shop", "plural": "shops", "singular": "shop", "listKind": "ShopList"},
            "versions": versions,
        },
    }
    place = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, f"shops.{_GROUP}")
    client = ("spec", "conversion", "webhook", "clientConfig")
    with serving(site.folder) as port:
        site.apply(on_this_machine(), SERVICES)
        printed = with_conversion(crd, NAME, _OPTIONS.trust)
        printed["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] = port
        try:
            site.apply(printed, CUSTOM_RESOURCE_DEFINITION)
            until(lambda: bool(get_path(site.find(place), *client, "caBundle")), "the authority is injected")
            bundle = b64decode(get_path(site.find(place), *client, "caBundle"))
            assert bundle == site.certificate()["ca.crt"]
            shop = {**_SHOPS["v1"].manifest("corner", site.namespace), "spec": {"motto": "open"}}
            until(lambda: _is_taken(site, shop), "the kind is served")
            read = ObjectRef(_SHOPS["v2"], site.namespace, "corner")
            until(lambda: get_path(_read(site, read), "spec", "motto") == "open", "it is converted")
            assert _read(site, read)["apiVersion"] == f"{_GROUP}/v2"
        finally:
            site.delete(place)
            site.delete(ObjectRef(SERVICES, _OPTIONS.namespace, SERVICE))


def _is_taken(site: Site, manifest: Manifest) -> bool:
    try:
        site.apply(manifest, _SHOPS["v1"])
    except OperatorError:
        return False
    return True


def _read(site: Site, ref: ObjectRef) -> Manifest:
    try:
        return site.find(ref)
    except OperatorError:  # the API server takes a moment to know the authority
        return {}
