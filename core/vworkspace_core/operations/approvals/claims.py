"""Approval claims: signed proofs that a person agreed to exactly this Operation (OPS-4).

A claim is a text in the form `vws1.<base64url(payload)>.<hex HMAC-SHA256 of the encoded payload>`. The payload is
canonical JSON: `v` (version), `op` (name of the Operation), `rid` (id of the approval), `by` (who agreed), `at` (when)
and `exp` (expiry). `ns` and `params` bind the claim to a namespace and to the digest of the parameters; `cluster` and
`uid` may bind it further. A claim is valid for one run: its `rid` can be used once (`used_approvals`). The
reason for a refused claim is a `Flaw`, whose fixed sentences never repeat content of the claim.
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

from purekube.apimachinery.manifest import canonical_json
from purekube.apimachinery.timestamps import later_of
from vworkspace_core.api.operation import Operation
from vworkspace_core.operations.approvals.used_approvals import Redemption, UsedApprovals

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

    The result is empty if the value is neither a number nor a text.
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
