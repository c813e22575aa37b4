"""What a control plane is told of requests that mean something else than it thinks (L5, L6), and their order."""

from itertools import permutations
from typing import Any

import attrs
import pytest

from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.problems import Problem
from tests.property.jobs.test_machine import drain, enqueue, enqueue_delete, live_of, outcome
from tests.support.builders import NAME, NAMESPACE
from tests.support.job_world import World
from tests.support.jobs import CLUSTER_ID, operation
from vworkspace_core.api import labels
from vworkspace_core.api.admission import admit
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.scope import JobScope
from vworkspace_core.jobs.state import restore
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.parameters import template_problems
from vworkspace_fake.controlplane import JobEntry

REF = ObjectRef(OPERATION, NAMESPACE, "backup-1")


def request(world: World, target: str = NAME, **fields: Any) -> JobEntry:
    desired = {"intent": "request-operation", "operation": {**operation(target=target), **fields}}
    return world.control_server.enqueue(
        CLUSTER_ID, kind="intent", payload=desired, idempotency_key="Operation/org-myteam/backup-1@1"
    )


def test_an_application_that_is_made_anew_with_its_counter_at_one_is_told_what_to_do() -> None:
    world = World()
    enqueue(world, 4)
    world.settle()
    enqueue_delete(world, 5)
    world.settle()

    anew = enqueue(world, 1)
    world.settle()
    assert outcome(anew)[0] == "failed"
    assert outcome(anew)[1].endswith("goes on, also when it was deleted and is made anew: ask with 6 or more")

    right = enqueue(world, 6)
    world.settle()
    assert outcome(right) == ("succeeded", "")


def test_the_same_key_for_another_object_is_a_noop_that_says_so() -> None:
    world = World()
    enqueue(world, name="one", idempotency_key="hash-1")
    world.settle()
    uid = live_of(world, "one")["metadata"]["uid"]

    other, same = (enqueue(world, name=name, idempotency_key="hash-1") for name in ("two", "one"))
    world.settle()

    assert outcome(other)[0] == "noop"
    assert outcome(other)[1].startswith(f"KeyUsed: the key had its effect before, on another object (uid {uid})")
    assert outcome(same) == ("noop", "")
    assert live_of(world, "two") is None


@pytest.mark.parametrize(
    "raw", [{"kind": "apply"}, 5, None, ["x"], {"id": "", "payload": {"a": [1]}}, {"id": "\ud800"}]
)
def test_a_job_that_nobody_can_answer_is_told_once_and_not_with_every_poll(raw: Any) -> None:
    world = World()
    good = enqueue(world)

    for _ in range(300):
        world.feed(m.Offered(raw))
    world.settle()

    notes = [note for note in world.notes if "without a usable id" in note.message]
    assert len(notes) == 1
    assert notes[0].message.endswith("it comes with every poll until the control plane withdraws it")
    assert outcome(good) == ("succeeded", "")


def test_two_of_them_are_told_both() -> None:
    world = World()
    for number in range(2000):
        world.feed(m.Offered({"kind": "apply", "payload": {"number": number}}))

    assert len([note for note in world.notes if "without a usable id" in note.message]) == 2000
    assert len(world.state.dropped) <= 1000, "and what is remembered is bounded"


@pytest.mark.parametrize("target", [NAME, "a" * 60, f"{'b' * 70}-x"])
def test_an_operation_made_by_a_job_carries_its_application_s_label_RES_5(target: str) -> None:
    world = World()
    request(world, target)
    drain(world)

    found = run_sync(world.kube.get(REF))["metadata"]["labels"]
    assert found[labels.APPLICATION_INSTANCE] == bounded_name(target)
    assert found[labels.MANAGED_BY] == "control-plane"


def strict(manifest: Any) -> tuple[Problem, ...]:
    """As the operator has it: the rules of the webhooks."""
    return admit(manifest) or template_problems(manifest, builtin_templates())


def refusing(world: World) -> World:
    world.state = attrs.evolve(world.state, scope=JobScope(CLUSTER_ID, strict))
    return world


def test_an_operation_with_bad_parameters_is_refused_before_it_is_stored_PULL_10() -> None:
    world = refusing(World())
    spec = operation()["spec"]
    job = request(world, spec={**spec, "type": "RunCommand", "engine": "job", "parameters": {"command": "sh"}})
    unknown = request(world, spec={**spec, "type": "Restore", "engine": "job"})
    drain(world)

    assert outcome(job)[0] == "failed"
    assert outcome(job)[1].startswith("ValidationFailed: payload.operation.spec.parameters")
    assert "there is no template for type Restore and engine job" in outcome(unknown)[1]
    assert list(run_sync(world.kube.list(OPERATION)).items) == []


def test_what_was_begun_is_not_judged_again_by_rules_that_have_changed_since_PULL_3() -> None:
    """A process with other templates must not call failed what is stored already and will run."""
    world = World()
    spec = operation()["spec"]
    request(world, spec={**spec, "type": "RunCommand", "engine": "job", "parameters": {"command": "sh"}})
    drain(world)
    (record,) = world.records().values()

    found = restore(record, 0, JobScope(CLUSTER_ID, strict))

    assert found.result is None
    assert found.task is not None


# --- the order of an edit and an Operation on the same application ------------------------------------------------


@pytest.mark.parametrize("answers", list(permutations(range(2))))
def test_an_operation_that_was_asked_for_after_an_edit_is_applied_after_it(answers: tuple[int, ...]) -> None:
    """Whatever answer comes first: an Upgrade that ran before the edit would end SpecChanged."""
    world = World()
    enqueue(world, 1)
    world.settle()
    enqueue(world, 2, chart="6.7.0")
    request(world)
    world.fetch()
    for _ in range(30):
        if world.pending:
            world.perform(min(answers[0] * (len(world.pending) - 1), len(world.pending) - 1))

    assert [deed.verb for deed in world.deeds] == ["apply"] * 3
    assert [deed.name for deed in world.deeds] == [NAME, NAME, "backup-1"]


def test_an_edit_that_was_asked_for_after_an_operation_is_applied_after_it() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    request(world)
    enqueue(world, 2, chart="6.7.0")
    world.fetch()
    for _ in range(30):
        if world.pending:
            world.perform(len(world.pending) - 1)

    assert [deed.name for deed in world.deeds] == [NAME, "backup-1", NAME]


def test_an_operation_waits_for_its_application_that_is_to_be_made_anew_first() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    world.hold(live_of(world))
    world.remove(live_of(world))
    enqueue(world, 2)
    request(world)
    drain(world)
    assert [deed.name for deed in world.deeds] == [NAME], "neither is applied while the old one goes"

    world.release(live_of(world))
    drain(world)
    assert [deed.name for deed in world.deeds] == [NAME, NAME, "backup-1"]


def test_operations_on_other_applications_do_not_wait() -> None:
    world = World()
    enqueue(world, 1)
    request(world, "another")
    world.fetch()
    while world.pending and "backup-1" not in [deed.name for deed in world.deeds]:
        world.perform(len(world.pending) - 1)

    assert [deed.name for deed in world.deeds] == ["backup-1"]
