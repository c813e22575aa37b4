"""The driver of the credential machine under virtual time (PULL-8)."""

import base64
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import anyio
import attrs
import pytest
from structlog.testing import capture_logs

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Permanent, Unauthorized
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube.ports import PatchType
from tests.support.furnished import furnish
from tests.support.memory_job_store import MemoryJobStore
from tests.support.run_by import run_by
from tests.support.virtual_time import run
from vworkspace_app.credentials.live_credential import Live
from vworkspace_app.credentials.rotation import RotationHooks, RotationManager
from vworkspace_app.manager.agent import AgentOptions
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.credentials import messages as r
from vworkspace_core.credentials.performer import CredentialPerformer
from vworkspace_core.credentials.secret import Credentials, StoredCredential, credentials_of, new_secret, secret_ref
from vworkspace_core.instances.context import Settings
from vworkspace_fake.controlplane import AgentCall, ControlPlaneServer, InProcessControlPlane, ScriptedFault, When

OWN, CLUSTER, MARK = "vworkspace-system", "prod-1", "t0ken"


@attrs.define
class Site:
    """One keeper between both servers. Polls prove tokens, as the agent's do."""

    lifetime: timedelta | None = None
    poll_seconds: float = 1.0
    clock: VirtualClock = attrs.field(factory=VirtualClock)
    server: ControlPlaneServer = attrs.field(init=False)
    kube: InProcessKube = attrs.field(init=False)
    rotation: RotationManager = attrs.field(init=False)
    rotated: list[str] = attrs.field(factory=list)
    skew: timedelta = timedelta(0)

    async def prepare(self) -> None:
        numbers = iter(range(1000))
        self.server = ControlPlaneServer(
            now=self.clock.now, token_lifetime=self.lifetime, mint=lambda: f"{MARK}-{next(numbers)}"
        )
        self.server.tokens.add(CLUSTER, f"{MARK}-first")
        self.kube = InProcessKube(ApiServer(now=self.clock.now))
        await self.kube.create(NAMESPACE.manifest(OWN), kind=NAMESPACE, field_manager="setup")
        secret = new_secret(OWN, "https://odoo.example.com", CLUSTER, StoredCredential(f"{MARK}-first"))
        await self.kube.create(secret, kind=SECRET, field_manager="setup")
        self.begin()

    def begin(self, secret: Manifest | None = None) -> None:
        """A process."""
        control = InProcessControlPlane(self.server, f"{MARK}-first")
        performer = CredentialPerformer(self.kube, control, OWN, "https://odoo.example.com", CLUSTER)
        credentials = Credentials("u", CLUSTER, f"{MARK}-first", StoredCredential(f"{MARK}-first"))
        self.rotation = RotationManager(performer, Live(credentials_of(secret) if secret else credentials), self.clock)
        self.rotation.live.subscribe(lambda now: control.use_token(now.token))

    async def run(self, rotation: RotationManager) -> None:
        await rotation.run(RotationHooks(lambda: self.skew, self.rotated.append))

    async def poll(self) -> None:
        """What the agent does all the time."""
        while True:
            await self.clock.sleep(self.poll_seconds)
            token = self.rotation.live.current.token
            found = self.server.tokens.find(token)
            ends = found.ends if found else None
            self.rotation.token_used(token, found is not None and (ends is None or self.clock.now() < ends))

    async def secret(self) -> Manifest:
        return await self.kube.get(secret_ref(OWN))


def with_keeper(body: Callable[[Site], Awaitable[None]], **options: Any) -> list[Any]:
    """What was logged while `body` ran; no token among it."""

    async def main() -> None:
        site = Site(**options)
        await site.prepare()
        async with anyio.create_task_group() as group:
            group.start_soon(site.run, site.rotation)
            group.start_soon(site.poll)
            await body(site)
            group.cancel_scope.cancel()

    with capture_logs() as logs:
        run(main)
    assert MARK not in str(logs)
    return logs


