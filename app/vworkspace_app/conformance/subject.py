"""The control plane under examination: the agent API, and the capabilities that its owner offers to examine it.

The control plane is the server that offers jobs to the operator. The agent API is the HTTP API by which a cluster's
agent fetches jobs and reports on them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

import attrs

from vworkspace_core.control_plane.port import ControlPlane


class Offer(StrEnum):
    """A capability that the control plane's owner may offer to the conformance checks in addition to the agent API.

    The agent API is the HTTP API by which a cluster's agent fetches jobs and reports on them. An example of a
    capability is JOBS: checks can offer jobs to the agent.
    """

    JOBS = "jobs"
    """Checks can offer jobs to the cluster's agent."""
    RECORDS = "records"
    """Checks can read back what the agent reported: statuses, results, events."""
    ACCOUNTS = "accounts"
    """Checks can create further clusters, and make the control plane refuse tokens."""
    REGISTRATION = "registration"
    """Checks can obtain one-time tokens with which a cluster registers."""


_ADMIN = "--admin-token-file for a server that has the admin API of the embedded control plane"

WHAT_IT_TAKES: Mapping[Offer, str] = {
    Offer.JOBS: f"jobs to examine: give --enqueue-command, or {_ADMIN}",
    Offer.RECORDS: f"a look at what was reported: give {_ADMIN}",
    Offer.ACCOUNTS: f"further clusters and tokens: give {_ADMIN}",
    Offer.REGISTRATION: f"one-time tokens: give {_ADMIN}",
}
"""The message of a skipped check for each missing capability: what is missing, and which flag supplies it."""


@attrs.frozen
class Account:
    """The id of a cluster that the control plane knows, and the token with which the cluster's agent authenticates."""

    cluster_id: str
    token: str = attrs.field(repr=False)


@attrs.frozen
class RawAnswer:
    """An HTTP response with its status, content type and body. The body is not parsed."""

    status: int
    content_type: str
    body: bytes


class ControlPlaneSubject(Protocol):
    """The interface through which the conformance checks use a control plane under examination.

    A method whose docstring names a capability is called only if `offers` contains that capability.
    """

    @property
    def offers(self) -> frozenset[Offer]:
        """The capabilities that the control plane's owner offers to checks."""
        ...

    def control(self, token: str) -> ControlPlane:
        """Return a client of the agent API, by which an agent fetches jobs and reports on them, that authenticates with
        `token`.
        """
        ...

    async def asked(self, method: str, path: str, token: str) -> "RawAnswer":
        """Send one request below `/api/agent/` with no headers except the token, and return the unparsed response."""
        ...

    async def account(self) -> Account:
        """Return an account for a check: the id of a cluster, and the token of its agent.

        Each call returns a new cluster if the control plane permits that, and otherwise the same cluster.
        """
        ...

    async def enqueue(self, cluster_id: str, job: Mapping[str, Any]) -> str:
        """Offer a job to the agent of a cluster, and return the job's id.

        The job has `kind`, `payload`, `idempotencyKey` and optional fields. Needs JOBS.
        """
        ...

    async def withdraw(self, job_id: str) -> None:
        """Close a job of the control plane, although the agent has reported no result.

        The control plane then refuses the agent's acknowledgement of the job. Needs RECORDS.
        """
        ...

    async def job(self, job_id: str) -> Mapping[str, Any]:
        """Return the job with its `statuses`, `result` and `resultsRefused`, as the control plane recorded them.

        Needs RECORDS.
        """
        ...

    async def events(self, cluster_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the events that the agent of a cluster reported, in their order of arrival, each once.

        Needs RECORDS.
        """
        ...

    async def refuse(self, token: str) -> None:
        """Make the control plane refuse a token from now on. Needs ACCOUNTS."""
        ...

    async def registration(self, cluster_id: str) -> str:
        """Return a new one-time token to register a cluster. Needs REGISTRATION."""
        ...


Open: TypeAlias = Callable[[], AbstractAsyncContextManager[ControlPlaneSubject]]
"""A function that opens the control plane under examination for one check, on the event loop of that check."""
