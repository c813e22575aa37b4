"""`box manifests`: what an API server admits, with the box's files and rules in it (RUN-7, PH-6)."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube_run.boxes.load import load_boxes, runnable
from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import Format
from tests.support.simulation import START
from vworkspace_app.commands.box.init import write_beginning
from vworkspace_app.commands.box.manifests import manifests as print_box
from vworkspace_app.commands.box.manifests import rbac as print_box_roles
from vworkspace_app.commands.box.manifests import render_box_manifests, render_object, render_rbac
from vworkspace_app.commands.manifests import PrintedPart
from vworkspace_app.commands.manifests import manifests as print_manifests
from vworkspace_app.install.options import WebhookTrust
from vworkspace_app.install.roles import RoleOptions

BOXES = Path(__file__).resolve().parents[3] / "examples" / "boxes"
OWN = "vworkspace-system"


AUTHORITY = b"-----BEGIN CERTIFICATE-----"


def rendered(
    name: str, *, folder: Path = BOXES, crds_only: bool = False, tenants: tuple[str, ...] = (), **given: Any
) -> list[dict[str, Any]]:
    options = RoleOptions(OWN, tenants=tenants)
    trust = WebhookTrust(OWN, **(given or {"webhook_ca": AUTHORITY}))
    text = render_box_manifests(
        str(folder / f"{name}.yaml"), (), "r/operator:1", options, trust, Format.YAML, crds_only=crds_only
    )
    return list(yaml.safe_load_all(text))


def test_installations_in_two_namespaces_share_no_role_and_no_binding() -> None:
    """The later one would bind the role to its own account alone, and the earlier one would lose its rights."""
    first, second, default = (
        {
            (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
            for one in yaml.safe_load_all(
                render_rbac(str(BOXES / "webapp.yaml"), (), RoleOptions(where, tenants=("team",)), Format.YAML)
            )
        }
        for where in ("team-a", "team-b", OWN)
    )
    assert len(first) == len(second) == len(default) == 6
    assert not first & second
    assert ("ClusterRoleBinding", None, "vworkspace-box-webapp") in default
    assert ("ClusterRoleBinding", None, "vworkspace-box-webapp:team-a") in first
    assert ("RoleBinding", "team-a", "vworkspace-box-webapp-election") in first


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ports"), [("webapp", {8080}), ("registry", {8080, 9443})])
def test_no_tenant_reaches_more_than_the_ports_and_one_pod_is_evicted_at_a_time_RUN_11(
    name: str, ports: set[int]
) -> None:
    found = {one["kind"]: one for one in rendered(name)}
    selector = found["Deployment"]["spec"]["selector"]["matchLabels"]
    policy, budget = found["NetworkPolicy"]["spec"], found["PodDisruptionBudget"]["spec"]
    assert policy["podSelector"]["matchLabels"] == budget["selector"]["matchLabels"] == selector
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == ports
    assert budget["maxUnavailable"] == 1


def test_the_pods_run_the_files_and_change_with_them(tmp_path: Path) -> None:
    found = {one["kind"]: one for one in rendered("webapp")}
    template = found["Deployment"]["spec"]["template"]
    for file in ("webapp.yaml", "webapp-crd.yaml"):
        (tmp_path / file).write_bytes((BOXES / file).read_bytes())
    assert rendered("webapp", folder=tmp_path) == rendered("webapp")
    with (tmp_path / "webapp-crd.yaml").open("a") as crd:
        crd.write("# another line\n")
    (changed,) = (one for one in rendered("webapp", folder=tmp_path) if one["kind"] == "Deployment")
    (container,) = template["spec"]["containers"]

    assert container["args"][:3] == ["box", "run", "/etc/vworkspace/boxes/webapp.yaml"]
    assert found["ConfigMap"]["data"]["webapp-crd.yaml"] == (BOXES / "webapp-crd.yaml").read_text(encoding="utf-8")
    assert template["metadata"]["annotations"] != changed["spec"]["template"]["metadata"]["annotations"]
    assert "CustomResourceDefinition" not in found


@pytest.mark.slow
def test_rules_and_literal_values_of_a_box_go_into_its_crd() -> None:
    (crd,) = rendered("registry", crds_only=True)
    (version,) = [version for version in crd["spec"]["versions"] if version["storage"]]
    box = yaml.safe_load((BOXES / "registry.yaml").read_text(encoding="utf-8"))
    said = {rule["rule"] for rule in version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]}

    assert {rule["rule"] for rule in box["spec"]["validation"]} == said
    assert version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["logLevel"]["default"] == "info"


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
        render_box_manifests(
            str(tmp_path / "webapp.yaml"), (), "r/x:1", RoleOptions(), WebhookTrust(OWN), Format.YAML, crds_only=False
        )


@pytest.mark.slow
def test_a_box_that_needs_webhooks_has_them_configured_and_trusted() -> None:
    """PH-8: they fail closed, and are asked in the storage version; who trusts nobody is told what to give."""
    found = {one["kind"]: one for one in rendered("registry")}
    (filling,) = found["MutatingWebhookConfiguration"]["webhooks"]
    (judging,) = found["ValidatingWebhookConfiguration"]["webhooks"]  # its rules, in versions that are converted
    assert judging["clientConfig"]["service"]["path"] == "/boxes/registry/validate"
    assert filling["clientConfig"]["service"]["path"] == "/boxes/registry/default"
    assert (filling["failurePolicy"], filling["matchPolicy"]) == ("Fail", "Equivalent")
    assert [rule["apiVersions"] for rule in filling["rules"]] == [["v1"]]
    service, template = found["Service"], found["Deployment"]["spec"]["template"]
    assert service["metadata"]["name"] == filling["clientConfig"]["service"]["name"]
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    (container,) = template["spec"]["containers"]
    assert "--webhook-listen=[::]:9443" in container["args"]
    assert {"name": "webhook", "containerPort": 9443, "protocol": "TCP"} in container["ports"]
    volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
    assert volumes["webhook-tls"]["secret"] == {"secretName": "vworkspace-box-registry-webhook-tls"}

    (crd,) = rendered("registry", crds_only=True)
    asked = crd["spec"]["conversion"]["webhook"]["clientConfig"]
    assert asked["service"] == {**filling["clientConfig"]["service"], "path": "/convert"}
    assert asked["caBundle"]
    assert "conversion" not in rendered("webapp", crds_only=True)[0]["spec"]


@pytest.mark.slow
def test_cert_manager_makes_the_certificate_of_a_box_and_puts_its_authority_in() -> None:
    found = {one["kind"]: one for one in rendered("registry", cert_manager=True)}
    injected = {"cert-manager.io/inject-ca-from": f"{OWN}/vworkspace-box-registry-webhook"}
    assert found["MutatingWebhookConfiguration"]["metadata"]["annotations"] == injected
    assert rendered("registry", crds_only=True, cert_manager=True)[0]["metadata"]["annotations"] == injected
    spec = found["Certificate"]["spec"]
    assert spec["dnsNames"][0] == f"vworkspace-box-registry-webhook.{OWN}.svc"
    assert spec["secretName"] == "vworkspace-box-registry-webhook-tls"
    assert spec["issuerRef"]["name"] == found["Issuer"]["metadata"]["name"]


@pytest.mark.parametrize("crds_only", [True, False])
def test_a_box_that_needs_webhooks_which_nobody_trusts_is_not_printed(crds_only: bool) -> None:
    needs = r"\(conversion of v1alpha1, 2 rules, filling in spec.tls.secretName\)"
    told = f"needs a webhook {needs}.*--cert-manager, or --webhook-ca"
    with pytest.raises(CommandError, match=told):
        rendered("registry", crds_only=crds_only, webhook_ca=b"")


def test_an_object_that_would_not_be_accepted_is_not_printed_but_what_to_write_instead_PH_10(tmp_path: Path) -> None:
    whole = (BOXES / "webapp.yaml").read_text(encoding="utf-8")
    value = "  mutation: [{field: spec.image, value: '${hash(self.metadata.name)}'}]\n"
    beyond = whole.replace("\nspec:\n", f"\nspec:\n{value}")
    (tmp_path / "webapp.yaml").write_text(beyond, encoding="utf-8")
    (tmp_path / "webapp-crd.yaml").write_bytes((BOXES / "webapp-crd.yaml").read_bytes())
    with pytest.raises(CommandError) as told:
        render_object(str(tmp_path / "webapp.yaml"), (), Format.YAML)
    (line,) = str(told.value).splitlines()
    told_at = f"{tmp_path}/webapp.yaml: spec.mutation[0].value"
    assert line.startswith(f"{told_at}: the API server, which computes the value, cannot")


@pytest.mark.slow
def test_an_object_has_its_versions_and_the_policies_that_it_needs_come_before_it_PH_10() -> None:
    *policies, applied = yaml.safe_load_all(render_object(str(BOXES / "registry.yaml"), (), Format.YAML))
    assert [version["name"] for version in applied["spec"]["versions"]] == ["v1", "v1alpha1"]
    assert {policy["kind"] for policy in policies} == {
        f"{name}AdmissionPolicy{binding}" for name in ("Validating", "Mutating") for binding in ("", "Binding")
    }
    assert "spec" in yaml.safe_load(render_object(str(BOXES / "webapp.yaml"), (), Format.YAML))


def test_the_roles_of_an_account_with_a_long_name_are_ones_that_an_api_server_takes(tmp_path: Path) -> None:
    """Namespace and account are in the roles' label, and a label's value has at most 63 characters."""
    account = f"org-myteam-production/{'a' * 253}"
    acting = (BOXES / "webapp.yaml").read_text().replace("\nspec:\n", "\nspec:\n  serviceAccountName: apps\n", 1)
    (tmp_path / "webapp.yaml").write_text(acting)
    (tmp_path / "webapp-crd.yaml").write_text((BOXES / "webapp-crd.yaml").read_text())
    text = render_rbac(str(tmp_path / "webapp.yaml"), (), RoleOptions(OWN), Format.YAML, for_account=account)
    printed = list(yaml.safe_load_all(text))
    assert printed
    for manifest in printed:
        assert len(manifest["metadata"]["name"]) <= 253
        assert all(len(value) <= 63 for value in manifest["metadata"]["labels"].values()), manifest["kind"]
        if "roleRef" in manifest:
            assert manifest["roleRef"]["name"] == manifest["metadata"]["name"]
            assert manifest["subjects"][0]["name"] == "a" * 253


WIDGETS = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.acme.io}
spec:
  group: acme.io
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
"""


