"""SEE-6: the operator tells a receiver what wants a person, and its work never waits for it."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
import yaml

from kubelab.clock import VirtualClock
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Invalid, Unavailable
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import HELM_RELEASE, NAMESPACE
from purekube.ports import PatchType
from purekube_run.controller.manager import Election
from tests.support.builders import chart, instance_manifest
from tests.support.furnished import furnish
from tests.support.run_by import run_by
from tests.support.virtual_time import run
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.instances.context import Settings

CLUSTER = "prod-1"
LABELS = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
NS = "org-myteam"


@attrs.define
class Receiver:
    """The far side: what it took, and how it answers."""

    received: list[Mapping[str, Any]] = attrs.field(factory=list)
    answer: Exception | None = None
    asked: int = 0

    async def send(self, event: Mapping[str, Any]) -> None:
        self.asked += 1
        if self.answer is not None:
            raise self.answer
        self.received.append(event)

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(event["type"].rpartition(".")[2], event["data"]["name"]) for event in self.received]


@attrs.frozen
class Site:
    admin: InProcessKube
    receiver: Receiver

    async def gate(self, gated: bool) -> None:
        patch = {"metadata": {"labels": {"managed-by": "vworkspace" if gated else None}}}
        await self.admin.patch(ObjectRef(NAMESPACE, None, NS), patch, patch_type=PatchType.MERGE, field_manager="admin")

    async def apply(self, name: str = "shop") -> None:
        instance = instance_manifest(name, NS, metadata={"labels": LABELS}, chart=chart("1.0.0"))
        await self.admin.create(instance, kind=APPLICATION_INSTANCE, field_manager="odoo")

    async def reason(self) -> Any:
        (shop,) = (await self.admin.list(APPLICATION_INSTANCE, namespace=NS)).items
        return get_path(shop, "status", "reason")


def play(story: Callable[[Site], Awaitable[None]], elected: Callable[[], Awaitable[None]] | None = None) -> None:
    async def main() -> None:
        clock = VirtualClock()
        server = ApiServer(now=clock.now)
        admin = InProcessKube(server)
        furnish(admin, (*crd_manifests(), *flux_crds()), NS)
        api = InProcessKube(server, caller=Caller("operator", agent="operator/1"))
        receiver = Receiver()
        settings = OperatorSettings(Settings(cluster_id=CLUSTER), page_url="https://ops.example.com/vw/")
        election = Election() if elected is None else Election(elected)
        manager = Manager(api, clock, settings, election=election, receiver=receiver, random=lambda: 0.5)
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            await manager.wait_ready()
            await story(Site(admin, receiver))
            group.cancel_scope.cancel()

    run(main)


@pytest.mark.slow
@run_by(play)
async def test_what_wants_a_person_is_told_once_with_a_link_and_so_is_its_end(site: Site) -> None:
    await site.apply()
    await anyio.sleep(240)
    assert site.receiver.told == [], "obstacles often leave by themselves"
    await anyio.sleep(3600)
    assert site.receiver.told == [("needed", "shop")]
    (event,) = site.receiver.received
    assert event["data"]["reason"] == "NamespaceNotGated"
    path = f"object/applicationinstances.apps.vworkspace.io/{NS}/shop"
    assert event["data"]["link"] == f"https://ops.example.com/vw/{path}"
    await site.gate(True)
    await anyio.sleep(5)
    assert site.receiver.told == [("needed", "shop"), ("resolved", "shop")]


PAGE = (Path(__file__).resolve().parents[3] / "docs/notifications.md").read_text(encoding="utf-8")


@pytest.mark.slow
@run_by(play)
async def test_the_page_shows_a_notice_as_it_is_sent(site: Site) -> None:
    (shown,) = map(json.loads, re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
    await site.apply()
    await anyio.sleep(400)
    (event,) = site.receiver.received
    assert event.keys() == shown.keys()
    assert event["data"].keys() == shown["data"].keys()
    same = ("kind", "name", "state", "reason", "message", "help")
    assert [event["data"][name] for name in same] == [shown["data"][name] for name in same]


@run_by(play)
async def test_the_alert_of_flux_on_the_page_selects_the_releases_that_the_operator_makes(site: Site) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (alert,) = (each for block in blocks for each in yaml.safe_load_all(block) if each.get("kind") == "Alert")
    (source,) = alert["spec"]["eventSources"]
    await site.gate(True)
    await site.apply()
    await anyio.sleep(5)
    (release,) = (await site.admin.list(HELM_RELEASE, namespace=NS)).items
    assert source["matchLabels"].items() <= release["metadata"]["labels"].items()
    assert source["kind"] == HELM_RELEASE.kind


@pytest.mark.slow
@run_by(play)
async def test_a_receiver_that_is_away_for_hours_holds_up_no_reconcile_and_misses_nothing(site: Site) -> None:
    site.receiver.answer = Unavailable("POST https://hooks.example.com: 503")
    await site.apply()
    await anyio.sleep(7200)
    assert await site.reason() == "NamespaceNotGated"
    await site.gate(True)
    await anyio.sleep(5)
    assert await site.reason() != "NamespaceNotGated"
    assert site.receiver.asked < 45, "it is asked less and less often"
    site.receiver.answer = None
    await anyio.sleep(301)
    assert site.receiver.told == [("needed", "shop"), ("resolved", "shop")]


@pytest.mark.slow
@run_by(play)
async def test_a_defect_of_the_receiver_and_a_refused_notice_end_nothing(site: Site) -> None:
    site.receiver.answer = Invalid("POST https://hooks.example.com: 400")
    await site.apply("refused")
    await anyio.sleep(400)
    assert site.receiver.asked == 1, "what is refused is not sent again"
    site.receiver.answer = RuntimeError("a defect")
    await site.apply()
    await anyio.sleep(400)
    site.receiver.answer = None
    await anyio.sleep(301)
    assert site.receiver.told == [("needed", "shop")]
    assert site.receiver.received[0]["data"]["lost"] == 1


@pytest.mark.slow
@run_by(play, anyio.sleep_forever)
async def test_a_standby_tells_nothing(site: Site) -> None:
    await site.apply()
    await anyio.sleep(3600)
    assert site.receiver.asked == 0
