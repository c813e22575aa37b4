"""The examples of docs/protocol.md that the code itself produces, by the name that stands above each of them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from joserfc.jwk import OKPKey

from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import ObjectRef
from tests.support.builders import NAME, NAMESPACE, condition
from tests.support.jobs import CLUSTER_ID, instance, job, operation, with_status
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER
from vworkspace_core.jobs.events import condition_events, heartbeat, phase_events
from vworkspace_core.jobs.result import SUCCEEDED, JobOutcome, JobResult, Reason
from vworkspace_core.jobs.state import AppliedRef
from vworkspace_core.jobs.steps import progress, result_body, waiting_body
from vworkspace_core.overview.page_paths import page_link
from vworkspace_fake.controlplane import ControlPlaneServer, InProcessControlPlane
from vworkspace_fake.controlplane.refusals import error_body
from vworkspace_fake.controlplane.sealing import Sealing

NOW: Final = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
LIVE: Final = instance(uid="0b6c8a2e-6f0e-4c1d-9f43-1f6c2a7d9e10", generation=1)
READY: Final = condition("Ready", "True", "HelmReleaseReady")
INSTALLING: Final = with_status(
    LIVE,
    condition("Ready", "False", "Installing", message="Helm install is under way"),
    condition("Reconciling", "True", "HelmReleaseInstalling"),
)
SIGNING_KEY: Final[dict[str, str | list[str]]] = {
    "kty": "OKP",
    "crv": "Ed25519",
    "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
    "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
}
"""The key of RFC 8037, appendix A: known to everybody, and good for examples only."""


def produced() -> Mapping[str, Any]:
    """What the code says, example by example."""
    refused = error_body(409, "job job-1 is closed: it has its result", "request-17")
    return {**_reports(), **_events(), **_credentials(), "job-signed": _signed(), "refusal": refused}


def _reports() -> dict[str, Any]:
    applied = AppliedRef(ObjectRef(APPLICATION_INSTANCE, NAMESPACE, NAME), LIVE["metadata"]["uid"], 1)
    held = "kubectl-edit holds .spec.chart.version"
    hooks = JobResult.failed("HelmReleaseFailed", "post-upgrade hooks failed")
    return {
        "status": progress(INSTALLING, NOW),
        "status-waiting": waiting_body("ApplicationInstance org-myteam/nextcloud-myteam is being deleted", NOW),
        "result-succeeded": result_body(SUCCEEDED, applied, NOW),
        "result-failed": result_body(hooks, applied, NOW, page_link("https://ops.example.com", applied.ref)),
        "result-noop": result_body(JobResult(JobOutcome.NOOP), applied, NOW),
        "result-expired": result_body(JobResult(JobOutcome.NOOP, "expired"), None, NOW),
        "result-conflict": result_body(JobResult.of(JobOutcome.CONFLICT, Reason.FIELD_CONFLICT, held), None, NOW),
    }


def _events() -> dict[str, Any]:
    failed = with_status(LIVE, condition("Ready", "False", "HelmReleaseFailed", message="Helm rollback succeeded"))
    (transition,) = condition_events({"Ready": ("True", "HelmReleaseReady")}, failed, NOW)
    ended = {**operation(), "metadata": {**operation()["metadata"], "uid": "5f0d", "generation": 1}}
    phase = {"phase": "Succeeded", "startedAt": "2026-01-01T00:01:00Z", "finishedAt": "2026-01-01T00:05:00Z"}
    (finished,) = phase_events(
        "Running", with_status(ended, condition("Succeeded", "True", "VeleroBackupCompleted"), **phase), NOW
    )
    name = {"name": CLUSTER_ID, "uid": "3f2a9c1e-55d0-4b7e-9a66-0d1f2e3c4b5a", "generation": 1}
    cluster = {**CLUSTER.manifest(CLUSTER_ID), "metadata": name}
    beat = heartbeat(CLUSTER_ID, with_status(cluster, condition("Connected", "True", "RoundTripOK")), NOW)
    return {"events": {"events": [transition, beat]}, "event-operation": finished}


def _credentials() -> dict[str, Any]:
    texts = iter(("vw-reg-5c9e", "vw-1f0a", "vw-77d2"))
    server = ControlPlaneServer(now=lambda: NOW, mint=lambda: next(texts))
    once = server.tokens.offer_registration(CLUSTER_ID)
    request = {"registrationToken": once, "clusterId": CLUSTER_ID}
    issued = run_sync(InProcessControlPlane(server, once).register(request))
    rotated = run_sync(InProcessControlPlane(server, issued["token"]).rotate())
    return {"register": request, "register-answer": issued, "rotate-answer": rotated}


def _signed() -> Mapping[str, Any]:
    return Sealing(OKPKey.import_key({**SIGNING_KEY}))(job(), CLUSTER_ID)
