"""Each point of `check`, from what was read to what is said (SEE-1, U8)."""

import copy
from base64 import b64encode
from collections.abc import Iterable

import pytest

from kubelab.downstream.crds import downstream_crds
from kubelab.flux.crds import flux_crds
from purekube.apimachinery.errors import Right
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.apimachinery.timestamps import parse_time
from purekube.controller.shard import WHOLE, Shard
from tests.support.builders import cluster_manifest, condition
from vworkspace_core.api.advice import advice_for
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.installation import Installation
from vworkspace_core.api.reasons import ClusterReason
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.overview import checkup
from vworkspace_core.overview.checkup import CheckFinding, CheckResult
from vworkspace_core.overview.tree import AtWork

EVERYTHING = {str(crd["metadata"]["name"]): crd for crd in (*crd_manifests(), *flux_crds(), *downstream_crds())}


def verdicts(findings: Iterable[CheckFinding]) -> dict[str, CheckResult]:
    """By point."""
    return {finding.point: finding.verdict for finding in findings}


def of(point: str, findings: Iterable[CheckFinding]) -> CheckFinding:
    """The one about a point."""
    return next(finding for finding in findings if finding.point == point)


def test_with_everything_installed_every_definition_is_well_SEE_1() -> None:
    found = [*checkup.own_definitions(EVERYTHING), *checkup.controllers(EVERYTHING)]
    unknown = {f"engine {name}" for name, engine in ENGINES.items() if engine.demo is None}
    assert {verdict for point, verdict in verdicts(found).items() if point not in unknown} == {CheckResult.OK}
    assert {"CRD ApplicationInstance", "CRD Operation", "CRD Cluster", "Flux", "engine velero"} <= set(verdicts(found))


def test_a_definition_that_is_missing_or_of_another_version_is_told_with_the_command_SEE_1() -> None:
    older = copy.deepcopy(dict(EVERYTHING["operations.ops.vworkspace.io"]))
    older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].pop("status")
    changed: dict[str, Manifest | None] = {**EVERYTHING, "operations.ops.vworkspace.io": older}
    changed["applicationinstances.apps.vworkspace.io"] = None
    found = list(checkup.own_definitions(changed))
    assert verdicts(found) == {
        "CRD ApplicationInstance": CheckResult.FAILED,
        "CRD Operation": CheckResult.WARNING,
        "CRD Cluster": CheckResult.OK,
    }
    assert of("CRD Operation", found).remedy.startswith("vworkspace-operator manifests --crds-only | kubectl apply")


def test_flux_has_to_be_there_in_the_version_that_is_used_and_an_engine_has_not_SEE_1() -> None:
    older = copy.deepcopy(dict(EVERYTHING[HELM_RELEASE.crd_name]))
    for version in older["spec"]["versions"]:
        version["served"] = False
    found = list(checkup.controllers({**EVERYTHING, HELM_RELEASE.crd_name: older, "workflows.argoproj.io": None}))
    assert (of("Flux", found).verdict, of("Flux", found).remedy) == (
        CheckResult.FAILED,
        "install Flux (https://fluxcd.io/flux/installation)",
    )
    assert of("engine workflow", found).verdict is CheckResult.OPTIONAL
    assert of("engine workflow", found).remedy.startswith("install Argo Workflows (")
    assert "workflows.argoproj.io" in of("engine workflow", found).told


def test_whether_flux_can_apply_files_from_git_is_told_and_need_not_be_SEE_1() -> None:
    absent = checkup.gitops(EVERYTHING)
    assert (absent.point, absent.verdict) == ("kustomize-controller", CheckResult.OPTIONAL)
    assert "kustomizations.kustomize.toolkit.fluxcd.io" in absent.told
    served = {"spec": {"versions": [{"name": "v1", "served": True}]}}
    assert checkup.gitops({"kustomizations.kustomize.toolkit.fluxcd.io": served}).verdict is CheckResult.OK


