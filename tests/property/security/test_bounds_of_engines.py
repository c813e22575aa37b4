"""RUN-11: whatever an engine says of its object, or Flux of a chart's source, costs bounded work and bounded memory.

And what comes of it stays small: a status of ours is never larger because somebody else's is.
"""

from contextlib import suppress
from typing import Any

import msgspec
import pytest

from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import CORE_EVENT, POD
from purekube.controller.decision import Decision
from tests.property.security.test_bounds import MOST_CALLS, check
from tests.support.instance_worlds import NOW, deployed, scene
from tests.support.operation_worlds import CONTEXT, OP_UID, observed, operation_manifest
from tests.support.work import KIB, calls_of
from tests.support.worst import ENGINES, SOURCES, EngineGrower, Grower
from tests.unit.operations.test_life import started
from vworkspace_core.api.codec import read_operation
from vworkspace_core.jobs.events import condition_events, reported_conditions
from vworkspace_core.jobs.result import result_of
from vworkspace_core.operations.preconditions import Start, start_or_unmet
from vworkspace_core.operations.reconcile import needs_live_view, reconcile_operation

pytestmark = pytest.mark.slow

UID = "uid-1"
LARGEST_STATUS = 96 * KIB
"""An Operation's status with 32 outputs of 1,024 letters, each of up to four bytes, and conditions of a thousand."""


class Run:
    """An Operation of a template that runs, and the object that was created for it."""

    def __init__(self, of: str) -> None:
        self.of = of
        begun = operation_manifest(of)
        start = start_or_unmet(read_operation(begun), observed(of), CONTEXT)
        assert isinstance(start, Start), start
        (made,) = start.objects
        self.ref, self.manifest = made.ref, made.manifest
        known = {"apiVersion": made.kind.api_version, "kind": made.kind.kind, "name": made.ref.name, "uid": UID}
        status = {"phase": "Running", "startedAt": "2026-06-01T11:59:30Z", "observedGeneration": 1}
        self.operation: Manifest = {
            **begun,
            "status": {**status, "engineRef": {**known, "namespace": made.ref.namespace}},
        }

    def decided(self, status: Any, beside: list[Manifest]) -> Decision:
        """As the controller does with the object as it is now."""
        live = {**self.manifest, "status": status, "metadata": {**self.manifest["metadata"], "uid": UID}}
        others = {
            ObjectRef(
                POD if manifest["kind"] == "Pod" else CORE_EVENT, "org-myteam", manifest["metadata"]["name"]
            ): manifest
            for manifest in beside
        }
        operation, world = read_operation(self.operation), observed(self.of, objects={self.ref: live, **others})
        needs_live_view(operation, world, CONTEXT)
        return reconcile_operation(operation, world, CONTEXT)


@pytest.mark.parametrize("grower", ENGINES, ids=str)
def test_what_an_engine_says_costs_bounded_work_and_leaves_a_small_status(grower: EngineGrower) -> None:
    run = Run(grower.of)
    assert run.operation["metadata"]["uid"] == OP_UID

    def looked_at(made: tuple[Any, list[Manifest]]) -> Decision:
        decision = run.decided(*made)
        if decision.status is not None:
            after = {**run.operation, "status": decision.status["status"]}
            reported_conditions(after), condition_events(run.operation, after, NOW), result_of(after, 1)
        return decision

    sizes = Grower(grower.name, grower.full, lambda size: (grower.make(size), grower.beside(size, UID)))
    check(looked_at, sizes)
    status = looked_at(sizes.make(grower.full)).status
    assert status is not None
    assert len(msgspec.json.encode(status)) <= LARGEST_STATUS


@pytest.mark.parametrize("grower", SOURCES, ids=str)
def test_what_flux_says_of_a_source_costs_bounded_work(grower: Grower) -> None:
    waiting = {key: value for key, value in deployed().items() if key != "history"}
    check(lambda status: scene(waiting, status).decide(), grower)


@pytest.mark.parametrize("grower", [engine for engine in ENGINES if not engine.beside(1, UID)], ids=str)
def test_a_whole_pass_over_what_an_engine_says_costs_bounded_work(grower: EngineGrower) -> None:
    """From the object as the API server takes it to the last write; the server's own work is left out."""
    world, ref = started(grower.of)
    found, _ = world.engine_object(ref)
    with suppress(Invalid):
        world.write_status(found, grower.make(grower.full))

    calls_of(lambda: world.settle(ref), MOST_CALLS, but="kubelab")
