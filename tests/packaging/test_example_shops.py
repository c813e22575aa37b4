"""examples/shops: its tests pass, and it runs by its entry point in a fresh environment (PH-7)."""

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_command_processes import Servers, connection
from tests.packaging.projects import OPERATOR, ROOT
from tests.packaging.test_fresh_environments import Environment, servers, wheels
from tests.support.commands import Running, call, clean_environment

__all__ = ["servers", "wheels"]

EXAMPLE = ROOT / "examples" / "shops"
SHOPS = "apis/shops.example.com/v1/namespaces/default/shops"


def served() -> AbstractContextManager[Any]:
    """The service of the example's own tests: a real HTTP server in this process."""
    spec = importlib.util.spec_from_file_location("example_service", EXAMPLE / "tests" / "service.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    serve: Callable[[], AbstractContextManager[Any]] = module.served
    return serve()


@pytest.mark.slow
def test_the_tests_of_the_example_pass() -> None:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    ended = subprocess.run(words, cwd=EXAMPLE, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture
def fresh(wheels: Path, tmp_path: Path) -> Environment:
    """An environment with the operator and the example, and nothing else."""
    made = Environment(tmp_path / "fresh")
    made.pip("install", "--find-links", wheels, f"{OPERATOR}[operator]")
    made.pip("install", EXAMPLE)
    return made


@pytest.mark.installs
@pytest.mark.timeout(900)
def test_the_example_runs_by_its_entry_point_beside_the_operator(
    fresh: Environment, servers: Servers, tmp_path: Path
) -> None:
    listed = fresh.run("controllers", "list")
    assert "shops.controllers:shops" in listed.stdout
    crds = fresh.run("controllers", "crds", "shops", "-o", "json")
    assert crds.returncode == 0, crds.stderr
    cluster = servers.cluster_url
    applied = subprocess.run(
        [fresh.bin / "python", "-c", _APPLY, cluster],
        input=crds.stdout,
        env=clean_environment(tmp_path, {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert applied.returncode == 0, applied.stderr
    run = ("run", *connection(tmp_path, servers), "--controllers", "shops")
    with served() as service:
        command = fresh.bin / "vworkspace-operator"
        with Running(tmp_path / "operator", *run, command=command, SHOPS_URL=service.url) as operator:
            shop = {"apiVersion": "shops.example.com/v1", "kind": "Shop", "metadata": {"name": "corner"}}
            call("POST", f"{cluster}/{SHOPS}", {**shop, "spec": {"title": "Corner shop", "shelves": 2}})
            found = operator.until(lambda: _remote_id(cluster), "the shop's id")
            assert service.shops == {found.removeprefix("r-"): {"title": "Corner shop", "shelves": 2}}
            call("DELETE", f"{cluster}/{SHOPS}/corner")
            operator.until(lambda: not service.shops, "the shop's end")
            assert operator.stop().status == 0


def _remote_id(cluster: str) -> str:
    status: dict[str, Any] = call("GET", f"{cluster}/{SHOPS}/corner").get("status") or {}
    return str(status.get("remoteId") or "")


_APPLY = """
import json, sys, urllib.request

found = json.loads(sys.stdin.read())
for crd in found.get("items", [found]):
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    body, headers = json.dumps(crd).encode(), {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(sys.argv[1] + path, body, headers, method="POST"))
"""