def test_rights_are_told_with_the_print_that_gives_them_SEE_1() -> None:
    assert checkup.rights("p", 12, []) == CheckFinding("p", CheckResult.OK, "12 rights")
    lacking = checkup.rights("p", 12, [Right("create", HELM_RELEASE.group, HELM_RELEASE.plural, "team")])
    assert lacking.verdict is CheckResult.FAILED
    assert lacking.told == "the operator may not create helmreleases.helm.toolkit.fluxcd.io in namespace team"
    assert (
        lacking.remedy
        == "vworkspace-operator manifests --rbac-only --namespace team | kubectl apply --server-side -f -"
    )
    assert checkup.rights("p", 12, None).verdict is CheckResult.UNKNOWN


def test_what_the_operator_told_of_itself_is_taken_up_SEE_1() -> None:
    told = {
        "conditions": [
            condition("Connected", "False", "ControlPlaneUnreachable", message="connection refused"),
            condition("Authenticated", "True", "CredentialAccepted"),
            condition("ClockSkew", "True", "ClocksDiffer", message="ours is 40 minutes behind"),
            condition("Hardened", "False", "OpenSettings", message="--job-signatures=auto"),
        ]
    }
    found = list(checkup.connection({**cluster_manifest(), "status": told}))
    assert verdicts(found) == {
        "control plane": CheckResult.FAILED,
        "token": CheckResult.OK,
        "tenants": CheckResult.WARNING,
        "clocks": CheckResult.FAILED,
    }
    assert of("control plane", found).told == "ControlPlaneUnreachable: connection refused"
    told["conditions"][0]["message"] = "connection refused. To fix: kubectl get pods"
    again = of("control plane", checkup.connection({**cluster_manifest(), "status": told}))
    assert again.remedy == of("control plane", found).remedy != "kubectl get pods", "this reason has advice of its own"


def test_without_an_agent_nothing_is_unreachable_SEE_4() -> None:
    told = {"conditions": [condition("Connected", "False", "NoAgent", message="it runs with --no-agent")]}
    found = list(checkup.connection({**cluster_manifest(), "status": told}))
    assert set(verdicts(found).values()) == {CheckResult.OK}


NO_AGENT = {"status": {"conditions": [condition("Connected", "False", "NoAgent")]}}
WITH_AGENT = {"status": {"conditions": [condition("Connected", "True", "RecentRoundTrip")]}}


def deployment(*args: str) -> Manifest:
    return {"spec": {"template": {"spec": {"containers": [{"name": "operator", "args": ["run", *args]}]}}}}


@pytest.mark.parametrize(
    ("live", "cluster", "is_alive", "expected"),
    [
        (deployment("--no-agent", "--cluster-id=c"), None, False, False),
        (deployment("--no-agent"), WITH_AGENT, True, False),
        (deployment(), NO_AGENT, True, False),  # by the settings file or the environment
        (None, NO_AGENT, False, False),
        (deployment(), NO_AGENT, False, True),  # it got a control plane, and waits for its Secret
        (deployment(), WITH_AGENT, True, True),
        (deployment(), None, False, True),
        (None, None, False, True),
    ],
)
def test_the_installation_itself_says_that_it_has_no_control_plane_SEE_1_SEE_4(
    live: Manifest | None, cluster: Manifest | None, is_alive: bool, expected: bool
) -> None:
    assert checkup.runs_an_agent(live, cluster, is_alive=is_alive) is expected


def test_one_command_brings_both_accounts_and_the_role_of_a_namespace_SEE_1() -> None:
    both = checkup.accounts("team", ["ours", "vworkspace-operation-runner"], Installation("ops", agent=False))
    assert both.told == "no service account ours and vworkspace-operation-runner"
    assert both.remedy == (
        "vworkspace-operator manifests --namespace team --system-namespace ops --no-agent --release-account ours "
        "| kubectl apply --server-side -f -"
    )
    one = checkup.accounts("team", ["vworkspace-operation-runner"])
    assert "--account vworkspace-operation-runner |" in one.remedy


