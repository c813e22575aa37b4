"""docs/embedding.md and examples/passes do what they say: their code runs as it stands there."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from kubelab import ApiServer, InProcessKube, kubeconfig, run_sync
from purekube import CUSTOM_RESOURCE_DEFINITION, ObjectRef
from tests.docs.markdown import ROOT
from tests.packaging.test_doors import EMBEDDED
from tests.support.embedded_server import embedded

PAGE = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")
PASSES = (ROOT / "examples" / "passes" / "README.md").read_text(encoding="utf-8")
CODE = dict(re.findall(r"```python (\w+)\n(.*?)```", PAGE + PASSES, re.DOTALL))
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "greetings.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Greeting", "plural": "greetings"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


class Silence:
    """An `EventSink` that keeps nothing."""

    async def emit(self, event: Any) -> None:
        """Let it go."""


def run(*labels: str) -> dict[str, Any]:
    """What the blocks leave behind, run one after the other."""
    found: dict[str, Any] = {}
    for label in labels:
        exec(compile(CODE[label], f"{label} of docs/embedding.md or examples/passes", "exec"), found)
    return found


def greeting(server: ApiServer, code: dict[str, Any], namespace: str = "default") -> ObjectRef:
    """Make one; where it is."""
    kube = InProcessKube(server)
    run_sync(kube.create(CRD, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="admin"))
    manifest = {**code["GREETING"].manifest("world", namespace), "spec": {"name": "World"}}
    run_sync(kube.create(manifest, kind=code["GREETING"], field_manager="me"))
    return ObjectRef(code["GREETING"], namespace, "world")


@pytest.mark.slow
def test_the_simulation_comes_to_be_ready(capsys: pytest.CaptureFixture[str]) -> None:
    run("simulation")

    assert "ReleaseReady" in capsys.readouterr().out


def test_an_operator_of_ones_own_comes_to_rest() -> None:
    code = run("operator")
    server = ApiServer(now=lambda: datetime(2026, 6, 1, tzinfo=UTC))
    ref = greeting(server, code)
    kube = InProcessKube(server)

    for _ in range(3):
        run_sync(code["reconcile_greeting"](kube, Silence(), ref))

    assert run_sync(kube.get(ObjectRef(code["CONFIG_MAP"], "default", "world")))["data"] == {"text": "Hello World"}
    assert run_sync(kube.get(ref))["status"] == {"observedGeneration": 1, "ready": True}
    before = len(server.audit.writes())
    run_sync(code["reconcile_greeting"](kube, Silence(), ref))
    assert len(server.audit.writes()) == before


def test_the_same_operator_runs_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    code = run("operator", "cluster")

    async def story() -> None:
        async with embedded() as (server, url):
            (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig(url)), encoding="utf-8")
            monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
            ref = greeting(server, code)
            for _ in range(2):
                await code["greet_everybody"](Silence())
            assert run_sync(InProcessKube(server).get(ref))["status"]["ready"] is True

    anyio.run(story)


@pytest.mark.parametrize("page", ["README.md", "docs/embedding.md", "docs/embedded-api-server.md"])
def test_pages_for_those_who_embed_import_through_the_doors(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")

    assert set(re.findall(r"^from ((?:vworkspace|purekube|kubelab)\S*) import", text, re.MULTILINE)) <= set(EMBEDDED)


def test_the_page_names_every_door() -> None:
    introduction = PAGE.split("\n## ", 1)[0]

    assert {name.rpartition(".")[2] for name in EMBEDDED} <= set(re.findall(r"`(\w+)`", introduction))
