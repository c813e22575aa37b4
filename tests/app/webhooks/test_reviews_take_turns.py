"""RUN-11: a storm of reviews leaves everything else in the process its turns, however large they are (M1).

Counted in rounds of the event loop, not in seconds: what one review costs is bounded in steps (`test_bounds.py`), and
between two of them everything that is due runs, be it the Lease, a pass of the work queue or the other bodies.
"""

from collections import Counter
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from kubelab.clock import VirtualClock
from purekube.apimachinery.certificates import Validity
from tests.support.instance_worlds import CLUSTER, instance_manifest
from tests.support.run_by import run_by
from tests.support.virtual_time import run
from tests.support.worst import INSTANCES
from vworkspace_app.webhooks.intake import Turns
from vworkspace_app.webhooks.webhook_answers import ReviewObserver, application
from vworkspace_core.webhook.admission import DEFAULT_PATH, GATED_PATH, UNGATED_PATH, WebhookSettings

STORM = 24


class Rounds(ReviewObserver):
    """In which round of the loop each review was answered."""

    def __init__(self) -> None:
        self.round = 0
        self.answered: Counter[int] = Counter()
        self.codes: Counter[int] = Counter()

    def webhook(self, path: str) -> None: ...

    def certificate(self, validity: Validity) -> None: ...

    def review_began(self, path: str) -> None: ...

    def review_ended(self, path: str, code: int, seconds: float) -> None:
        self.answered[self.round] += 1
        self.codes[code] += 1

    async def count(self) -> None:
        while True:
            await anyio.lowlevel.checkpoint()
            self.round += 1


async def post(app: Any, path: str, body: bytes) -> bytes:
    """What the application answers."""
    told = bytearray()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        told.extend(message.get("body", b""))

    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    await app({**scope, "headers": [], "http_version": "1.1", "scheme": "https", "server": ("a", 1)}, receive, send)
    return bytes(told)


def body_of(manifest: Any, **more: Any) -> bytes:
    request = {"uid": "u", "operation": "CREATE", "namespace": "org-myteam", "name": "n", "object": manifest, **more}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["the worst object", "no review"])
@pytest.mark.parametrize("path", [GATED_PATH, UNGATED_PATH, DEFAULT_PATH])
def test_between_two_reviews_everything_else_has_its_turn(path: str, kind: str) -> None:
    worst = next(instance for instance in INSTANCES if instance.name == "instance: many secret keys (H6)")
    body = body_of(worst.make(2_000)) if kind == "the worst object" else b'{"a": 7}'
    rounds = Rounds()
    app = application(WebhookSettings(CLUSTER), rounds)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(rounds.count)
            async with anyio.create_task_group() as storm:
                for _ in range(STORM):
                    storm.start_soon(post, app, path, body)
            group.cancel_scope.cancel()

    anyio.run(main)
    assert sum(rounds.answered.values()) == STORM
    assert set(rounds.codes) == ({200} if kind == "the worst object" else {400})
    assert max(rounds.answered.values()) == 1


def test_reviews_at_all_paths_share_the_turns() -> None:
    rounds = Rounds()
    app = application(WebhookSettings(CLUSTER), rounds)
    body = body_of(INSTANCES[2].make(10))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(rounds.count)
            async with anyio.create_task_group() as storm:
                for path in (GATED_PATH, UNGATED_PATH, DEFAULT_PATH) * 4:
                    storm.start_soon(post, app, path, body)
            group.cancel_scope.cancel()

    anyio.run(main)
    assert max(rounds.answered.values()) == 1


@run_by(run)
async def test_after_a_review_the_loop_is_everybody_elses_for_as_long_as_it_took() -> None:
    """A review alone waits for nothing."""
    clock, spent = VirtualClock(), 0.0
    turns = Turns(lambda: clock.monotonic() + spent)
    entered: list[float] = []
    began = clock.monotonic()
    for _ in range(3):
        async with turns.taken(0):
            entered.append(clock.monotonic() - began)
            spent += 0.25
    assert entered == [0.0, 0.25, 0.5]


@pytest.mark.parametrize(("seconds", "rests"), [(0.25, 3), (0.0001, 0)])
def test_a_long_review_rests_between_its_parts_and_a_short_one_does_not(seconds: float, rests: int) -> None:
    """Both objects are read and judged apart: who looks at the clock finds that time has passed, in each of them."""

    async def main() -> float:
        clock, looks = VirtualClock(), 0

        def now() -> float:
            nonlocal looks
            looks += 1
            return clock.monotonic() + looks * seconds

        manifest = INSTANCES[2].make(10)
        began = clock.monotonic()
        answer = await post(
            application(WebhookSettings(CLUSTER), now=now), GATED_PATH, body_of(manifest, oldObject=manifest)
        )
        assert b'"allowed":true' in answer
        return clock.monotonic() - began

    assert run(main) == pytest.approx(rests * seconds)


@pytest.mark.parametrize(("user", "allowed"), [("alice", True), ("mallory", False), (None, False)])
def test_the_webhook_knows_who_writes(user: str | None, allowed: bool) -> None:
    """The one way in which `--writers` is asked: the review as it comes over HTTP."""
    app = application(WebhookSettings(CLUSTER, writers=frozenset({"alice"})))
    known = {} if user is None else {"userInfo": {"username": user, "groups": ["a"], "extra": {"a": ["b"]}}}

    answer = anyio.run(post, app, GATED_PATH, body_of(instance_manifest(), **known))

    assert (b'"allowed":true' in answer) is allowed