def test_a_credential_is_looked_at_and_never_shown_SEE_1() -> None:
    whole = {
        "control-plane-base-url": "aHR0cHM6",
        "cluster-id": "cHJvZA==",
        "token": "czNjcjN0",
        "signing-public-key": "a",
    }
    assert checkup.credential({"data": whole}).verdict is CheckResult.OK
    lacking = checkup.credential({"data": {**whole, "token": ""}})
    assert (lacking.verdict, lacking.told) == (CheckResult.FAILED, "Secret vworkspace-agent-credentials lacks token")
    unsigned = checkup.credential({"data": {**whole, "signing-public-key": ""}})
    assert unsigned.verdict is CheckResult.WARNING
    dated = checkup.credential({"data": {**whole, "token-expires-at": b64encode(b"2027-01-31\n").decode()}})
    assert (dated.verdict, dated.told) == (
        CheckResult.WARNING,
        "token-expires-at is no time such as 2026-01-31T12:00:00Z: the token expires without a renewal",
    )
    timed = {**whole, "token-expires-at": b64encode(b"2027-01-31T12:00:00Z\n").decode()}
    assert checkup.credential({"data": timed}).verdict is CheckResult.OK
    assert "czNjcjN0" not in f"{lacking}{unsigned}{dated}"
    assert "run `vworkspace-operator register`" in checkup.credential(None).remedy


# Certificates that expired on 2026-07-01 and 2027-01-01, made once; their keys were thrown away.
OF_JULY = (
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBETCBuaADAgECAgEHMAoGCCqGSM49BAMCMBMxETAPBgNVBAMMCHdlYmhvb2tz\n"
    "MB4XDTI2MDEwMTAwMDAwMFoXDTI2MDcwMTAwMDAwMFowEzERMA8GA1UEAwwId2Vi\n"
    "aG9va3MwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATVquASnT/O2cwVdUiKxory\n"
    "6htuWjHhMzun/NO7CqR9xONtMsJgGbAkAyrdDCJ+3bAyumcte0c5wW9Ktq9uoNNl\n"
    "MAoGCCqGSM49BAMCA0cAMEQCIEl/lEDU5fYiABX5go9/h21y86RoECvxliAiuLeG\n"
    "/TYCAiAZz6KoWDXrNvtcc/75EB3yXhxEtCpR5nU6lPRGR3EOCA==\n"
    "-----END CERTIFICATE-----\n"
)
OF_NEXT_YEAR = (
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBEjCBuaADAgECAgEHMAoGCCqGSM49BAMCMBMxETAPBgNVBAMMCHdlYmhvb2tz\n"
    "MB4XDTI2MDEwMTAwMDAwMFoXDTI3MDEwMTAwMDAwMFowEzERMA8GA1UEAwwId2Vi\n"
    "aG9va3MwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASik2tMbZr8J3t4WII+AiFj\n"
    "aGtw+gQhBRmeOPvgYivHr09zprOVj1ktkKqB/hg5K9wqlZGCSmQ+BnpUbmsYYXt5\n"
    "MAoGCCqGSM49BAMCA0gAMEUCIQCdOTe39R+UJRuy3QKrLU+hGfIB4VuV9Y4XKfk2\n"
    "f2npjAIgSYsQ5ZwZVIiLG+aKx8RIWeoJWeCnP4NXL+mmSHAJlyM=\n"
    "-----END CERTIFICATE-----\n"
)


def webhooks_at(now: str, *, authorities: tuple[str, ...] = (OF_NEXT_YEAR,), own: str = OF_NEXT_YEAR) -> CheckFinding:
    bundle = b64encode("".join(authorities).encode()).decode()
    configuration = {"webhooks": [{"clientConfig": {"caBundle": bundle}}, {"clientConfig": {}}]}
    secret = {"data": {"tls.crt": b64encode(own.encode()).decode()}}
    return checkup.webhooks(configuration, secret, parse_time(now))


