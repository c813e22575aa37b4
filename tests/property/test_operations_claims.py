"""OPS-4: only a claim for this very operation counts, and nothing of a claim is ever repeated."""

import base64
import hashlib
import hmac
import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.operation_worlds import operation_manifest
from tests.property.strategies import json_values
from tests.property.worlds import CLUSTER, NOW
from vworkspace_core.kinds.border import read_operation
from vworkspace_core.operations.claims import Claims, Flaw, approval_claim, parameters_digest

SECRET = b"a secret that nobody else has"
OPERATION = read_operation(operation_manifest("restore.velero", name="restore-1"))
CHECK = Claims(SECRET, CLUSTER)
PAYLOAD: dict[str, Any] = {
    "at": "2026-06-01T11:00:00Z",
    "by": "alice",
    "exp": int((NOW + timedelta(hours=1)).timestamp()),
    "op": "restore-1",
    "rid": "4711",
    "v": 1,
}
BOUND = {
    "cluster": CLUSTER,
    "ns": "org-myteam",
    "uid": OPERATION.metadata.uid,
    "params": parameters_digest(OPERATION.spec.parameters),
}


def signed(text: bytes, secret: bytes = SECRET, prefix: str = "vws1") -> str:
    """Built here independently of the code under test, from the words of OPS-4."""
    middle = base64.urlsafe_b64encode(text).rstrip(b"=").decode()
    return f"{prefix}.{middle}.{hmac.new(secret, middle.encode(), hashlib.sha256).hexdigest()}"


def claim(**change: Any) -> str:
    body = {key: value for key, value in {**PAYLOAD, **change}.items() if value is not None}
    return signed(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())


def flaw(text: str | None, check: Claims = CHECK) -> Flaw | None:
    return check.flaw_of(text, OPERATION, NOW)


def test_a_claim_as_OPS_4_writes_it_counts() -> None:
    assert flaw(claim()) is None
    assert flaw(claim(exp="2026-06-01T13:00:00Z")) is None
    assert flaw(claim(by="Zoë")) is None
    assert approval_claim({k: v for k, v in PAYLOAD.items() if k != "v"}, SECRET) == claim()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, Flaw.ABSENT),
        ("", Flaw.ABSENT),
        (claim()[:-1], Flaw.FORGED),
        (claim()[:-1] + ("0" if claim()[-1] != "0" else "1"), Flaw.FORGED),
        (signed(json.dumps(PAYLOAD).encode(), b"another secret"), Flaw.FORGED),
        (signed(b"{}", SECRET, "vws2"), Flaw.MALFORMED),
        (claim().replace("vws1", "VWS1"), Flaw.MALFORMED),
        ("vws1", Flaw.MALFORMED),
        ("a.b", Flaw.MALFORMED),
        (claim() + ".x", Flaw.MALFORMED),
        (signed(b"[]"), Flaw.MALFORMED),
        (signed(b"\xff\xfe"), Flaw.MALFORMED),
        (signed(b'{"v":1'), Flaw.MALFORMED),
        (signed(b"[" * 3000), Flaw.MALFORMED),
        ("vws1.ééé." + "0" * 64, Flaw.MALFORMED),
        (claim(v=2), Flaw.VERSION),
        (claim(v=True), Flaw.VERSION),
        (claim(v=None), Flaw.VERSION),
        (claim(op="restore-2"), Flaw.OTHER_OPERATION),
        (claim(op=None), Flaw.OTHER_OPERATION),
        (claim(exp=int(NOW.timestamp())), Flaw.EXPIRED),
        (claim(exp="2026-06-01T11:59:59Z"), Flaw.EXPIRED),
        (claim(exp="2027-01-01T00:00:00"), Flaw.MALFORMED),
        (claim(exp="soon"), Flaw.MALFORMED),
        (claim(exp=None), Flaw.MALFORMED),
        (claim(exp=1e300), Flaw.MALFORMED),
        (claim(exp=True), Flaw.MALFORMED),
        ("vws1." + "A" * 100_000 + "." + "0" * 64, Flaw.TOO_LARGE),
        (claim(uid="someone-else"), Flaw.BOUND_ELSEWHERE),
        (claim(cluster="other"), Flaw.BOUND_ELSEWHERE),
        (claim(ns="org-other"), Flaw.BOUND_ELSEWHERE),
        (claim(params="0" * 64), Flaw.BOUND_ELSEWHERE),
        (claim(params=None, ns=7), Flaw.BOUND_ELSEWHERE),
    ],
)
def test_every_other_claim_is_refused_by_name(text: str | None, expected: Flaw) -> None:
    assert flaw(text) is expected


def test_bindings_are_honoured_and_can_be_required() -> None:
    strict = Claims(SECRET, CLUSTER, frozenset({"uid", "params"}))

    assert flaw(claim(**BOUND), strict) is None
    assert flaw(claim(uid=BOUND["uid"]), strict) is Flaw.NOT_BOUND
    assert flaw(claim(), strict) is Flaw.NOT_BOUND


def test_without_a_secret_nothing_counts() -> None:
    assert flaw(claim(), Claims(None, CLUSTER)) is Flaw.NO_SECRET
    assert flaw(signed(json.dumps(PAYLOAD).encode(), b""), Claims(b"", CLUSTER)) is Flaw.NO_SECRET


def test_the_secret_shows_in_no_repr() -> None:
    assert "nobody" not in repr(CHECK)


@given(json_values() | st.fixed_dictionaries({key: json_values(3) for key in PAYLOAD}))
def test_any_signed_payload_is_judged_without_raising(payload: Any) -> None:
    flaw(signed(json.dumps(payload).encode()))


@given(st.text(max_size=200) | st.text(alphabet="vws1.ABCabc-_=09", max_size=200))
def test_nothing_unsigned_ever_counts(text: str) -> None:
    assert flaw(text) is not None


@given(st.integers(0, len(claim()) - 1), st.characters(codec="ascii"))
def test_changing_any_character_of_a_claim_voids_it(place: int, other: str) -> None:
    text = claim()
    changed = text[:place] + other + text[place + 1 :]

    assert (flaw(changed) is None) == (changed == text)


@pytest.mark.parametrize(
    ("ahead", "wanted"), [(0, None), (3599, None), (3600, Flaw.EXPIRED), (-3600, None), (7200, Flaw.EXPIRED)]
)
def test_the_expiry_is_judged_by_the_clock_of_the_control_plane_PULL_12(ahead: int, wanted: Flaw | None) -> None:
    check = Claims(SECRET, CLUSTER, skew=timedelta(seconds=ahead))

    assert flaw(claim(), check) is wanted
    late = claim(exp=int((NOW - timedelta(seconds=1)).timestamp()))
    assert (flaw(late, check) is None) == (ahead < -1)
