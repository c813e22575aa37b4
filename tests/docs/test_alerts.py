"""RUN-5: alerts about applications fire for what the operator exposes of objects in trouble, and for nothing else."""

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.boxes.rollouts.reasons import BoxReason, RolloutPhase
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.controller.lease.record import lease_name
from purekube.controller.reconcile_error import ReconcileErrorCause
from purekube.controller.shard import Shard
from purekube.graph.account import GraphReason
from tests.support.patience import PATIENCE
from tests.support.promql import Series, alerting
from vworkspace_app.observability import LatestStats, Metrics, ProcessStats
from vworkspace_app.observability.condition_counts import (
    ConditionCounts,
    box_conditions,
    instance_conditions,
    operation_conditions,
    parent_conditions,
)
from vworkspace_core.api.vocabulary import TABLE

FILE = Path(__file__).resolve().parents[2] / "docs" / "observability" / "alerts.yaml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
ABOUT_OBJECTS = {
    name: rule for name, rule in RULES.items() if re.match("VWorkspace(Application|Operation|Box)(?=[A-Z])", name)
}
BY_AGE = {name: rule for name, rule in ABOUT_OBJECTS.items() if "_oldest_seconds" in rule["expr"]}
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
WEBAPP = Kind("example.com", "v1", "WebApp", "webapps")


def exposed(which: str, *said: tuple[str, str, str, int]) -> list[Series]:
    """What a scrape tells of objects that have had such a condition for so many seconds, each one object's."""
    counts = {
        "Application": instance_conditions,
        "Operation": operation_conditions,
        "Object": parent_conditions,
        "Box": box_conditions,
    }[which]()
    for number, one in enumerate(said):
        _count(counts, number, *one)
    samples = counts.samples(NOW.timestamp())
    told = {
        "Application": ProcessStats(0.0, instances=samples),
        "Operation": ProcessStats(0.0, operations=samples),
        "Object": ProcessStats(0.0, parents=((WEBAPP, samples),)),
        "Box": ProcessStats(0.0, boxes=samples),
    }[which]
    return _series(told)


def _series(told: ProcessStats) -> list[Series]:
    body, _ = Metrics(LatestStats(told), lambda: 0.0).exposition("")
    return [
        (sample.name, {**sample.labels, "namespace": "vworkspace-system", "pod": "p"}, sample.value)
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    ]


def _count(counts: ConditionCounts, number: int, kind: str, status: str, reason: str, seconds: int) -> None:
    since = (NOW - timedelta(seconds=seconds)).isoformat()
    condition = {"type": kind, "status": status, "reason": reason, "lastTransitionTime": since}
    labels = {"app.vworkspace.io/managed-by": "control-plane"}
    manifest = {"metadata": {"name": f"o{number}", "labels": labels}, "status": {"conditions": [condition]}}
    ref = ObjectRef(WEBAPP, "a", f"o{number}")
    counts.count(CacheChange(ChangeType.UPDATED, ref, json.dumps(manifest).encode()))


def firing(which: str, *said: tuple[str, str, str, int]) -> set[str]:
    samples = exposed(which, *said)
    return {name for name, rule in BY_AGE.items() if alerting(rule["expr"], samples)}


DAY = 86_400


