"""At most one engine object for a uid, ever: one Operation under everything that could make it two (OPS-1)."""

from contextlib import suppress

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from kubelab.inprocess import run_sync
from purekube.controller.ownership import is_locked
from tests.support.effort import effort
from tests.support.operation_simulation import COMPLETE, Cluster, Died, View
from vworkspace_core.api.operation import TERMINAL_PHASES, Phase

NEVER = 99


class Once(RuleBasedStateMachine):
    """Old copies, crashes around every write, and Jobs that end and are removed at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Cluster()
        self.ref = self.world.submit("runCommand.job", "op-1")
        self.views: list[View] = []

    @initialize(begun=st.booleans())
    def begin(self, begun: bool) -> None:
        """With the intent recorded, or without."""
        if begun:
            self.world.reconcile(self.ref)

    @rule()
    def remember_caches(self) -> None:
        view = self.world.view(self.ref)
        assert view is not None
        self.views.append(view)

    @rule(age=st.integers(0, 5))
    def reconcile_on_old_caches(self, age: int) -> None:
        if self.views:
            self.world.reconcile(self.ref, self.views[-1 - age % len(self.views)])

    @rule(fatal=st.sampled_from([0, 1, NEVER]), after=st.booleans())
    def reconcile(self, fatal: int, after: bool) -> None:
        """On caches that are up to date; the operator dies before or after that write, or not at all."""
        self.world.api.fatal, self.world.api.after = fatal, after
        with suppress(Died):
            self.world.reconcile(self.ref)
        self.world.api.fatal = -10

    @rule(cancelled=st.booleans())
    def a_create_gets_no_answer(self, cancelled: bool) -> None:
        """The client gives up on it while the server is still at it, and people may lose patience."""
        self.world.api.holds_creates = True
        self.world.reconcile(self.ref)
        self.world.api.holds_creates = False
        if cancelled:
            self.world.edit(self.ref, {"metadata": {"annotations": {"ops.vworkspace.io/cancel": "true"}}})
            self.world.reconcile(self.ref)

    @rule()
    def the_create_arrives(self) -> None:
        """Not after another one: no server is that late."""
        held, self.world.api.held = self.world.api.held, []
        if held and not self.world.created:
            run_sync(held[0]())
        self.world.remember()

    @rule(ends=st.booleans())
    def job_vanishes(self, ends: bool) -> None:
        for ref, _ in self.world.engine_objects():
            if ends:
                self.world.write_status(ref, COMPLETE)
            self.world.remove(ref)

    @invariant()
    def at_most_one_was_made(self) -> None:
        assert [len(made) for made in self.world.created.values()] in ([], [1])

    def teardown(self) -> None:
        """Neither doubled nor lost: it comes to an end, and a run was made unless there was an end before it.

        Nothing stays locked, and nothing is at work for a run that was cancelled.
        """
        self.world.settle(self.ref)
        self.the_create_arrives()
        self.world.settle(self.ref)
        left = [live for _, live in self.world.engine_objects()]
        assert not any(map(is_locked, left))
        assert not left or self.world.phase(self.ref) is not Phase.CANCELLED
        for ref, _ in self.world.engine_objects():
            self.world.write_status(ref, COMPLETE)
        self.world.settle(self.ref)
        assert self.world.phase(self.ref) in TERMINAL_PHASES
        cancelled = self.world.phase(self.ref) is Phase.CANCELLED
        assert [len(made) for made in self.world.created.values()] in ([[], [1]] if cancelled else [[1]])


def test_neither_doubled_nor_lost_OPS_1() -> None:
    run_state_machine_as_test(Once, settings=settings(max_examples=effort(0.6), stateful_step_count=20, deadline=None))