@run_by(with_keeper)
async def test_rotate_returns_when_the_new_credential_is_kept_used_and_has_worked(site: Site) -> None:
    await site.rotation.rotate("job/1")
    now = site.rotation.live.current
    data = (await site.secret())["data"]
    assert now.token == f"{MARK}-0" == base64.b64decode(data["token"]).decode()
    assert "previous-token" not in data or site.rotation.state.stage.value == "forgetting"
    assert site.rotated == ["job/1"]
    assert site.rotation.age is not None
    assert site.rotation.age < timedelta(seconds=5)
    assert site.rotation.expires_at is None


@run_by(with_keeper)
async def test_many_who_ask_at_once_are_served_by_one_rotation(site: Site) -> None:
    async with anyio.create_task_group() as group:
        for number in range(9):
            group.start_soon(site.rotation.rotate, f"job/{number}")
    assert sum(1 for _, call in site.server.requests if call is AgentCall.ROTATE) <= 2


def test_a_control_plane_that_does_not_rotate_is_an_error_that_says_so() -> None:
    async def body(site: Site) -> None:
        site.server.faults.inject(ScriptedFault(call=AgentCall.ROTATE, status=404))
        with pytest.raises(Permanent, match="404"):
            await site.rotation.rotate("job/1")

    logs = with_keeper(body)
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["the credential is not rotated"]


def test_a_lost_answer_is_asked_for_again_within_the_grace_period() -> None:
    async def body(site: Site) -> None:
        site.server.faults.inject(ScriptedFault(call=AgentCall.ROTATE, status=0, when=When.AFTER, times=3))
        began = site.clock.monotonic()
        await site.rotation.rotate("job/1")
        assert site.clock.monotonic() - began < 60
        assert site.rotation.live.current.token == f"{MARK}-3"

    logs = with_keeper(body)
    assert len([line for line in logs if "no new credential yet" in line["event"]]) == 1


@pytest.mark.slow
@run_by(with_keeper, lifetime=timedelta(days=7), poll_seconds=1800.0)
async def test_a_credential_is_renewed_for_ever_without_anybody_asking(site: Site) -> None:
    await site.rotation.rotate("job/1")
    await site.clock.sleep(86_400 * 60)
    assert len(site.rotated) - 1 == 11, "sixty days: each lives a week and is used for three quarters of it"
    assert site.rotation.expires_at is not None
    assert site.clock.now() < site.rotation.expires_at


@run_by(with_keeper, lifetime=timedelta(hours=1))
async def test_credentials_that_expire_before_they_are_issued_are_not_renewed_without_a_pause(site: Site) -> None:
    """As of a control plane that writes its local time as UTC: each renewal writes the Secret three times."""
    site.skew = timedelta(hours=2)
    await site.rotation.rotate("job/1")
    await site.clock.sleep(3600)
    assert 10 <= len(site.rotated) <= 13


@run_by(with_keeper, lifetime=timedelta(days=7), poll_seconds=60.0)
async def test_the_other_sides_clock_decides_when_a_credential_is_renewed_PULL_12(site: Site) -> None:
    await site.rotation.rotate("job/1")
    site.skew = timedelta(days=6)
    await site.clock.sleep(7200)
    assert len(site.rotated) == 2


@run_by(with_keeper)
async def test_a_process_that_starts_anew_goes_on_with_the_rotation_that_the_secret_tells_of(site: Site) -> None:
    patch = {"metadata": {"annotations": {"vworkspace.io/rotation-requested": "job/1"}}}
    found = await site.kube.patch(
        secret_ref(OWN), patch, patch_type=PatchType.MERGE, field_manager="an earlier process"
    )
    site.begin(found)
    async with anyio.create_task_group() as group:
        group.start_soon(site.run, site.rotation)
        await site.rotation.rotate("job/1")
        group.cancel_scope.cancel()
    assert sum(1 for _, call in site.server.requests if call is AgentCall.ROTATE) == 1


