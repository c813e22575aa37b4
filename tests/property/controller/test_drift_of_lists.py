"""REC-6, PH-2: without a schema a list is ours item by item, and in our order; of an object only our fields are."""

import copy
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from purekube.controller.drift import needs_apply

SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "1"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "z"]), inner, max_size=3),
    max_leaves=6,
)
META = {"name": "a", "namespace": "n"}


def same(live: Any, desired: Any) -> bool:
    """An object may have more fields; everything else is equal, and of the same type."""
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(key in live and same(live[key], value) for key, value in desired.items())
    if isinstance(desired, list):
        equal = isinstance(live, list) and len(live) == len(desired)
        return equal and all(same(*pair) for pair in zip(live, desired, strict=True))
    return type(live) is type(desired) and bool(live == desired)


@given(VALUES, VALUES)
@example([{"x": 1}], [{"x": 1, "y": 2}]).via("an item of a list to which the server added a field")
@example([{"x": 1}], [{"x": 2, "y": 2}])
@example([1, 2], [2, 1])
@example([1], [1, 2])
@example(1, True)
def test_an_apply_is_needed_exactly_where_a_field_or_an_item_of_ours_differs_REC_6(desired: Any, live: Any) -> None:
    manifest = {"metadata": META, "spec": {"field": desired}}
    there = {"metadata": {**META, "uid": "u"}, "spec": {"field": live, "other": 1}, "status": {}}

    assert needs_apply(manifest, there) is not same(live, desired)
    assert not needs_apply(manifest, {**copy.deepcopy(manifest), "status": {}})
    assert needs_apply(manifest, None)
    assert needs_apply(manifest, {"metadata": META, "spec": {}})


@given(st.sampled_from(["labels", "annotations"]), st.sampled_from(["a", "b"]))
def test_a_label_or_annotation_of_ours_that_changed_is_applied_and_others_are_not_REC_6(kind: str, value: str) -> None:
    manifest = {"metadata": {**META, kind: {"ours": "a"}}}

    assert needs_apply(manifest, {"metadata": {**META, kind: {"ours": value, "theirs": "x"}}}) == (value != "a")
    assert needs_apply(manifest, {"metadata": {**META, kind: {"theirs": "a"}}})
    assert needs_apply(manifest, {"metadata": {**META, kind: None}})
    assert needs_apply({"metadata": {**META, "name": "b"}}, {"metadata": META})


def test_an_owner_reference_of_ours_has_to_be_there_whole_and_others_may_be_beside_it_REC_6() -> None:
    ours, theirs = {"uid": "1", "controller": True}, {"uid": "2"}
    manifest = {"metadata": {**META, "ownerReferences": [ours]}}

    def needed(*owners: dict[str, Any]) -> bool:
        return needs_apply(manifest, {"metadata": {**META, "ownerReferences": list(owners)}})

    assert not needed(theirs, ours)
    assert not needed({**ours, "name": "filled in"})
    assert needed(theirs)
    assert needed({**ours, "controller": False})
    assert needs_apply(manifest, {"metadata": META})
