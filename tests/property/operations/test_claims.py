"""OPS-4: only a claim for this very operation counts, it counts once, and nothing of it is ever repeated (H4, M3)."""

import base64
import hashlib
import hmac
import json
from datetime import datetime, timedelta
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Permanent
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.resources import NAMESPACE, VELERO_RESTORE
from purekube.apimachinery.resources import SECRET as SECRETS
from purekube.ports import PatchType
from tests.support.instance_worlds import CLUSTER, NOW
from tests.support.operation_worlds import (
    CONTEXT,
    conditions_of,
    message_of,
    observed,
    operation,
    operation_manifest,
)
from tests.support.strategies import json_values
from vworkspace_core.api.codec import read_operation
from vworkspace_core.api.operation import Approvals
from vworkspace_core.operations.approvals import (
    BINDINGS,
    LEDGER_SECRET,
    LONGEST,
    MOST_SPENT,
    Claims,
    Flaw,
    Redemption,
    UsedApprovals,
    UsedApprovalsFull,
    UsedApprovalStore,
    approval_claim,
    are_lowered,
    parameters_digest,
)
from vworkspace_core.operations.reconcile import approval_to_redeem, reconcile_operation

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
    "ns": "org-myteam",
    "params": parameters_digest(OPERATION.spec.parameters),
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
        ("v" * LONGEST, Flaw.MALFORMED),
        ("v" * (LONGEST + 1), Flaw.TOO_LARGE),
        (claim(uid="someone-else"), Flaw.BOUND_ELSEWHERE),
        (claim(cluster="other"), Flaw.BOUND_ELSEWHERE),
        (claim(ns="org-other"), Flaw.BOUND_ELSEWHERE),
        (claim(params="0" * 64), Flaw.BOUND_ELSEWHERE),
        (claim(ns=7), Flaw.BOUND_ELSEWHERE),
        (claim(params=None), Flaw.NOT_BOUND),
        (claim(ns=None), Flaw.NOT_BOUND),
        (claim(rid=None), Flaw.MALFORMED),
        (claim(rid=""), Flaw.MALFORMED),
        (claim(rid=["a"]), Flaw.MALFORMED),
    ],
)
def test_every_other_claim_is_refused_by_name(text: str | None, expected: Flaw) -> None:
    assert flaw(text) is expected


def test_bindings_are_honoured_and_can_be_required() -> None:
    strict = Claims(SECRET, CLUSTER, frozenset({"uid", "params"}))

    assert flaw(claim(**BOUND), strict) is None
    assert flaw(claim(uid=BOUND["uid"], params=None), strict) is Flaw.NOT_BOUND
    assert flaw(claim(), strict) is Flaw.NOT_BOUND


def test_namespace_and_parameters_are_bound_unless_a_setting_lowers_it() -> None:
    older = Claims(SECRET, CLUSTER, frozenset())
    bare = claim(ns=None, params=None)

    assert flaw(bare) is Flaw.NOT_BOUND
    assert flaw(bare, older) is None
    assert flaw(claim(params="0" * 64), older) is Flaw.BOUND_ELSEWHERE, "what is there counts"
    assert [are_lowered(frozenset(one)) for one in ((), {"ns"}, {"uid", "params"}, {"ns", "params"}, BINDINGS)] == [
        *(True, True, True),
        *(False, False),
    ]


# --- spent once -------------------------------------------------------------------------------------------------------


def with_ledger(used_approvals: UsedApprovals) -> Claims:
    return attrs.evolve(CHECK, used_approvals=used_approvals)


def test_a_claim_is_good_for_one_object() -> None:
    body = attrs.evolve(OPERATION.spec, approvals=Approvals(required=True, claim=claim()))
    redemption = CHECK.to_redeem(attrs.evolve(OPERATION, spec=body), NOW)
    assert redemption is not None
    spent = with_ledger(UsedApprovals().with_used(redemption, NOW))
    again = attrs.evolve(OPERATION, metadata=attrs.evolve(OPERATION.metadata, uid="made-anew"))

    assert flaw(claim(), spent) is None, "the one that it was spent on goes on, whatever came between"
    assert spent.flaw_of(claim(), again, NOW) is Flaw.SPENT
    assert spent.is_recorded(redemption)
    assert not with_ledger(UsedApprovals()).is_recorded(redemption)
    assert CHECK.is_recorded(redemption), "where nothing is remembered, nothing is waited for"
    assert "4711" not in repr(redemption) + repr(spent)