@pytest.mark.parametrize(
    ("which", "said", "alert"),
    [
        ("Application", ("Ready", "False", "ChartUnreachable", 1000), "VWorkspaceApplicationNotReady"),
        ("Application", ("Ready", "Unknown", "Reconciling", 1000), "VWorkspaceApplicationNotReady"),
        ("Application", ("Ready", "False", "WhateverFluxSays", 1000), "VWorkspaceApplicationNotReady"),
        ("Application", ("Ready", "False", "Installing", 800), ""),
        ("Application", ("Ready", "False", "Uninstalling", DAY), ""),
        ("Application", ("Ready", "False", "NotDeployed", DAY), ""),  # suspended, or Blocked, which has its own
        ("Application", ("Ready", "True", "HelmReleaseReady", DAY), ""),
        ("Application", ("Stalled", "True", "RetriesExceeded", 400), "VWorkspaceApplicationStalled"),
        ("Application", ("Blocked", "True", "NamespaceNotGated", 1000), "VWorkspaceApplicationBlocked"),
        ("Application", ("Blocked", "False", "Unblocked", DAY), ""),
        ("Application", ("Degraded", "True", "Drifted", 2000), "VWorkspaceApplicationDegraded"),
        ("Application", ("Degraded", "False", "Recovered", DAY), ""),
        ("Application", ("Deleting", "True", "AwaitingConfirmation", 2000), "VWorkspaceApplicationDeleting"),
        ("Application", ("Suspended", "True", "ManuallySuspended", DAY), ""),
        ("Operation", ("Blocked", "True", "AwaitingApproval", 2000), "VWorkspaceOperationBlocked"),
        ("Operation", ("Accepted", "False", "ValidationFailed", 400), "VWorkspaceOperationRefused"),
        ("Operation", ("Running", "True", "EngineStarted", DAY), ""),
        ("Operation", ("Failed", "True", "EngineFailed", DAY), ""),
        ("Object", ("Ready", "False", "WaitingForGate", 1000), "VWorkspaceBoxObjectNotReady"),
        ("Object", ("Ready", "False", "Deleting", DAY), ""),
        ("Object", ("Stalled", "True", "FieldConflict", 400), "VWorkspaceBoxObjectStalled"),
        ("Box", ("Accepted", "False", "Invalid", 1000), "VWorkspaceBoxNotServed"),
        ("Box", ("Permitted", "False", "Forbidden", 1000), "VWorkspaceBoxNotServed"),
        ("Box", ("Serving", "False", "Retrying", 1000), "VWorkspaceBoxNotServed"),
        ("Box", ("Serving", "False", "NotPermitted", DAY), ""),
        ("Box", ("Serving", "True", "Running", DAY), ""),
        ("Box", ("RolledOut", "False", "Stopped", 400), "VWorkspaceBoxRolloutStopped"),
        ("Box", ("RolledOut", "False", "Refused", 400), "VWorkspaceBoxRolloutStopped"),
        ("Box", ("RolledOut", "False", "Undone", 200), ""),
        ("Box", ("RolledOut", "False", "NoSuchRevision", 400), "VWorkspaceBoxRolloutStopped"),
        ("Box", ("RolledOut", "False", "Progressing", DAY), ""),
        ("Box", ("RolledOut", "False", "Paused", DAY), ""),
    ],
)
def test_an_object_in_trouble_for_long_fires_its_alert_and_no_other(
    which: str, said: tuple[str, str, str, int], alert: str
) -> None:
    assert firing(which, said) == ({alert} if alert else set())


def test_many_short_installs_are_no_alarm_one_that_is_stuck_is() -> None:
    short = [("Ready", "False", "Installing", seconds) for seconds in range(0, 600, 10)]

    assert firing("Application", *short) == set()
    assert firing("Application", *short, ("Ready", "False", "Installing", 1000)) == {"VWorkspaceApplicationNotReady"}


def test_what_is_mended_is_silent_again() -> None:
    counts = instance_conditions()
    _count(counts, 0, "Ready", "False", "ChartUnreachable", 1000)
    _count(counts, 0, "Ready", "True", "HelmReleaseReady", 0)
    ages = {sample.labels: sample.oldest for sample in counts.samples(NOW.timestamp())}
    assert ages == {("Ready", "False", "ChartUnreachable"): 0.0, ("Ready", "True", "HelmReleaseReady"): None}


def test_a_shard_without_a_leader_fires_while_the_others_and_the_boxes_have_theirs() -> None:
    first, second = (lease_name("vworkspace-operator", Shard(index, 2)) for index in range(2))
    held = {first: True, second: False, "vworkspace-box-webapp": True}
    samples = _series(ProcessStats(0.0, leases=tuple(held.items())))

    found = alerting(RULES["VWorkspaceOperatorWithoutLeader"]["expr"], samples)

    assert found == {("vworkspace-system", second): 0.0}


@pytest.mark.parametrize(
    ("shards", "absent"), [(["0/4", "1/4", "2/4", "3/4"], ""), (["0/4", "1/4", "3/4"], "4"), (["0/1", "0/1"], "")]
)
def test_a_shard_without_a_pod_fires_although_no_metric_is_about_it_any_more(shards: list[str], absent: str) -> None:
    """The alert on a Lease without a leader is silent then: no pod reports the Lease."""
    pods = [*shards, *shards, "0/1"]  # a leader and a standby each, and the pod of a box
    samples = [sample for shard in pods for sample in _series(ProcessStats(0.0, shard=Shard.of(shard)))]

    found = alerting(RULES["VWorkspaceOperatorShardAbsent"]["expr"], samples)

    assert found == ({("vworkspace-system", absent): 1.0} if absent else {})


