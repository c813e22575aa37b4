"""Every way to a Kubernetes API server that implements the `KubeApi` port, as one subject to examine.

In process and over HTTP on the embedded server, and on a real one where the environment names one: the cluster of
`KUBECONFIG` with `E2E_CLUSTER=existing`, else etcd and kube-apiserver from the folder `KUBEBUILDER_ASSETS` (RUN-8).
A new adapter joins the suite with one more entry in `FACES`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

import anyio
import attrs
import pytest
from lightkube.config.kubeconfig import KubeConfig

from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.ports import KubeApi
from purekube_http import KubeApiClient, load_config
from tests.support.cluster_choice import is_existing, real_server
from tests.support.definitions import until_served
from tests.support.effort import unused_name
from tests.support.embedded_server import config_of, embedded
from tests.support.patience import PATIENCE

PROBE: Final = Kind("conformance.vworkspace.test", "v1", "Probe", "probes")


@attrs.frozen
class Examined:
    """An implementation of the port, and a namespace of the check's own on its server.

    `forget` makes the server drop its history, where that can be asked of it.
    """

    api: KubeApi
    namespace: str
    forget: Callable[[], None] | None = None

    def probe(self, name: str, **spec: Any) -> dict[str, Any]:
        """A Probe with this spec."""
        return {**PROBE.manifest(name, self.namespace), "spec": spec}

    def ref(self, name: str) -> ObjectRef:
        """A reference to a Probe."""
        return ObjectRef(PROBE, self.namespace, name)

    async def apply(self, manifest: Manifest, manager: str = "one", **more: Any) -> Manifest:
        """Apply a Probe."""
        return await self.api.apply(manifest, kind=PROBE, field_manager=manager, **more)


Open = Callable[[], AbstractAsyncContextManager[Examined]]


def _definition() -> dict[str, Any]:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {"type": "object", "properties": {"size": {"type": "integer", "maximum": 9}, "title": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": free}}
    version = {"name": PROBE.version, "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        **CUSTOM_RESOURCE_DEFINITION.manifest(PROBE.crd_name),
        "spec": {
            "group": PROBE.group,
            "scope": "Namespaced",
            "names": {"kind": PROBE.kind, "plural": PROBE.plural},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


async def _prepared(api: KubeApi) -> Examined:
    await api.apply(_definition(), kind=CUSTOM_RESOURCE_DEFINITION, field_manager="conformance", force=True)
    name = unused_name("conformance")
    await api.create(NAMESPACE.manifest(name), kind=NAMESPACE, field_manager="conformance")
    with anyio.fail_after(PATIENCE):
        await until_served(_definition(), api)
    return Examined(api, name)


@asynccontextmanager
async def _in_process() -> AsyncIterator[Examined]:
    server = ApiServer(now=lambda: datetime.now(UTC))
    yield attrs.evolve(await _prepared(InProcessKube(server)), forget=server.store.compact)


@asynccontextmanager
async def _over_http() -> AsyncIterator[Examined]:
    async with embedded() as (server, url), KubeApiClient(config_of(url)) as api:
        yield attrs.evolve(await _prepared(api), forget=server.store.compact)


@asynccontextmanager
async def _existing() -> AsyncIterator[Examined]:
    async with KubeApiClient(load_config()) as api:
        examined = await _prepared(api)
        try:
            yield examined
        finally:
            with suppress(NotFound):  # one check deletes it itself
                await api.delete(ObjectRef(NAMESPACE, None, examined.namespace))


@asynccontextmanager
async def _bare() -> AsyncIterator[Examined]:
    found = real_server()
    config = KubeConfig.from_dict(found.kubeconfig()).get()
    assert config is not None
    async with KubeApiClient(config) as api:
        yield await _prepared(api)


FACES: list[Any] = [
    pytest.param(_in_process, id="in-process"),
    pytest.param(_over_http, id="http"),
    pytest.param(_existing, id="existing") if is_existing() else pytest.param(_bare, id="kube-apiserver"),
]


def examine(face: Open, check: Callable[[Examined], Awaitable[None]]) -> None:
    """Run one check on a fresh subject."""

    async def main() -> None:
        async with face() as examined:
            with anyio.fail_after(PATIENCE):
                await check(examined)

    anyio.run(main)
