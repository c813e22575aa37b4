"""Clients that others wrote, unmodified, against the embedded API server over HTTP (RUN-9)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import pytest
from lightkube import AsyncClient
from lightkube.config.kubeconfig import SingleConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap

from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION
from tests.support.apiserver_world import GIZMO, crd
from tests.support.embedded_server import config_of, embedded
from tests.support.patience import PATIENCE

NAMESPACE = "default"
MANAGER = "kopf-test"
FINALIZER = "tests.example/kopf"
T = TypeVar("T")
GENERIC: Any = create_namespaced_resource(GIZMO.group, GIZMO.version, GIZMO.kind, GIZMO.plural)


def gizmo(name: str, **spec: Any) -> dict[str, Any]:
    return {**GIZMO.manifest(name, NAMESPACE), "spec": spec}


def against(check: Callable[[InProcessKube, str], Awaitable[None]]) -> ApiServer:
    """Run `check` with a served server that knows Gizmos, a way into it, and its URL; the server afterwards."""

    async def main() -> ApiServer:
        async with embedded() as (server, url):
            api = InProcessKube(server)
            await api.create(crd(GIZMO), kind=CUSTOM_RESOURCE_DEFINITION, field_manager="tests")
            with anyio.fail_after(PATIENCE):
                await check(api, url)
            return server

    return anyio.run(main)


def test_lightkube_lists_watches_and_applies() -> None:
    async def check(api: InProcessKube, url: str) -> None:
        config: SingleConfig = config_of(url)
        client = AsyncClient(config=config, field_manager="lightkube-test")
        made = await client.apply(ConfigMap(metadata=ObjectMeta(name="c", namespace=NAMESPACE), data={"a": "1"}))
        assert made.data == {"a": "1"}
        custom = GENERIC(metadata=ObjectMeta(name="g", namespace=NAMESPACE), spec={"size": 1})
        applied = await client.apply(custom)
        assert applied.spec == {"mode": "normal", "size": 1}
        listed = client.list(GENERIC, namespace=NAMESPACE)
        assert [item.metadata.name async for item in listed] == ["g"]
        seen = []
        changes = client.watch(GENERIC, namespace=NAMESPACE, resource_version=listed.resourceVersion)
        await api.apply(gizmo("g", size=2), kind=GIZMO, field_manager="lightkube-test")
        await api.delete(ObjectRef(GIZMO, NAMESPACE, "g"))
        async for event, item in changes:
            seen.append((event, item.spec["size"]))
            if event == "DELETED":
                break
        assert seen == [("MODIFIED", 2), ("DELETED", 2)]
        await client.close()

    server = against(check)
    managers = {entry.manager for entry in server.audit.writes() if entry.path.endswith("/configmaps/c")}
    assert managers == {"lightkube-test"}


@pytest.mark.slow
def test_kopf_lists_watches_patches_and_applies() -> None:
    """A whole kopf operator: it lists, watches, sets its finalizer, patches, and applies through its client."""
    kopf = pytest.importorskip("kopf", reason="kopf is not installed: it is in the dependency group `tests`")
    from kopf._cogs.clients import api as kopf_client

    registry, settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.persistence.finalizer = FINALIZER

    async def created(name: str, spec: Any, patch: Any, logger: Any, **_: Any) -> None:
        await kopf_client.patch(
            f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}?fieldManager={MANAGER}&force=true",
            payload={**CONFIG_MAP.manifest(name, NAMESPACE), "data": {"size": str(spec["size"])}},
            headers={"Content-Type": "application/apply-patch+yaml"},
            settings=settings,
            logger=logger,
        )
        patch.status["seen"] = spec["size"]

    async def deleted(name: str, logger: Any, **_: Any) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}"
        await kopf_client.delete(path, settings=settings, logger=logger)

    kopf.on.create(GIZMO.group, GIZMO.version, GIZMO.plural, registry=registry)(created)
    kopf.on.delete(GIZMO.group, GIZMO.version, GIZMO.plural, registry=registry)(deleted)

    async def check(api: InProcessKube, url: str) -> None:
        def login(**_: Any) -> Any:
            return kopf.ConnectionInfo(server=url, default_namespace=NAMESPACE)

        kopf.on.login(registry=registry)(login)
        await api.create(gizmo("before", size=1), kind=GIZMO, field_manager="tests")
        stop, ready = asyncio.Event(), asyncio.Event()
        told = {"stop_flag": stop, "ready_flag": ready}
        operator = kopf.operator(registry=registry, settings=settings, namespaces=[NAMESPACE], standalone=True, **told)
        running = asyncio.create_task(operator)
        try:
            await ready.wait()
            await api.create(gizmo("after", size=2), kind=GIZMO, field_manager="tests")
            await operated(api, "before", 1)
            await operated(api, "after", 2)
        finally:
            stop.set()
            await running

    server = against(check)
    writes = server.audit.writes()
    assert {entry.status for entry in writes} <= {200, 201}
    assert {entry.path for entry in writes if entry.manager == MANAGER} == {
        f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}" for name in ("before", "after")
    }


async def operated(api: InProcessKube, name: str, size: int) -> None:
    """See what the operator does to a Gizmo that is there, and after its deletion."""
    ref, held = ObjectRef(GIZMO, NAMESPACE, name), ObjectRef(CONFIG_MAP, NAMESPACE, name)

    async def seen() -> Manifest:
        found = await api.get(ref)
        return found if get_path(found, "status", "seen") == size else {}

    async def gone() -> bool:
        try:
            await api.get(ref)
        except NotFound:
            return True
        return False

    found = await until(seen)
    assert found["metadata"]["finalizers"] == [FINALIZER]
    assert (await api.get(held))["data"] == {"size": str(size)}
    await api.delete(ref)
    await until(gone)
    with pytest.raises(NotFound):
        await api.get(held)


async def until(look: Callable[[], Awaitable[T]]) -> T:
    """What `look` finds, as soon as it finds something."""
    while not (found := await look()):
        await anyio.sleep(0.02)
    return found
