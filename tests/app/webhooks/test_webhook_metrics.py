"""U13, RUN-5: every admission review is counted under the names of controller-runtime, however it ends."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest

from kubelab.clock import VirtualClock
from tests.app.observability.test_metrics import fresh, values
from tests.support.violations import instance
from tests.support.virtual_time import run
from vworkspace_app.observability import Metrics
from vworkspace_app.webhooks.intake import LARGEST
from vworkspace_app.webhooks.webhook_answers import application
from vworkspace_core.webhook.admission import DEFAULT_PATH, GATED_PATH, UNGATED_PATH, WebhookSettings

CLOCK = VirtualClock()
SETTINGS = WebhookSettings("c")
PATHS = (DEFAULT_PATH, GATED_PATH, UNGATED_PATH)
REQUESTS = "controller_runtime_webhook_requests_total"
LATENCY = "controller_runtime_webhook_latency_seconds"
IN_HAND = "controller_runtime_webhook_requests_in_flight"


def review(manifest: Any) -> bytes:
    request = {"uid": "u", "operation": "CREATE", "name": "a", "namespace": "org-a", "object": manifest}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def client(metrics: Metrics) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(application(SETTINGS, metrics, CLOCK.monotonic), raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://webhooks")


def asked(metrics: Metrics, path: str, body: bytes) -> httpx2.Response:
    async def main() -> httpx2.Response:
        async with client(metrics) as http:
            return await http.post(path, content=body)

    return run(main)


@pytest.mark.parametrize("path", PATHS)
def test_series_of_every_webhook_begin_at_zero(path: str) -> None:
    metrics = fresh()
    application(SETTINGS, metrics)
    found = values(metrics)

    assert found[f"{REQUESTS}{{code=200,webhook={path}}}"] == 0
    assert found[f"{REQUESTS}{{code=500,webhook={path}}}"] == 0
    assert found[f"{LATENCY}_count{{webhook={path}}}"] == 0
    assert found[f"{IN_HAND}{{webhook={path}}}"] == 0


BODIES = {
    "admitted": (GATED_PATH, review(instance()), 200),
    "a refusal is an answer": (GATED_PATH, review(instance(chart={})), 200),
    "defaulted": (DEFAULT_PATH, review(instance()), 200),
    "no review": (UNGATED_PATH, b"{", 400),
    "too large": (GATED_PATH, b" " * (LARGEST + 1), 413),
}


@pytest.mark.parametrize(("path", "body", "code"), BODIES.values(), ids=BODIES)
def test_a_review_counts_under_its_webhook_and_the_code_of_its_answer(path: str, body: bytes, code: int) -> None:
    metrics = fresh()
    answer = asked(metrics, path, body)
    found = values(metrics)

    assert answer.status_code == code
    counted = {name: value for name, value in found.items() if name.startswith(REQUESTS) and value}
    assert counted == {f"{REQUESTS}{{code={code},webhook={path}}}": 1}
    assert found[f"{LATENCY}_count{{webhook={path}}}"] == 1
    assert all(value == 0 for name, value in found.items() if name.startswith(IN_HAND))


def test_a_review_is_in_hand_from_its_head_to_its_answer_and_so_long_it_took() -> None:
    metrics = fresh()
    seen: list[float] = []

    async def slowly() -> AsyncIterator[bytes]:
        body = review(instance())
        yield body[:10]
        await CLOCK.sleep(0.3)
        seen.append(values(metrics)[f"{IN_HAND}{{webhook={GATED_PATH}}}"])
        yield body[10:]

    async def main() -> None:
        async with client(metrics) as http:
            await http.post(GATED_PATH, content=slowly())

    run(main)
    found = values(metrics)

    assert seen == [1]
    assert found[f"{IN_HAND}{{webhook={GATED_PATH}}}"] == 0
    assert found[f"{LATENCY}_bucket{{le=0.25,webhook={GATED_PATH}}}"] == 0
    assert found[f"{LATENCY}_bucket{{le=0.5,webhook={GATED_PATH}}}"] == 1


def test_a_review_that_is_given_up_is_not_in_hand_for_ever() -> None:
    metrics = fresh()

    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await CLOCK.sleep(3600)

    async def main() -> None:
        async with client(metrics) as http:
            with anyio.move_on_after(1):
                await http.post(GATED_PATH, content=never())

    run(main)
    found = values(metrics)

    assert found[f"{IN_HAND}{{webhook={GATED_PATH}}}"] == 0
    assert found[f"{REQUESTS}{{code=500,webhook={GATED_PATH}}}"] == 1


def test_a_path_that_is_no_webhook_makes_no_series() -> None:
    metrics = fresh()
    application(SETTINGS, metrics)
    before = set(values(metrics))

    assert asked(metrics, "/nothing-here", b"{}").status_code == 404
    assert set(values(metrics)) == before
