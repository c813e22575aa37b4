"""A registration that does not succeed, and what people then change: each change takes effect without a restart."""

import base64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import anyio
import attrs
import pytest

from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, SECRET
from purekube.ports import PatchType
from purekube_run.process.machine import SystemClock
from tests.support.control_planes import served
from tests.support.patience import PATIENCE
from vworkspace_app.credentials import registration
from vworkspace_app.credentials.live_credential import CredentialsSource
from vworkspace_app.credentials.registration import REGISTRATION_TOKEN_TYPE
from vworkspace_app.manager.startup import first_credentials
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import CLUSTER
from vworkspace_core.credentials.secret import Credentials, StoredCredential, new_secret
from vworkspace_fake.controlplane import ControlPlaneServer

OWN, ID = "vworkspace-system", "prod-1"
NOBODY = "http://127.0.0.1:1"


@attrs.define
class Site:
    """A cluster whose operator looks for its credential, and the control plane at `url`."""

    server: ControlPlaneServer
    url: str
    api: InProcessKube = attrs.field(factory=lambda: InProcessKube(ApiServer(now=lambda: datetime.now(UTC))))

    async def prepare(self) -> None:
        for manifest in crd_manifests():
            await self.api.create(manifest, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="t")
        await self.api.create(NAMESPACE.manifest(OWN), kind=NAMESPACE, field_manager="t")

    async def put_token(self, token: str) -> None:
        ref = ObjectRef(SECRET, OWN, "one-time")
        body = {
            **SECRET.manifest(ref.name, OWN),
            "type": REGISTRATION_TOKEN_TYPE,
            "data": {"token": base64.b64encode(token.encode()).decode()},
        }
        if (await self.api.list(SECRET, namespace=OWN)).items:
            await self.api.delete(ref)
        await self.api.create(body, kind=SECRET, field_manager="t")

    async def describe(self, url: str) -> None:
        spec = {
            "clusterId": ID,
            "controlPlaneEndpoint": url,
            "registrationTokenSecretRef": {"name": "one-time", "key": "token"},
        }
        await self.api.create({**CLUSTER.manifest("this"), "spec": spec}, kind=CLUSTER, field_manager="t")

    async def register_elsewhere(self) -> None:
        stored = StoredCredential("by-hand", "", None, datetime.now(UTC))
        await self.api.create(new_secret(OWN, self.url, ID, stored), kind=SECRET, field_manager="t")


async def wrong_address(site: Site) -> None:
    await site.put_token(site.server.tokens.offer_registration(ID))
    await site.describe(NOBODY)


async def mend_address(site: Site) -> None:
    await site.api.patch(
        ObjectRef(CLUSTER, None, "this"),
        {"spec": {"controlPlaneEndpoint": site.url}},
        patch_type=PatchType.MERGE,
        field_manager="t",
    )


async def wrong_token(site: Site) -> None:
    await site.put_token("of-another-time")
    await site.describe(site.url)


async def mend_token(site: Site) -> None:
    await site.put_token(site.server.tokens.offer_registration(ID))


@pytest.mark.parametrize(
    ("begin", "mend", "token"),
    [
        (wrong_address, mend_address, None),
        (wrong_token, mend_token, None),
        (wrong_token, Site.register_elsewhere, "by-hand"),
    ],
    ids=["the address", "the token", "a credential by hand"],
)
def test_what_is_mended_while_a_registration_fails_takes_effect_without_a_restart_PULL_8(
    begin: Callable[[Site], Awaitable[None]],
    mend: Callable[[Site], Awaitable[None]],
    token: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registration, "LOOK_SECONDS", 0.2)

    async def elected() -> None:
        pass

    async def body() -> None:
        server = ControlPlaneServer()
        async with served(server) as url:
            site = Site(server, url)
            await site.prepare()
            await begin(site)
            source = CredentialsSource(site.api, OWN)
            found: list[Credentials] = []

            async def start() -> None:
                credentials, _ = await first_credentials(site.api, source, "s", elected, SystemClock())
                found.append(credentials)

            async with anyio.create_task_group() as group:
                group.start_soon(start)
                await anyio.sleep(1)
                assert not found
                await mend(site)

            assert found[0].url == url
            assert found[0].token == (token or found[0].stored.token) != ""

    async def main() -> None:
        with anyio.fail_after(PATIENCE):
            await body()

    anyio.run(main)
