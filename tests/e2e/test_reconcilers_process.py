"""PH-7, RUN-4: `controllers run` as a process: what is in hand at SIGTERM is finished, or cut off in the end."""

import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.test_command_processes import cluster, make_namespace
from tests.support.commands import Running, call, free_port

pytestmark = pytest.mark.slow

TEAM = "team"
SHOPS = f"apis/example.com/v1/namespaces/{TEAM}/shops"
MODULE = """
import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

from purekube.reconcilers import Reconciler, Result, resource

@attrs.frozen
class ShopSpec:
    seconds: int = 0

@attrs.frozen
class ShopStatus:
    note: str = ""

SHOP = resource("example.com", "v1", "Shop", ShopSpec, ShopStatus)
NOTES = Path(__file__).parent

class Shops(Reconciler):
    kind = SHOP
    @asynccontextmanager
    async def lifespan(self):
        if (NOTES / "away").exists():
            raise ConnectionError("no route")
        yield
        await asyncio.sleep(0.1)
        names = sorted(note.name for note in NOTES.glob("*-ended"))
        (NOTES / "closed").write_text(" ".join(names), encoding="utf-8")
    async def reconcile(self, request):
        name = request.object.metadata.name
        (NOTES / f"{name}-begun").touch()
        try:
            await asyncio.sleep(request.object.spec.seconds)
        except asyncio.CancelledError:
            (NOTES / f"{name}-cut").touch()
            raise
        finally:
            (NOTES / f"{name}-ended").touch()
        return Result(ShopStatus("done"))
"""


def make(url: str, name: str, seconds: int) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": name}, "spec": {"seconds": seconds}}
    call("POST", f"{url}/{SHOPS}", body)


def note_of(url: str, name: str) -> Any:
    return (call("GET", f"{url}/{SHOPS}/{name}").get("status") or {}).get("note")


def test_what_is_in_hand_is_finished_or_cut_off_and_metrics_name_the_controller(tmp_path: Path) -> None:
    (tmp_path / "slow_shops.py").write_text(MODULE, encoding="utf-8")
    here = str(tmp_path)
    with cluster(tmp_path) as api:
        url, port = api.ready(), free_port()
        make_namespace(url, TEAM, {})
        words = ("slow_shops:Shops", "--kubeconfig", tmp_path / "kubeconfig", "--listen", f"127.0.0.1:{port}")
        crds = Running(tmp_path / "crds", "controllers", "crds", "slow_shops:Shops", cold=True, PYTHONPATH=here)
        with crds:
            crd = crds.until(lambda: "served: true" in crds.out and crds.out, "the CRD")
        call("POST", f"{url}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(crd))

        def run(folder: str, *more: str) -> Running:
            return Running(tmp_path / folder, "controllers", "run", *words, *more, cold=True, PYTHONPATH=here)

        with run("first") as process:
            make(url, "quick", 0)
            process.until(lambda: note_of(url, "quick") == "done", "the quick shop")
            text = _metrics(port)
            assert 'controller_runtime_reconcile_total{controller="controller-shops",result="success"}' in text
            make(url, "slow", 3)
            process.until((tmp_path / "slow-begun").exists, "the slow call")
            ended = process.stop()
            assert ended.status == 0, ended.err
            assert note_of(url, "slow") == "done", "finished, and told"
            assert (tmp_path / "closed").read_text(encoding="utf-8") == "quick-ended slow-ended"
        with run("second", "--grace-period", "1s") as process:
            make(url, "endless", 600)
            process.until((tmp_path / "endless-begun").exists, "the endless call")
            ended = process.stop()
            assert ended.status == 1
            assert "unfinished after the grace period of 1 s" in ended.err
            assert (tmp_path / "endless-cut").exists()
            assert note_of(url, "endless") is None
            assert "endless-ended" in (tmp_path / "closed").read_text(encoding="utf-8")
        (tmp_path / "away").touch()
        with run("third") as process:
            ended = process.end()
            assert ended.status == 1
            assert "error: controller shops: its start failed: ConnectionError: no route" in ended.err


def _metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode())
