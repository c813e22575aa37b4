"""What was written to an API server, as its audit log tells it: the embedded one's, or a kube-apiserver's.

A kube-apiserver writes an entry when a request has been answered, which tells neither the order in which requests
came nor that in which they took effect: the former is that of their arrivals, the latter that of the resourceVersions
that they led to, for all objects come from one sequence.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec

from kubelab.access.audit_log import AuditEntry
from tests.support.audited_story import arrival, whole_lines

POLICY: Final = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules: [{level: RequestResponse, verbs: [create, update, patch, delete, deletecollection]}]
"""
"""What a kube-apiserver is to write down: whoever writes, since a place is known by who came there first."""
_POD: Final = "authentication.kubernetes.io/pod-name"

_entry = msgspec.json.Decoder(AuditEntry).decode


@attrs.frozen
class Act:
    """A writing request that was answered, also one that was refused.

    `arrived` is when the server had it (when it was answered, by the embedded one, which does so at once), `place`
    where its change stands among all changes. Without one it changed nothing.
    """

    user: str
    path: str
    status: int
    arrived: datetime
    place: int | None

    @property
    def is_lease(self) -> bool:
        """Whether it concerns a Lease."""
        return "/leases" in self.path


Log = Callable[[], list[Act]]
"""Reads what was written so far."""


def embedded_log(file: Path) -> Log:
    """That of the embedded API server in a process of its own."""

    def read() -> list[Act]:
        entries = [_entry(line) for line in whole_lines(file)]
        return [
            Act(entry.user, entry.path, entry.status, entry.at, entry.version if entry.changed else None)
            for entry in entries
            if entry.verb.writes and not entry.dry_run
        ]

    return read


def kube_log(file: Path) -> Log:
    """That of a kube-apiserver with this policy; who calls from a pod goes by the pod's name."""

    def read() -> list[Act]:
        entries = [json.loads(line) for line in whole_lines(file)]
        return list(_acts(entry for entry in entries if "dryRun=" not in entry["requestURI"]))

    return read


def _acts(entries: Iterable[Mapping[str, Any]]) -> Iterator[Act]:
    """By arrival. Who is answered with a version that others have led to before has changed nothing.

    The answer about what a process of ours takes away in one step, such as a source that Flux has not seen, tells no
    version: it came after all that is answered by then.
    """
    taken = set[int]()
    for entry in sorted(entries, key=arrival):
        path, status, place = entry["requestURI"].partition("?")[0], entry["responseStatus"]["code"], _version(entry)
        if place is None and status < 300 and entry["verb"] == "delete" and _POD in entry["user"].get("extra", {}):
            yield Act(_user(entry["user"]), path, status, arrival(entry), max(taken, default=0))
            continue
        yield Act(_user(entry["user"]), path, status, arrival(entry), None if place in taken else place)
        taken |= {place} if place is not None else set()


def _user(user: Mapping[str, Any]) -> str:
    """The name of its pod, or its own."""
    found: str = user.get("extra", {}).get(_POD, [user["username"]])[0]
    return found


def _version(entry: Mapping[str, Any]) -> int | None:
    """The resourceVersion in the answer; None where it was refused, or tells none."""
    if entry["responseStatus"]["code"] >= 300:
        return None
    resource_version = entry["responseObject"].get("metadata", {}).get("resourceVersion")
    return int(resource_version) if resource_version else None
