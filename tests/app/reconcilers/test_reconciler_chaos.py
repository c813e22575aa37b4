"""A reconciler and a watcher under edits, deletions, failures, restarts and faults of the API, then peace (L27).

`make test` runs a sample; `make test-long` two thousand runs of 50 steps.
"""

import asyncio
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from purekube.apimachinery.manifest import Manifest, get_path
from tests.support.attack import attack, in_chunks
from tests.support.chaos_network import KUBE_FAULTS, Fault, Trouble
from tests.support.controller_chaos import TIME_LIMIT, TOO_MANY, ControllerChaos, Made

NAMES = ("alpha", "beta")
VERBS = ("", "patch", "apply_status", "list", "get")
PEACE = 3600.0
"""Virtual seconds within which everything must be settled once nothing goes wrong any more."""
FAILURES = (RuntimeError("no"), asyncio.CancelledError(), SystemExit(1), ExceptionGroup("some", [ValueError("no")]))


class Chaos(RuleBasedStateMachine):
    """Safety at every step, convergence at the end."""

    @initialize()
    def begin(self) -> None:
        self.world = ControllerChaos()

    @rule(name=st.sampled_from(NAMES))
    def create(self, name: str) -> None:
        self.world.create(name)

    @rule(name=st.sampled_from(NAMES), replicas=st.sampled_from((1, 2, 3, TOO_MANY)))
    def edit(self, name: str, replicas: int) -> None:
        self.world.edit(name, replicas)

    @rule(name=st.sampled_from(NAMES), value=st.sampled_from("ab"))
    def label(self, name: str, value: str) -> None:
        self.world.label(name, value)

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        self.world.delete(name)

    @rule(name=st.sampled_from(NAMES))
    def replace(self, name: str) -> None:
        self.world.delete(name)
        self.world.create(name)

    @rule(seconds=st.sampled_from((0.001, 0.01, 0.1, 1.0, 7.0, 60.0, 400.0)))
    def pass_time(self, seconds: float) -> None:
        self.world.run(self.world.pass_time(seconds))

    @rule()
    def restart(self) -> None:
        self.world.run(self.world.restart())

    @rule(seconds=st.sampled_from((0.0, 0.0, 0.05, 3.0, TIME_LIMIT + 5)), lingering=st.sampled_from((0.0, 3.0)))
    def be_slow(self, seconds: float, lingering: float) -> None:
        self.world.witness.slow, self.world.witness.lingering = seconds, lingering

    @rule(failures=st.lists(st.sampled_from(FAILURES), min_size=1, max_size=3))
    def fail(self, failures: list[BaseException]) -> None:
        self.world.witness.failures += failures

    @rule(trouble=st.sampled_from(KUBE_FAULTS), where=st.sampled_from(VERBS), skip=st.integers(0, 3))
    def break_a_call(self, trouble: Trouble, where: str, skip: int) -> None:
        self.world.process.network.faults.append(Fault(trouble, f"kube {where}", skip))

    @invariant()
    def nothing_is_wrong(self) -> None:
        if hasattr(self, "world"):
            assert not self.world.witness.wrongs

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self._peace()
        finally:
            self.world.close()

    def _peace(self) -> None:
        world = self.world
        world.witness.slow, world.witness.failures = 0.0, []
        world.process.network.faults.clear()
        world.run(world.pass_time(PEACE))
        assert not world.witness.wrongs
        for name in NAMES:
            live = world.find(name)
            if live is not None:
                self._is_at_its_last_state(live)
        for controller, uid in world.witness.begun:
            if uid in world.deleted:
                told = [made for made in self._made(controller, uid) if made.what == "delete"]
                assert any(made.ended == "well" for made in told), (controller, uid, "a deletion was missed")
        calls, version = len(world.witness.calls), world.run(self._version())
        world.run(world.pass_time(PEACE))
        assert (len(world.witness.calls), world.run(self._version())) == (calls, version), "and then all is quiet"

    async def _version(self) -> str:
        from tests.support.controller_site import SHOP

        return (await self.world.kube.list(SHOP.kind)).resource_version

    def _made(self, controller: str, uid: str) -> list[Made]:
        return [made for made in self.world.witness.calls if (made.controller, made.uid) == (controller, uid)]

    def _is_at_its_last_state(self, live: Manifest) -> None:
        meta: Any = live["metadata"]
        assert "deletionTimestamp" not in meta, "what was deleted has gone"
        image, replicas = live["spec"]["image"], live["spec"]["replicas"]
        desired = "terminal" if replicas == TOO_MANY else "well"
        for controller in ("shops", "audit"):
            last = self._made(controller, meta["uid"])[-1]
            assert (last.image, last.replicas, last.ended) == (image, replicas, desired), (controller, last)
        adds = [made for made in self._made("audit", meta["uid"]) if made.what == "add"]
        assert desired == "terminal" or any(made.ended == "well" for made in adds), "an add was missed"
        conditions = {condition["type"]: condition for condition in get_path(live, "status", "conditions") or ()}
        assert conditions["Ready"]["status"] == ("False" if desired == "terminal" else "True")
        assert conditions["Stalled"]["status"] == ("True" if desired == "terminal" else "False")
        assert {condition["observedGeneration"] for condition in conditions.values()} == {meta["generation"]}


@pytest.mark.slow
@in_chunks(6)
def test_every_reconciler_and_watcher_ends_at_the_last_state(chunk: int, runs: int) -> None:
    attack(Chaos, chunk, runs)
