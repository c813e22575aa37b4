"""REC-9 on the in-memory cluster with the simulated Flux: an upgrade, its failure, its cancellation, new intent."""

from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.flux import Action, FluxBehaviour, FluxOutcome, OutcomeKind, ReleaseRule
from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import ObjectRef, content_hash, get_path, merge_patch, patch_between
from purekube.controller.decision import Decision
from purekube.controller.execute import PassRules
from purekube.controller.reconcile import run_pass
from tests.support.instance_worlds import instance_manifest
from tests.support.operation_worlds import NS, SETTINGS, operation_manifest
from tests.support.simulation import HELM, INSTANCE, Simulation
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.codec import read_application_instance, read_operation
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER
from vworkspace_core.api.operation import Operation
from vworkspace_core.api.release_override import effective_override
from vworkspace_core.instances.context import Context, InstanceObserved
from vworkspace_core.instances.reconcile import reconcile
from vworkspace_core.operations.context import OperationContext, OperationObserved, observe_operation_live
from vworkspace_core.operations.override import release_request
from vworkspace_core.operations.reconcile import reconcile_operation

pytestmark = pytest.mark.slow

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

    def _with_operations(self, source: ApplicationInstance, observed: InstanceObserved, context: Context) -> Decision:
        override, withdrawn = release_request(source, self.operations())
        return reconcile(source, attrs.evolve(observed, override=override, withdrawn=withdrawn), context)

    def operations(self) -> tuple[Operation, ...]:
        return tuple(read_operation(item) for item in run_sync(self.admin.list(OPERATION)).items)

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
        reconciler = PassRules(OPERATION, read_operation, decide, FIELD_MANAGER, FINALIZER)
        run_sync(run_pass(reconciler, source, observed, self.api, self.events))

    def work(self, seconds: int = 120) -> None:
        """Everybody works for a while, and every version that runs is written down."""
        for _ in range(seconds):
            for operation in self.operations():
                self.step(ObjectRef(OPERATION, NS, operation.metadata.name))
            self.reconcile(INSTANCE)
            self.pass_time(1)
            if self.running() != self.versions[-1]:
                self.versions.append(self.running())

    def phase(self, ref: ObjectRef = UPGRADE) -> Any:
        return get_path(self.get(ref), "status", "phase")


def failing(version: str) -> FluxBehaviour:
    outcome = FluxOutcome(OutcomeKind.FAIL, "boom")
    return FluxBehaviour(release_rules=(ReleaseRule(outcome, action=Action.UPGRADE, version=version),))


def test_an_upgrade_goes_through_the_one_writer_and_survives_its_operation_REC_9() -> None:
    world = World()
    world.ask(**VERSION)

    world.work()
    assert world.phase() == "Succeeded"
    assert get_path(world.get(UPGRADE), "status", "outputs", "toVersion") == "6.7.0"
    managers = {managed_field["manager"] for managed_field in get_path(world.get(HELM), "metadata", "managedFields")}
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
    assert get_path(world.get(INSTANCE), "status", "releaseOverride") is None
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
        handled.append(get_path(world.get(HELM), "status", "lastHandledResetAt"))

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
    assert get_path(world.get(INSTANCE), "status", "releaseOverride", "version") == "6.7.0"
    assert world.running() == "6.7.0"


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_leaving_while_running_lapses_first_and_then_ends_REC_9_OPS_11(how: str) -> None:
    world = World()
    world.ask(**VERSION)
    for _ in range(3):
        world.step(UPGRADE)
        world.reconcile(INSTANCE)
    assert get_path(world.get(INSTANCE), "status", "releaseOverride", "version") == "6.7.0"

    if how == "delete":
        world.remove(UPGRADE)
    else:
        world.edit(UPGRADE, {"metadata": {"annotations": {"ops.vworkspace.io/cancel": "true"}}})
    world.work()

    assert world.phase() == (None if how == "delete" else "Cancelled")
    assert get_path(world.get(INSTANCE), "status", "releaseOverride") is None
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
        assert get_path(world.get(INSTANCE), "status", "releaseOverride") is None

    assert world.versions == ["6.6.0", "6.7.0", "6.9.0", "6.6.0"]


