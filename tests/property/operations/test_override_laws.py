"""REC-9 under arbitrary histories: upgrades, failures, cancellations, deletions and new intent in any order.

One writer of the release, no flapping, an override that lapses when it has to and outlives its finished Operation.
"""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from kubelab.flux import FluxBehaviour
from purekube.apimachinery.manifest import ObjectRef, get_path, merge_patch
from tests.property.operations.test_override import World, failing
from tests.support.effort import effort
from tests.support.instance_worlds import instance_manifest
from tests.support.operation_worlds import NS
from tests.support.simulation import HELM, INSTANCE, OCI
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.operation import TERMINAL_PHASES, Phase

STRIDE = 3
PATCHES = (None, None, {"replicas": 5}, {"replicas": None, "extra": {"a": 1}}, {"extra": {"b": 2}}, {"extra": None})
picks = st.integers(0, 5)


class Overrides(RuleBasedStateMachine):
    """Everything that can happen to the version of one release."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.asked = 0
        self.submitted = 0
        self.intents = self.value_intents = 0
        self.spec_version = self.seen_version = "6.6.0"
        self.spec_replicas = self.seen_replicas = 2
        self.wanted = [self.tag()]
        self.succeeded: dict[str, tuple[int, int, dict[str, Any]]] = {}
        """Parameters by uid of what succeeded, with the intents it was under, in the order of success."""

    def tag(self) -> str:
        return str(get_path(self.world.get(OCI), "spec", "ref", "tag"))

    def refs(self) -> list[ObjectRef]:
        return [ObjectRef(OPERATION, NS, operation.metadata.name) for operation in self.world.operations()]

    @precondition(lambda self: self.asked < 4)
    @rule(version=st.sampled_from([None, "6.7.0", "6.8.0"]), patch=st.sampled_from(PATCHES))
    def somebody_asks(self, version: str | None, patch: dict[str, Any] | None) -> None:
        asked = {"targetVersion": version, "valuesPatch": patch}
        if asked := {key: value for key, value in asked.items() if value is not None}:
            self.world.ask(f"up-{self.asked}", **asked)
        self.asked += 1

    @rule(number=picks, how=st.sampled_from(["cancel", "delete"]))
    def somebody_gives_up(self, number: int, how: str) -> None:
        refs = self.refs()
        if refs and how == "delete":
            self.world.remove(refs[number % len(refs)])
        elif refs:
            patch = {"metadata": {"annotations": {"ops.vworkspace.io/cancel": "true"}}}
            self.world.edit(refs[number % len(refs)], patch)

    @precondition(lambda self: self.submitted < 3)
    @rule(version=st.sampled_from(["6.6.0", "6.9.0"]), replicas=st.sampled_from([2, 2, 4]))
    def intent_changes(self, version: str, replicas: int) -> None:
        chart = {**instance_manifest()["spec"]["chart"], "version": version}
        values = {"source": "inline", "inline": {"replicas": replicas}}
        manifest = instance_manifest(chart=chart, values=values)
        manifest["metadata"]["annotations"] = {"ops.vworkspace.io/upgrade": "helm"}
        self.world.submit(manifest)
        self.submitted += (version, replicas) != (self.spec_version, self.spec_replicas)
        self.spec_version, self.spec_replicas = version, replicas

    @rule(version=st.sampled_from(["", "6.7.0", "6.8.0"]))
    def upgrades_begin_to_fail(self, version: str) -> None:
        self.world.flux.behaviour = failing(version) if version else FluxBehaviour()

    @rule(looks=st.integers(1, 12))
    def everybody_works(self, looks: int) -> None:
        if self.seen_version != self.spec_version:
            self.intents += 1  # what is taken back before anybody looks is none: everything is level-triggered
            self.seen_version = self.spec_version
        if self.seen_replicas != self.spec_replicas:
            self.value_intents += 1
            self.seen_replicas = self.spec_replicas
        for _ in range(looks):
            for ref in self.refs():
                self.world.step(ref)
                self.note()
            self.world.reconcile(INSTANCE)
            self.note()
            self.world.pass_time(STRIDE)

    def note(self) -> None:
        if self.tag() != self.wanted[-1]:
            self.wanted.append(self.tag())
        for operation in self.world.operations():
            if operation.status.phase is Phase.SUCCEEDED and operation.metadata.uid not in self.succeeded:
                given = dict(operation.spec.parameters or {})
                self.succeeded[operation.metadata.uid] = (self.intents, self.value_intents, given)

    @invariant()
    def one_writer(self) -> None:
        for ref in (HELM, OCI):
            for entry in get_path(self.world.get(ref), "metadata", "managedFields") or ():
                assert "f:spec" not in entry["fieldsV1"] or entry["manager"] == "vworkspace-operator", entry

    @invariant()
    def no_flapping(self) -> None:
        """Once there and once back for each that asked, and once for each intent that was seen."""
        assert len(self.wanted) - 1 <= 2 * self.asked + self.intents, self.wanted

    def teardown(self) -> None:
        """Flux is well again: everything comes to an end, at the version that the history asks for."""
        self.world.flux.behaviour = FluxBehaviour()
        for _ in range(60):
            self.everybody_works(5)
            if (
                all(operation.status.phase in TERMINAL_PHASES for operation in self.world.operations())
                and self.is_settled()
            ):
                break
        self.no_flapping()
        assert all(operation.status.phase in TERMINAL_PHASES for operation in self.world.operations())
        assert self.tag() == self.world.running(), self.wanted
        assert self.tag() == self.version_asked_for(), (self.wanted, self.succeeded)
        assert (get_path(self.world.get(HELM), "spec", "values") or {}) == self.values_asked_for(), self.succeeded
        override: Any = get_path(self.world.get(INSTANCE), "status", "releaseOverride")
        assert (override is None) <= (self.tag() == self.spec_version)
        assert override is None or override.get("version", self.spec_version) == self.tag()

    def version_asked_for(self) -> str:
        """That of the last that named one and succeeded under this chart, deleted or not; else the spec's."""
        named = [
            given["targetVersion"]
            for chart, _, given in self.succeeded.values()
            if chart == self.intents and "targetVersion" in given
        ]
        return named[-1] if named else self.spec_version

    def values_asked_for(self) -> dict[str, Any]:
        """The spec's, with the patches of all that succeeded under them, one after another."""
        values: dict[str, Any] = {"replicas": self.spec_replicas}
        for _, under, given in self.succeeded.values():
            if under == self.value_intents:
                values = merge_patch(values, given.get("valuesPatch", {}))
        return values

    def is_settled(self) -> bool:
        return (
            self.world.condition(INSTANCE, "Reconciling") == ("False", "Stable") and self.tag() == self.world.running()
        )


@pytest.mark.slow
def test_the_release_is_what_the_history_asks_for_REC_9() -> None:
    run_state_machine_as_test(
        Overrides, settings=settings(max_examples=effort(0.15), stateful_step_count=15, deadline=None)
    )
