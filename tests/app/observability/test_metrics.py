"""RUN-5: metrics have the names that dashboards know, few label values, and tell what happened."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.certificates import Validity
from purekube.apimachinery.errors import Invalid, Unavailable
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.controller.decision import Requeue
from purekube.controller.health import Vitals
from purekube.controller.reconcile import ReconcileResult
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.worker_pool import WorkerPool
from tests.support.virtual_time import run
from vworkspace_app.observability import LatestStats, Metrics, ProcessStats
from vworkspace_app.observability.catalogue import CATALOGUE, Type
from vworkspace_app.observability.condition_counts import ConditionSample, Unready
from vworkspace_app.observability.stats import AgentStats
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.control_plane.connection import Connectivity

CLOCK = VirtualClock()
REQUIRED = {
    "controller_runtime_reconcile_total": {"controller", "result"},
    "controller_runtime_reconcile_errors_total": {"controller"},
    "controller_runtime_reconcile_time_seconds": {"controller"},
    "workqueue_depth": {"name", "controller", "priority"},
    "workqueue_adds_total": {"name", "controller"},
    "workqueue_retries_total": {"name", "controller"},
    "workqueue_queue_duration_seconds": {"name", "controller"},
    "rest_client_requests_total": {"code", "method"},
    "controller_runtime_webhook_requests_total": {"webhook", "code"},
    "controller_runtime_webhook_latency_seconds": {"webhook"},
    "controller_runtime_webhook_requests_in_flight": {"webhook"},
    "vworkspace_operator_webhook_certificate_expiration_timestamp_seconds": set(),
    "vworkspace_operator_webhook_certificate_overdue_timestamp_seconds": set(),
    "vworkspace_operator_pull_job_lag_seconds": set(),
    "vworkspace_operator_connectivity_state": {"mode"},
    "vworkspace_operator_applied_jobs_total": {"outcome"},
    "vworkspace_operator_event_buffer_occupancy": set(),
    "vworkspace_operator_credential_age_seconds": set(),
    "vworkspace_operator_operation_total": {"type", "engine", "phase"},
    "vworkspace_operator_managed_namespaces": set(),
}


def values(metrics: Metrics) -> dict[str, float]:
    """Every sample as `name{label=value,…}`."""
    body, _ = metrics.exposition("")
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def fresh(snapshot: ProcessStats | None = None) -> Metrics:
    return Metrics(LatestStats(snapshot or ProcessStats(0.0)), lambda: 3.0)


def test_the_names_of_the_specification_are_in_the_catalogue_with_their_labels() -> None:
    known = {metric.name: set(metric.labels) for metric in CATALOGUE}

    assert {name: known.get(name) for name in REQUIRED} == REQUIRED
    assert len(known) == len(CATALOGUE)


def lived() -> Metrics:
    """The metrics after a driver reconciled, failed, crashed and hung, and an informer listed."""

    async def main() -> Metrics:
        latest = LatestStats(ProcessStats(0.0))
        metrics = Metrics(latest, lambda: 61.0, "https://me:secret@10.0.0.1:6443/api")
        ends: Mapping[str, Any] = {
            "fine": ReconcileResult(),
            "later": ReconcileResult(requeue=Requeue.at_latest(9999.0)),
            "busy": ReconcileResult(error=Unavailable("busy")),
            "wrong": ReconcileResult(error=Invalid("wrong")),
        }

        async def reconcile(key: ObjectRef) -> ReconcileResult:
            if key.name == "hang":
                await anyio.sleep(3600)
            if key.name == "crash":
                raise ZeroDivisionError
            await CLOCK.sleep(0.2)
            reconcile_result: ReconcileResult = ends[key.name]
            return reconcile_result

        driver = WorkerPool(reconcile, clock=CLOCK, workers=8, observer=metrics.controller("applicationinstance"))
        api = InProcessKube(ApiServer(now=CLOCK.now))
        await api.create({**CONFIG_MAP.manifest("a", "default")}, kind=CONFIG_MAP, field_manager="test")
        informer = InformerRunner(api, CONFIG_MAP, clock=CLOCK, random=lambda: 0.5)
        for name in (*ends, "crash", "hang"):
            driver.enqueue(ObjectRef(APPLICATION_INSTANCE, "org-a", name))
        async with anyio.create_task_group() as group:
            group.start_soon(driver.run)
            group.start_soon(informer.run)
            await CLOCK.sleep(60.5)
            vitals = Vitals(True, informers=(informer.vitals(),), worker_pools=(driver.vitals("applicationinstance"),))
            latest.replace(
                ProcessStats(
                    CLOCK.monotonic(),
                    vitals,
                    (informer.stats(),),
                    (driver.stats(),),
                    AgentStats(Connectivity.UNREACHABLE, 3, 12.5, 0.25),
                    77.0,
                    4,
                    (("dropped", 2),),
                    (("vworkspace-operator", True),),
                    (ConditionSample(("Ready", "False", "ChartUnreachable"), 3, 12.0),),
                    (ConditionSample(("Blocked", "True", "AwaitingApproval"), 1, 3.0),),
                    ((CONFIG_MAP, (ConditionSample(("Ready", "False", "WaitingForGate"), 2, 5.0),)),),
                    (Unready(ObjectRef(APPLICATION_INSTANCE, "org-a", "shop"), "ChartUnreachable", 12.0),),
                    boxes=(ConditionSample(("RolledOut", "False", "Stopped"), 1, 60.0),),
                    rollouts=(("shops", {"moved": 3, "failed": 1}),),
                )
            )
            group.cancel_scope.cancel()
        metrics.request("GET", "200", 0.2)
        metrics.webhook("/validate")
        metrics.certificate(Validity(CLOCK.now(), CLOCK.now()))
        metrics.job("succeeded")
        metrics.operation("Backup", "velero", "Succeeded")
        return metrics

    return run(main)


@pytest.fixture(scope="module")
def metrics() -> Metrics:
    return lived()


def test_what_a_driver_and_an_informer_did_stands_in_the_metrics(metrics: Metrics) -> None:
    found = values(metrics)
    ours = "controller=applicationinstance"

    assert found[f"controller_runtime_reconcile_total{{{ours},result=success}}"] == 1
    assert found[f"controller_runtime_reconcile_total{{{ours},result=requeue_after}}"] == 1
    assert found[f"controller_runtime_reconcile_total{{{ours},result=requeue}}"] == 0
    assert (
        found[f"controller_runtime_reconcile_errors_total{{{ours}}}"]
        == (found[f"controller_runtime_reconcile_total{{{ours},result=error}}"])
    )
    assert found[f"controller_runtime_terminal_reconcile_errors_total{{{ours}}}"] == 1
    assert found[f"controller_runtime_reconcile_panics_total{{{ours}}}"] >= 1
    assert found[f"controller_runtime_reconcile_timeouts_total{{{ours}}}"] == 1
    assert found[f"controller_runtime_reconcile_time_seconds_bucket{{{ours},le=0.25}}"] >= 4
    assert found[f"controller_runtime_max_concurrent_reconciles{{{ours}}}"] == 8
    assert found[f"workqueue_adds_total{{{ours},name=applicationinstance}}"] == 6
    assert found[f"workqueue_retries_total{{{ours},name=applicationinstance}}"] >= 3
    assert found[f"workqueue_depth{{{ours},name=applicationinstance,priority=live}}"] == 0
    assert found["vworkspace_operator_informer_synced{group=,kind=ConfigMap}"] == 1
    assert found["vworkspace_operator_informer_objects{group=,kind=ConfigMap}"] == 1
    assert found["vworkspace_operator_connectivity_state{mode=unreachable}"] == 1
    assert sum(value for name, value in found.items() if "connectivity_state" in name) == 1
    assert found["vworkspace_operator_pull_job_lag_seconds"] == 12.5
    assert found["vworkspace_operator_event_buffer_occupancy"] == 0.25
    assert found["vworkspace_operator_credential_age_seconds"] == 77
    assert found["vworkspace_operator_operation_total{engine=velero,phase=Succeeded,type=Backup}"] == 1
    assert found["vworkspace_operator_operation_total{engine=velero,phase=Failed,type=Backup}"] == 0
    assert found["leader_election_master_status{name=vworkspace-operator}"] == 1
    assert found["process_resident_memory_bytes"] > 0
    assert found["vworkspace_operator_instances{condition=Ready,reason=ChartUnreachable,status=False}"] == 3
    assert found["vworkspace_operator_operations{condition=Blocked,reason=AwaitingApproval,status=True}"] == 1
    assert found["rest_client_request_duration_seconds_bucket{host=10.0.0.1:6443,le=0.1,verb=GET}"] == 0
    assert found["rest_client_request_duration_seconds_bucket{host=10.0.0.1:6443,le=0.25,verb=GET}"] == 1
    assert found[f"workqueue_work_duration_seconds_count{{{ours},name=applicationinstance}}"] >= 5
    assert found[f"workqueue_unfinished_work_seconds{{{ours},name=applicationinstance}}"] >= 0


def test_every_metric_of_the_catalogue_is_exposed_with_its_type_and_labels_and_nothing_beside(metrics: Metrics) -> None:
    body, _ = metrics.exposition("")
    families = {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in text_string_to_metric_families(body.decode())
    }
    ours = {name: family for name, family in families.items() if not name.startswith("process_")}
    unseen = {"vworkspace_operator_informer_relists_total"}  # nothing was listed anew

    assert {name: family.type for name, family in ours.items()} == {one.name: one.type.value for one in CATALOGUE}
    for metric in CATALOGUE:
        labels = {frozenset(sample.labels) - {"le"} for sample in ours[metric.name].samples}
        assert labels == (set() if metric.name in unseen else {frozenset(metric.labels)}), metric.name
    assert all(one.name.endswith("_total") == (one.type is Type.COUNTER) for one in CATALOGUE)


def test_a_process_that_has_not_begun_exposes_every_metric_without_inventing_values() -> None:
    found = values(fresh())

    assert found["vworkspace_operator_event_loop_silence_seconds"] == 3
    assert found["vworkspace_operator_connectivity_state{mode=unknown}"] == 1
    assert "vworkspace_operator_pull_job_lag_seconds" not in found
    assert "vworkspace_operator_credential_age_seconds" not in found


def test_whatever_is_told_the_number_of_series_stays_small() -> None:
    metrics = fresh()
    for number in range(500):
        metrics.request(f"M{number}", f"c{number}")
        metrics.request("GET", "<error>")
        metrics.job(f"outcome{number}")
        metrics.operation(f"t{number}", f"e{number}", f"p{number}")
    found = values(metrics)

    assert found["rest_client_requests_total{code=other,method=other}"] == 500
    assert found["rest_client_requests_total{code=<error>,method=GET}"] == 500
    assert found["vworkspace_operator_applied_jobs_total{outcome=other}"] == 500
    assert found["vworkspace_operator_operation_total{engine=other,phase=other,type=other}"] == 500
    assert len(found) < 75, "a histogram of 15 series for each of two methods among them"


def test_a_scraper_gets_the_format_it_asks_for() -> None:
    body, media_type = fresh().exposition("application/openmetrics-text; version=1.0.0")

    assert media_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    assert b"_created" not in body
    assert fresh().exposition("*/*")[1].startswith("text/plain")


def test_two_processes_in_one_interpreter_do_not_share_a_registry() -> None:
    first, second = fresh(), fresh()
    first.request("GET", "200")

    assert "rest_client_requests_total{code=200,method=GET}" not in values(second)
