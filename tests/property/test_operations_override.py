"""REC-9 on the in-memory cluster with the simulated Flux: an upgrade, its failure, its cancellation, new intent."""

from typing import Any

import attrs
import pytest

from tests.property.operation_worlds import NS, SETTINGS, operation_manifest
from tests.property.simulation import HELM, INSTANCE, Simulation
from tests.property.worlds import instance_manifest
from vworkspace_core.interpret import Reconciler, carry_out
from vworkspace_core.kinds.application_instance import ApplicationInstance
from vworkspace_core.kinds.border import read_operation
from vworkspace_core.kinds.operation import Operation
from vworkspace_core.known import OPERATION
from vworkspace_core.manifest import ObjectRef, dig
from vworkspace_core.operations import OperationContext, OperationObserved, reconcile_operation, release_request
from vworkspace_core.operations.observe import observe_operation_live
from vworkspace_core.reconcile import Context, Decision, Observed, reconcile
from vworkspace_fake.apiserver.inprocess import run_sync
from vworkspace_fake.flux import Action, FluxBehaviour, Outcome, OutcomeKind, ReleaseRule

UPGRADE = ObjectRef(OPERATION, NS, "up-1")
VERSION = {"targetVersion": "6.7.0"}


class World(Simulation):
    """A cluster in which the instance's reconcile knows what Operations ask of it."""

    def __init__(self) -> None:
        super().__init__()
        self.decide = self._with_operations
        manifest = instance_manifest()
        self.submit(manifest)
        self.edit(INSTANCE, {"metadata": {"annotations": {"ops.vworkspace.io/upgrade": "helm"}}})
        self.settle(INSTANCE)
        self.versions: list[str] = [self.running()]

    def _with_operations(self, source: ApplicationInstance, observed: Observed, context: Context) -> Decision:
        override, withdrawn = release_request(source, self.operations())
        return reconcile(source, attrs.evolve(observed, override=override, withdrawn=withdrawn), context)

    def operations(self) -> tuple[Operation, ...]:
        return tuple(read_operation(one) for one in run_sync(self.admin.list(OPERATION)).items)

    def ask(self, name: str = "up-1", **parameters: Any) -> None:
        manifest = operation_manifest("upgrade.helm", name=name, parameters=parameters)
        meta = {key: manifest["metadata"][key] for key in ("name", "namespace", "labels")}
        run_sync(self.admin.create({**manifest, "metadata": meta}, kind=OPERATION, field_manager="agent"))

    def running(self) -> str:
        (workload,) = self.flux.workloads
        return workload.version.partition("+")[0]

    def step(self, ref: ObjectRef) -> None:
        manifest = self.get(ref)
        if manifest is None:
            return
        source = read_operation(manifest)
        context = OperationContext(SETTINGS, self.now)

        def decide(one: Operation, observed: OperationObserved) -> Decision:
            return reconcile_operation(one, observed, context)

        observed = run_sync(observe_operation_live(self.api, source, context))
        run_sync(carry_out(Reconciler(OPERATION, read_operation, decide), source, observed, self.api, self.events))

    def work(self, seconds: int = 120) -> None:
        """Everybody works for a while, and every version that runs is written down."""
        for _ in range(seconds):
            for one in self.operations():
                self.step(ObjectRef(OPERATION, NS, one.metadata.name))
            self.reconcile(INSTANCE)
            self.pass_time(1)
            if self.running() != self.versions[-1]:
                self.versions.append(self.running())

    def phase(self, ref: ObjectRef = UPGRADE) -> Any:
        return dig(self.get(ref), "status", "phase")


def failing(version: str) -> FluxBehaviour:
    outcome = Outcome(OutcomeKind.FAIL, "boom")
    return FluxBehaviour(release_rules=(ReleaseRule(outcome, action=Action.UPGRADE, version=version),))


def test_an_upgrade_goes_through_the_one_writer_and_survives_its_operation_REC_9() -> None:
    world = World()
    world.ask(**VERSION)

    world.work()
    assert world.phase() == "Succeeded"
    assert dig(world.get(UPGRADE), "status", "outputs", "toVersion") == "6.7.0"
    managers = {one["manager"] for one in dig(world.get(HELM), "metadata", "managedFields")}
    assert "vworkspace-operator" in managers
    world.remove(UPGRADE)
    world.work()

    assert world.get(UPGRADE) is None
    assert world.versions == ["6.6.0", "6.7.0"], "no flapping"


