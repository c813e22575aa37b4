"""What is remembered of an intent is what would be worked out anew (REC-2, REC-6)."""

import gc
from typing import Any
from weakref import ref

import pytest

from purekube.controller.decision import as_data
from tests.support.instance_worlds import CONTEXT, NAMESPACE, deployed, instance_manifest, scene, with_meta, written
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.codec import is_shared, read_application_instance
from vworkspace_core.api.labels import RETRY
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.instances.intent import CallKey, forget, intent_of, recall
from vworkspace_core.instances.reconcile import reconcile

FIRST = instance_manifest()
LABELS = FIRST["metadata"]["labels"]
OTHERS = {
    "itself again": instance_manifest(),
    "uid": with_meta(FIRST, uid="bbbbbbbb-1111-4222-8333-444444444444"),
    "name": with_meta(FIRST, name="another"),
    "labels": with_meta(FIRST, labels={**LABELS, "team": "x"}),
    "retry": with_meta(FIRST, annotations={RETRY: "2026-06-01"}),
    "a bad retry": with_meta(FIRST, annotations={RETRY: "not a token!"}),
    "version": instance_manifest(chart={**FIRST["spec"]["chart"], "version": "6.7.0"}),
    "values": instance_manifest(values={"source": "inline", "inline": {"replicas": 2.0}}),
    "true for one": instance_manifest(values={"source": "inline", "inline": {"replicas": True}}),
    "order of keys": instance_manifest(values={"inline": {"replicas": 2}, "source": "inline"}),
    "suspend": instance_manifest(suspend=True),
    "invalid": instance_manifest(release={"name": "nextcloud", "namespace": "elsewhere"}),
    "secret": instance_manifest(values={"source": "inline", "inline": {"password": "hunter2"}}),
}


def decided(manifest: dict[str, Any]) -> dict[str, Any]:
    return as_data(reconcile(read_application_instance(manifest), InstanceObserved(NAMESPACE), CONTEXT))


def asked_of(source: ApplicationInstance) -> CallKey:
    """What the memo is asked with."""
    return CallKey(decided, source)


@pytest.mark.parametrize("other", OTHERS)
def test_what_was_decided_before_changes_no_decision(other: str) -> None:
    forget()
    alone = decided(OTHERS[other])
    forget()
    decided(FIRST)

    assert decided(OTHERS[other]) == alone
    assert decided(OTHERS[other]) == alone


def test_what_is_forgotten_is_decided_anew() -> None:
    """A measurement of speed that begins with what is remembered measures nothing."""
    source = read_application_instance(instance_manifest())
    forget()
    first = recall(named, source)
    remembered = recall(named, source)
    forget()

    assert first is remembered
    assert recall(named, source) is not first


def named(intent: ApplicationInstance) -> list[str]:
    """A new value for each call."""
    return [intent.metadata.name]


def test_a_status_of_flux_and_a_status_of_ours_are_no_new_intent() -> None:
    world = scene(deployed())
    before = read_application_instance(world.manifest)
    after = read_application_instance(
        with_meta(written(world.manifest, world.decide()), resourceVersion="11", finalizers=[])
    )

    assert before.spec is after.spec, "read once"
    assert asked_of(before) == asked_of(after)
    assert hash(asked_of(before)) == hash(asked_of(after))


@pytest.mark.parametrize("other", [name for name in OTHERS if name not in ("itself again",)])
def test_whatever_somebody_asks_for_is_another_intent(other: str) -> None:
    assert asked_of(read_application_instance(FIRST)) != asked_of(read_application_instance(OTHERS[other]))


def test_what_is_remembered_cannot_depend_on_anything_else() -> None:
    instance = read_application_instance(written(FIRST, scene(None).decide()))
    intent = intent_of(instance.metadata, instance.spec)

    assert intent.spec is instance.spec
    assert (intent.metadata.uid, intent.metadata.labels) == (instance.metadata.uid, instance.metadata.labels)
    assert (intent.metadata.generation, intent.metadata.resource_version, intent.metadata.finalizers) == (0, "", ())
    assert not intent.status.conditions


def test_a_spec_that_somebody_changes_in_place_is_read_as_it_stands() -> None:
    manifest = instance_manifest(values={"source": "inline", "inline": {"replicas": 2}})
    first = read_application_instance(manifest)
    manifest["spec"]["values"]["inline"]["replicas"] = 3

    values = (first.spec.values, read_application_instance(manifest).spec.values)
    assert [each.inline for each in values if each is not None] == [{"replicas": 2}, {"replicas": 3}]


@pytest.mark.slow
def test_a_large_spec_is_not_kept_RUN_11() -> None:
    forget()
    large = instance_manifest(values={"source": "inline", "inline": {"text": "x" * 10_000}})
    source = read_application_instance(large)
    assert not is_shared(source.spec)
    spec = ref(source.spec)
    assert reconcile(source, InstanceObserved(NAMESPACE), CONTEXT).applies
    del source
    gc.collect()
    assert spec() is None, "128 of them would be more than a process should hold"


def test_a_small_spec_is_shared_by_copies_that_say_the_same() -> None:
    first, second = (read_application_instance(instance_manifest()) for _ in range(2))
    assert first.spec is second.spec
    assert is_shared(first.spec)


def test_what_else_a_call_is_given_is_part_of_its_key() -> None:
    source = read_application_instance(FIRST)
    keys = [CallKey(decided, source, rest) for rest in ((), ("a",), ("b",), (CONTEXT,))]
    assert [[one == other for other in keys] for one in keys] == [[i == j for j in range(4)] for i in range(4)]
