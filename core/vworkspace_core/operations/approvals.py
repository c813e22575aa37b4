"""Approval claims: signed proofs that a person agreed to exactly this Operation (OPS-4).

A claim is a text in the form `vws1.<base64url(payload)>.<hex HMAC-SHA256 of the encoded payload>`. The payload is
canonical JSON: `v` (version), `op` (name of the Operation), `rid` (id of the approval), `by` (who agreed), `at` (when)
and `exp` (expiry). `ns` and `params` bind the claim to a namespace and to the digest of the parameters; `cluster` and
`uid` may bind it further. A claim is valid for one run: its `rid` can be used once (`UsedApprovals`). The
reason for a refused claim is a `Flaw`, whose fixed sentences never repeat content of the claim.

The record of used approvals has, from before a run starts, the id of its approval with the uid of the Operation: the
same approval in another Operation is then refused. An expired approval is invalid anyway, so its entry is removed a day
after its expiry. The record is a Secret in the operator's own namespace. It holds nothing secret; it is a Secret
because the operator may write nothing else there.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Final

import attrs
import msgspec

from purekube.apimachinery.errors import AlreadyExists, NotFound, Permanent, Stale, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, canonical_json, get_path
from purekube.apimachinery.resources import SECRET
from purekube.apimachinery.timestamps import later_of
from purekube.ports import KubeApi
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.api.operation import Operation

LEDGER_SECRET: Final = "vworkspace-spent-approvals"
MOST_SPENT: Final = 5000
"""The maximum number of approvals in the record. A Secret has room for more, but no healthy cluster needs more."""
_KEPT: Final = timedelta(days=1)
"""The time that an entry is kept after its expiry, so that clock skew cannot make a used approval valid again."""
_KEY: Final = "spent"
_TRIES: Final = 4
BINDINGS: Final = frozenset({"cluster", "ns", "uid", "params"})
"""The payload fields that bind an approval claim to a cluster, namespace, Operation or parameters. A claim may lack
some of them; each that it has must match.
"""
DEFAULT_BINDINGS: Final = frozenset({"ns", "params"})
"""The binding fields that every claim must have, unless a setting requires fewer for an older control plane."""
LONGEST: Final = 8192
"""The maximum length of an approval claim in characters, as in the CRD."""
_PREFIX: Final = "vws1"
_VERSION: Final = 1


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

    def joined(self, other: "UsedApprovals") -> "UsedApprovals":
        """Return the record with the approvals in `other` that it lacks."""
        return UsedApprovals({**other.entries, **self.entries})

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
        text = msgspec.convert(get_path(secret, "data", _KEY), bytes)  # base64, as Kubernetes stores it
        data = msgspec.json.decode(text, type=dict[str, tuple[str, int]])
    except (ValueError, RecursionError):
        message = (
            f"Secret {LEDGER_SECRET} cannot be read, so that used approvals cannot be told from new ones: delete it,"
        )
        raise Permanent(f"{message} and let every approval that is under way be given anew") from None
    return UsedApprovals(data)


@attrs.define
class UsedApprovalStore:
    """The store of the used approvals in a Secret.

    Each write requires the resourceVersion that was read, so that two shards (operator replicas that divide the
    namespaces) cannot use the same approval (RUN-13). What this store has recorded stays used if the Secret forgets it,
    because etcd was restored from an older snapshot.
    """

    _api: KubeApi
    _namespace: str
    _known: UsedApprovals = attrs.field(factory=UsedApprovals, init=False, repr=False)

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
            after = before.joined(self._known).with_used(redemption, now)
            if await self._written(live, after):
                self._known = after
                return after
        raise Unavailable(f"Secret {LEDGER_SECRET} is being written by somebody else too")

    async def _live(self) -> Manifest | None:
        try:
            return await self._api.get(ObjectRef(SECRET, self._namespace, LEDGER_SECRET))
        except NotFound:
            return None

    async def _written(self, live: Manifest | None, after: UsedApprovals) -> bool:
        seen = {} if live is None else {"resourceVersion": live["metadata"]["resourceVersion"]}
        data = {_KEY: msgspec.to_builtins(canonical_json(after.entries))}
        secret = SECRET.manifest(LEDGER_SECRET, self._namespace, seen, type="vworkspace.io/spent-approvals", data=data)
        write = self._api.create if live is None else self._api.update
        try:
            await write(secret, kind=SECRET, field_manager=FIELD_MANAGER)
        # Another process wrote first. The caller reads again, since that write may have used this very approval.
        except (AlreadyExists, Stale, NotFound):
            return False
        return True


class Flaw(Enum):
    """The reasons why an approval claim (a signed proof of approval) may be invalid, as sentences for people.

    The sentences repeat no content of the claim.
    """

    ABSENT = "waiting for approval"
    NO_SECRET = "no approval secret is configured to check the claim with"
    TOO_LARGE = f"the approval claim is longer than {LONGEST} characters"
    MALFORMED = "the approval claim is malformed"
    FORGED = "the signature of the approval claim does not match"
    VERSION = "the approval claim has an unknown version"
    OTHER_OPERATION = "the approval claim is for another operation"
    EXPIRED = "the approval claim has expired"
    BOUND_ELSEWHERE = "the approval claim is bound to another cluster, namespace, object or set of parameters"
    NOT_BOUND = "the approval claim lacks a binding that this cluster requires"
    SPENT = "the approval claim has been used before: an approval is good for one run, ask for a new one"


def are_lowered(required: frozenset[str]) -> bool:
    """Report whether approval claims need fewer bindings than the safe default, which is namespace and parameters.

    `required` are the fields that each claim must have. The answer is True if `ns` or `params` is not among them. A
    claim that is not bound to namespace (`ns`) and parameters (`params`) can be reused for another Operation.
    """
    return not required >= DEFAULT_BINDINGS


@attrs.frozen
class Claims:
    """The data with which approval claims (signed proofs of an approval) are checked.

    `secret` is the key of their signatures, which no `repr` shows. `required_bindings` are the fields, such as `ns`,
    that each claim must have. `skew` is how far the control plane's clock is ahead, taken from an unsigned header: a
    claim expires as soon as either clock has passed its expiry (PULL-12). `used_approvals` is the record of approvals
    that were used before, None if uses are not recorded. `trouble` says why a used approval could not be recorded.
    """

    secret: bytes | None = attrs.field(default=None, repr=False)
    cluster_id: str = ""
    required_bindings: frozenset[str] = DEFAULT_BINDINGS
    skew: timedelta = timedelta(0)
    used_approvals: UsedApprovals | None = attrs.field(default=None, repr=False)
    trouble: str = ""

    def flaw_of(self, claim: str | None, operation: Operation, now: datetime) -> Flaw | None:
        """Return the reason why `claim` does not approve `operation` at the time `now`, or None if it does."""
        judged = self._judged(claim, operation, now)
        return judged if isinstance(judged, Flaw) else None

    def to_redeem(self, operation: Operation, now: datetime) -> Redemption | None:
        """Return the record that the Operation's approval is used. The record must be stored when the run starts.

        Return None if the Operation has no claim that is valid at the time `now`.
        """
        approvals = operation.spec.approvals
        judged = self._judged(approvals.claim if approvals is not None else None, operation, now)
        return None if isinstance(judged, Flaw) else judged

    def is_recorded(self, redemption: Redemption) -> bool:
        """Report whether the run may start: the approval is recorded as used by the Operation in `redemption`.

        The answer is also True if uses of approvals are not recorded at all.
        """
        return self.used_approvals is None or self.used_approvals.holder_of(redemption.rid) == redemption.uid

    def _judged(self, claim: str | None, operation: Operation, now: datetime) -> Flaw | Redemption:
        if not self.secret and self.used_approvals is not None:
            return Flaw.NO_SECRET  # before the claim, which cannot be made without it; `plan` has no secret
        if not claim:
            return Flaw.ABSENT
        if not self.secret:
            return Flaw.NO_SECRET
        if len(claim) > LONGEST:
            return Flaw.TOO_LARGE
        payload = _authentic(claim, self.secret)
        return payload if isinstance(payload, Flaw) else self._judge(payload, operation, later_of(now, self.skew))

    def _judge(self, payload: Mapping[str, Any], operation: Operation, now: datetime) -> Flaw | Redemption:
        version, expires, rid = payload.get("v"), _moment(payload.get("exp")), _id(payload.get("rid"))
        if version != _VERSION or isinstance(version, bool):
            return Flaw.VERSION
        if payload.get("op") != operation.metadata.name:
            return Flaw.OTHER_OPERATION
        if expires is None or not rid:
            return Flaw.MALFORMED
        if now >= expires:
            return Flaw.EXPIRED
        if not self.required_bindings <= payload.keys():
            return Flaw.NOT_BOUND
        facts = self._facts(operation)
        if any(payload[name] != facts[name] for name in BINDINGS & payload.keys()):
            return Flaw.BOUND_ELSEWHERE
        holder = None if self.used_approvals is None else self.used_approvals.holder_of(rid)
        redemption = Redemption(rid, operation.metadata.uid, expires)
        return redemption if holder in (None, redemption.uid) else Flaw.SPENT

    def _facts(self, operation: Operation) -> Mapping[str, str]:
        meta = operation.metadata
        return {
            "cluster": self.cluster_id,
            "ns": meta.namespace,
            "uid": meta.uid,
            "params": parameters_digest(operation.spec.parameters),
        }


def _authentic(claim: str, secret: bytes) -> Mapping[str, Any] | Flaw:
    """Return the payload of the approval claim `claim`, or a Flaw if the claim is invalid.

    The signature is verified before the payload is parsed.
    """
    parts = claim.split(".")
    if len(parts) != 3 or parts[0] != _PREFIX or not claim.isascii():
        return Flaw.MALFORMED
    _, middle, signature = parts
    expected = hmac.new(secret, middle.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        return Flaw.FORGED
    try:
        padded = middle.rstrip("=") + "=" * (-len(middle.rstrip("=")) % 4)
        payload = msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Flaw.MALFORMED
    return payload if isinstance(payload, dict) else Flaw.MALFORMED


def _id(value: Any) -> str:
    """Return `value`, the approval's id (`rid`) in a claim, as text.

    The result is empty if the value is neither a number nor a string.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""


def _moment(value: Any) -> datetime | None:
    """Return `value`, the expiry (`exp`) of a claim, as a time.

    Return None if the value is neither a number of seconds since the epoch nor RFC 3339 text.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except (ValueError, OverflowError, OSError):
        return None
    return moment if moment is None or moment.tzinfo is not None else None


def parameters_digest(parameters: Mapping[str, Any] | None) -> str:
    """Return the SHA-256 (hex) of the parameters as canonical JSON. Absent parameters count as an empty object."""
    return hashlib.sha256(canonical_json(parameters or {})).hexdigest()


def approval_claim(payload: Mapping[str, Any], secret: bytes) -> str:
    """Return an approval claim with this payload, signed with `secret`, in the format of the control plane."""
    middle = base64.urlsafe_b64encode(canonical_json({"v": _VERSION, **payload})).rstrip(b"=").decode()
    return f"{_PREFIX}.{middle}.{hmac.new(secret, middle.encode(), hashlib.sha256).hexdigest()}"