def test_a_failed_upgrade_lapses_and_flux_goes_back_REC_9_OPS_9() -> None:
    world = World()
    world.flux.behaviour = failing("6.7.0")
    world.ask(**VERSION)

    world.work()

    assert world.phase() == "Failed"
    assert dig(world.get(INSTANCE), "status", "releaseOverride") is None
    assert world.condition(INSTANCE, "Ready") == ("True", "HelmReleaseReady")
    assert world.running() == "6.6.0"


def test_an_upgrade_to_the_same_version_sets_a_stalled_release_going_again_REC_14() -> None:
    world = World()
    world.flux.behaviour = failing("6.7.0")
    world.edit(INSTANCE, {"spec": {"chart": {"version": "6.7.0"}}})
    world.work(20)
    assert world.condition(INSTANCE, "Stalled") is not None
    world.flux.behaviour = FluxBehaviour()
    world.work(10)
    assert world.running() == "6.6.0", "nothing but a request makes Flux try again"

    world.ask(**VERSION)
    world.work(30)

    assert world.phase() == "Succeeded"
    assert world.running() == "6.7.0"
    assert world.condition(INSTANCE, "Ready") == ("True", "HelmReleaseReady")


def test_a_second_upgrade_to_the_same_version_asks_once_more_and_both_kinds_of_asking_count_REC_14() -> None:
    world = World()
    handled = []
    for ask in (
        lambda: world.ask(targetVersion="6.6.0"),
        lambda: world.edit(INSTANCE, {"metadata": {"annotations": {"vworkspace.io/retry": "by-hand"}}}),
        lambda: world.ask("up-2", targetVersion="6.6.0"),
    ):
        ask()
        world.work(10)
        handled.append(dig(world.get(HELM), "status", "lastHandledResetAt"))

    assert None not in handled
    assert len(set(handled)) == len(handled)
    assert world.versions == ["6.6.0"]


def test_after_a_failed_second_upgrade_the_first_one_is_back_in_force_REC_9() -> None:
    world = World()
    world.ask(**VERSION)
    world.work()
    world.flux.behaviour = failing("6.8.0")
    world.ask("up-2", targetVersion="6.8.0")

    world.work(180)

    assert world.phase(attrs.evolve(UPGRADE, name="up-2")) == "Failed"
    assert dig(world.get(INSTANCE), "status", "releaseOverride", "version") == "6.7.0"
    assert world.running() == "6.7.0"


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_leaving_while_running_lapses_first_and_then_ends_REC_9_OPS_11(how: str) -> None:
    world = World()
    world.ask(**VERSION)
    for _ in range(3):
        world.step(UPGRADE)
        world.reconcile(INSTANCE)
    assert dig(world.get(INSTANCE), "status", "releaseOverride", "version") == "6.7.0"

    if how == "delete":
        world.remove(UPGRADE)
    else:
        world.edit(UPGRADE, {"metadata": {"annotations": {"ops.vworkspace.io/cancel": "true"}}})
    world.work()

    assert world.phase() == (None if how == "delete" else "Cancelled")
    assert dig(world.get(INSTANCE), "status", "releaseOverride") is None
    assert world.running() == "6.6.0"


def test_new_intent_wins_and_the_override_never_comes_back_REC_9() -> None:
    world = World()
    world.ask(**VERSION)
    world.work()
    chart = instance_manifest()["spec"]["chart"]

    for version in ("6.9.0", "6.6.0"):
        manifest = instance_manifest(chart={**chart, "version": version})
        manifest["metadata"]["annotations"] = {"ops.vworkspace.io/upgrade": "helm"}
        world.submit(manifest)
        world.work()
        assert world.running() == version
        assert dig(world.get(INSTANCE), "status", "releaseOverride") is None

    assert world.versions == ["6.6.0", "6.7.0", "6.9.0", "6.6.0"]
