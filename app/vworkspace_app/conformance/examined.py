"""The common parts of the checks of a control plane: a test cluster, and the fixture that runs or skips a check.

The control plane is the server that offers jobs to the operator. A check that needs more than the agent API declares
that with `needs`; without it the check is skipped, and says what it would have needed. Each check offers its own jobs
and ignores others, so a cluster in use can be examined.
"""

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from vworkspace_app.conformance.subject import WHAT_IT_TAKES, ControlPlaneSubject, Offer, Open

AT = "2026-01-01T00:00:00Z"
PROMPT, LONGEST = 1.0, 20.0
"""PROMPT is the time limit of a prompt answer, LONGEST that of a whole check; both in seconds."""


class Examined:
    """A test cluster of one check, which sends to the control plane the requests that the cluster's agent would send.

    The test cluster remembers the ids of the jobs that the check has offered.
    """

    def __init__(self, subject: ControlPlaneSubject, cluster_id: str, token: str) -> None:
        self.subject = subject
        self.id = cluster_id
        self.token = token
        self.control = subject.control(token)
        self._own: list[str] = []

    @classmethod
    async def of(cls, subject: ControlPlaneSubject) -> "Examined":
        """Return a test cluster for one check.

        The control plane `subject` provides the cluster's id, and the token of its agent.
        """
        account = await subject.account()
        return cls(subject, account.cluster_id, account.token)

    async def enqueue(self, **fields: Any) -> str:
        """Have the control plane offer a job to the test cluster, and return the job's id.

        `fields` replace fields of the job, such as `payload`.
        """
        key = f"conformance/{uuid.uuid4().hex}"
        job = {"kind": "apply", "payload": {"a": 1}, "idempotencyKey": key, **fields}
        job_id = await self.subject.enqueue(self.id, job)
        self._own.append(job_id)
        return job_id

    async def jobs(self, wait: int = 0) -> list[Any]:
        """Poll once, and return the received jobs that this check has offered.

        `wait` is the time of the long poll in seconds.
        """
        return [job for job in (await self.control.fetch(self.id, wait)).jobs if job["id"] in self._own]

    async def ids(self, wait: int = 0) -> list[str]:
        """Poll once, and return the ids of the received jobs that this check has offered.

        `wait` is the time of the long poll in seconds.
        """
        return [job["id"] for job in await self.jobs(wait)]

    async def open_job(self) -> str:
        """Offer a job and acknowledge it, and return its id."""
        job_id = await self.enqueue()
        await self.control.ack(job_id)
        return job_id


Body = Callable[[Examined], Awaitable[None]]
Examine = Callable[[Body], None]


def needs(*offers: Offer) -> pytest.MarkDecorator:
    """Return a pytest mark for a check that needs these capabilities of the control plane, such as `Offer.JOBS`.

    A check without the mark needs only the agent API.
    """
    return pytest.mark.needs(*offers)


@pytest.fixture
def examine(subject: Open, request: pytest.FixtureRequest) -> Examine:
    """Return a function that runs the body of a check.

    The body is a coroutine function, which is called with a test cluster (`Examined`).

    `subject` opens the control plane under examination for one check. The check is skipped if the control plane lacks a
    capability that the check's mark `needs` names.
    """
    asked = {offer for mark in request.node.iter_markers("needs") for offer in mark.args}

    def run(body: Body) -> None:
        async def main() -> list[str]:
            async with subject() as opened:
                missing = [WHAT_IT_TAKES[offer] for offer in sorted(asked - opened.offers)]
                if not missing:
                    with anyio.fail_after(LONGEST):
                        await body(await Examined.of(opened))
                return missing

        missing = anyio.run(main)
        if missing:
            pytest.skip("needs " + "; ".join(missing))

    return run
