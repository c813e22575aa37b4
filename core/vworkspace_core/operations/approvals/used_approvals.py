"""The record of used approvals: an approval is valid for one run (OPS-4).

An approval has an id (`rid`). Before a run starts, the id is recorded with the uid of the Operation: the same approval
in another Operation is then refused. An expired approval is invalid anyway, so its entry is removed a day after its
expiry. The record is a Secret in the operator's own namespace. It holds nothing secret; it is a Secret because the
operator may write nothing else there.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import attrs
import msgspec

from purekube.apimachinery.errors import AlreadyExists, NotFound, Permanent, Stale, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, canonical_json, get_path
from purekube.apimachinery.resources import SECRET
from purekube.ports import KubeApi
from vworkspace_core.api.labels import FIELD_MANAGER

LEDGER_SECRET: Final = "vworkspace-spent-approvals"
MOST_SPENT: Final = 5000
"""The maximum number of approvals in the record. A Secret has room for more, but no healthy cluster needs more."""

_KEPT: Final = timedelta(days=1)
"""The time that an entry is kept after its expiry, so that clock skew cannot make a used approval valid again."""
_KEY: Final = "spent"
_TRIES: Final = 4


class UsedApprovalsFull(Permanent):
    """An error raised when the record of used approvals is full until some of them expire."""


@attrs.frozen
class Redemption:
    """The use of an approval to start one Operation.

    `rid` is the approval's id, `uid` the Operation's uid. The approval is valid until `expires`.
    """

    rid: str = attrs.field(repr=False)
    uid: str
    expires: datetime


@attrs.frozen
class UsedApprovals:
    """The record of used approvals.

    It maps a hash of each approval's id to the Operation's uid and the expiry in seconds.
    """

    entries: Mapping[str, tuple[str, int]] = attrs.field(factory=dict)

    def holder_of(self, rid: str) -> str | None:
        """Return the uid of the Operation that used the approval with the id `rid`, or None if it is unused."""
        entry = self.entries.get(_hashed(rid))
        return entry[0] if entry is not None else None

    def covers(self, redemption: Redemption) -> bool:
        """Report whether the approval is recorded as used, with an expiry not before that of `redemption`.

        It does not matter which Operation used it.
        """
        entry = self.entries.get(_hashed(redemption.rid))
        return entry is not None and entry[1] >= int(redemption.expires.timestamp())

    def with_used(self, redemption: Redemption, now: datetime) -> "UsedApprovals":
        """Return the record with the approval of `redemption` added.

        Approvals that expired more than a day before `now` are removed. An approval that was used before keeps its
        first Operation, and gets the later of both expiries.

        Raises UsedApprovalsFull if there would be more than `MOST_SPENT` approvals.
        """
        entries = {
            rid: entry for rid, entry in self.entries.items() if entry[1] + _KEPT.total_seconds() >= now.timestamp()
        }
        key, expires = _hashed(redemption.rid), int(redemption.expires.timestamp())
        holder, known = entries.get(key, (redemption.uid, expires))
        entries[key] = (holder, max(known, expires))
        if len(entries) > MOST_SPENT:
            raise UsedApprovalsFull(
                f"{MOST_SPENT} approvals have been used that have not expired yet, and no more can be remembered: let"
                " the control plane give approvals that expire sooner"
            )
        return UsedApprovals(entries)


def _hashed(rid: str) -> str:
    return hashlib.sha256(rid.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _read(secret: Manifest) -> UsedApprovals:
    """Return the record of used approvals in the Secret.

    Raises Permanent if it is unreadable, since unreadable approvals must not count as unused.
    """
    try:
        data = msgspec.json.decode(_decoded(get_path(secret, "data", _KEY)), type=dict[str, tuple[str, int]])
    except (ValueError, RecursionError):
        message = (
            f"Secret {LEDGER_SECRET} cannot be read, so that used approvals cannot be told from new ones: delete it,"
        )
        raise Permanent(f"{message} and let every approval that is under way be given anew") from None
    return UsedApprovals(data)


def _decoded(value: Any) -> bytes:
    return msgspec.convert(value, bytes)  # base64, as Kubernetes stores it


@attrs.define
class UsedApprovalStore:
    """The store of the used approvals in a Secret.

    Each write requires the resourceVersion that was read, so that two shards (operator replicas that divide the
    namespaces) cannot use the same approval (RUN-13).
    """

    _api: KubeApi
    _namespace: str

    async def read(self) -> UsedApprovals:
        """Return the present record of used approvals.

        The record is empty if none is stored. Raises the errors of `KubeApi.get` except NotFound.
        """
        return _read(await self._live() or {"data": {_KEY: "e30="}})

    async def redeem(self, redemption: Redemption, now: datetime) -> UsedApprovals:
        """Record the approval of `redemption` as used by its Operation, and return the record once it is stored.

        If another Operation used the approval before, its entry is kept. Raises UsedApprovalsFull if the record is
        full, and Unavailable if other writers keep changing it.
        """
        for _ in range(_TRIES):
            live = await self._live()
            before = UsedApprovals() if live is None else _read(live)
            if before.covers(redemption):
                return before
            after = before.with_used(redemption, now)
            if await self._written(live, after):
                return after
        raise Unavailable(f"Secret {LEDGER_SECRET} is being written by somebody else too")

    async def _live(self) -> Manifest | None:
        try:
            return await self._api.get(ObjectRef(SECRET, self._namespace, LEDGER_SECRET))
        except NotFound:
            return None

    async def _written(self, live: Manifest | None, after: UsedApprovals) -> bool:
        manifest = SECRET.manifest(LEDGER_SECRET, self._namespace)
        data = {_KEY: msgspec.to_builtins(canonical_json(after.entries))}
        body = {**manifest, "type": "vworkspace.io/spent-approvals", "data": data}
        try:
            if live is None:
                await self._api.create(body, kind=SECRET, field_manager=FIELD_MANAGER)
            else:
                version = live["metadata"]["resourceVersion"]
                meta = {**body["metadata"], "resourceVersion": version}
                await self._api.update({**body, "metadata": meta}, kind=SECRET, field_manager=FIELD_MANAGER)
        # Another process wrote first. The caller reads again, since that write may have used this very approval.
        except (AlreadyExists, Stale, NotFound):
            return False
        return True
