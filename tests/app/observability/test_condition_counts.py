"""RUN-5: what is counted as objects change is what counting all of them would give; the past takes no memory."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.informer.changes import CacheChange, ChangeType
from tests.support.work import calls_of
from vworkspace_app.observability.condition_counts import ConditionCounts, instance_conditions, parent_conditions
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

START = datetime(2026, 11, 22, tzinfo=UTC)
NOW = START.timestamp() + 10_000
LABELS = {"app.vworkspace.io/managed-by": "control-plane"}
Said = tuple[str, str, str, int]
"""Type, status, reason, and seconds after the start when the status began."""


def change(name: str, said: list[Said] | None) -> CacheChange:
    """An object as it is now; None: it is gone."""
    conditions = [
        {"type": kind, "status": status, "reason": reason, "lastTransitionTime": at(since)}
        for kind, status, reason, since in said or ()
    ]
    manifest = {"metadata": {"name": name, "namespace": "a", "labels": LABELS}, "status": {"conditions": conditions}}
    kind = ChangeType.DELETED if said is None else ChangeType.UPDATED
    return CacheChange(kind, ObjectRef(APPLICATION_INSTANCE, "a", name), json.dumps(manifest).encode())


def at(seconds: int) -> str:
    return (START + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


conditions = st.lists(
    st.tuples(
        st.sampled_from(["Ready", "Blocked"]),
        st.sampled_from(["True", "False"]),
        st.sampled_from(["Installing", "ChartUnreachable"]),
        st.integers(0, 3),
    ),
    unique_by=lambda said: said[0],
    max_size=2,
)
stories = st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), st.none() | conditions), max_size=12)


def in_the_way(kind: str, status: str) -> bool:
    return (kind, status) in (("Ready", "False"), ("Blocked", "True"))


@given(story=stories, most=st.integers(0, 3))
def test_counts_and_ages_are_those_of_the_objects_that_there_are(
    story: list[tuple[str, list[Said] | None]], most: int
) -> None:
    counts, live = instance_conditions(), dict[str, list[Said]]()
    for name, said in story:
        counts.count(change(name, said))
        live.pop(name, None)
        if said is not None:
            live[name] = said

    told = {sample.labels: sample for sample in counts.samples(NOW)}
    for labels, sample in told.items():
        having = [since for said in live.values() for *one, since in said if tuple(one) == labels]
        assert sample.count == len(having)
        if in_the_way(*labels[:2]):
            assert sample.oldest == (NOW - START.timestamp() - min(having) if having else 0.0)
        else:
            assert sample.oldest is None
    assert set(told) >= {tuple(one) for said in live.values() for *one, _ in said}

    unready = sorted(
        (since, name) for name, said in live.items() for *one, _, since in said if one == ["Ready", "False"]
    )
    found = [(NOW - START.timestamp() - one.seconds, one.ref.name) for one in counts.unready(most, NOW)]
    assert found == unready[:most]


@pytest.mark.slow
def test_an_object_whose_reason_keeps_changing_is_as_old_as_its_status_and_takes_no_memory() -> None:
    counts = instance_conditions()
    counts.count(change("stuck", [("Ready", "False", "Installing", 0)]))
    for number in range(2_000):
        reason = ("Installing", "ChartUnreachable")[number % 2]
        counts.count(change("flaps", [("Ready", "False", reason, 5)]))
        counts.count(change("comes", [("Ready", "False", "Installing", number)]))

    told = {sample.labels[2]: sample.oldest for sample in counts.samples(NOW)}
    assert told == {"Installing": 10_000, "ChartUnreachable": 9_995}
    assert entries(counts) < 200


def test_a_look_costs_the_same_for_many_objects_as_for_few() -> None:
    def looks(objects: int) -> int:
        counts = instance_conditions()
        for number in range(objects):
            counts.count(change(f"o{number}", [("Ready", "False", "Installing", number % 7)]))
        return calls_of(lambda: (counts.samples(NOW), counts.unready(3, NOW)))

    assert looks(2_000) == looks(20)


def entries(counts: ConditionCounts) -> int:
    """What is kept for the order, of the past too."""
    return sum(len(longest.heap) for longest in counts._longest.values())


def unready_at(when: Any) -> Any:
    return {"conditions": [{"type": "Ready", "status": "False", "reason": [], "lastTransitionTime": when}]}


@pytest.mark.parametrize(
    "status",
    [
        *([], None, {"conditions": "no"}, {"conditions": [7, None]}, {"conditions": [{}]}, {"conditions": {"a": 1}}),
        *map(unready_at, (7, "x", None, "2026")),
    ],
    ids=str,
)
def test_a_status_that_others_wrote_as_they_like_stops_nothing_RUN_11(status: Any) -> None:
    counts = parent_conditions()
    raw = json.dumps({"metadata": {"name": "a"}, "status": status}).encode()
    counts.count(CacheChange(ChangeType.UPDATED, ObjectRef(APPLICATION_INSTANCE, "a", "a"), raw))

    assert all(sample.labels == ("Ready", "False", "other") for sample in counts.samples(NOW))
    assert counts.unready(5, NOW) == []
