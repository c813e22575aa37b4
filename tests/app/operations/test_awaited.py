"""OPS-3: whoever waits for an object is found by it, as long as it waits, and nothing is kept of those that do not."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import HELM_RELEASE, NAMESPACE, VELERO_BACKUP
from tests.support.operation_worlds import CONTEXT, GOOD, observed, operation, template
from vworkspace_app.operations.controller import AWAITED_KINDS
from vworkspace_app.operations.index import AwaitedObjects
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.operations.identity import target_ref

KEYS = [ObjectRef(OPERATION, "org-a", name) for name in "abc"]
OBJECTS = [
    ObjectRef(NAMESPACE, None, "x"),
    ObjectRef(VELERO_BACKUP, "velero", "x"),
    ObjectRef(VELERO_BACKUP, "other", "x"),
]
STEPS = st.lists(st.tuples(st.sampled_from(KEYS), st.lists(st.sampled_from(OBJECTS), max_size=4)), max_size=12)


@given(STEPS)
def test_the_last_look_of_each_key_is_what_it_waits_for(steps: list[tuple[ObjectRef, list[ObjectRef]]]) -> None:
    awaited = AwaitedObjects()
    last: dict[ObjectRef, list[ObjectRef]] = {}
    for key, objects in steps:
        awaited.awaits(key, objects)
        last[key] = objects
    for ref in OBJECTS:
        assert list(awaited.keys_waiting_for(ref)) == [key for key in KEYS if ref in last.get(key, ())]


@given(STEPS)
def test_nothing_is_kept_of_those_that_wait_no_more(steps: list[tuple[ObjectRef, list[ObjectRef]]]) -> None:
    awaited = AwaitedObjects()
    for key, objects in steps:
        awaited.awaits(key, objects)
    for key in KEYS:
        awaited.awaits(key, ())
    held: tuple[Mapping[ObjectRef, object], ...] = (awaited._of, awaited._by)
    assert not any(held)


@pytest.mark.parametrize("of", GOOD)
def test_the_changes_of_all_that_an_engine_looks_up_are_followed(of: str) -> None:
    """A HelmRelease's come by the status of its instance."""
    one, seen = operation(of), observed(of)
    target = read_application_instance(seen.objects[target_ref(one)])
    refs = CONTEXT.engines[template(of).engine].looks_up(one, target, CONTEXT.settings)
    assert {ref.kind for ref in refs} - {HELM_RELEASE} <= set(AWAITED_KINDS)
