"""The live credentials: whatever changes them takes effect without a restart, and nothing of them shows (PULL-8)."""

import base64
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
from structlog.testing import capture_logs

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube.ports import PatchType
from purekube_run.process.command_line import CommandError
from tests.support.virtual_time import run
from vworkspace_app.credentials.live_credential import CredentialsSource, CredentialWatch, Live
from vworkspace_core.credentials.secret import Credentials, credentials_of, secret_ref

OWN = "vworkspace-system"
REF = secret_ref(OWN)
MARK = "m4rk-of-a-secret"
FIRST = {
    "control-plane-base-url": "https://odoo.example.com",
    "cluster-id": "prod-1",
    "token": f"{MARK}-token",
    "approval-secret": f"{MARK}-approval\n",
}


def encoded(data: Mapping[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}


@attrs.define
class Site:
    """A cluster whose credentials Secret somebody edits."""

    clock: VirtualClock = attrs.field(factory=VirtualClock)
    kube: InProcessKube = attrs.field(init=False)
    source: CredentialsSource = attrs.field(init=False)
    live: Live[Credentials] = attrs.field(init=False)
    watch: CredentialWatch = attrs.field(init=False)
    heard: list[Credentials] = attrs.field(factory=list, repr=False)

    async def prepare(self, token_file: Path | None = None, **options: Any) -> None:
        self.kube = InProcessKube(ApiServer(now=self.clock.now))
        namespace = {**NAMESPACE.manifest(OWN)}
        await self.kube.create(namespace, kind=NAMESPACE, field_manager="setup")
        if token_file is None:
            await self.create(FIRST)
        self.source = CredentialsSource(self.kube, OWN, token_file=token_file, **options)
        self.live = Live(await self.source.read())
        self.live.subscribe(self.heard.append)
        self.watch = CredentialWatch(self.source, self.live, self.clock, random.Random(1).random)

    async def create(self, data: Mapping[str, str]) -> None:
        manifest = {**SECRET.manifest(REF.name, OWN), "data": encoded(data)}
        await self.kube.create(manifest, kind=SECRET, field_manager="kubectl-create")

    async def edit(self, data: Mapping[str, str | None]) -> None:
        kept = {key: value for key, value in data.items() if value is not None}
        patch: dict[str, Any] = {"data": {**dict.fromkeys(data), **encoded(kept)}}
        await self.kube.patch(REF, patch, patch_type=PatchType.MERGE, field_manager="kubectl-edit")

    async def within(self, seconds: float, holds: Callable[[], bool]) -> None:
        limit = self.clock.monotonic() + seconds
        while not holds():
            assert self.clock.monotonic() < limit, "not in time"
            await self.clock.sleep(0.05)


def told(body: Callable[[Site], Awaitable[None]], **options: Any) -> list[Any]:
    """Run `body` while the credentials are watched; what was logged, none of it secret."""

    async def main() -> None:
        site = Site()
        await site.prepare(**options)
        async with anyio.create_task_group() as group:
            group.start_soon(site.watch.run)
            await site.clock.sleep(1)
            await body(site)
            group.cancel_scope.cancel()

    with capture_logs() as logs:
        run(main)
    assert MARK not in str(logs)
    return logs


def test_every_key_of_an_edited_secret_takes_effect_and_is_told_PULL_8() -> None:
    new = {
        "control-plane-base-url": "https://new.example.com",
        "token": f"{MARK}-new",
        "ca.crt": f"{MARK}-ca",
        "tls.crt": f"{MARK}-crt",
        "tls.key": f"{MARK}-key",
        "approval-secret": f"{MARK}-other",
        "signing-public-key": f"{MARK}-signing",
        "decryption-key": f"{MARK}-decryption",
    }

    async def body(site: Site) -> None:
        assert site.live.current.approval_secret == f"{MARK}-approval".encode()
        await site.edit(new)
        await site.within(1, lambda: bool(site.heard))
        (now,) = site.heard
        assert now is site.live.current
        assert (now.url, now.token, now.ca, now.certificate) == tuple(
            new[key] for key in ("control-plane-base-url", "token", "ca.crt", "tls.crt")
        )
        assert (now.private_key, now.signing_key, now.decryption_key) == tuple(
            new[key] for key in ("tls.key", "signing-public-key", "decryption-key")
        )
        assert now.approval_secret == new["approval-secret"].encode()
        await site.edit({"approval-secret": None})
        await site.within(1, lambda: site.live.current.approval_secret is None)

    logs = told(body)
    changed = [line["changed"] for line in logs if line["event"] == "the credentials changed"]
    assert changed[1:] == [["approval_secret"]]
    assert "token" in changed[0]


def test_a_secret_that_goes_or_breaks_leaves_the_last_credential_in_use_and_is_told_once() -> None:
    async def body(site: Site) -> None:
        before = site.live.current
        await site.kube.delete(REF)
        await site.clock.sleep(60)
        assert site.live.current == before
        await site.create({**FIRST, "token": ""})
        await site.clock.sleep(60)
        assert site.live.current == before
        await site.edit({"token": f"{MARK}-back"})
        await site.within(1, lambda: site.live.current.token == f"{MARK}-back")

    logs = told(body)
    problems = [line["error"] for line in logs if line["event"].startswith("the credentials cannot be read")]
    assert [problem[-7:] for problem in problems] == ["t exist", "s token"], problems


def test_another_cluster_id_is_an_error_in_the_log_and_nothing_else() -> None:
    async def body(site: Site) -> None:
        await site.edit({"cluster-id": "prod-2", "token": f"{MARK}-of-2"})
        await site.clock.sleep(5)
        assert site.live.current.cluster_id == "prod-1"
        assert site.live.current.token == FIRST["token"]

    assert [line["found"] for line in told(body) if line["log_level"] == "error"] == ["prod-2"]


def test_a_secret_with_a_cluster_id_that_no_label_can_hold_is_named_with_the_rule_RES_5() -> None:
    async def body(site: Site) -> None:
        await site.edit({"cluster-id": f"{MARK}/1", "token": f"{MARK}-other"})
        await site.clock.sleep(5)
        assert (site.live.current.cluster_id, site.live.current.token) == ("prod-1", FIRST["token"])
        with pytest.raises(CommandError, match="cluster-id has to be the value of a label: at most 63 letters"):
            await site.source.look()
        told = await CredentialsSource(site.kube, OWN, cluster_id="prod-1").look()
        assert told is not None
        assert told.cluster_id == "prod-1", "what is said by option counts"

    (line,) = told(body)
    assert line["error"].startswith(f"{REF}: cluster-id has to be")


def test_a_token_file_is_read_again_when_it_changes_and_the_secret_gives_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{MARK}-one\n", encoding="utf-8")

    async def body(site: Site) -> None:
        assert (site.live.current.token, site.live.current.approval_secret) == (f"{MARK}-one", None)
        replacement = tmp_path / "token.new"
        replacement.write_text(f"{MARK}-two", encoding="utf-8")
        replacement.rename(file)
        await site.within(5, lambda: site.live.current.token == f"{MARK}-two")
        await site.create(FIRST)
        await site.within(1, lambda: site.live.current.approval_secret is not None)
        assert site.live.current.token == f"{MARK}-two"
        file.write_text("", encoding="utf-8")
        await site.clock.sleep(60)
        assert site.live.current.token == f"{MARK}-two"

    logs = told(body, token_file=file, url="https://odoo.example.com", cluster_id="prod-1")
    problems = [line for line in logs if line["event"].startswith("the credentials cannot be read")]
    assert [problem["error"] for problem in problems] == [f"--token-file {file}: is empty"]


def test_no_part_of_a_credential_shows_in_a_repr() -> None:
    secret = {
        "data": encoded({key: f"{MARK}{key}" for key in FIRST | dict.fromkeys(("tls.key", "previous-token"), "")})
    }
    found = attrs.evolve(credentials_of(secret), url=f"https://agent:{MARK}@odoo.example.com", cluster_id="prod-1")

    assert found.token == f"{MARK}token"
    assert MARK not in repr(found) + str(found) + repr(Live(found)) + f"{[found]}"


def test_a_listener_that_raises_harms_nobody_and_shows_nothing() -> None:
    heard: list[str] = []
    live = Live("one")

    def bad(value: str) -> None:
        raise ValueError(f"{MARK} {value}")

    live.subscribe(bad)
    live.subscribe(heard.append)
    with capture_logs() as logs:
        assert live.set("two")
        assert not live.set("two")
    assert heard == ["two"]
    assert [line["error"] for line in logs] == ["ValueError"]