moments = st.integers(0, 400).map(lambda hours: NOW + timedelta(hours=hours))
spendings = st.builds(Redemption, st.sampled_from("abcdef"), st.sampled_from(["u1", "u2", "u3"]), moments)


@given(st.lists(st.tuples(spendings, moments), max_size=12).map(lambda found: sorted(found, key=lambda one: one[1])))
@example(
    [  # an approval given again with a later expiry was forgotten by the first one, while it was still remembered
        (Redemption("b", "u1", NOW), NOW),
        (Redemption("b", "u1", NOW + timedelta(hours=20)), NOW),
        (Redemption("a", "u1", NOW), NOW + timedelta(hours=25)),
        (Redemption("b", "u2", NOW + timedelta(hours=20)), NOW + timedelta(hours=26)),
    ]
)
def test_an_approval_that_has_not_expired_has_one_holder_for_good(found: list[tuple[Redemption, datetime]]) -> None:
    used_approvals, holders = UsedApprovals(), dict[str, tuple[str, datetime]]()
    for redemption, now in found:
        used_approvals = used_approvals.with_used(redemption, now)
        kept = {rid: known for rid, known in holders.items() if known[1] + timedelta(days=1) >= now}
        holder, expires = kept.get(redemption.rid, (redemption.uid, redemption.expires))
        holders = kept | {redemption.rid: (holder, max(expires, redemption.expires))}
        assert {rid: used_approvals.holder_of(rid) for rid in holders} == {
            rid: known[0] for rid, known in holders.items()
        }


def test_the_ledger_is_bounded_and_makes_room_only_of_what_has_ended_RUN_11() -> None:
    until = int((NOW + timedelta(hours=1)).timestamp())
    full = UsedApprovals({f"{number:032x}": ("u", until) for number in range(MOST_SPENT)})
    redemption = Redemption("new", "u", NOW + timedelta(hours=1))

    with pytest.raises(UsedApprovalsFull, match="expire sooner"):
        full.with_used(redemption, NOW)
    assert len(full.with_used(redemption, NOW + timedelta(days=3)).entries) == 1
    one_less = UsedApprovals(dict(list(full.entries.items())[1:]))
    assert len(one_less.with_used(redemption, NOW).entries) == MOST_SPENT


def test_the_ledger_outlives_the_process_and_a_lost_race() -> None:
    kube = InProcessKube(ApiServer(now=lambda: NOW))
    run_sync(kube.create({"metadata": {"name": "ops"}, **kind_of(NAMESPACE)}, kind=NAMESPACE, field_manager="t"))
    first, second = UsedApprovalStore(kube, "ops"), UsedApprovalStore(kube, "ops")
    mine, theirs = Redemption("rid", "mine", NOW), Redemption("rid", "theirs", NOW)

    assert run_sync(first.read()) == UsedApprovals()
    assert run_sync(first.redeem(mine, NOW)).holder_of("rid") == "mine"
    assert run_sync(second.redeem(theirs, NOW)).holder_of("rid") == "mine"
    assert run_sync(second.redeem(Redemption("other", "theirs", NOW), NOW)).holder_of("other") == "theirs"
    later = Redemption("rid", "theirs", NOW + timedelta(hours=1))
    assert not run_sync(first.read()).covers(later)
    assert run_sync(second.redeem(later, NOW)).covers(later), "given again with a later expiry"
    assert run_sync(first.read()).holder_of("rid") == "mine"
    assert run_sync(UsedApprovalStore(kube, "ops").read()).holder_of("rid") == "mine"

    ref = ObjectRef(SECRETS, "ops", LEDGER_SECRET)
    stored = run_sync(kube.get(ref))
    assert "rid" not in base64.b64decode(stored["data"]["spent"]).decode()
    run_sync(kube.patch(ref, {"data": {"spent": "W10="}}, patch_type=PatchType.MERGE, field_manager="t"))
    with pytest.raises(Permanent, match="cannot be read"):
        run_sync(first.read())


