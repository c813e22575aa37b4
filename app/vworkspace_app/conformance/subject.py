"""The control plane under examination: the agent's side of it, and what its owner offers of the other side."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

import attrs

from vworkspace_core.control_plane.port import ControlPlane


class Offer(StrEnum):
    """A capability that a check may need in addition to the agent API."""

    JOBS = "jobs"
    """Jobs can be offered."""
    RECORDS = "records"
    """Reports can be read back: statuses, results, events."""
    ACCOUNTS = "accounts"
    """Further clusters can be made, and tokens can be refused."""
    REGISTRATION = "registration"
    """One-time tokens can be made."""


_ADMIN = "--admin-token-file for a server that has the admin API of the embedded control plane"

WHAT_IT_TAKES: Mapping[Offer, str] = {
    Offer.JOBS: f"jobs to examine: give --enqueue-command, or {_ADMIN}",
    Offer.RECORDS: f"a look at what was reported: give {_ADMIN}",
    Offer.ACCOUNTS: f"further clusters and tokens: give {_ADMIN}",
    Offer.REGISTRATION: f"one-time tokens: give {_ADMIN}",
}
"""The text for a skipped check: what it needs, and how to give it."""


class Account(Protocol):
    """A cluster that the control plane knows, with the token by which the cluster's agent authenticates."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        ...

    @property
    def token(self) -> str:
        """The token that its agent presents."""
        ...


@attrs.frozen
class RawAnswer:
    """An HTTP answer before its body is parsed."""

    status: int
    content_type: str
    body: bytes


class ControlPlaneSubject(Protocol):
    """A control plane under examination. Only calls for capabilities in `offers` are made."""

    @property
    def offers(self) -> frozenset[Offer]:
        """The capabilities that may be used."""
        ...

    def control(self, token: str) -> ControlPlane:
        """Return the agent API for the holder of `token`."""
        ...

    async def asked(self, method: str, path: str, token: str) -> "RawAnswer":
        """Send one request below `/api/agent/` with only its own headers, and return the raw answer."""
        ...

    async def account(self) -> Account:
        """Return a cluster to examine: a new one each time if several are possible, else always the same."""
        ...

    async def enqueue(self, cluster_id: str, job: Mapping[str, Any]) -> str:
        """Offer a job: `kind`, `payload`, `idempotencyKey` and optional fields of the wire; return its id (JOBS)."""
        ...

    async def withdraw(self, job_id: str) -> None:
        """Close a job (RECORDS)."""
        ...

    async def job(self, job_id: str) -> Mapping[str, Any]:
        """Return the job with `statuses`, `result`, `resultsRefused` (RECORDS)."""
        ...

    async def events(self, cluster_id: str) -> Sequence[Mapping[str, Any]]:
        """Return events in the order they came, each once (RECORDS)."""
        ...

    async def refuse(self, token: str) -> None:
        """Refuse a token from now on (ACCOUNTS)."""
        ...

    async def registration(self, cluster_id: str) -> str:
        """Return a one-time token (REGISTRATION)."""
        ...


Open: TypeAlias = Callable[[], AbstractAsyncContextManager[ControlPlaneSubject]]
"""A function that opens the subject for one check, on the event loop of that check."""
