"""REC-1, RUN-3: what is asked of every change is read from the bytes as from the whole object."""

from typing import Any

import attrs
import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import example, given

from purekube.apimachinery.manifest import Kind, ObjectRef, get_path
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.controller.informer.outline import is_in_progress, owners
from purekube.controller.queue.event_handlers import PROGRESS_SECONDS, started_runs_first, verdict_first
from purekube.controller.queue.workqueue import Priority

OWNER = Kind("apps.example.com", "v1", "Instance", "instances")
CHILD = Kind("helm.example.com", "v2", "Release", "releases")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
OWNERS = st.lists(
    st.fixed_dictionaries(
        {
            "apiVersion": st.sampled_from(["apps.example.com/v1", "apps.example.com/v2", "other/v1", "v1"]),
            "kind": st.sampled_from(["Instance", "Other"]),
            "name": st.sampled_from(["a", "b"]),
        }
    ),
    max_size=3,
)


@given(OWNERS)
def test_owners_are_those_of_the_kind_in_any_version(found: list[dict[str, str]]) -> None:
    raw = msgspec.json.encode({"metadata": {"name": "c", "namespace": "n", "ownerReferences": found}})

    desired = [
        ObjectRef(OWNER, "n", one["name"])
        for one in found
        if one["kind"] == "Instance" and one["apiVersion"].startswith("apps.example.com/")
    ]
    assert list(owners(raw, OWNER)) == desired


@given(st.fixed_dictionaries({}, optional={"metadata": JSON, "status": JSON, "spec": JSON}))
@example({"metadata": {"ownerReferences": None}, "status": None})
@example({"metadata": {"generation": "1"}, "status": {"conditions": {}}})
def test_no_object_is_too_odd_to_be_asked(manifest: dict[str, Any]) -> None:
    raw = msgspec.json.encode(manifest)

    assert all(owner.kind == OWNER for owner in owners(raw, OWNER))
    assert is_in_progress(raw) in (True, False)
    if get_path(manifest, "metadata", "deletionTimestamp"):
        assert not is_in_progress(raw)


def reported(conditions: dict[str, str], *, observed: int | None = 2, **meta: Any) -> bytes:
    status: dict[str, Any] = {
        "conditions": [{"type": name, "status": condition} for name, condition in conditions.items()]
    }
    if observed is not None:
        status["observedGeneration"] = observed
    return msgspec.json.encode({"metadata": {"name": "c", "namespace": "n", "generation": 2, **meta}, "status": status})


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (reported({"Ready": "True"}), False),
        (reported({"Ready": "False"}), False),
        (reported({"Ready": "False", "Stalled": "True"}), False),
        (reported({"Ready": "Unknown"}), True),
        (reported({"Ready": "True", "Reconciling": "True"}), True),
        (reported({"Ready": "True"}, observed=1), True),
        (reported({"Ready": "True"}, observed=None), True),
        (reported({}), True),
        (reported({"Ready": "Unknown"}, deletionTimestamp="2026-11-21T00:00:00Z"), False),
        (b'{"metadata":{"generation":1}}', True),
        (b'{"metadata":{},"status":{"conditions":"none"}}', False),
    ],
)
def test_progress_waits_for_what_follows_and_a_verdict_does_not(raw: bytes, *, expected: bool) -> None:
    assert is_in_progress(raw) is expected
    for kind in ChangeType:
        change = CacheChange(kind, ObjectRef(CHILD, "n", "c"), raw)
        urgency = verdict_first(change)
        waits = expected and kind is not ChangeType.DELETED
        assert urgency.after == (PROGRESS_SECONDS if waits else 0.0)
        assert urgency.priority is (Priority.LIVE if waits else Priority.VERDICT)
        assert started_runs_first(change).priority is Priority.VERDICT
        of_the_first_list = attrs.evolve(change, initial=True)
        assert {verdict_first(of_the_first_list).priority, started_runs_first(of_the_first_list).priority} == {
            Priority.BACKGROUND
        }
