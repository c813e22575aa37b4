"""What `manifests` prints starts the operator that there is, and grants no more (RUN-7)."""

import base64
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from kubelab.http.authority import certificates_for
from tests.support.chart_values import EVERYTHING as EVERY_VALUE
from tests.support.commands import Running, one_line, run
from tests.support.patience import PATIENCE
from tests.support.rights import Right, granted, printed, unused
from vworkspace_app.commands.manifests import PrintedPart
from vworkspace_app.commands.manifests import manifests as print_manifests
from vworkspace_app.install import InstallOptions, installation, tenant
from vworkspace_app.install.chart_values import chart_values
from vworkspace_app.install.chart_values import values_documents as values_printed
from vworkspace_app.install.options import NO_REGISTRY, NO_SUCH_REGISTRY, PodOptions
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.install.access import OWNERS

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = "vworkspace-system"
EVERYTHING = InstallOptions(velero_namespace="velero", cert_manager=True, service_monitor=True)
FOREIGN = ("Issuer", "Certificate", "ServiceMonitor")
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def only(kind: str, options: InstallOptions = EVERYTHING) -> dict[str, Any]:
    (found,) = (one for one in installation(options) if one["kind"] == kind)
    return found


def pod(options: InstallOptions = EVERYTHING) -> dict[str, Any]:
    spec: dict[str, Any] = only("Deployment", options)["spec"]["template"]["spec"]
    return spec


def container(options: InstallOptions = EVERYTHING) -> dict[str, Any]:
    (found,) = pod(options)["containers"]
    return dict(found)


# --- installing ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_kubectl
def test_kubectl_applies_what_is_printed(tmp_path: Path) -> None:
    with Running(tmp_path / "cluster", "cluster", "--kubeconfig-out", tmp_path / "kubeconfig") as server:
        server.ready()
        for words in (
            ["--crds-only"],
            [],
            ["--velero-namespace", "velero"],
            ["--namespace", "org-myteam", "--namespace", "velero"],
        ):
            for namespace in (word for word in words if not word.startswith("-")):
                kubectl(tmp_path, "create", "namespace", namespace, fails_if_there=False)
            said = kubectl(tmp_path, "apply", "--server-side", "-f", "-", text=run("manifests", *words, cold=True).out)
            assert all(line.endswith("serverside-applied") for line in said.splitlines()), said
        found = kubectl(tmp_path, "-n", SYSTEM, "get", "deployments,services,pdb,netpol", "-o", "name").splitlines()
        assert len(found) == 4, found


def kubectl(folder: Path, *words: str, text: str = "", fails_if_there: bool = True) -> str:
    command = ["kubectl", "--kubeconfig", str(folder / "kubeconfig"), "--cache-dir", str(folder / "cache"), *words]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0 or (not fails_if_there and "AlreadyExists" in done.stderr), done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@needs_kubectl
def test_the_kustomize_bases_give_the_same_installation(tmp_path: Path) -> None:
    for folder in ("deploy", "manifests"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    overlay = {"namespace": "org-myteam", "resources": ["../deploy/tenant"]}
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "kustomization.yaml").write_text(yaml.safe_dump(overlay))

    assert keyed(built(tmp_path / "manifests")) == keyed(list(crd_manifests()))
    assert keyed(built(tmp_path / "deploy")) == keyed(list(installation(InstallOptions())))
    assert keyed(built(tmp_path / "team")) == keyed(list(tenant("org-myteam", InstallOptions())))