def test_an_approval_is_recorded_by_one_write_and_not_read_again() -> None:
    server = ApiServer(now=lambda: NOW)
    kube = InProcessKube(server)
    run_sync(kube.create({"metadata": {"name": "ops"}, **kind_of(NAMESPACE)}, kind=NAMESPACE, field_manager="t"))
    store = UsedApprovalStore(kube, "ops")
    for rid, verbs in (("first", ["get", "create"]), ("second", ["get", "update"]), ("second", ["get"])):
        server.audit.clear()
        run_sync(store.redeem(Redemption(rid, "mine", NOW), NOW))
        assert [entry.verb for entry in server.audit] == verbs


def test_an_approval_stays_used_when_an_older_ledger_is_restored_OPS_4() -> None:
    """The restored snapshot of etcd has no Operation that used it either: the same claim in a new one started a run."""
    server = ApiServer(now=lambda: NOW)
    kube = InProcessKube(server)
    run_sync(kube.create({"metadata": {"name": "ops"}, **kind_of(NAMESPACE)}, kind=NAMESPACE, field_manager="t"))
    store = UsedApprovalStore(kube, "ops")
    until = NOW + timedelta(hours=1)
    run_sync(store.redeem(Redemption("before", "u0", until), NOW))
    snapshot = server.store.snapshot()
    run_sync(store.redeem(Redemption("rid", "u1", until), NOW))
    server.restore(snapshot)
    assert run_sync(store.read()).holder_of("rid") is None

    assert run_sync(store.redeem(Redemption("rid", "u2", until), NOW)).holder_of("rid") == "u1"
    assert {run_sync(store.read()).holder_of(rid) for rid in ("before", "rid")} == {"u0", "u1"}
    assert run_sync(store.redeem(Redemption("other", "u3", until), NOW)).holder_of("rid") == "u1"


def kind_of(kind: Kind) -> dict[str, str]:
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def test_nothing_starts_before_its_approval_is_written_down() -> None:
    one = operation("restore.velero")
    seen = observed("restore.velero")
    empty = attrs.evolve(CONTEXT, claims=attrs.evolve(CONTEXT.claims, used_approvals=UsedApprovals()))

    waits = reconcile_operation(one, seen, empty)
    assert conditions_of(waits)["Blocked"] == ("True", "AwaitingApproval")
    redemption = approval_to_redeem(one, seen, empty)
    assert redemption is not None
    written = attrs.evolve(empty.claims, used_approvals=UsedApprovals().with_used(redemption, NOW))
    known = attrs.evolve(empty, claims=written)
    assert approval_to_redeem(one, seen, known) is None
    starts = reconcile_operation(one, seen, known).status
    assert starts is not None
    assert starts["status"]["phase"] == "Running"

    decision = reconcile_operation(
        one, seen, attrs.evolve(empty, claims=attrs.evolve(empty.claims, trouble="403 denied"))
    )
    assert "could not be written down as used: 403 denied" in message_of(decision, "Blocked")


def test_an_approval_is_not_used_up_by_what_cannot_start() -> None:
    empty = attrs.evolve(CONTEXT, claims=attrs.evolve(CONTEXT.claims, used_approvals=UsedApprovals()))
    seen = observed("restore.velero", missing_kinds=frozenset({VELERO_RESTORE}))

    assert approval_to_redeem(operation("restore.velero"), seen, empty) is None
    assert approval_to_redeem(operation("backup.velero"), observed("backup.velero"), empty) is None
    cancelled = operation("restore.velero", annotations={"ops.vworkspace.io/cancel": "true"})
    assert approval_to_redeem(cancelled, observed("restore.velero"), empty) is None


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
    ("ahead", "wanted"),
    [
        (0, None),
        (299, None),
        (300, Flaw.EXPIRED),
        (600, Flaw.EXPIRED),
        (601, None),
        (-600, None),
        (-(31 * 86_400), None),
    ],
)
def test_a_claim_has_expired_as_soon_as_either_clock_says_so_PULL_12(ahead: int, wanted: Flaw | None) -> None:
    """The other clock is told by a header that nobody signs: it can end a claim, and never prolong it."""
    check = Claims(SECRET, CLUSTER, skew=timedelta(seconds=ahead))

    assert flaw(claim(exp=int((NOW + timedelta(minutes=5)).timestamp())), check) is wanted
    assert flaw(claim(exp=int((NOW - timedelta(seconds=1)).timestamp())), check) is Flaw.EXPIRED