def test_each_says_what_to_do_in_commands_and_reasons_that_there_are() -> None:
    known = {str(reason) for rows in TABLE.values() for row in rows for reason in row.reasons}
    known |= {str(reason) for reason in (*GraphReason, *ReconcileErrorCause)} | {"NamespaceNotSelected"}
    known |= {str(reason) for reason in (*BoxReason, *RolloutPhase)}
    words = {"HelmRelease", "Operation", "Operations"}
    from vworkspace_app.commands.program import PROGRAM

    for name, rule in ABOUT_OBJECTS.items():
        runbook = rule["annotations"]["runbook"]
        assert runbook.startswith("1. "), name
        reasons = set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", runbook)) - words
        assert reasons <= known, (name, reasons - known)
        for command in re.findall(r"`vworkspace-operator (\w+)", " ".join(rule["annotations"].values())):
            assert command in PROGRAM.below, command


def test_another_form_of_an_expression_is_refused_not_guessed() -> None:
    for expression in ("rate(x[5m]) > 1", "max by (a) (x) > y", "max by (a) (x{b~c}) > 1"):
        with pytest.raises(ValueError, match=r"form|matcher"):
            alerting(expression, [])


# --- by Prometheus itself --------------------------------------------------------------------------------------------

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool (Debian: prometheus) is not installed")
AGE = (
    'vworkspace_operator_instances_oldest_seconds{namespace="v", pod="p", condition="Ready", status="False", '
    'reason="Installing"}'
)
SHARD = "vworkspace_operator_shard_info"
CERTIFICATE = "vworkspace_operator_webhook_certificate"
FAILED = 'vworkspace_operator_operation_total{namespace="v", pod="p", type="Backup", engine="velero", phase="Failed"}'


def fires(alert: str, minute: int, labels: dict[str, str] | None) -> dict[str, Any]:
    """What is expected of an alert at a minute; no labels: silence."""
    rule = RULES[alert]
    expected = [] if labels is None else [{"exp_labels": {**rule["labels"], **labels}}]
    return {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": expected}


@needs_promtool
def test_promtool_finds_nothing_wrong_with_any_rule() -> None:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "check", "rules", FILE], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(RULES)} rules found" in done.stdout


@needs_promtool
def test_prometheus_fires_after_the_age_and_falls_silent_after_it(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    rules = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule.pop("annotations")
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(rules))
    not_ready = {"namespace": "v", "reason": "Installing"}
    series = [
        # A minute a sample: 20 minutes older each minute by 60 s, then mended, then nothing for an hour.
        {"series": AGE, "values": "0+60x20 0x60"},
        {"series": FAILED, "values": "0x10 1x80"},
    ]
    failed = {"namespace": "v", "type": "Backup", "engine": "velero"}
    series += [
        {"series": f'{SHARD}{{namespace="v", pod="{pod}", shard="{shard}", shards="2"}}', "values": values}
        for pod, shard, values in (("a", 0, "1x90"), ("b", 0, "1x90"), ("c", 1, "1x30 _x60"))
    ]
    # Two pods of one namespace, of which the second has not yet read the certificate that is renewed at 150 minutes.
    series += [
        {"series": f'{CERTIFICATE}_{time}_timestamp_seconds{{namespace="v", pod="{pod}"}}', "values": values}
        for pod, renewed in (("a", 150), ("b", 160))
        for time, values in (
            ("expiration", f"12000x{renewed} 90000x60"),
            ("overdue", f"3000x{renewed} 80000x60"),
        )
    ]
    tests = [
        fires("VWorkspaceWebhookCertificateExpires", 49, None),
        fires("VWorkspaceWebhookCertificateExpires", 112, {"namespace": "v"}),
        fires("VWorkspaceWebhookCertificateExpires", 155, {"namespace": "v"}),
        fires("VWorkspaceWebhookCertificateExpires", 165, None),
        fires("VWorkspaceOperatorShardAbsent", 30, None),
        fires("VWorkspaceOperatorShardAbsent", 50, {"namespace": "v", "shards": "2"}),
        fires("VWorkspaceApplicationNotReady", 15, None),
        fires("VWorkspaceApplicationNotReady", 18, not_ready),
        fires("VWorkspaceApplicationNotReady", 22, None),
        fires("VWorkspaceOperationFailed", 9, None),
        fires("VWorkspaceOperationFailed", 12, failed),
        fires("VWorkspaceOperationFailed", 60, None),
        fires("VWorkspaceOperatorAbsent", 5, None),
    ]
    case = {"interval": "1m", "input_series": series, "alert_rule_test": tests}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["alerts.yaml"], "tests": [case]}))

    done = subprocess.run(
        [PROMTOOL, "test", "rules", tmp_path / "test.yaml"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
