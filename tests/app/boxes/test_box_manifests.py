"""`box manifests`: what an API server admits, with the box's files and rules in it (RUN-7, PH-6)."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.simulation import START
from vworkspace_apiserver.inprocess import InProcessKube, run_sync
from vworkspace_apiserver.server import ApiServer
from vworkspace_app.commands.box_manifests import render_box_manifests, render_rbac
from vworkspace_app.install.roles import RoleOptions
from vworkspace_app.process.errors import CommandError
from vworkspace_app.process.yaml_documents import Format

BOXES = Path(__file__).resolve().parents[3] / "examples" / "boxes"
OWN = "vworkspace-system"


def rendered(name: str, *, crds_only: bool = False, tenants: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    options = RoleOptions(OWN, tenants=tenants)
    text = render_box_manifests(
        str(BOXES / f"{name}.yaml"), (), "r/operator:1", options, Format.YAML, crds_only=crds_only
    )
    return list(yaml.safe_load_all(text))


@pytest.mark.parametrize("name", ["webapp", "registry", "chart"])
def test_an_api_server_admits_all_of_it(name: str) -> None:
    server = ApiServer(now=lambda: START)
    api = InProcessKube(server)
    namespace = server.registry.of_kind("v1", "Namespace")
    assert namespace is not None
    for where in (OWN, "team"):
        made = namespace.core_kind.manifest(where)
        run_sync(api.create(made, kind=namespace.core_kind, field_manager="test"))
    for manifest in (*rendered(name, crds_only=True), *rendered(name, tenants=("team",))):
        resource = server.registry.of_kind(manifest["apiVersion"], manifest["kind"])
        assert resource is not None
        run_sync(api.create(manifest, kind=resource.core_kind, field_manager="test"))


def test_the_pods_run_the_files_and_change_with_them() -> None:
    found = {one["kind"]: one for one in rendered("webapp")}
    template = found["Deployment"]["spec"]["template"]
    (container,) = template["spec"]["containers"]

    assert container["args"][:3] == ["box", "run", "/etc/vworkspace/boxes/webapp.yaml"]
    assert found["ConfigMap"]["data"]["webapp-crd.yaml"] == (BOXES / "webapp-crd.yaml").read_text(encoding="utf-8")
    assert template["metadata"]["annotations"]["box.vworkspace.io/files-hash"]
    assert "CustomResourceDefinition" not in found


def test_rules_and_literal_values_of_a_box_go_into_its_crd() -> None:
    (crd,) = rendered("registry", crds_only=True)
    (version,) = [one for one in crd["spec"]["versions"] if one["storage"]]
    box = yaml.safe_load((BOXES / "registry.yaml").read_text(encoding="utf-8"))
    said = {rule["rule"] for rule in version["schema"]["openAPIV3Schema"].get("x-kubernetes-validations", ())}

    assert {rule["rule"] for rule in box["spec"].get("validation", ())} == said


def test_roles_are_for_the_account_that_is_named() -> None:
    options = RoleOptions(OWN, "vworkspace-operator", elects=False)
    found = list(yaml.safe_load_all(render_rbac(str(BOXES / "webapp.yaml"), (), options, Format.YAML)))

    assert [one["kind"] for one in found] == ["ClusterRole", "ClusterRoleBinding"]
    assert found[1]["subjects"] == [{"kind": "ServiceAccount", "name": "vworkspace-operator", "namespace": OWN}]


def test_a_box_without_a_file_of_its_crd_cannot_be_installed(tmp_path: Path) -> None:
    text = (BOXES / "webapp.yaml").read_text(encoding="utf-8").replace("crd: webapp-crd.yaml", "crd: ./webapp-crd.yaml")
    (tmp_path / "webapp.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "webapp-crd.yaml").write_bytes((BOXES / "webapp-crd.yaml").read_bytes())

    with pytest.raises(CommandError, match="file beside it"):
        render_box_manifests(str(tmp_path / "webapp.yaml"), (), "r/x:1", RoleOptions(), Format.YAML, crds_only=False)