def test_a_certificate_of_the_webhooks_that_ends_is_told_SEE_1() -> None:
    """With --webhook-ca nothing renews it, and nothing told of it before every write was refused."""
    well = webhooks_at("2026-12-17T00:00:00Z")
    assert (well.verdict, well.told) == (CheckResult.OK, "their certificate expires at 2027-01-01T00:00:00Z")
    assert webhooks_at("2026-12-18T00:00:00Z").verdict is CheckResult.WARNING
    over = webhooks_at("2027-01-01T00:00:00Z")
    assert over.verdict is CheckResult.FAILED
    assert over.told.startswith("their certificate expired at 2027-01-01T00:00:00Z: writes of")
    assert "--webhook-ca" in over.remedy

    old = webhooks_at("2026-07-01T00:00:00Z", authorities=(OF_JULY,))
    assert (old.verdict, old.told[:15]) == (CheckResult.FAILED, "their authority")
    assert webhooks_at("2026-07-01T00:00:00Z", authorities=(OF_JULY, OF_NEXT_YEAR)).verdict is CheckResult.OK
    assert webhooks_at("2026-07-01T00:00:00Z", own=OF_JULY).verdict is CheckResult.FAILED
    assert webhooks_at("2026-07-01T00:00:00Z", own="", authorities=()).verdict is CheckResult.UNKNOWN
    unread = {"data": {"tls.crt": "%"}}
    assert checkup.webhooks({}, unread, parse_time("2026-07-01T00:00:00Z")).verdict is CheckResult.UNKNOWN
    elsewhere = checkup.webhooks({"webhooks": None}, None, parse_time("2026-07-01T00:00:00Z"))
    assert elsewhere.verdict is CheckResult.UNKNOWN


LED = (AtWork(WHOLE, "a"),)
HALF = (AtWork(Shard(0, 2), "a"), AtWork(Shard(1, 2)))


def test_whether_it_runs_is_seen_from_its_lease_or_its_deployment_SEE_1() -> None:
    running = {"status": {"availableReplicas": 1}}
    assert checkup.operator(None, LED).verdict is CheckResult.OK
    assert checkup.operator(running, ()).verdict is CheckResult.OK
    why = checkup.operator({"status": {}}, (), "ops").remedy
    assert why == "kubectl describe deployments,replicasets,pods -n ops -l app.kubernetes.io/name=vworkspace-operator"
    assert "docs/install.md" in checkup.operator(None, ()).remedy, "no command knows image and settings"
    assert checkup.operator(None, (), has_heartbeat=True).verdict is CheckResult.OK
    outside = checkup.operator({"status": {}}, (), has_heartbeat=True)
    told = "it is installed, and none of its replicas is at work; another one is, without a Lease"
    assert (outside.verdict, outside.told, outside.remedy) == (
        CheckResult.WARNING,
        told,
        why.replace("-n ops", "-n vworkspace-system"),
    )
    assert checkup.operator(None, HALF, has_heartbeat=True).verdict is CheckResult.FAILED


def test_a_shard_on_which_nobody_works_is_named_whatever_the_others_do_SEE_1_RUN_13() -> None:
    found = checkup.operator({"status": {"availableReplicas": 1}}, HALF)
    assert (found.verdict, found.told) == (CheckResult.FAILED, "no replica works on shard 1/2: its namespaces wait")
    whole = checkup.operator(None, (HALF[0], AtWork(Shard(1, 2), "b")))
    assert (whole.verdict, whole.told) == (CheckResult.OK, "2 shards are at work")


@pytest.mark.parametrize(
    ("version", "verdict", "lacks"),
    [
        ("v1.36.2", CheckResult.OK, []),
        ("v1.28.0-gke.1", CheckResult.OK, []),
        ("v1.27.9+k3s1", CheckResult.WARNING, ["webhooks"]),
        ("v1.24.17", CheckResult.WARNING, ["webhooks", "rules of CRDs"]),
        ("unknown", CheckResult.UNKNOWN, []),
    ],
)
def test_what_an_older_api_server_lacks_is_told_before_anything_is_installed_SEE_1(
    version: str, verdict: CheckResult, lacks: list[str]
) -> None:
    found = checkup.api_server(version)
    assert found.verdict is verdict
    assert [word for word in ("webhooks", "rules of CRDs") if word in found.told] == lacks


