"""The laws of the credential machine: whatever fails in between, the cluster is never locked out (PULL-7, PULL-8)."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import OperatorError
from tests.support.credential_world import CLUSTER_ID, EXTRA, MARK, OWN, REF, Options, World
from vworkspace_core.credentials import messages as r
from vworkspace_core.credentials.machine import RotationStage, next_deadline, renewal_of, start
from vworkspace_core.credentials.performer import issued_by
from vworkspace_core.credentials.secret import (
    StoredCredential,
    credentials_of,
    new_secret,
    stored_credential,
    with_stored,
)
from vworkspace_fake.controlplane import AgentCall, ScriptedFault

NOW = datetime(2026, 6, 1, tzinfo=UTC)
FAULTS = ("", "before", "after")


def run_through(world: World, *, fault_at: int | None = None, fault: str = "", crash_at: int | None = None) -> int:
    """Perform everything in order, with one fault or crash at one step; how many steps there were."""
    at = 0
    for _ in range(100):
        if not world.pending:
            if world.state.stage is RotationStage.VERIFYING:
                world.poll()
            elif world.state.stage is RotationStage.IDLE:
                break
            else:
                world.advance(60)
            continue
        world.perform(0, fault=fault if at == fault_at else "")
        at += 1
        if at == crash_at:
            world.begin()
    return at


def test_a_rotation_writes_first_switches_then_and_forgets_the_old_one_last_PULL_8() -> None:
    world = World(Options())
    world.ask("job/rotate-1")
    seen = []
    while world.pending:
        seen.append((type(world.pending[0]).__name__, world.state.stage.value, world.state.in_use[-1]))
        world.perform(0)
        if world.state.stage is RotationStage.VERIFYING:
            kept = world.kept()
            assert (kept.token, kept.previous, world.state.in_use) == (f"{MARK}-0", f"{MARK}-first", f"{MARK}-0")
            assert not world.done, "not before it has worked"
            world.poll()

    assert seen == [
        ("WriteSecret", "intending", "t"),
        ("RequestRotation", "asking", "t"),
        ("WriteSecret", "keeping", "t"),
        ("WriteSecret", "forgetting", "0"),
    ]
    assert (world.done, world.rotations) == ({"job/rotate-1"}, 1)
    assert (world.kept().previous, world.kept().requested) == ("", "")
    assert world.data()["approval-secret"] == EXTRA["approval-secret"], "the rest of the Secret is left alone"


@pytest.mark.parametrize("fault", ["before", "after", "crash"])
def test_one_fault_at_any_step_changes_nothing_of_the_end(fault: str) -> None:
    """Enumerated: every step of the undisturbed run, with an error before it, after it, or a crash behind it."""
    undisturbed = World(Options())
    undisturbed.ask("job/1")
    steps = run_through(undisturbed)
    assert steps == 4
    for at in range(steps):
        world = World(Options())
        world.ask("job/1")
        if fault == "crash":
            run_through(world, crash_at=at + 1)
        else:
            run_through(world, fault_at=at, fault=fault)
        world.calm()
        assert world.done == {"job/1"}, (fault, at)
        assert world.rotations <= 2
        assert (world.kept().previous, world.kept().requested) == ("", "")
        assert world.accepts(world.kept().token)


@pytest.mark.parametrize("fault", ["before", "after", "crash"])
def test_a_registration_survives_a_fault_at_any_step_PULL_8(fault: str) -> None:
    options = Options(has_credential=False, registration=True)
    steps = run_through(World(options))
    assert steps == 2
    for at in range(steps):
        world = World(options)
        if fault == "crash":
            run_through(world, crash_at=at + 1)
        else:
            run_through(world, fault_at=at, fault=fault)
        world.calm()
        found = world.secret()
        assert found is not None
        credentials = credentials_of(found)
        assert (credentials.url, credentials.cluster_id) == ("https://odoo.example.com", CLUSTER_ID)
        assert world.accepts(credentials.token), (fault, at)


def test_a_registration_token_that_is_refused_is_tried_slowly_and_a_new_one_at_once() -> None:
    world = World(Options(has_credential=False))
    world.registration = "not-known"
    world.begin()
    tries = []
    for _ in range(20):
        if world.pending:
            world.perform(0)
            tries.append(world.clock.now())
        world.advance(60)
    assert len(tries) == 4, "20 minutes"
    assert len(world.notes) == 1

    world.registration = world.server.tokens.offer_registration(CLUSTER_ID)
    world.feed(r.BootstrapToken(world.registration, CLUSTER_ID))
    world.calm()
    assert world.accepts(world.kept().token)


def test_a_rotation_that_cannot_be_kept_is_not_begun() -> None:
    """An operator without the right to write the Secret would lose the new token, and with it the old one."""
    world = World(Options())
    world.ask("job/1")
    (effect,) = world.pending
    world.pending.clear()
    world.feed(r.EffectAnswered(effect.number, r.WriteFailed("secrets is forbidden", refused=True)))

    assert "secrets is forbidden" in world.failed["job/1"]
    assert (world.rotations, world.state.stage, world.pending) == (0, RotationStage.IDLE, [])


def test_a_control_plane_that_does_not_rotate_fails_the_request_and_the_intent_is_taken_back() -> None:
    world = World(Options())
    world.server.faults.inject(ScriptedFault(call=AgentCall.ROTATE, status=404))
    world.ask("job/1")
    run_through(world)

    assert "404" in world.failed["job/1"]
    assert world.kept() == StoredCredential(f"{MARK}-first")
    world.ask("job/2")
    world.calm()
    assert world.done == {"job/2"}


def test_a_wish_of_the_cluster_object_is_served_once_PULL_8() -> None:
    """`spec.rotateCredentials` stays true; only another generation of the object asks again."""
    world = World(Options())
    world.feed(r.ClusterRequests(("cluster/uid-1/1",)))
    world.calm()
    for _ in range(3):
        world.feed(r.ClusterRequests(("cluster/uid-1/1",)))
        world.calm()
        world.begin()
    assert world.rotations == 1
    world.ask("job/1")
    world.calm()
    world.feed(r.ClusterRequests(("cluster/uid-1/1",)))
    world.calm()
    assert world.rotations == 2, "a job in between does not make it forget"
    world.feed(r.ClusterRequests(("cluster/uid-1/2",)))
    world.calm()
    assert world.rotations == 3


def test_a_credential_is_renewed_ahead_of_its_end_PULL_8() -> None:
    world = World(Options(lifetime=timedelta(days=30)))
    world.ask("job/first")
    for _ in range(30):
        run_through(world)
        world.advance(86_400)
        world.see()
    tokens = [token for at, token in enumerate(world.used) if at == 0 or world.used[at - 1] != token]

    assert world.rotations == 2, "once on request, once ahead of its end"
    assert len(tokens) == 3
    assert world.accepts(world.kept().token)
    kept = StoredCredential("t", issued_at=NOW, expires_at=NOW + timedelta(days=100))
    assert renewal_of(kept) == NOW + timedelta(days=75)
    assert renewal_of(kept, 0.99) > NOW + timedelta(days=66)  # type: ignore[operator]
    assert renewal_of(StoredCredential("t", expires_at=NOW)) == NOW - timedelta(days=1)
    assert renewal_of(StoredCredential("t")) is None


def test_a_bad_deployment_that_rejects_everything_costs_nothing_PULL_7() -> None:
    world = World(Options())
    world.ask("job/1")
    world.perform(0)
    world.bad_deployment(True)
    for _ in range(20):
        world.poll()
        while world.pending:
            world.perform(0)
        world.advance(60)
    asked = sum(1 for _, call in world.server.requests if call is AgentCall.ROTATE)
    assert asked <= 5, "slowly: every five minutes"

    world.calm()
    assert world.done == {"job/1"}


def test_a_control_plane_restored_from_a_backup_knows_the_old_token_only() -> None:
    world = World(Options())
    world.ask("job/1")
    while world.state.stage is not RotationStage.VERIFYING:
        world.perform(0)
    world.server.tokens.revoke(world.kept().token)
    first = world.server.tokens.find(f"{MARK}-first")
    assert first is not None
    first.ends = None
    world.poll()
    assert world.state.in_use == f"{MARK}-first"

    world.calm()
    assert world.accepts(world.kept().token)
    assert world.kept().token != f"{MARK}-first"
    assert world.rotations == 2


def test_a_locked_out_cluster_comes_back_with_a_new_registration_token() -> None:
    world = World(Options())
    world.server.tokens.revoke(f"{MARK}-first")
    world.poll()
    assert world.state.locked_out
    assert not world.pending
    world.registration = world.server.tokens.offer_registration(CLUSTER_ID)
    world.feed(r.BootstrapToken(world.registration, CLUSTER_ID))
    world.calm()

    assert world.accepts(world.kept().token)


def test_a_registration_that_was_not_needed_is_given_up() -> None:
    world = World(Options(registration=True))
    world.bad_deployment(True)
    world.poll()
    assert world.state.stage is RotationStage.REGISTERING
    world.bad_deployment(False)
    world.poll()
    while world.pending:
        world.perform(0)

    assert (world.state.stage, world.kept().token) == (RotationStage.IDLE, f"{MARK}-first")


def test_a_token_put_there_by_hand_wins_over_a_rotation_under_way() -> None:
    for steps in range(4):
        world = World(Options())
        world.ask("job/1")
        for _ in range(steps):
            if world.pending:
                world.perform(0)
        world.edit()
        by_hand = world.kept().token
        world.see()
        assert world.state.in_use == by_hand, steps
        world.calm()
        assert world.accepts(world.kept().token)
        assert world.done == {"job/1"}


class CredentialLife(RuleBasedStateMachine):
    """Crashes between any two calls, lost requests and answers, bad deployments, edits by hand, late watch events."""

    @initialize(has_credential=st.booleans(), registration=st.booleans())
    def create(self, has_credential: bool, registration: bool) -> None:
        assume(has_credential or registration)
        self.world = World(Options(has_credential, registration))
        self.asked = 0

    @precondition(lambda self: self.world.pending)
    @rule(at=st.integers(0, 3), fault=st.sampled_from(FAULTS))
    def perform(self, at: int, fault: str) -> None:
        self.world.perform(at % len(self.world.pending), fault=fault)

    @rule()
    def crash(self) -> None:
        self.world.begin()

    @rule()
    def ask(self) -> None:
        self.asked += 1
        self.world.ask(f"job/{self.asked}")

    @rule(generation=st.integers(1, 3))
    def wish(self, generation: int) -> None:
        self.world.feed(r.ClusterRequests((f"cluster/uid/{generation}",)))

    @rule()
    def poll(self) -> None:
        self.world.poll()

    @rule()
    def see(self) -> None:
        self.world.see()

    @rule(seconds=st.sampled_from([0.5, 5, 60, 400]))
    def advance(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(is_bad=st.booleans())
    def deploy(self, is_bad: bool) -> None:
        self.world.bad_deployment(is_bad)

    @precondition(lambda self: self.world.secret() is not None)
    @rule()
    def edit(self) -> None:
        self.world.edit()

    @invariant()
    def the_secret_holds_a_token_that_works(self) -> None:
        if hasattr(self, "world"):
            kept = self.world.kept()
            known = [token for token in (kept.token, kept.previous) if token and self.world.knows(token)]
            assert known or (not kept.token and self.world.registration), "locked out"
            assert MARK not in self.world.shown.replace("registration", ""), "no token in any repr"

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.calm()
        kept = self.world.kept()
        assert (kept.previous, kept.requested) == ("", "")
        assert self.world.state.in_use == kept.token
        assert self.world.accepts(kept.token)
        assert self.world.asked <= self.world.done, "every request is served"


TestCredentialLife = CredentialLife.TestCase
TestCredentialLife.settings = settings(stateful_step_count=40)


# --- what lies in the Secret ------------------------------------------------------------------------------------


def test_what_is_written_is_read_again() -> None:
    kept = StoredCredential(
        "token",
        "previous",
        NOW + timedelta(days=1),
        NOW,
        "job/1",
        StoredCredential().with_served(["job/0", "cluster/a/1"]),
    )
    secret = new_secret(OWN, "https://odoo.example.com", CLUSTER_ID, kept)

    assert stored_credential(secret) == kept
    emptied = with_stored(secret | {"data": secret["data"] | EXTRA}, StoredCredential("other"))
    assert stored_credential(emptied) == StoredCredential("other")
    assert emptied["data"].keys() == {"control-plane-base-url", "cluster-id", "token", *EXTRA}
    assert "annotations" not in emptied["metadata"]
    assert [kept.has_served(one) for one in ("job/0", "cluster/a/1", "job/1", "cluster/a/2")] == [
        True,
        True,
        False,
        False,
    ]
    assert stored_credential({}) == StoredCredential()


@pytest.mark.parametrize(
    "annotations", [{"vworkspace.io/rotations-served": text} for text in ("[", "[]", '{"a":1}', "7")] + [None, {}]
)
def test_annotations_that_somebody_broke_count_for_nothing(annotations: object) -> None:
    assert stored_credential({"metadata": {"annotations": annotations}}) == StoredCredential()


def test_the_memory_of_what_was_served_is_bounded() -> None:
    served = StoredCredential().with_served(f"job/{number}" for number in range(1000))

    assert len(json.dumps(served)) < 2000


BAD_ANSWERS: dict[str, dict[str, Any]] = {
    "no token": {},
    "not a text": {"token": 7},
    "empty": {"token": ""},
    "a line end": {"token": "a\nb"},
    "too long": {"token": "a" * 9000},
    "no time": {"token": f"{MARK}-x", "expiresAt": "soon"},
    "a time as a number": {"token": f"{MARK}-x", "expiresAt": 1798761600},
    "a time as false": {"token": f"{MARK}-x", "expiresAt": False},
    "another cluster": {"token": f"{MARK}-x", "clusterId": "other"},
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_an_answer_of_no_use_is_an_error_that_shows_no_token(name: str) -> None:
    with pytest.raises(OperatorError) as caught:
        issued_by(BAD_ANSWERS[name], CLUSTER_ID)
    assert MARK not in repr(caught.value)


def test_a_secret_that_is_gone_is_not_created_anew() -> None:
    """Who takes the credential away means it."""
    world = World(Options())
    world.ask("job/1")
    run_sync(world.kube.delete(REF))
    world.perform(0)

    assert world.secret() is None
    assert "is gone" in world.failed["job/1"]


def test_nothing_waits_for_time_when_nothing_is_to_be_done() -> None:
    for kept in (StoredCredential(), StoredCredential("token")):
        state, effects = start(kept, NOW)
        assert (next_deadline(state), effects) == (None, ())
