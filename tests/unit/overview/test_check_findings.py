"""Each finding of `check`, whole: its point, its verdict, what is told, and what helps (SEE-1)."""

from typing import Any

import pytest

from purekube.apimachinery.errors import Right
from purekube.controller.shard import Shard
from tests.support.builders import condition
from vworkspace_core.api.installation import CREDENTIALS_SECRET
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.api.remedies import account_remedy, remedy, tenant_remedy
from vworkspace_core.overview.checkup import (
    CheckFinding,
    CheckResult,
    accounts,
    api_server,
    connection,
    credential,
    managed_namespaces,
    may_install,
    operator,
    rights,
    runs_an_agent,
    velero_is_absent,
)
from vworkspace_core.overview.tree import AtWork

R = CheckResult
RIGHTS = [Right("get", "", f"things{number}") for number in range(6)]
REGISTER = (
    "have the control plane give a registration token, and run `vworkspace-operator register` as docs/install.md says"
)
INSTALL = "install it as docs/install.md says; check what an operator outside the cluster writes to its log"
MAY_NOT_ASK = "you may not ask for the rights of others (create subjectaccessreviews)"
FIVE = f"the operator may not {', '.join(map(str, RIGHTS[:5]))}"
WEBHOOKS = "the webhooks need 1.28: install without them; the operator judges by the same rules"
RULES = "rules of CRDs need 1.25: an object that breaks one is stored, and says ValidationFailed"


@pytest.mark.parametrize(
    ("version", "finding"),
    [
        ("v1.28.0", CheckFinding("API server", R.OK, "v1.28.0")),
        ("2.0", CheckFinding("API server", R.OK, "2.0")),
        ("v1.27.9", CheckFinding("API server", R.WARNING, f"v1.27.9: {WEBHOOKS}")),
        ("1.25", CheckFinding("API server", R.WARNING, f"1.25: {WEBHOOKS}")),
        ("1.24", CheckFinding("API server", R.WARNING, f"1.24: {WEBHOOKS}; {RULES}")),
        ("x" * 41, CheckFinding("API server", R.UNKNOWN, f"it calls its version '{'x' * 40}'")),
    ],
)
def test_the_version_of_the_api_server_says_what_is_lacking(version: str, finding: CheckFinding) -> None:
    assert api_server(version) == finding


@pytest.mark.parametrize(
    ("missing", "finding"),
    [
        (None, CheckFinding("p", R.UNKNOWN, MAY_NOT_ASK, "ask an administrator to run this")),
        ([], CheckFinding("p", R.OK, "7 rights")),
        (RIGHTS[:5], CheckFinding("p", R.FAILED, FIVE, remedy(RIGHTS[0]))),
        (RIGHTS, CheckFinding("p", R.FAILED, f"{FIVE} and 1 more", remedy(RIGHTS[0]))),
    ],
)
def test_missing_rights_are_named_with_what_gives_the_first(missing: Any, finding: CheckFinding) -> None:
    assert rights("p", 7, missing) == finding


def test_before_an_installation_the_user_s_own_rights_count() -> None:
    named = ", ".join(map(str, RIGHTS[:5]))

    assert may_install([]) == CheckFinding("your rights", R.OK)
    help_ = "use the kubeconfig of an administrator"
    assert may_install(RIGHTS) == CheckFinding("your rights", R.FAILED, f"you may not {named}", help_)


def test_a_namespace_needs_its_accounts() -> None:
    point = "accounts in ns"

    assert accounts("ns", []) == CheckFinding(point, R.OK)
    assert accounts("ns", ["a"]) == CheckFinding(point, R.FAILED, "no service account a", account_remedy("ns", "a"))
    two = CheckFinding(point, R.FAILED, "no service account a and b", tenant_remedy("ns", "a"))
    assert accounts("ns", ["a", "b"]) == two


def test_the_operator_acts_in_managed_namespaces_only() -> None:
    assert managed_namespaces(["a", "b"]) == CheckFinding("namespaces", R.OK, "2 open to the operator")
    told = "none is open to the operator, so it acts in none"
    help_ = "label those it is to act in: managed-by=vworkspace"
    assert managed_namespaces([]) == CheckFinding("namespaces", R.WARNING, told, help_)


def test_velero_is_installed_before_its_rights_are_granted() -> None:
    found = velero_is_absent("p", "velero")

    assert (found.point, found.verdict) == ("p", R.FAILED)
    assert "velero" in found.told
    assert "To fix" not in found.told + found.remedy
    assert found.remedy


WHY = f"kubectl describe deployments,replicasets,pods -n vw -l app.kubernetes.io/name={FIELD_MANAGER}"
IDLE_TOLD = "it is installed, and none of its replicas is at work"


def shards(*holders: str) -> list[AtWork]:
    return [AtWork(Shard(index, len(holders)), holder) for index, holder in enumerate(holders)]


def deployed(available: Any) -> dict[str, Any]:
    return {"status": {"availableReplicas": available}}


