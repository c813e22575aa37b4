"""The common parts of the checks of a control plane: a test cluster, and the decorator that runs or skips a check.

The control plane is the server that offers jobs to the operator. A check that needs more than the agent API declares
that by `check`; without it the check is skipped, and says what it would have needed. Each check offers its own jobs
and ignores others, so a cluster in use can be examined.
"""

import uuid
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from inspect import Parameter, Signature, signature
from typing import Any

import anyio
import pytest

from vworkspace_app.conformance.subject import WHAT_IT_TAKES, Account, ControlPlaneSubject, Offer, Open

AT = "2026-01-01T00:00:00Z"
PROMPT, LONGEST = 1.0, 20.0
"""PROMPT is the time limit of a prompt answer, LONGEST that of a whole check; both in seconds."""


class Examined:
    """A test cluster of one check, which sends to the control plane the requests that the cluster's agent would send.

    The test cluster remembers the ids of the jobs that the check has offered.
    """

    def __init__(self, subject: ControlPlaneSubject, account: Account) -> None:
        self.subject = subject
        self.id, self.token = account.cluster_id, account.token
        self.control = subject.control(self.token)
        self._own: list[str] = []

    @classmethod
    async def of(cls, subject: ControlPlaneSubject) -> "Examined":
        """Return a test cluster for one check.

        The control plane `subject` provides the cluster's id, and the token of its agent.
        """
        return cls(subject, await subject.account())

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
        """Poll once for `wait` seconds, and return the received jobs that this check has offered."""
        return [job for job in (await self.control.fetch(self.id, wait)).jobs if job["id"] in self._own]

    async def ids(self, wait: int = 0) -> list[str]:
        """Poll once for `wait` seconds, and return the ids of the received jobs that this check has offered."""
        return [job["id"] for job in await self.jobs(wait)]

    async def open_job(self) -> str:
        """Offer a job and acknowledge it, and return its id."""
        job_id = await self.enqueue()
        await self.control.ack(job_id)
        return job_id


def check(*needed: Offer) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Return a decorator that makes a pytest check of a coroutine function, whose first argument is a test cluster.

    The check gets the control plane under examination from the fixture `subject`. It is skipped if the control plane
    lacks one of the capabilities `needed`, such as `Offer.JOBS`; without any it needs only the agent API.
    """

    def decorated(body: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        def checked(subject: Open, **values: Any) -> None:
            if missing := anyio.run(_missing, subject, needed, partial(body, **values)):
                pytest.skip("needs " + "; ".join(missing))

        _, *parameters = signature(body).parameters.values()
        opened = Parameter("subject", Parameter.POSITIONAL_OR_KEYWORD)
        checked.__signature__ = Signature([opened, *parameters])  # type: ignore[attr-defined]  # pytest reads fixtures
        checked.__name__, checked.__doc__, checked.__module__ = body.__name__, body.__doc__, body.__module__
        return checked

    return decorated


async def _missing(subject: Open, needed: Collection[Offer], body: Callable[[Examined], Awaitable[None]]) -> list[str]:
    """Run the check `body`, or return what it lacks: a text for each missing capability of the control plane."""
    async with subject() as opened:
        missing = [WHAT_IT_TAKES[offer] for offer in sorted(set(needed) - opened.offers)]
        if not missing:
            with anyio.fail_after(LONGEST):
                await body(await Examined.of(opened))
        return missing
