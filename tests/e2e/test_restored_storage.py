"""RUN-1, D22: etcd is restored from an older snapshot under an operator that goes on running.

An API server that is started on restored storage accepts a watch from a version that it has not reached yet, and says
nothing on it (W-15). The operator was blind for up to an hour, with Ready=True on every object.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from anyio.from_thread import BlockingPortal, start_blocking_portal

from purekube.apimachinery.errors import NotFound, OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import HELM_RELEASE, NAMESPACE
from purekube.ports import KubeApi
from purekube_http import KubeApiClient
from tests.support.commands import Running, free_port
from tests.support.definitions import have_defined
from tests.support.e2e_world import CLUSTER, NS, OWN_NS, instance, usual_crds
from tests.support.restorable_server import SERVERS, Restorable, config_of
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

pytestmark = pytest.mark.slow

AWAY = 3.0
"""Seconds that a server is away while its storage is restored, at the least (decision 184)."""
LABELS = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
BEFORE, LOST = "app-before", "app-lost"


class Hands:
    """An administrator beside a running operator."""

    def __init__(self, portal: BlockingPortal, api: KubeApi) -> None:
        self._portal, self._api = portal, api

    def do(self, act: Callable[[KubeApi], Any]) -> Any:
        return self._portal.call(partial(act, self._api))

    def find(self, ref: ObjectRef) -> Manifest | None:
        """The object; None also while no API server answers."""
        try:
            manifest: Manifest = self.do(lambda api: api.get(ref))
        except (NotFound, OperatorError):
            return None
        return manifest

    def want(self, name: str, title: str) -> None:
        """Apply an instance whose release shows its title."""
        manifest = instance()
        manifest["metadata"] = {"name": name, "namespace": NS, "labels": LABELS}
        manifest["spec"]["release"] = {"name": name, "namespace": NS}
        manifest["spec"]["values"]["inline"] = {"title": title}
        self.do(lambda api: api.apply(manifest, kind=APPLICATION_INSTANCE, field_manager="somebody"))

    def make_namespace(self, name: str) -> None:
        """Have something written that is not the operator's."""
        self.do(lambda api: api.create(NAMESPACE.manifest(name), kind=NAMESPACE, field_manager="somebody"))

    def title(self, name: str) -> Any:
        """What the operator has asked of Flux."""
        release = self.find(ObjectRef(HELM_RELEASE, NS, name)) or {}
        return get_path(release, "spec", "values", "title")


async def prepare(api: KubeApi) -> None:
    await have_defined(usual_crds(False), api)
    for name, labels in ((NS, {"managed-by": "vworkspace"}), (OWN_NS, {})):
        manifest = {**NAMESPACE.manifest(name), "metadata": {"name": name, "labels": labels}}
        await api.create(manifest, kind=NAMESPACE, field_manager="somebody")


@contextmanager
def operated(server: Restorable, folder: Path) -> Iterator[tuple[Hands, Running]]:
    """The operator as a process beside that server; one that leads ends when it cannot renew its Lease for 10 s."""
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(server.kubeconfig()), encoding="utf-8")
    words = ("--kubeconfig", file, "--no-agent", "--cluster-id", CLUSTER, "--listen", f"127.0.0.1:{free_port()}")
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(KubeApiClient(config_of(server))) as api:
        hands = Hands(portal, api)
        hands.do(prepare)
        with Running(folder / "run", "run", *words) as process:
            yield hands, process


@pytest.mark.parametrize("overtaken", [False, True], ids=["behind", "overtaken"])
@pytest.mark.parametrize("started", SERVERS)
def test_after_etcd_was_restored_every_edit_is_reconciled_and_what_was_lost_is_applied_again(
    started: Callable[[], AbstractContextManager[Restorable]], overtaken: bool, tmp_path: Path
) -> None:
    """`overtaken`: by the time the operator reaches the server, its versions are beyond the position of the watches."""
    with started() as server, operated(server, tmp_path) as (hands, process):
        hands.want(BEFORE, "first")
        process.until(lambda: hands.title(BEFORE) == "first", "the release")
        server.take_snapshot()
        hands.want(BEFORE, "second")
        hands.want(LOST, "first")
        process.until(lambda: (hands.title(BEFORE), hands.title(LOST)) == ("second", "first"), "what will be lost")
        server.stop()
        process.until(lambda: process.log("list or watch failed"), "the operator notices")
        server.restore_snapshot()
        time.sleep(AWAY)
        server.start()
        for number in range(60 if overtaken else 0):
            hands.make_namespace(f"other-{number}")
        hands.want(BEFORE, "third")
        process.until(lambda: hands.title(BEFORE) == "third", "the edit after the restore")
        hands.want(LOST, "again")
        process.until(lambda: hands.title(LOST) == "again", "what the snapshot did not hold")
        assert {line["cause"] for line in process.log("listing again")} & {"interrupted", "backwards"}