def test_what_a_box_was_compiled_with_is_in_its_pod_too(tmp_path: Path) -> None:
    """The pod had the box and its own CRD alone, and ended at its start: the kind Widget is not known."""
    write_beginning("WebApp", "example.com", "", tmp_path)
    box = tmp_path / "webapp.yaml"
    widget = "    - {id: w, template: {apiVersion: acme.io/v1, kind: Widget, metadata: {name: a}, spec: {size: 1}}}\n"
    box.write_text(box.read_text().replace("  resources:\n", f"  resources:\n{widget}"))
    crds = tmp_path / "crds"
    crds.mkdir()
    (crds / "widgets.yaml").write_text(WIDGETS)
    (crds / "gadgets.yaml").write_text(WIDGETS.replace("idget", "adget").replace("wadget", "gadget"))
    arguments = (str(box), [crds], "r/operator:1", RoleOptions(OWN), WebhookTrust(OWN), Format.YAML)

    text = render_box_manifests(*arguments, crds_only=False)
    printed = {one["kind"]: one for one in yaml.safe_load_all(text)}
    (runs,) = printed["Deployment"]["spec"]["template"]["spec"]["containers"]
    (mount,) = (each["mountPath"] for each in runs["volumeMounts"] if each["name"] == "boxes")
    pod = tmp_path / "pod"
    pod.mkdir()
    for name, content in printed["ConfigMap"]["data"].items():
        (pod / name).write_text(content)
    run, *flags = (word.replace(mount, str(pod)) for word in runs["args"][2:])
    further = [Path(flag.removeprefix("--crds=")) for flag in flags if flag.startswith("--crds=")]
    assert [one.name for one in runnable(load_boxes([run], further))] == ["webapp"]
    assert "gadgets" not in str(printed["ConfigMap"]), "of all given CRDs only those that the box names"

    # A pipe, as of `--crds <(kubectl get crd -o yaml)`, can be read once: the pod had none of them.
    reading, writing = os.pipe()
    with open(writing, "w") as pipe:
        pipe.write(WIDGETS)
    piped = (str(box), [Path(f"/dev/fd/{reading}")], *arguments[2:])
    (further,) = (
        one["data"]["_further-crds.yaml"]
        for one in yaml.safe_load_all(render_box_manifests(*piped, crds_only=False))
        if one["kind"] == "ConfigMap"
    )
    assert "widgets.acme.io" in further
    os.close(reading)

    (crds / "widgets.yaml").write_text(WIDGETS.replace("type: integer", f"type: integer, description: {'a' * 2**20}"))
    with pytest.raises(CommandError, match=r"a ConfigMap holds .* declare the kinds under spec.kinds"):
        render_box_manifests(*arguments, crds_only=False)


@pytest.mark.parametrize(
    "command",
    [
        partial(print_manifests, part=PrintedPart(namespace=["team", "team"])),
        partial(print_manifests, part=PrintedPart(namespace=["team", "team"], rbac_only=True)),
        partial(print_box_roles, str(BOXES / "webapp.yaml"), namespace=["team", "team"]),
        partial(print_box, str(BOXES / "webapp.yaml"), namespace=["team", "team"]),
    ],
)
def test_no_object_is_printed_twice(command: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    """kustomize, and so Flux and Argo CD, refuse all of a file in which an object is there twice."""
    command()
    found = [
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
        for one in yaml.safe_load_all(capsys.readouterr().out)
    ]
    assert len(found) == len(set(found)) > 0