@pytest.mark.parametrize(
    ("deployment", "held", "has_heartbeat", "finding"),
    [
        (None, shards("a"), False, CheckFinding("operator", R.OK, "a replica is at work")),
        (None, shards("a", "b"), False, CheckFinding("operator", R.OK, "2 shards are at work")),
        (None, [], True, CheckFinding("operator", R.OK, "a replica is at work, without a Lease")),
        (deployed(1), [], False, CheckFinding("operator", R.OK, "a replica is at work")),
        (deployed(1), shards(""), False, CheckFinding("operator", R.OK, "a replica is at work")),
        (deployed("1"), [], False, CheckFinding("operator", R.FAILED, IDLE_TOLD, WHY)),
        (deployed(0), [], False, CheckFinding("operator", R.FAILED, IDLE_TOLD, WHY)),
        (deployed(0), shards(""), True, CheckFinding("operator", R.FAILED, IDLE_TOLD, WHY)),
        (
            deployed(None),
            [],
            True,
            CheckFinding("operator", R.WARNING, f"{IDLE_TOLD}; another one is, without a Lease", WHY),
        ),
        (
            deployed(2),
            shards("a", ""),
            False,
            CheckFinding("operator", R.FAILED, "no replica works on shard 1/2: its namespaces wait", WHY),
        ),
        (
            None,
            [],
            False,
            CheckFinding("operator", R.FAILED, "it is not installed, and nothing holds its Lease", INSTALL),
        ),
    ],
)
def test_an_operator_is_found_at_work_or_what_is_wrong(
    deployment: Any, held: list[AtWork], has_heartbeat: bool, finding: CheckFinding
) -> None:
    assert operator(deployment, held, "vw", has_heartbeat=has_heartbeat) == finding


NO_AGENT = {"status": {"conditions": [{"type": "Connected", "reason": "NoAgent"}]}}
WITHOUT = {"spec": {"template": {"spec": {"containers": [{}, {"args": ["--no-agent"]}]}}}}


@pytest.mark.parametrize(
    ("deployment", "cluster", "alive", "runs"),
    [
        (None, None, True, True),
        (WITHOUT, None, True, False),
        ({}, NO_AGENT, True, False),
        ({}, NO_AGENT, False, True),
        (None, NO_AGENT, False, False),
        ({}, {"status": {"conditions": [{"reason": "RoundTripOK"}]}}, True, True),
    ],
)
def test_whether_there_is_an_agent_is_said_by_its_arguments_or_its_conditions(
    deployment: Any, cluster: Any, alive: bool, runs: bool
) -> None:
    assert runs_an_agent(deployment, cluster, is_alive=alive) is runs


def told(*conditions: Any) -> list[CheckFinding]:
    return list(connection({"status": {"conditions": list(conditions)}}))


CLOCKS = CheckFinding("clocks", R.OK)


def test_the_connection_is_told_by_the_conditions_of_the_cluster() -> None:
    none = "no Cluster object is there: the operator makes one when it first runs"
    assert list(connection(None)) == [CheckFinding("control plane", R.UNKNOWN, none)]
    assert told() == [CLOCKS]
    good = [condition(type_, "True", "R", message="m") for type_ in ("Hardened", "Authenticated", "Connected")]
    assert told(*good) == [CheckFinding(point, R.OK) for point in ("control plane", "token", "tenants")] + [CLOCKS]
    off = condition("Connected", "False", "NoAgent", message="as configured")
    assert told(off) == [CheckFinding("control plane", R.OK, "as configured"), CLOCKS]
    bad = [condition(type_, "False", "Odd", message="m") for type_ in ("Connected", "ControllersHealthy")]
    assert told(*bad) == [
        CheckFinding("control plane", R.FAILED, "Odd: m"),
        CheckFinding("what the operator sees", R.WARNING, "Odd: m"),
        CLOCKS,
    ]
    assert told({"type": "Connected", "status": "False"}) == [CheckFinding("control plane", R.FAILED, ": "), CLOCKS]
    apart = condition("ClockSkew", "True", "ClocksDiffer", message="an hour")
    assert told(apart) == [CheckFinding("clocks", R.FAILED, "an hour", "set the clock of the one that is wrong")]
    assert told(condition("ClockSkew", "False", "ClocksAgree")) == [CLOCKS]
    found = told(condition("JobsBlocked", "True", "RecordsNotStored", message="exceeded quota"))
    assert found[0] == CLOCKS
    assert (found[1].point, found[1].verdict, found[1].told) == ("jobs", R.FAILED, "RecordsNotStored: exceeded quota")
    assert "removes the obstacle" in found[1].remedy
    assert told(condition("JobsBlocked", "False", "RecordsStored")) == [CLOCKS]


SECRET = f"Secret {CREDENTIALS_SECRET}"
URL = "control-plane-base-url"
KEYS = {URL: "a", "cluster-id": "b", "token": "c", "signing-public-key": "d"}


@pytest.mark.parametrize(
    ("secret", "finding"),
    [
        (
            None,
            CheckFinding(
                "credentials", R.FAILED, f"no {SECRET}: without one only `run --no-agent` does anything", REGISTER
            ),
        ),
        ({"data": KEYS}, CheckFinding("credentials", R.OK)),
        ({}, CheckFinding("credentials", R.FAILED, f"{SECRET} lacks {URL}, cluster-id, token", REGISTER)),
        ({"data": {**KEYS, URL: ""}}, CheckFinding("credentials", R.FAILED, f"{SECRET} lacks {URL}", REGISTER)),
        (
            {"data": {**KEYS, "cluster-id": ""}},
            CheckFinding("credentials", R.FAILED, f"{SECRET} lacks cluster-id", REGISTER),
        ),
        ({"data": {**KEYS, "token": ""}}, CheckFinding("credentials", R.FAILED, f"{SECRET} lacks token", REGISTER)),
        (
            {"data": {**KEYS, "signing-public-key": ""}},
            CheckFinding(
                "credentials", R.WARNING, f"{SECRET} has no signing-public-key: signatures of jobs cannot be checked"
            ),
        ),
    ],
)
def test_a_credential_has_all_of_its_keys_or_the_missing_ones_are_named(secret: Any, finding: CheckFinding) -> None:
    assert credential(secret) == finding