def test_a_defect_of_an_adapter_ends_nothing_and_shows_nothing() -> None:
    class Broken(InProcessControlPlane):
        async def rotate(self) -> Any:
            raise RuntimeError(f"{MARK} in a message")

    async def body(site: Site) -> None:
        performer = CredentialPerformer(site.kube, Broken(site.server, ""), OWN)
        rotation = RotationManager(performer, Live(site.rotation.live.current), site.clock)
        async with anyio.create_task_group() as group:
            group.start_soon(rotation.run)
            group.start_soon(rotation.rotate, "job/1")
            await site.clock.sleep(30)
            assert rotation.state.retry.failures > 2
            group.cancel_scope.cancel()

    logs = with_keeper(body)
    assert "RuntimeError" in {line.get("error") for line in logs}


@run_by(with_keeper)
async def test_what_is_asked_before_it_runs_is_not_forgotten(site: Site) -> None:
    site.begin()
    async with anyio.create_task_group() as group:
        group.start_soon(site.rotation.rotate, "job/1")
        await site.clock.sleep(1)
        site.rotation.set_cluster_requests(("cluster/a/1",))
        site.rotation.set_bootstrap_token(r.BootstrapToken("unused"))
        group.start_soon(site.run, site.rotation)
        await site.clock.sleep(60)
        group.cancel_scope.cancel()
    assert set(site.rotated) == {"job/1", "cluster/a/1"}


class Witness(InProcessControlPlane):
    """Tells the keeper with which token a poll was taken or refused, as the production adapter does."""

    def __init__(
        self, server: ControlPlaneServer, token: Callable[[], str], heard: Callable[[str, bool], None]
    ) -> None:
        super().__init__(server, "")
        self._current, self._heard = token, heard

    async def fetch(self, cluster_id: str, wait_seconds: int) -> Any:
        token = self._current()
        self.use_token(token)
        await anyio.lowlevel.checkpoint()  # a request that can be cancelled, as over a network
        try:
            found = await super().fetch(cluster_id, wait_seconds)
        except Unauthorized:
            self._heard(token, False)
            raise
        self._heard(token, True)
        return found


@pytest.mark.slow
@run_by(with_keeper, poll_seconds=1e9)
async def test_two_tokens_that_are_both_rejected_are_tried_in_turn_and_slowly_PULL_7(site: Site) -> None:
    """The other token must not make the poll hurry, which would cut off what the rejection has under way."""
    found = new_secret(OWN, "https://odoo.example.com", CLUSTER, StoredCredential("unknown-new", "unknown-old"))
    await site.kube.update(
        {**found, "metadata": {**(await site.secret())["metadata"]}}, kind=SECRET, field_manager="kubectl"
    )
    furnish(site.kube, crd_manifests())
    site.begin(found)
    rotation = site.rotation
    tried: list[tuple[float, str]] = []
    rereads: list[float] = []

    def heard(token: str, accepted: bool) -> None:
        tried.append((site.clock.monotonic(), token))
        rotation.token_used(token, accepted)

    async def reread() -> bool:
        await anyio.lowlevel.checkpoint()
        rereads.append(site.clock.monotonic())
        return rotation.token_changed()

    control = Witness(site.server, lambda: rotation.live.current.token, heard)
    manager = Manager(
        site.kube,
        site.clock,
        OperatorSettings(Settings(cluster_id=CLUSTER)),
        agent=AgentOptions(control, MemoryJobStore(), rotation=rotation, reread=reread),
        credentials=rotation.live,
        random=lambda: 0.5,
    )
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await site.clock.sleep(3600)
        assert len(tried) <= 12, "two at first, then one in every seven and a half minutes"
        assert {token for _, token in tried} == {"unknown-new", "unknown-old"}
        assert len(rereads) == 1, "nothing cuts off the look at the Secret"
        site.server.tokens.add(CLUSTER, "unknown-old")
        await site.clock.sleep(1200)
        assert rotation.live.current.token.startswith(MARK), "the old one works again, and gets us a new one"
        group.cancel_scope.cancel()
