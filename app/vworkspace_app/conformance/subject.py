"""The control plane under examination: the agent's side of it, and what its owner offers of the other side."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

import attrs

from vworkspace_core.ports import ControlPlane


class Offer(StrEnum):
    """What a check may need beside the agent API."""

    JOBS = "jobs"
    """Jobs can be put on offer."""
    RECORDS = "records"
    """What was reported can be looked at: statuses, results, events."""
    ACCOUNTS = "accounts"
    """There can be further clusters, and tokens can be refused."""
    REGISTRATION = "registration"
    """There can be one-time tokens."""


_ADMIN = "--admin-token-file for a server that has the admin API of the embedded control plane"

WHAT_IT_TAKES: Mapping[Offer, str] = {
    Offer.JOBS: f"jobs to examine: give --enqueue-command, or {_ADMIN}",
    Offer.RECORDS: f"a look at what was reported: give {_ADMIN}",
    Offer.ACCOUNTS: f"further clusters and tokens: give {_ADMIN}",
    Offer.REGISTRATION: f"one-time tokens: give {_ADMIN}",
}
"""What a check that is skipped would have needed, and how to give it."""


class Account(Protocol):
    """A cluster with its token."""

    @property
    def cluster_id(self) -> str:
        """Its id."""
        ...

    @property
    def token(self) -> str:
        """What its agent shows."""
        ...


@attrs.frozen
class Answered:
    """An answer as it came."""

    status: int
    content_type: str
    body: bytes


class Subject(Protocol):
    """A control plane. Calls for what is not in `offers` are never made."""

    @property
    def offers(self) -> frozenset[Offer]:
        """What can be asked of it."""
        ...

    def control(self, token: str) -> ControlPlane:
        """The agent API as the holder of `token` sees it."""
        ...

    async def asked(self, method: str, path: str, token: str) -> "Answered":
        """One request below `/api/agent/` with nothing but its headers, and the answer as it stands on the wire."""
        ...

    async def account(self) -> Account:
        """A cluster to examine: a new one each time where there can be several, else always the same."""
        ...

    async def enqueue(self, cluster_id: str, job: Mapping[str, Any]) -> str:
        """Put a job on offer: `kind`, `payload`, `idempotencyKey` and optional fields of the wire; its id (JOBS)."""
        ...

    async def withdraw(self, job_id: str) -> None:
        """Close a job (RECORDS)."""
        ...

    async def job(self, job_id: str) -> Mapping[str, Any]:
        """The job with `statuses`, `result`, `resultsRefused` (RECORDS)."""
        ...

    async def events(self, cluster_id: str) -> Sequence[Mapping[str, Any]]:
        """Events in the order they came, each once (RECORDS)."""
        ...

    async def refuse(self, token: str) -> None:
        """Refuse a token from now on (ACCOUNTS)."""
        ...

    async def registration(self, cluster_id: str) -> str:
        """A one-time token (REGISTRATION)."""
        ...


Open: TypeAlias = Callable[[], AbstractAsyncContextManager[Subject]]
"""Opens the subject for one check, on the event loop of that check."""
