"""Checks of the JSON body of an error response of the control plane (PULL-6): `{error, message, requestId}`."""

import json
import uuid

import pytest

from vworkspace_app.conformance.examined import Examined, check

REFUSED = {
    "an unknown job": ("POST", "jobs/nobody-{run}/ack", 404),
    "another cluster": ("GET", "jobs?cluster=other-{run}&wait=0", 403),
    "a wait that is no number": ("GET", "jobs?cluster={cluster}&wait=soon", 400),
}


@pytest.mark.parametrize("name", REFUSED)
@check()
async def test_a_refusal_has_a_word_a_sentence_and_the_name_of_the_request_PULL_6(c: Examined, name: str) -> None:
    method, path, status = REFUSED[name]
    run = uuid.uuid4().hex
    answered = await c.subject.asked(method, path.format(run=run, cluster=c.id), c.token)

    assert answered.status == status
    assert "json" in answered.content_type
    error = json.loads(answered.body)
    assert {"error", "message", "requestId"} <= set(error)
    assert all(isinstance(error[field], str) and error[field] for field in ("error", "message", "requestId"))


@check()
async def test_a_rejected_token_is_told_in_the_same_form_PULL_6(c: Examined) -> None:
    answered = await c.subject.asked("GET", f"jobs?cluster={c.id}&wait=0", f"nobody-{uuid.uuid4().hex}")

    assert answered.status == 401
    assert {"error", "message", "requestId"} <= set(json.loads(answered.body))
