"""SEE-3: the page as commands serve it: `run`, `demo`, `control-plane`, `trace`."""

import re
from functools import partial
from pathlib import Path

import pytest

from tests.support.box_site import EXAMPLES
from tests.support.commands import Running, call, free_port, run
from tests.support.page_site import Follower, get
from tests.support.page_text import rows


def address_in(text: str, before: str) -> str:
    """The URL behind some words of an output; empty before it is told."""
    match = re.search(rf"{before}\s*(http://[\d.:]+)/", text)
    return match[1] if match else ""


def is_ready(url: str) -> bool:
    return get(url, "/readyz").status == 200


@pytest.mark.slow
def test_the_demo_shows_its_operator_and_its_control_plane_SEE_3(tmp_path: Path) -> None:
    with Running(tmp_path / "demo", "demo", "--keep", "--plain", TMPDIR=str(tmp_path)) as process:
        url = process.until(lambda: address_in(process.out, "page"), "the address of the page")
        process.until(lambda: "Ctrl-C ends everything." in process.out, "the playground")
        assert "checks hold" in process.out
        found = rows(get(url, "/").text)
        name = "applicationinstances.apps.vworkspace.io:org-myteam:nextcloud-myteam"
        assert "Ready" in found[name]
        assert "job-playground" in get(url, "/jobs").text
        assert "connected" in get(url, "/operator").text
        assert get(url, "/", headers={"host": "elsewhere.example"}).status == 421, "for this machine only"


@pytest.mark.slow
def test_the_control_plane_shows_its_jobs_to_whoever_has_the_admin_token_SEE_3(tmp_path: Path) -> None:
    words = ("control-plane", "--cluster-id", "c", "--token", "agent", "--admin-token", "admin-secret")
    with Running(tmp_path / "control", *words) as process:
        url = process.until(lambda: address_in(process.out, r"admin token\):"), "the address of the page")
        assert get(url, "/page/").status == 401
        admin = {"authorization": "Bearer admin-secret"}
        payload = {"kind": "ApplicationInstance", "namespace": "n", "name": "shop", "note": "canary"}
        job = {"clusterId": "c", "kind": "delete", "idempotencyKey": "ApplicationInstance/n/shop@1", "payload": payload}
        call("POST", f"{url}/api/admin/jobs", job, token="admin-secret")
        page = get(url, "/page/", headers=admin)
        assert (page.status, "ApplicationInstance n/shop" in page.text) == (200, True)
        assert "canary" not in page.text
        for name in re.findall(r'(?:href|src)="\./(assets/[^"]+)"', page.text):
            assert get(url, f"/page/{name}", headers=admin).status == 200


@pytest.mark.slow
def test_run_serves_a_page_beside_its_metrics_where_it_is_asked_for_SEE_3(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kc"
    with Running(tmp_path / "cluster", "cluster", "--kubeconfig-out", kubeconfig) as cluster:
        cluster.until(lambda: "ready" in cluster.out, "the cluster")
        words = ("run", "--kubeconfig", kubeconfig, "--no-agent", "--cluster-id", "c", "--listen")
        for page, status in (("none", 404), ("open", 200), ("token-review", 401)):
            listen = f"127.0.0.1:{free_port()}"
            with Running(tmp_path / page, *words, listen, "--page", page) as operator:
                url = f"http://{listen}"
                operator.until(lambda: operator.log("serving metrics and probes"), "the port")
                operator.until(partial(is_ready, url), "that it is ready")
                assert get(url, "/metrics").status == 200
                assert get(url, "/").status == status
                if page == "open":
                    with Follower(url, "/operator") as follower:
                        assert "informers" in follower.next().data["parts"]


@pytest.mark.slow
def test_a_trace_is_served_from_its_file_SEE_3(tmp_path: Path) -> None:
    file = tmp_path / "run.trace"
    ended = run("box", "test", EXAMPLES / "webapp.yaml", "--examples", "0", "--trace", file)
    assert (ended.status, ended.err) == (0, "")
    with Running(tmp_path / "trace", "trace", file) as process:
        url = process.until(lambda: address_in(process.out, "moments at"), "its address")
        assert "Moment 3 of" in get(url, "/?at=2").text


@pytest.mark.slow
def test_a_page_needs_an_address_and_a_trace_a_file_SEE_3(tmp_path: Path) -> None:
    ended = run("run", "--no-agent", "--cluster-id", "c", "--page", "open")
    assert (ended.status, "--page=open needs --listen" in ended.err) == (2, True)
    (tmp_path / "x").write_text("nothing\n", encoding="utf-8")
    ended = run("trace", tmp_path / "x")
    assert (ended.status, "is no trace: line 1" in ended.err) == (1, True)
