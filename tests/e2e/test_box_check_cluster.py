"""`box check --kubeconfig`: what no file tells about is read from the CRDs of a cluster, those alone (PH-6)."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from kubelab.cluster.access import write_kubeconfig
from kubelab.inprocess import InProcessKube
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from tests.support.audited_story import Remembered
from tests.support.boxes import crd
from tests.support.embedded_server import embedded
from vworkspace_app.__main__ import run_command

BOX = """
apiVersion: box.vworkspace.io/v1alpha1
kind: OperatorBox
metadata: {name: shop}
spec:
  crd: {name: shops.example.com}
  resources:
    - id: database
      template:
        apiVersion: db.example.com/v1
        kind: Policy
        metadata: {name: "${self.metadata.name}"}
        spec: {image: "${self.spec.image}", parts: []}
    - id: config
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "${self.metadata.name}"}
        data: {ready: "${string(database.status.ready)}"}
"""


def policies() -> dict[str, Any]:
    """Another kind of the same form: its plural follows from its name."""
    names = {"plural": "policies", "singular": "policy", "kind": "Policy", "listKind": "PolicyList"}
    made = crd(group="db.example.com", names=names)
    return {**made, "metadata": {"name": "policies.db.example.com"}}


def checked(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, set[tuple[str, str]]]:
    """Exit status, what is printed, and what was asked of the API server: verb and path."""
    path = folder / "box.yaml"
    path.write_text(text, encoding="utf-8")

    async def story() -> tuple[int, str, set[tuple[str, str]]]:
        async with embedded() as (server, url):
            admin = InProcessKube(server)
            for definition in (crd(), policies()):
                await admin.create(definition, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="setup")
            asked = Remembered(server.audit)
            before = len(list(asked.requests()))
            write_kubeconfig(folder / "kc", url)
            words = ["box", "check", str(path), "--kubeconfig", str(folder / "kc")]
            status = await anyio.to_thread.run_sync(run_command, words)
            return (
                status,
                capsys.readouterr().out,
                {(request.verb, request.path) for request in list(asked.requests())[before:]},
            )

    return anyio.run(story)


def test_schemas_that_no_file_brings_are_those_of_the_cluster_PH_6(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, asked = checked(tmp_path, BOX, capsys)
    assert (status, out.splitlines()[0].rpartition("/")[2]) == (
        0,
        "box.yaml: ok: 2 resources, 4 expressions checked; order: database, then config",
    )
    assert "kinds whose fields are unknown" not in out
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert asked == {("get", f"{definitions}/{name}") for name in ("shops.example.com", "policies.db.example.com")}


def test_what_does_not_fit_the_schemas_of_the_cluster_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = BOX.replace("self.spec.image", "self.spec.imagen").replace("database.status.ready)", "database.status.red)")
    status, out, _ = checked(tmp_path, wrong.replace("kind: ConfigMap", "kind: Gadget"), capsys)
    assert status == 1
    assert "undefined field 'imagen'; did you mean 'image'?" in out
    assert "spec.resources[1].template.kind: the kind Gadget is not known" in out


def test_a_cluster_that_does_not_answer_is_an_error_of_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "box.yaml").write_text(BOX, encoding="utf-8")
    write_kubeconfig(tmp_path / "kc", "http://127.0.0.1:9")
    assert run_command(["box", "check", str(tmp_path / "box.yaml"), "--kubeconfig", str(tmp_path / "kc")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--kubeconfig {tmp_path / 'kc'}: " in line
