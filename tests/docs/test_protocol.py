"""docs/protocol.md is true: every example is read or made by the code, and every request is what the client sends."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from joserfc.jwk import OKPKey

from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import ObjectRef
from tests.support.builders import NAME, NAMESPACE, condition
from tests.support.jobs import CLUSTER_ID, instance, job, operation, with_status
from tests.support.scripted_server import Request, answer, wire
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER
from vworkspace_core.control_plane.port import Fetched
from vworkspace_core.jobs.events import condition_events, heartbeat, phase_events
from vworkspace_core.jobs.payload_security import Security, opened, signed_content
from vworkspace_core.jobs.result import SUCCEEDED, JobOutcome, JobResult, Reason
from vworkspace_core.jobs.scope import JobScope
from vworkspace_core.jobs.state import AppliedRef, JobState, accept
from vworkspace_core.jobs.steps import progress, result_body, waiting_body
from vworkspace_core.jobs.wire import IntentName, Job, JobKind, parse_job
from vworkspace_core.overview.page_paths import page_link
from vworkspace_fake.controlplane import ControlPlaneServer, InProcessControlPlane
from vworkspace_fake.controlplane.bodies import check_event, check_result, check_status
from vworkspace_fake.controlplane.refusals import error_body
from vworkspace_fake.controlplane.sealing import Sealing
from vworkspace_odoo import MEDIA_TYPE, HttpControlPlane, JosePayloads

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


PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"<!-- example: ([a-z-]+) -->\n```json\n(.*?)```", PAGE, re.DOTALL)
EXAMPLES: Mapping[str, Any] = {name: json.loads(text) for name, text in BLOCKS}
MADE = produced()
JOBS = {name: example for name, example in EXAMPLES.items() if name.startswith("job-")}


def test_no_example_stands_outside_the_tests() -> None:
    assert len(EXAMPLES) == len(BLOCKS) == PAGE.count("```json"), "each has a name of its own"
    assert set(EXAMPLES) == set(MADE) | set(JOBS) | {"poll"}


@pytest.mark.parametrize("name", MADE)
def test_what_the_code_makes_is_what_the_page_shows(name: str) -> None:
    assert EXAMPLES[name] == MADE[name]


@pytest.mark.parametrize("name", JOBS)
def test_every_job_is_one_that_the_agent_takes(name: str) -> None:
    assert isinstance(parse_job(JOBS[name]), Job)
    taken = accept(JOBS[name], 0, JobScope(CLUSTER_ID))
    assert isinstance(taken, JobState)
    assert taken.result is None, taken.result


def test_every_kind_of_job_and_every_intent_has_its_example() -> None:
    shown = [*JOBS.values(), *EXAMPLES["poll"]["jobs"]]

    assert {job["kind"] for job in shown} == set(JobKind)
    assert {job["payload"]["intent"] for job in shown if job["kind"] == "intent"} == set(IntentName)


def test_the_answer_of_the_poll_is_what_the_embedded_control_plane_gives() -> None:
    server = ControlPlaneServer()
    server.tokens.add(CLUSTER_ID, "t")
    for raw in EXAMPLES["poll"]["jobs"]:
        server.enqueue_raw(CLUSTER_ID, raw)

    fetched: Fetched = run_sync(InProcessControlPlane(server, "t").fetch(CLUSTER_ID, 0))

    assert {"jobs": list(fetched.jobs)} == EXAMPLES["poll"]


def test_the_control_plane_takes_every_report() -> None:
    assert [check_status(EXAMPLES[name]) for name in EXAMPLES if name.startswith("status")] == [[], []]
    assert [check_result(example) for name, example in EXAMPLES.items() if name.startswith("result")] == [[]] * 5
    events = [*EXAMPLES["events"]["events"], EXAMPLES["event-operation"]]
    assert [check_event(event) for event in events] == [[]] * 3


def test_the_signature_is_good_for_this_job_and_this_cluster_only_PULL_9() -> None:
    signed = EXAMPLES["job-signed"]
    public = json.dumps({name: value for name, value in SIGNING_KEY.items() if name != "d"})
    opener = JosePayloads(public)

    assert opened(signed, Security(require_signed=True, opener=opener), CLUSTER_ID) == signed
    assert set(signed_content(signed, CLUSTER_ID)) == {"cluster", "expiresAt", "idempotencyKey", "kind", "payload"}
    with pytest.raises(Invalid):
        opener.verify(signed["signature"], signed_content(signed, "cluster-other"))


# --- requests -----------------------------------------------------------------------------------------------------


def sent() -> list[Request]:
    """What the client sends for each call of the port, in the order of the page."""

    async def main() -> list[Request]:
        jobs = answer(200, json.dumps({"jobs": []}).encode(), MEDIA_TYPE)
        async with wire(answer(200, b"{}", MEDIA_TYPE)) as listening:
            listening.scripts.append(jobs)
            async with HttpControlPlane(listening.url, lambda: "long-lived") as control:
                await control.fetch(CLUSTER_ID, 30)
                await control.ack("job-1")
                await control.status("job-1", EXAMPLES["status"])
                await control.result("job-1", EXAMPLES["result-succeeded"])
                await control.events(EXAMPLES["events"]["events"])
                await control.register(EXAMPLES["register"])
                await control.rotate()
            return listening.requests

    return anyio.run(main)


def test_the_requests_are_those_that_the_client_sends_PULL_1() -> None:
    (shown,) = re.findall(r"<!-- requests -->\n```http\n(.*?)```", PAGE, re.DOTALL)
    requests = sent()

    assert [f"{request.method} {request.target}" for request in requests] == shown.split("\n")[:-1]
    for request in requests:
        token = EXAMPLES["register"]["registrationToken"] if request.path.endswith("register") else "long-lived"
        assert request.headers["authorization"] == f"Bearer {token}"
        assert request.headers["accept"] == MEDIA_TYPE
        assert request.headers.get("content-type") == (MEDIA_TYPE if request.body else None)
    bodies = [request.json if request.body else None for request in requests]
    desired = [None, None, *(EXAMPLES[name] for name in ("status", "result-succeeded", "events", "register")), {}]
    assert bodies == desired
