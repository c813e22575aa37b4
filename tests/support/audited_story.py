"""The requests of a story as the API server's audit log tells them: the embedded one's, or a kube-apiserver's file."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from kubelab.access.audit_log import AuditEntry, AuditLog
from purekube_kit.kube_apiserver import OPERATOR_USER

POLICY: Final = f"""\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: [{json.dumps(OPERATOR_USER)}]
- level: None
"""
"""What a kube-apiserver is to write down: whatever the operator asks of it."""


@attrs.frozen
class Request:
    """One that was answered: who asked for what, by the verb of authorization rules, and the HTTP status."""

    user: str
    verb: str
    path: str
    status: int
    impersonated: str = ""
    """As whom, where that is somebody else."""


class Audit(Protocol):
    """An audit log that a test can read."""

    def requests(self) -> Iterable[Request]:
        """The requests of the story so far."""
        ...


@attrs.frozen
class Remembered:
    """That of the embedded API server, which serves one story."""

    log: AuditLog

    def requests(self) -> Iterable[Request]:
        """Everything that was ever asked."""
        return [_remembered(one) for one in self.log]


def _remembered(entry: AuditEntry) -> Request:
    who = (entry.impersonator, entry.user) if entry.impersonator else (entry.user, "")
    return Request(who[0], entry.verb.value, entry.path, entry.status, who[1])


@attrs.frozen
class Written:
    """The file of a kube-apiserver, with what it received since the story began; others use the server before."""

    file: Path
    since: datetime

    def requests(self) -> Iterable[Request]:
        """Whole lines; requests that last, such as watches, are there twice."""
        entries = [json.loads(line) for line in whole_lines(self.file)] if self.file.exists() else []
        return [_request(entry) for entry in entries if arrival(entry) >= self.since]


def whole_lines(file: Path) -> list[bytes]:
    """The lines of a log, without the one that is being written."""
    return file.read_bytes().split(b"\n")[:-1]


def arrival(entry: Mapping[str, Any]) -> datetime:
    """When a kube-apiserver received the request of this entry."""
    return datetime.fromisoformat(entry["requestReceivedTimestamp"])


def _request(entry: Mapping[str, Any]) -> Request:
    path = str(entry["requestURI"]).partition("?")[0]
    impersonated = entry.get("impersonatedUser", {}).get("username", "")
    return Request(entry["user"]["username"], entry["verb"], path, entry["responseStatus"]["code"], impersonated)