def built(folder: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        ["kubectl", "kustomize", folder], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return list(yaml.safe_load_all(done.stdout))


def keyed(manifests: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests}


# --- the Deployment --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("options", [InstallOptions(), EVERYTHING], ids=["plain", "everything"])
def test_the_flags_are_flags_that_exist_and_make_sense(options: InstallOptions) -> None:
    command, *words = container(options)["args"]
    ended = run(command, *words, "--print-config")
    assert (ended.status, ended.err) == (0, "")
    said = yaml.safe_load(ended.out)
    assert (said["leaderElect"], said["namespace"]) == (True, SYSTEM)


def test_an_image_in_a_registry_of_examples_is_warned_of_as_the_values_of_the_chart_are() -> None:
    placeholder, real = (
        run("manifests", "--image", f"{host}/operator:1") for host in ("registry.example.com", "ghcr.io")
    )
    assert (placeholder.status, real.status, real.err) == (0, 0, "")
    assert placeholder.err == f"warning: --image registry.example.com/operator:1 {NO_SUCH_REGISTRY}\n"
    assert placeholder.out.replace("registry.example.com/", "ghcr.io/") == real.out


def test_an_image_that_no_cluster_can_pull_is_warned_of_where_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_manifests()
    assert capsys.readouterr().err == f"warning: --image {InstallOptions().image} {NO_REGISTRY}\n"
    for part in (PrintedPart(crds_only=True), PrintedPart(rbac_only=True), PrintedPart(namespace=["a"])):
        print_manifests(part=part)
        assert capsys.readouterr().err == ""


def test_the_pods_keep_to_the_restricted_profile() -> None:
    spec, one = pod(), container()
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert {kind for volume in spec["volumes"] for kind in volume if kind != "name"} <= {"emptyDir", "secret"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert only("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_two_replicas_stand_apart_and_survive_a_drain() -> None:
    deployment, budget = only("Deployment"), only("PodDisruptionBudget")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["replicas"] == 2
    assert budget["spec"]["maxUnavailable"] == 1
    for selector in (deployment["spec"]["selector"]["matchLabels"], budget["spec"]["selector"]["matchLabels"]):
        assert selector.items() <= labels.items()
        assert "app.kubernetes.io/version" not in selector, "a selector cannot change with the version"
    assert container()["resources"]["requests"].keys() == {"cpu", "memory"}


def test_shards_are_deployments_that_share_everything_else_RUN_13() -> None:
    alone, three = list(installation(EVERYTHING)), list(installation(attrs.evolve(EVERYTHING, shards=3)))
    deployments = [one for one in three if one["kind"] == "Deployment"]
    budgets = [one for one in three if one["kind"] == "PodDisruptionBudget"]
    per_shard = ("Deployment", "PodDisruptionBudget")

    assert [one for one in three if one["kind"] not in per_shard] == [
        one for one in alone if one["kind"] not in per_shard
    ]
    chosen = []
    for index, (deployment, budget) in enumerate(zip(deployments, budgets, strict=True)):
        (one,) = deployment["spec"]["template"]["spec"]["containers"]
        assert f"--shard={index}/3" in one["args"]
        assert run(*one["args"], "--print-config").status == 0
        selector = deployment["spec"]["selector"]["matchLabels"]
        assert selector == budget["spec"]["selector"]["matchLabels"]
        assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
        chosen.append(selector)
    assert len({str(one) for one in chosen}) == 3, "no two select the same pods"
    assert {deployment["metadata"]["name"] for deployment in deployments}.isdisjoint({"vworkspace-operator"}), (
        "its selector is another"
    )
    for service in (one for one in three if one["kind"] == "Service"):
        assert all(service["spec"]["selector"].items() <= one.items() for one in chosen), "every shard is measured"


def test_the_pod_outlives_the_operator_s_own_grace_period() -> None:
    default = yaml.safe_load(run("run", "--print-config").out)["gracePeriod"]
    assert pod()["terminationGracePeriodSeconds"] > int(default.removesuffix("s"))
    for chosen, seconds in (("1m30s", 90), ("0.1h", 360), ("2m500ms", 121), ("5s", 30)):
        options = InstallOptions(settings={"grace_period": chosen})
        assert pod(options)["terminationGracePeriodSeconds"] == seconds + 15, chosen


def test_probes_services_and_policy_agree_on_ports() -> None:
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    probes = [container()[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")]
    assert [(probe["path"], probe["port"]) for probe in probes] == [("/healthz", "metrics"), ("/readyz", "metrics")]
    assert f"--listen=[::]:{ports['metrics']}" in container()["args"]
    assert f"--webhook-listen=[::]:{ports['webhook']}" in container()["args"]
    services = [one for one in installation(EVERYTHING) if one["kind"] == "Service"]
    assert {port["targetPort"] for service in services for port in service["spec"]["ports"]} == set(ports)
    policy = only("NetworkPolicy")["spec"]
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == set(ports.values())
    monitor = only("ServiceMonitor")["spec"]
    chosen = [
        service
        for service in services
        if monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    ]
    assert [service["spec"]["ports"][0]["name"] for service in chosen] == [monitor["endpoints"][0]["port"]]


@pytest.mark.slow
def test_what_is_printed_for_the_operator_can_be_deleted_without_the_applications() -> None:
    kinds = {
        one["kind"] for words in ([], ["--velero-namespace", "velero"], ["--cert-manager"]) for one in printed(*words)
    }
    assert "CustomResourceDefinition" not in kinds
    assert {one["kind"] for one in printed("--crds-only")} == {"CustomResourceDefinition"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (
            [],
            {"allowedImages": "none.invalid/", "jobSignatures": "required", "serviceAccount": "vworkspace-release"},
        ),
        (["--no-agent", "--cluster-id", "c"], {"jobSignatures": "auto"}),
        (["--profile", "single-tenant"], {"serviceAccount": "", "allowUnimpersonatedReleases": True}),
        (
            ["--setting", "allowed-images=registry.example.com/ok/", "--setting", "job-signatures=auto"],
            {"allowedImages": "registry.example.com/ok/", "jobSignatures": "auto"},
        ),
        (["--setting", "allowed-chart-sources=oci://a.example/x"], {"allowedChartSources": "oci://a.example/x"}),
        (["--release-account", "deployer"], {"serviceAccount": "deployer"}),
        (["--release-account", "deployer", "--profile", "single-tenant"], {"serviceAccount": "deployer"}),
    ],
)
def test_a_profile_is_settings_that_run_takes_and_each_can_be_said_otherwise_RUN_12(
    words: list[str], shown: dict[str, Any]
) -> None:
    (deployment,) = (one for one in printed(*words) if one["kind"] == "Deployment")
    command, *given = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    ended = run(command, *given, "--print-config")
    assert (ended.status, ended.err) == (0, "")
    said = yaml.safe_load(ended.out)
    assert {key: said[key] for key in shown} == shown


def test_every_hardening_setting_is_reachable() -> None:
    reachable = one_line(run("manifests", "--setting", "x"), 2)
    for name in (
        "service-account",
        "allowed-release-service-accounts",
        "allow-unimpersonated-releases",
        "allowed-chart-sources",
        "forbidden-versions",
        "job-signatures",
        "allow-http-control-plane",
        "writers",
        "allow-http",
        "allowed-service-accounts",
        "allowed-images",
        "required-claim-bindings",
    ):
        assert f" {name}," in reachable


def test_an_image_by_digest_and_its_pull_policy_can_be_chosen() -> None:
    image = "registry.example.com/operator@sha256:" + "0" * 64
    (deployment,) = (
        one for one in printed("--image", image, "--image-pull-policy", "IfNotPresent") if one["kind"] == "Deployment"
    )
    (one,) = deployment["spec"]["template"]["spec"]["containers"]
    assert (one["image"], one["imagePullPolicy"]) == (image, "IfNotPresent")


def test_pods_reach_no_address_where_a_cloud_hands_out_credentials() -> None:
    blocks = [to["ipBlock"] for rule in only("NetworkPolicy")["spec"]["egress"] for to in rule["to"] if "ipBlock" in to]
    (everywhere,) = (block for block in blocks if block["cidr"] == "0.0.0.0/0")
    assert everywhere["except"] == ["169.254.0.0/16"]
    assert all("except" in block or block["cidr"] == "169.254.20.10/32" for block in blocks)


def test_a_service_monitor_has_an_interval_and_the_labels_that_prometheus_selects_by() -> None:
    (monitor,) = (
        one
        for one in printed("--service-monitor", "--service-monitor-label", "release=prometheus")
        if one["kind"] == "ServiceMonitor"
    )
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert [endpoint["interval"] for endpoint in monitor["spec"]["endpoints"]] == ["30s"]


def test_alerts_are_printed_as_a_rule_for_the_prometheus_operator_RUN_5() -> None:
    (rule,) = (
        one
        for one in printed("--prometheus-rule", "--service-monitor-label", "release=prometheus")
        if one["kind"] in ("PrometheusRule", "ServiceMonitor")
    )
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    file = yaml.safe_load((ROOT / "docs" / "observability" / "alerts.yaml").read_text(encoding="utf-8"))
    assert rule["spec"] == file


# --- roles -----------------------------------------------------------------------------------------------------------


def test_secrets_are_read_in_tenant_namespaces_and_are_ours_in_our_own() -> None:
    """Helm's records are listed by label, everything else is got by name (decision 185)."""
    everywhere, here = granted(installation(EVERYTHING)), granted(tenant("org-myteam", EVERYTHING))
    rights = {(right.where, right.verb) for right in (*everywhere, *here) if right.resource == "secrets"}

    assert {verb for where, verb in rights if where == "org-myteam"} == {"get", "list"}
    assert {where for where, _ in rights} == {"org-myteam", SYSTEM}


def test_nothing_can_be_changed_in_a_namespace_without_a_role_but_our_own_finalizer_statuses_and_events() -> None:
    changing = {"create", "update", "patch", "delete"}
    wide = {right for right in granted(installation(EVERYTHING)) if right.where == "*" and right.verb in changing}

    assert {(right.resource, right.verb) for right in wide if not right.resource.endswith("/status")} == {
        ("events", "create"),
        ("events", "patch"),
        ("clusters", "create"),
        ("applicationinstances", "patch"),
        ("operations", "patch"),
    }


@pytest.mark.slow
def test_accounts_of_a_gated_namespace_have_rights_there_alone_and_none_on_our_kinds_or_flux_s_RUN_12() -> None:
    manifests = printed("--namespace", "org-myteam")
    named = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests}
    assert {manifest["metadata"]["namespace"] for manifest in manifests} == {"org-myteam"}
    assert named["ServiceAccount", "vworkspace-operation-runner"]["automountServiceAccountToken"] is False
    bound = {subject["name"]: key for key, one in named.items() for subject in one.get("subjects", ())}
    assert bound.keys() == {"vworkspace-operator", "vworkspace-release"}, "the runner has no rights"
    rules = named["Role", "vworkspace-release"]["rules"]
    groups = {group for rule in rules for group in rule["apiGroups"]}
    assert not any(group.endswith(("vworkspace.io", "fluxcd.io")) or group == "*" for group in groups)
    assert not any(word in rule[part] for rule in rules for part in ("resources", "verbs") for word in ("*", "bind"))


def test_another_role_or_account_for_releases_and_argo_s_executor_are_options() -> None:
    manifests = printed("--namespace", "a", "--release-account", "deployer", "--release-role", "edit", "--workflows")
    named = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests}
    assert named["RoleBinding", "deployer"]["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "edit",
    }
    assert ("Role", "deployer") not in named
    assert named["Role", "vworkspace-operation-runner"]["rules"] == [
        {"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]}
    ]


def test_a_quota_bounds_how_many_objects_a_tenant_may_have_RUN_11() -> None:
    (quota,) = [one for one in printed("--namespace", "a", "--quota", "100") if one["kind"] == "ResourceQuota"]
    assert quota["metadata"]["namespace"] == "a"
    assert quota["spec"]["hard"] == {
        "count/applicationinstances.apps.vworkspace.io": "100",
        "count/operations.ops.vworkspace.io": "400",
    }
    assert not [one for one in printed("--namespace", "a") if one["kind"] == "ResourceQuota"]


def test_protection_of_owner_references_is_granted_where_it_is_asked_for() -> None:
    plain = set(granted(installation(InstallOptions())))
    protected = set(granted(installation(InstallOptions(owner_reference_protection=True))))
    assert {(one.resource, one.verb) for one in protected - plain} == {
        (f"{kind.plural}/finalizers", "update") for kind in OWNERS
    }


def test_a_right_that_nobody_needs_is_found() -> None:
    wide, narrow = Right("*", "", "pods", "get"), Right("a", "", "pods", "get")
    other = Right("a", "", "pods", "list")
    assert unused([wide, narrow, other], [narrow]) == {narrow, other}
    assert unused([narrow, other], [narrow]) == {other}
    assert not narrow.covers(wide)


# --- webhooks and options --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_webhooks_come_only_with_somebody_to_trust(tmp_path: Path) -> None:
    pem = certificates_for(("a",), datetime.now(UTC)).authority
    (tmp_path / "ca.crt").write_bytes(pem)
    without, manager, given = printed(), printed("--cert-manager"), printed("--webhook-ca", str(tmp_path / "ca.crt"))
    kinds = [{manifest["kind"] for manifest in manifests} for manifests in (without, manager, given)]
    assert not any(kind.endswith("WebhookConfiguration") or kind in FOREIGN for kind in kinds[0])
    assert {"Issuer", "Certificate"} <= kinds[1]
    assert not set(FOREIGN) & kinds[2]
    for manifests in (manager, given):
        hooks = [hook for manifest in manifests for hook in manifest.get("webhooks", ())]
        assert [(hook["name"].partition(".")[0], hook["failurePolicy"]) for hook in hooks] == [
            ("default", "Ignore"),
            ("gated", "Fail"),
            ("ungated", "Fail"),
        ]
    bundles = {hook["clientConfig"]["caBundle"] for one in given for hook in one.get("webhooks", ())}
    assert bundles == {base64.b64encode(pem).decode()}


def test_the_service_monitor_is_printed_when_asked_for() -> None:
    assert "ServiceMonitor" not in {one["kind"] for one in printed()}
    assert "ServiceMonitor" in {one["kind"] for one in printed("--service-monitor")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--namespace", "Org"], "--namespace Org: not the name of a namespace"),
        (["--system-namespace", "a/b"], "--system-namespace a/b: not the name"),
        (["--velero-namespace", "-"], "--velero-namespace"),
        (["--crds-only", "--namespace", "a"], "give one of them"),
        (["--crds-only", "--cert-manager"], "--cert-manager: says nothing about what --crds-only prints"),
        (["--namespace", "a", "--service-monitor"], "--service-monitor: says nothing about what --namespace prints"),
        (
            ["--workflows", "--release-role", "edit"],
            "--release-role, --workflows: is for what a managed namespace needs",
        ),
        (["--quota", "5"], "--quota: is for what a managed namespace needs"),
        (["--namespace", "a", "--quota", "-1"], "--quota -1: a number of instances"),
        (["--namespace", "a", "--release-account", "A b"], "--release-account A b: not the name of a service account"),
        (["--namespace", "a", "--release-account", "vworkspace-operation-runner"], "which has no rights"),
        (["--image", ""], "--image is empty"),
        (["--service-monitor-label", "a=b"], "--service-monitor-label is for --service-monitor"),
        (["--setting", "allow-http=maybe"], "--setting allow-http=maybe: use true or false"),
        # No pod would start with these.
        (["--setting", "leader-elect-lease-duration=5s"], "--setting: --leader-elect-lease-duration"),
        (["--setting", "notify-token-file=/t/token"], "--setting: --notify-token-file needs --notify-url"),
        (["--setting", "webhook-client-names=api"], "--setting: --webhook-client-names needs"),
        (["--setting", "shard=0/2"], "give NAME=VALUE with a setting of run"),
        (["--shards", "0"], "--shards 0: between 1 and 64"),
        (["--setting", "listen=0.0.0.0:1"], "give NAME=VALUE with a setting of run"),
        (["--crds-only", "--profile", "single-tenant"], "--profile: says nothing"),
    ],
)
def test_options_that_make_no_sense_are_told_in_one_line(words: list[str], told: str) -> None:
    assert told in one_line(run("manifests", *words), 2)


def test_an_authority_that_is_none_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n")
    told = one_line(run("manifests", "--webhook-ca", tmp_path / "key"), 1)
    assert "holds no certificate" in told
    assert "hunter2" not in told
    assert "cannot be read" in one_line(run("manifests", "--webhook-ca", tmp_path / "absent"), 1)
    made = certificates_for(("a",), datetime.now(UTC))
    (tmp_path / "both").write_bytes(made.key + made.authority)
    assert "holds a private key" in one_line(run("manifests", "--webhook-ca", tmp_path / "both"), 1)
    (tmp_path / "empty").write_text("")
    assert "holds no certificate" in one_line(run("manifests", "--webhook-ca", tmp_path / "empty"), 1)


# --- values of the chart (SEE-5) -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_values_file_says_everything_at_once_SEE_5(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    image = "image: {repository: ghcr.io/acme/vw, tag: '1'}\n"
    file.write_text(f"{image}webhooks: {{enabled: true}}\ntenants: [{{namespace: org-a}}]\nreplicas: 3\n")
    manifests = printed("--values", str(file), "--system-namespace", "elsewhere")

    plain = InstallOptions(image="ghcr.io/acme/vw:1")
    options = attrs.evolve(plain, namespace="elsewhere", cert_manager=True, pods=PodOptions(replicas=3))
    assert manifests == [*installation(options), *tenant("org-a", options)]
    file.write_text(image)
    assert printed("--values", str(file)) == list(installation(plain))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words", "status", "told"),
    [
        ("shards: 99\nreplica: 2\n", [], 1, "('replica' was unexpected); shards: 99 is greater than the maximum of 64"),
        ("tenants: [{namespace: A}]\n", [], 1, "tenants[0].namespace"),
        ("controlPlane: {enabled: false}\n", [], 1, "controlPlane.clusterId: is needed without a control plane"),
        ("", [], 1, "image.repository: needs a registry, as in ghcr.io/you/vworkspace-operator"),
        ("settings: {workers: 900}\n", [], 1, "settings.workers: 900 is greater than the maximum of 64"),
        ("[]\n", [], 1, "must be an object"),
        ("a: 1\n---\nb: 2\n", [], 1, "holds 2 documents"),
        ("", ["--cert-manager"], 2, "--values says what the other options say"),
        ("", ["--namespace", "a"], 2, "--values says what the other options say"),
        ("", ["--system-namespace", "A"], 2, "--system-namespace A: not the name"),
    ],
)
def test_a_values_file_that_is_wrong_is_told_in_one_line(
    tmp_path: Path, text: str, words: list[str], status: int, told: str
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(text)
    assert told in one_line(run("manifests", "--values", str(file), *words), status)


@pytest.mark.slow
def test_arguments_of_every_value_are_flags_that_exist_SEE_5() -> None:
    values = chart_values({**EVERY_VALUE, "shards": 1, "boxes": [], "settings": {"allowHttp": True, "workers": 4}})
    (deployment,) = (one for one in values_printed(values, SYSTEM) if one["kind"] == "Deployment")
    command, *words = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    ended = run(command, *words, "--print-config")
    assert (ended.status, ended.err) == (0, "")
    said = yaml.safe_load(ended.out)
    assert (said["controlPlaneUrl"], said["clusterId"]) == ("https://odoo.example.com", "c-1")
    assert (said["logFormat"], said["allowHttp"], said["workers"]) == ("json", True, 4)


def test_a_page_for_users_of_the_cluster_brings_the_right_to_ask_who_they_are_SEE_3() -> None:
    bound = [one for one in printed("--setting", "page=Token-Review") if one["metadata"]["name"].endswith("-page")]
    assert [(one["kind"], one["roleRef"]["name"]) for one in bound] == [("ClusterRoleBinding", "system:auth-delegator")]
    assert not any(one["metadata"]["name"].endswith("-page") for one in printed("--setting", "page=open"))


def test_a_lease_in_another_namespace_brings_the_right_to_hold_it_RUN_4() -> None:
    options = InstallOptions(settings={"leader_elect_resource_namespace": "elections"})
    held = [one for one in installation(options) if one["metadata"].get("namespace") == "elections"]
    assert [one["kind"] for one in held] == ["Role", "RoleBinding"]
    assert [rule["resources"] for rule in held[0]["rules"]] == [["leases"]]
    assert set(held[0]["rules"][0]["verbs"]) == {"get", "list", "create", "update"}


def test_roles_of_people_can_be_left_out_SEE_5() -> None:
    with_roles, without = (
        {one["metadata"]["name"] for one in printed(*words) if one["kind"] == "ClusterRole"}
        for words in ([], ["--no-tenant-roles"])
    )
    assert with_roles - without == {"vworkspace-operator-view", "vworkspace-operator-edit"}
