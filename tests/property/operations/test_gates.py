"""Preconditions in any number, broken and mended in any order, on the in-memory API server (OPS-3, OPS-4, OPS-12).

Nothing is created before all of them hold, the first in the order of OPS-3 is the one named, and the run begins when
the last one is mended.
"""

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    JOB,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    WORKFLOW,
)
from tests.support.effort import effort
from tests.support.operation_simulation import Cluster
from tests.support.operation_worlds import (
    CONTEXT,
    GOOD,
    NS,
    TARGET,
    at,
    claim_for,
    observed,
    operation,
    started,
    target_manifest,
)
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.operation import Phase
from vworkspace_core.operations.approvals import LONGEST
from vworkspace_core.operations.reconcile import reconcile_operation

REF, BUSY = (ObjectRef(OPERATION, NS, name) for name in ("op-1", "busy"))
GATE = ObjectRef(NAMESPACE, None, NS)
DEFINITION = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, WORKFLOW.crd_name)
Change = Callable[[Cluster], Any]


@attrs.frozen
class Gate:
    """A precondition: how to break and mend it, and the condition and reason that name it then."""

    condition: str
    reason: str
    breaks: Change
    mends: Change


def edits(ref: ObjectRef, broken: dict[str, Any], mended: dict[str, Any]) -> tuple[Change, Change]:
    return (lambda world: world.edit(ref, broken), lambda world: world.edit(ref, mended))


def annotated(name: str, value: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {f"ops.vworkspace.io/{name}": value}}}


def labelled(name: str, value: str | None) -> dict[str, Any]:
    return {"metadata": {"labels": {name: value}}}


def somebody_works(world: Cluster) -> None:
    world.submit("migration.workflow", "busy")
    world.write_status(BUSY, {"observedGeneration": 1, "phase": "Running", "startedAt": "2026-06-01T12:00:00Z"})


def definition(world: Cluster) -> Manifest:
    found = world.get(DEFINITION)
    assert found is not None
    return found


def ready(world: Cluster, yes: bool) -> None:
    world.write_status(TARGET, target_manifest("migration.workflow", ready=yes)["status"])


def parameters_are(world: Cluster, workflow: str) -> None:
    """Beside a claim they cannot be changed: it goes first, and comes back."""
    approvals = world.operation(REF).spec.approvals
    claim = None if approvals is None else approvals.claim
    if claim is not None:
        world.edit(REF, {"spec": {"approvals": {"claim": None}}})
    world.edit(REF, {"spec": {"parameters": {"workflowTemplate": workflow}}})
    if claim is not None:
        world.edit(REF, {"spec": {"approvals": {"claim": claim}}})


CRD = definition(Cluster())
CLUSTER_ID = "app.vworkspace.io/cluster-id"
GATES = (
    Gate(
        "Accepted",
        "TargetNotFound",
        *edits(
            TARGET,
            labelled("app.vworkspace.io/managed-by", None),
            labelled("app.vworkspace.io/managed-by", "control-plane"),
        ),
    ),
    Gate(
        "Blocked", "NamespaceNotGated", *edits(GATE, labelled("managed-by", None), labelled("managed-by", "vworkspace"))
    ),
    Gate(
        "Blocked", "WrongCluster", *edits(TARGET, labelled(CLUSTER_ID, "other"), labelled(CLUSTER_ID, "cluster-prod-1"))
    ),
    Gate(
        "Accepted",
        "TemplateNotAllowed",
        *edits(GATE, annotated("allowed-types", "Backup"), annotated("allowed-types", None)),
    ),
    Gate(
        "Accepted",
        "CapabilityMissing",
        *edits(TARGET, annotated("migration", None), annotated("migration", "workflow")),
    ),
    Gate(
        "Accepted",
        "ValidationFailed",
        lambda world: parameters_are(world, "Not A Name"),
        lambda world: parameters_are(world, "migrate"),
    ),
    Gate(
        "Blocked",
        "DependencyMissing",
        lambda world: world.remove(DEFINITION),
        lambda world: world.make(
            CUSTOM_RESOURCE_DEFINITION, {"metadata": {"name": WORKFLOW.crd_name}, "spec": CRD["spec"]}
        ),
    ),
    Gate(
        "Blocked",
        "AwaitingApproval",
        *edits(
            REF,
            {"spec": {"approvals": {"required": True, "claim": "vws1.e30.00"}}},
            {"spec": {"approvals": {"claim": claim_for("op-1", "migration.workflow")}}},
        ),
    ),
    Gate("Blocked", "TargetNotReady", lambda world: ready(world, False), lambda world: ready(world, True)),
    Gate("Blocked", "ConflictingOperation", somebody_works, lambda world: world.remove(BUSY)),
)
"""In the order in which they are looked at."""


