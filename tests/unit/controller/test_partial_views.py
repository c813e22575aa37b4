"""PH-2: a pass on caches that hold only what carries a label. What a name turns out to hold is read and decided on."""

from typing import Any

import attrs

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.resources import CONFIG_MAP, SECRET
from purekube.apimachinery.structuring import read_meta
from purekube.controller.decision import Apply, Decision, Finalizer, RequeuePace, Snapshot
from purekube.controller.execute import PassRules
from purekube.controller.reconcile import ReconcileResult, run_pass
from tests.support.simulation import START, EventLog

CHILD = ObjectRef(CONFIG_MAP, "default", "child")


@attrs.frozen
class Parent:
    """A source of the test."""

    metadata: ObjectMeta


def read(manifest: Manifest) -> Parent:
    return Parent(read_meta(manifest))


def decide(source: Parent, observed: Snapshot) -> Decision:
    """Finalizer and a mark on the source, then the child, unless somebody else has made it."""
    if "test/finalizer" not in source.metadata.finalizers:
        return Decision(finalizer=Finalizer.ADD, annotations={"test/kinds": "ConfigMap"})
    if "test/kinds" in source.metadata.annotations and CHILD in observed.objects:
        return Decision(annotations={"test/kinds": None})
    if CHILD in observed.objects:
        return Decision()
    return Decision(applies=(Apply(CONFIG_MAP, CONFIG_MAP.manifest("child", "default")),))


def reconciled(*, taken: bool, **options: Any) -> tuple[ReconcileResult, Manifest]:
    """A pass over a Secret as the source, in a world where somebody has `taken` the child's name."""
    api = InProcessKube(ApiServer(now=lambda: START))
    source = run_sync(api.create(SECRET.manifest("source", "default"), kind=SECRET, field_manager="test"))
    if taken:
        run_sync(api.create(CONFIG_MAP.manifest("child", "default"), kind=CONFIG_MAP, field_manager="somebody"))
    reconciler = PassRules(SECRET, read, decide, "test", "test/finalizer", **options)
    result = run_sync(run_pass(reconciler, read(source), Snapshot(), api, EventLog()))
    return result, run_sync(api.get(ObjectRef(SECRET, "default", "source")))


def test_a_name_that_is_taken_is_looked_at_in_the_same_pass() -> None:
    result, source = reconciled(taken=True, looks_up=True)

    assert result.error is None
    assert [verb for verb, _ in result.executed] == ["add finalizer", "annotate"]
    assert "annotations" not in source["metadata"]


def test_without_looking_it_up_the_pass_is_overtaken() -> None:
    result, _ = reconciled(taken=True)

    assert result.requeue.pace is RequeuePace.IMMEDIATE


def test_finalizer_and_annotations_of_the_source_are_one_write() -> None:
    result, source = reconciled(taken=False, looks_up=True, rounds=1)

    assert [verb for verb, _ in result.executed] == ["add finalizer"]
    assert source["metadata"]["annotations"] == {"test/kinds": "ConfigMap"}
    assert source["metadata"]["finalizers"] == ["test/finalizer"]


def test_a_longer_chain_takes_as_many_rounds_as_it_is_given() -> None:
    result, _ = reconciled(taken=False, looks_up=True, rounds=3)

    assert [verb for verb, _ in result.executed] == ["add finalizer", "apply", "annotate"]