@pytest.mark.parametrize("reason", [reason.value for reason in ClusterReason])
@pytest.mark.parametrize("command", ["", ". To fix: kubectl get pods -n a"])
def test_an_obstacle_of_the_connection_has_its_command_or_its_advice_SEE_1(reason: str, command: str) -> None:
    told = condition("ControllersHealthy", "False", reason, message=f"it is so{command}")
    found = of("what the operator sees", checkup.connection({"status": {"conditions": [told]}}))
    advice = advice_for("Cluster", reason)
    if reason == "NoAgent":
        assert found == CheckFinding("what the operator sees", CheckResult.OK, f"it is so{command}")
        return
    named = "kubectl get pods -n a" if command and advice is not None and advice.names_command else ""
    assert found.remedy == (named or (advice.text if advice is not None else ""))
    assert (found.verdict, found.told) == (CheckResult.WARNING, f"{reason}: it is so{command}")


@pytest.mark.parametrize(
    ("version", "verdict", "lacks"),
    [
        ("v1.28.0", CheckResult.OK, ()), ("1.27+", CheckResult.WARNING, ("webhooks",)), ("v2.0", CheckResult.OK, ()),
        ("v1.25.9", CheckResult.WARNING, ("webhooks",)), ("v1.24", CheckResult.WARNING, ("webhooks", "rules of CRDs")),
        ("odd", CheckResult.UNKNOWN, ()),
    ],
)  # fmt: skip
def test_an_api_server_is_recent_enough_or_what_it_lacks_is_told_SEE_1(
    version: str, verdict: CheckResult, lacks: tuple[str, ...]
) -> None:
    found = checkup.api_server(version)
    assert found.verdict is verdict
    assert [word in found.told for word in ("webhooks", "rules of CRDs")] == [
        word in lacks for word in ("webhooks", "rules of CRDs")
    ]


@pytest.mark.parametrize("count", [1, 5, 6, 7])
def test_of_the_missing_rights_five_are_named_and_the_others_counted_SEE_1(count: int) -> None:
    missing = [Right("create", "", f"kinds{number}") for number in range(count)]
    found = checkup.rights("p", 12, missing)
    assert [f"kinds{number}" in found.told for number in range(count)] == [number < 5 for number in range(count)]
    assert (f"and {count - 5} more" in found.told) is (count > 5)


@pytest.mark.parametrize(
    "shards", [(), LED, HALF, (AtWork(WHOLE, ""),), (AtWork(Shard(0, 2), "a"), AtWork(Shard(1, 2), "b"))]
)
@pytest.mark.parametrize("available", [None, 0, 1])
@pytest.mark.parametrize("has_heartbeat", [False, True])
def test_an_operator_is_at_work_by_its_leases_its_deployment_or_its_heartbeat_SEE_1(
    shards: tuple[AtWork, ...], available: int | None, has_heartbeat: bool
) -> None:
    live = None if available is None else {"status": {"availableReplicas": available}}
    found = checkup.operator(live, shards, has_heartbeat=has_heartbeat)
    idle = [each for each in shards if not each.holder]
    if shards and not idle:
        expected = CheckResult.OK
    elif len(shards) > 1:
        expected = CheckResult.FAILED
    elif available:
        expected = CheckResult.OK
    elif not shards and has_heartbeat:
        expected = CheckResult.OK if available is None else CheckResult.WARNING
    else:
        expected = CheckResult.FAILED
    assert found.verdict is expected
    assert bool(found.remedy) is (expected is not CheckResult.OK)
    assert ("shard" in found.told) is (len(shards) > 1)