@pytest.mark.slow
@settings(max_examples=effort(0.75))
@given(st.lists(st.sampled_from(range(len(GATES))), min_size=1, max_size=5, unique=True))
def test_nothing_begins_before_all_hold_and_it_begins_when_the_last_is_mended_OPS_3(order: list[int]) -> None:
    world = Cluster("migration.workflow")
    world.submit("migration.workflow", REF.name)
    for number in order:
        GATES[number].breaks(world)

    for mended, number in enumerate(order):
        world.settle(REF)
        first = GATES[min(order[mended:])]
        expected = ("False" if first.condition == "Accepted" else "True", first.reason)
        assert world.condition(REF, first.condition) == expected
        assert world.phase(REF) is Phase.PENDING
        assert world.creations() == 0
        GATES[number].mends(world)

    world.settle(REF)
    assert world.phase(REF) is Phase.RUNNING
    assert world.creations() == 1
    assert world.condition(REF, "Blocked") in (None, ("False", "Unblocked"))


@pytest.mark.parametrize("number", range(len(GATES)), ids=[gate.reason for gate in GATES])
def test_every_gate_alone_is_named_and_holds_nothing_up_once_it_is_mended_OPS_3(number: int) -> None:
    test_nothing_begins_before_all_hold_and_it_begins_when_the_last_is_mended_OPS_3.hypothesis.inner_test([number])


# --- deadlines --------------------------------------------------------------------------------------------------------

RUNS = [of for of in GOOD if of != "upgrade.helm"]


@given(of=st.sampled_from(RUNS), timeout=st.none() | st.integers(1, 31_536_000), data=st.data())
def test_a_deadline_is_at_its_second_whenever_one_looks_OPS_12(of: str, timeout: int | None, data: Any) -> None:
    """A look is a function of the status alone, so a restart between two looks changes nothing."""
    more = {} if timeout is None else {"timeoutSeconds": timeout}
    one, made = started(of, **more)
    assert made is not None
    one = attrs.evolve(one, status=attrs.evolve(one.status, started_at="2026-06-01T12:00:00Z"))
    live = {**made.manifest, "metadata": {**made.manifest["metadata"], "uid": "uid-1", "resourceVersion": "7"}}
    seen = observed(of, objects={made.ref: live})
    engine = CONTEXT.engines[one.spec.engine]
    limit = timeout or max(engine.timeout_seconds, engine.needs_seconds(one, seen.objects))
    elapsed = data.draw(st.sampled_from([0, limit - 1, limit - 0.001, limit, limit + 1]) | st.integers(0, 2 * limit))

    decision = reconcile_operation(one, seen, at(elapsed))

    assert decision.status is not None
    if elapsed < limit:
        assert decision.status["status"]["phase"] == "Running"
        # At pods that do not start (D7), and at claims without a volume.
        sooner = {JOB: 15, PERSISTENT_VOLUME_CLAIM: 30}.get(made.kind, limit)
        # Microseconds, which is what a date holds: a difference of months as a float is not exact below that.
        assert decision.requeue.after == pytest.approx(min(limit - elapsed, sooner), abs=1e-6)
        assert decision.deletes == ()
    else:
        conditions = {condition["type"]: condition["reason"] for condition in decision.status["status"]["conditions"]}
        assert conditions["Failed"] == "Timeout"
        assert [delete.uid for delete in decision.deletes] == ["uid-1"]


# --- claims -----------------------------------------------------------------------------------------------------------

# Hypothesis also draws words that modules hold, such as "approval", which every decision shows.
word = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=8, max_size=40).map("zq7x".__add__)


@st.composite
def bad_claims(draw: st.DrawFn) -> tuple[str, str]:
    """A claim that does not count, and a part of it that nobody is to see again."""
    mark = draw(word)
    good = claim_for("op-1", by=mark).split(".")
    other = claim_for("op-2", by=mark)
    bent = [
        f"vws1.{good[1]}.{mark}",
        f"vws2.{good[1]}.{good[2]}",
        f"{good[1]}.{good[2]}",
        f"vws1.{mark}.{good[2]}",
        f"vws1.{good[1]}.{good[2]}.{mark}",
        mark,
        mark * (LONGEST // len(mark) + 1),
        claim_for("op-1", by=mark, exp=1),
        claim_for("op-1", by=mark, v=2),
        other,
        claim_for("op-1", by=mark, ns="another-namespace"),
    ]
    claim = draw(st.sampled_from(bent))
    return claim, mark if mark in claim else claim.split(".")[1]


@given(bad_claims())
def test_no_claim_that_does_not_count_is_told_of_anywhere_OPS_4(found: tuple[str, str]) -> None:
    claim, part = found
    one = operation("restore.velero", approvals={"required": True, "claim": claim})

    decision = reconcile_operation(one, observed("restore.velero"), CONTEXT)

    assert decision.status is not None
    told = {each["type"]: each["reason"] for each in decision.status["status"]["conditions"]}
    assert told.get("Blocked") == "AwaitingApproval" or (
        len(claim) > LONGEST and told["Accepted"] == "ValidationFailed"
    )
    assert not decision.writes_downstream
    assert part not in repr(decision) + str(decision)
