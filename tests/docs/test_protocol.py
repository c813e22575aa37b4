"""docs/protocol.md is true: every example is read or made by the code, and every request is what the client sends."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import Invalid
from tests.support.jobs import CLUSTER_ID
from tests.support.protocol_examples import SIGNING_KEY, produced
from tests.support.scripted_server import Request, answer, wire
from vworkspace_core.control_plane.port import Fetched
from vworkspace_core.jobs.payload_security import Security, opened, signed_content
from vworkspace_core.jobs.scope import JobScope
from vworkspace_core.jobs.state import JobState, accept
from vworkspace_core.jobs.wire import IntentName, Job, JobKind, parse_job
from vworkspace_fake.controlplane import ControlPlaneServer, InProcessControlPlane
from vworkspace_fake.controlplane.bodies import check_event, check_result, check_status
from vworkspace_odoo import MEDIA_TYPE, HttpControlPlane, JosePayloads

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
