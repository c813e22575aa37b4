"""The count of an operator's writes in an audit log of the embedded API server or of a kube-apiserver."""

from collections.abc import Iterable
from typing import Any

import attrs
import msgspec

from bench.reaching import AGENT

POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata, verbs: [create, update, patch, delete]}]
"""
"""The audit policy for a kube-apiserver."""

_NOT_THE_OPERATOR = (AGENT, "flux/")
_NOT_COUNTED = ("/events", "/leases", "/apis/ops.vworkspace.io/")


@attrs.frozen
class _Write:
    path: str
    by_operator: bool


def count(log: bytes, *, user: str, but: str) -> int:
    """Count the writes of the operator, except of Events, Leases, the Cluster's status and the object `but`.

    In a kube-apiserver's log the operator is `user`; in the embedded one's it is any user except Flux and the
    measurement.
    """
    return sum(one.by_operator and _counts(one.path, but) for one in _writes(log.splitlines(), user))


def _writes(rows: Iterable[bytes], user: str) -> Iterable[_Write]:
    for row in rows:
        entry: dict[str, Any] = msgspec.json.decode(row)
        if "auditID" in entry:
            yield _Write(entry["requestURI"].partition("?")[0], entry["user"]["username"] == user)
        elif entry["method"] != "GET":
            yield _Write(entry["path"], not entry["agent"].startswith(_NOT_THE_OPERATOR))


def _counts(path: str, but: str) -> bool:
    name = path.removesuffix("/status").rpartition("/")[2]
    about_it = name == but or name.startswith(f"{but}-")  # a source is named after its release and its content
    return not any(part in path for part in _NOT_COUNTED) and not about_it
