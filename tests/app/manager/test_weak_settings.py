"""RUN-12, OPS-4, PULL-9: the Cluster names every setting that leaves more open than several tenants allow.

The table of settings is walked over: a new row is either one that can open something, and is told, or one that cannot.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.secret_material import redact
from vworkspace_app.manager.settings import operator_settings
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.table import SETTINGS
from vworkspace_core.clusters.inventory import hardened_condition, weak_settings_of_cluster
from vworkspace_core.operations.builtin import builtin_templates

CLOSED = RunSettings(
    cluster_id="c",
    allowed_images=("registry.example.com/tools/",),
    allowed_chart_sources=("oci://registry.example.com/charts",),
    job_signatures="required",
)
OPENING: Mapping[str, tuple[dict[str, Any], ...]] = {
    "allow_unimpersonated_releases": ({"service_account": "", "allow_unimpersonated_releases": True},),
    "allowed_images": ({"allowed_images": ()},),
    "allowed_chart_sources": ({"allowed_chart_sources": ()},),
    "allow_http": ({"allow_http": True},),
    "required_claim_bindings": tuple(
        {"required_claim_bindings": bindings}
        for bindings in ((), ("ns",), ("params",), ("cluster", "uid"), ("cluster", "ns", "uid"))
    ),
    "job_signatures": ({"job_signatures": "auto"}, {"job_signatures": "unsigned"}),
    "allow_http_control_plane": ({"allow_http_control_plane": True},),
    "writers": ({"writers": ("jane",)},),
    "page": ({"page": "open", "listen": "0.0.0.0:8080"},),
    "metrics_names": ({"metrics_names": 5, "listen": "0.0.0.0:8080"},),
}
"""By the setting that is told, what opens it beside the closed ones."""

CLOSING: Mapping[str, dict[str, Any]] = {
    "service_account": {"service_account": ""},
    "forbidden_versions": {"forbidden_versions": ("1.2.3",)},
    "allowed_release_service_accounts": {"allowed_release_service_accounts": ("deployer",)},
    "allowed_service_accounts": {"allowed_service_accounts": ("backup",)},
    "agent": {"agent": False},
    "token_file": {"token_file": Path("token")},
    "templates": {"templates": ("more.yaml",)},
    "box": {"box": ("shop.yaml",)},
    "applied_boxes": {"applied_boxes": True},
    "box_namespaces": {"box_namespaces": ("org-a",)},
    "controllers": {"controllers": ("shops",)},
    "webhook_listen": {"webhook_listen": "0.0.0.0:9443"},
    "webhook_client_authority": {"webhook_client_authority": Path("ca.crt")},
    "webhook_client_names": {"webhook_client_names": ("kube-apiserver",)},
    "page_hosts": {"page_hosts": ("page.example.com",)},
    "drift_detection": {"drift_detection": "disabled"},
}
"""Settings of security that open nothing: nothing is installed without an account, a list names whom an administrator
chose, the reconciler judges by the rules of the webhooks."""

NO_MATTER_OF_TENANTS = {
    *("kubeconfig", "control_plane_url", "cluster_id", "namespace", "workers", "interval", "timeout"),
    *("velero_namespace", "webhook_certificates", "wait", "disconnected_after", "listen", "grace_period"),
    *("log_format", "log_level", "leader_elect", "leader_elect_identity", "leader_elect_resource_name"),
    *("leader_elect_resource_namespace", "leader_elect_lease_duration", "leader_elect_renew_deadline"),
    *("leader_elect_retry_period", "shard", "page_url", "notify_url", "notify_token_file", "traces_url"),
    "traces_token_file",
}


def hardened(settings: RunSettings) -> DesiredCondition:
    """The condition of a Cluster with these settings and no Cluster object, key or namespace that says more."""
    decided = operator_settings(settings, settings.cluster_id, builtin_templates())
    unsigned = settings.agent and not decided.require_signed
    return hardened_condition(
        weak_settings_of_cluster(decided.all_weak_settings, (), decided.decisions.policy, unsigned=unsigned)
    )


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def test_every_row_of_the_table_is_known_to_open_something_or_not_RUN_12() -> None:
    known = [*OPENING, *CLOSING, *NO_MATTER_OF_TENANTS]

    assert sorted(known) == sorted(row.name for row in SETTINGS), (
        "a new setting: can it leave more open than several tenants allow? Then the Cluster has to name it"
    )


def test_the_closed_settings_are_hardened_RUN_12() -> None:
    assert hardened(CLOSED).status == "True"


CASES = [(name, opened) for name, cases in OPENING.items() for opened in cases]


@pytest.mark.parametrize(("name", "opened"), CASES, ids=[f"{name}-{opened[name]}" for name, opened in CASES])
def test_an_open_setting_is_told_by_its_flag_and_nothing_beside_it_RUN_12(name: str, opened: dict[str, Any]) -> None:
    desired_condition = hardened(attrs.evolve(CLOSED, **opened))

    assert desired_condition.status == "False"
    told = set(re.findall(r"--[a-z-]*[a-z]", desired_condition.message))
    assert told & set(map(flag, OPENING)) == {flag(name)}


@pytest.mark.parametrize("name", CLOSING)
def test_what_opens_nothing_is_not_told_RUN_12(name: str) -> None:
    assert hardened(attrs.evolve(CLOSED, **CLOSING[name])).status == "True"


def test_all_of_them_together_are_all_told_RUN_12() -> None:
    opened = {key: value for cases in OPENING.values() for key, value in cases[0].items()}
    message = hardened(attrs.evolve(CLOSED, **opened)).message

    assert [name for name in OPENING if flag(name) not in message] == []
    assert redact(message) == message, "the condition can be read where it is shown"


def test_writers_are_closed_once_a_webhook_asks_about_them_RUN_6() -> None:
    assert hardened(attrs.evolve(CLOSED, writers=("jane",), webhook_listen="0.0.0.0:9443")).status == "True"


def test_without_an_agent_nothing_of_the_control_plane_is_open_SEE_4() -> None:
    alone = attrs.evolve(CLOSED, agent=False, job_signatures="unsigned", allow_http_control_plane=True)

    assert hardened(alone).status == "True"