# --- D1: Operations add up --------------------------------------------------------------------------------------------

SECOND = attrs.evolve(UPGRADE, name="up-2")


def values_of(world: World) -> Any:
    return get_path(world.get(HELM), "spec", "values")


def outputs_of(world: World, ref: ObjectRef) -> dict[str, Any]:
    return {**get_path(world.get(ref), "status", "outputs")}


def test_an_upgrade_of_values_after_one_of_the_version_downgrades_nothing_REC_9() -> None:
    """6.6.0 ran again, and the outputs said 6.8.0."""
    world = World()
    world.ask(targetVersion="6.8.0")
    world.work(40)
    world.ask("up-2", valuesPatch={"replicas": 5})
    world.work(60)

    assert world.phase(SECOND) == "Succeeded"
    assert world.versions == ["6.6.0", "6.8.0"]
    assert values_of(world) == {"replicas": 5}
    outputs = outputs_of(world, SECOND)
    assert (outputs["fromVersion"], outputs["toVersion"]) == ("6.8.0", "6.8.0")


def test_an_upgrade_of_the_version_after_one_of_values_keeps_the_values_REC_9() -> None:
    world = World()
    world.ask(valuesPatch={"replicas": 5, "title": "one"})
    world.work(40)
    world.ask("up-2", targetVersion="6.8.0")
    world.work(60)

    assert world.running() == "6.8.0"
    assert values_of(world) == {"replicas": 5, "title": "one"}
    world.ask("up-3", valuesPatch={"title": None, "more": {"a": 1}})
    world.work(60)

    assert world.running() == "6.8.0"
    assert values_of(world) == {"replicas": 5, "more": {"a": 1}}


@pytest.mark.parametrize("how", ["fails", "cancelled"])
def test_what_ran_comes_back_although_its_operation_was_deleted_REC_9(how: str) -> None:
    """A database that 6.8.0 had migrated was started with 6.6.0."""
    world = World()
    world.ask(targetVersion="6.8.0", valuesPatch={"replicas": 5})
    world.work(40)
    world.remove(UPGRADE)
    world.work(10)
    world.flux.behaviour = failing("6.9.0")
    world.ask("up-2", targetVersion="6.9.0", valuesPatch={"replicas": 7})
    if how == "cancelled":
        for _ in range(3):
            world.step(SECOND)
            world.reconcile(INSTANCE)
        world.edit(SECOND, {"metadata": {"annotations": {"ops.vworkspace.io/cancel": "true"}}})
    world.work(180)

    assert world.phase(SECOND) == ("Failed" if how == "fails" else "Cancelled")
    assert world.running() == "6.8.0"
    assert "6.6.0" not in world.versions[1:]
    assert values_of(world) == {"replicas": 5}
    assert get_path(world.get(INSTANCE), "status", "releaseOverride", "version") == "6.8.0"


def test_a_change_of_values_alone_never_downgrades_and_one_of_the_chart_keeps_the_values_REC_9() -> None:
    world = World()
    world.ask(targetVersion="6.8.0", valuesPatch={"replicas": 5})
    world.work(40)

    world.edit(INSTANCE, {"spec": {"values": {"inline": {"title": "new"}}}})
    world.work(40)
    assert world.running() == "6.8.0", "other values end the patch, not the version"
    assert values_of(world) == {"replicas": 2, "title": "new"}

    world.ask("up-2", valuesPatch={"replicas": 6})
    world.work(40)
    world.edit(INSTANCE, {"spec": {"chart": {"version": "6.9.0"}}})
    world.work(60)

    assert world.versions == ["6.6.0", "6.8.0", "6.9.0"], "another chart ends the version, not the patch"
    assert values_of(world) == {"replicas": 6, "title": "new"}


