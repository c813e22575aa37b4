"""The audit log, with an entry for each answered request. Tests use it to count the writes of a steady state."""

from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime

import attrs

from kubelab.model.calls import RequestVerb


@attrs.frozen
class AuditEntry:
    """One answered request.

    `at` is the server's time of the answer, `agent` the User-Agent. `status` is the HTTP status, `version` the store's
    resourceVersion after the request, and `changed` says whether the request increased it. `manager` is the field
    manager, empty for reads; `user` is empty for a caller who is not authenticated (401). If `user` is impersonated,
    `impersonator` is the authenticated user; otherwise it is empty.
    """

    at: datetime

    method: str
    verb: RequestVerb
    path: str
    user: str
    manager: str
    status: int
    version: int
    changed: bool
    dry_run: bool = False
    agent: str = ""
    impersonator: str = ""


class AuditLog:
    """A log of the last `limit` requests, oldest first. `on_entry`, if set, is called with each new entry.

    One thread may iterate while another adds entries, because the iteration is over a copy.
    """

    def __init__(self, limit: int = 100_000) -> None:
        self.on_entry: Callable[[AuditEntry], None] | None = None
        self._entries: deque[AuditEntry] = deque(maxlen=limit)

    def __iter__(self) -> Iterator[AuditEntry]:
        return iter(self._entries.copy())

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: AuditEntry) -> None:
        """Add `entry`, which is about one answered request, to the log."""
        self._entries.append(entry)
        if self.on_entry is not None:
            self.on_entry(entry)

    def clear(self) -> None:
        """Remove all entries, so that later counts start here."""
        self._entries.clear()

    def select(self, desired: Callable[[AuditEntry], bool]) -> list[AuditEntry]:
        """Return the entries for which the function `desired` returns true, oldest first."""
        return [entry for entry in self if desired(entry)]

    def writes(self, *, user: str | None = None) -> list[AuditEntry]:
        """Return the entries of all writes by `user`, except dry runs.

        If `user` is None, return those of every user.
        """
        return self.select(
            lambda entry: entry.verb.writes and not entry.dry_run and (user is None or entry.user == user)
        )