def test_a_values_job_during_an_upgrade_of_the_version_ends_nothing_REC_9() -> None:
    world = World()
    world.ask(targetVersion="6.8.0")
    for _ in range(3):
        world.step(UPGRADE)
        world.reconcile(INSTANCE)
    world.edit(INSTANCE, {"spec": {"values": {"inline": {"title": "new"}}}})
    world.work(60)

    assert world.phase() == "Succeeded"
    assert world.running() == "6.8.0"
    assert values_of(world) == {"replicas": 2, "title": "new"}


def test_an_upgrade_after_a_failed_one_of_the_spec_tells_what_ran_REC_9() -> None:
    world = World()
    world.flux.behaviour = failing("6.7.0")
    world.edit(INSTANCE, {"spec": {"chart": {"version": "6.7.0"}}})
    world.work(30)
    world.ask(targetVersion="6.8.0")
    world.work(60)

    outputs = outputs_of(world, UPGRADE)
    assert (outputs["fromVersion"], outputs["toVersion"]) == ("6.6.0", "6.8.0")


def test_a_version_that_is_forbidden_later_is_not_taken_back_RES_3() -> None:
    """Policy must not downgrade either."""
    world = World()
    world.ask(targetVersion="6.8.0")
    world.work(40)
    world.settings = attrs.evolve(world.settings, policy=Policy(forbidden_versions=("6.8.0",)))
    world.work(40)

    assert world.versions == ["6.6.0", "6.8.0"]
    assert world.condition(INSTANCE, "Degraded") == ("True", "ForbiddenVersionOverride")


def test_a_forbidden_upgrade_leaves_in_force_what_was_RES_3() -> None:
    world = World()
    world.ask(targetVersion="6.8.0")
    world.work(40)
    world.settings = attrs.evolve(world.settings, policy=Policy(forbidden_versions=("6.9.0",)))
    world.ask("up-2", targetVersion="6.9.0")
    world.work(40)

    assert world.phase(SECOND) == "Failed"
    assert world.versions == ["6.6.0", "6.8.0"]


def test_a_status_that_an_operator_of_before_wrote_is_still_in_force_REC_9() -> None:
    """It had one hash of chart and values together."""
    manifest = instance_manifest()
    spec = manifest["spec"]
    former = content_hash({"chart": spec["chart"], "values": spec["values"]})
    manifest["status"] = {
        "releaseOverride": {"operation": "up", "uid": "u", "specHash": former, "version": "6.8.0"},
        "conditions": [],
    }
    source = read_application_instance(manifest)

    held = effective_override(source, None)
    assert held is not None
    assert held.version == "6.8.0"
    assert effective_override(attrs.evolve(source, spec=attrs.evolve(source.spec, values=None)), None) is None


def test_patches_that_would_add_up_to_too_much_are_refused_and_told_RUN_11() -> None:
    """Each is small enough; the sum would not fit into a status, which could never be written again."""
    world = World()
    for number in range(1, 4):
        world.ask(f"up-{number}", valuesPatch={f"part{number}": "x" * 100_000})
        world.work(40)

    third = attrs.evolve(UPGRADE, name="up-3")
    assert [world.phase(attrs.evolve(UPGRADE, name=f"up-{one}")) for one in (1, 2)] == ["Succeeded", "Succeeded"]
    assert world.condition(third, "Accepted") == ("False", "ValidationFailed")
    told = next(
        condition["message"]
        for condition in get_path(world.get(third), "status", "conditions")
        if condition["type"] == "Accepted"
    )
    assert "with the patches of earlier Operations it has 300" in told
    assert set(values_of(world)) == {"replicas", "part1", "part2"}


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a"]),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON_VALUES, max_size=3)


@given(values=OBJECTS, first=OBJECTS, second=OBJECTS)
@example(values={"a": {"b": 1}}, first={"a": None}, second={"a": {"c": 2}})
def test_two_patches_add_up_to_one_that_does_the_same_REC_9(values: Any, first: Any, second: Any) -> None:
    one_by_one = merge_patch(merge_patch(values, first), second)

    assert merge_patch(values, patch_between(values, one_by_one)) == one_by_one
