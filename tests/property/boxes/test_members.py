"""Laws of the parents of an applied box as its roll-out reads them: what has not changed is not read again (PH-10)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.definitions import BROUGHT_TO
from purekube.apimachinery.manifest import Kind
from purekube.boxes.rollouts.members import ParentReading, ParentReadings
from tests.support.work import calls_of

SHOP = Kind("example.com", "v1", "Shop", "shops")


def parent(number: int, version: str, *, uid: str = "uid") -> dict[str, Any]:
    """A parent whose content follows from its version, as that of an object in a cluster does."""
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Told",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    meta = {"name": f"shop-{number}", "namespace": "team", "uid": f"{uid}-{number}", "resourceVersion": version}
    return {
        **SHOP.manifest(meta["name"], "team"),
        "metadata": {**meta, "annotations": {BROUGHT_TO: f"shops-{version} 2026-01-01T00:00:00Z"}},
        "status": {"conditions": [condition | {"message": f"at {version}"}]},
    }


parents = st.lists(
    st.builds(
        parent,
        st.integers(0, 3),
        st.sampled_from(("1", "2", "")),
        uid=st.sampled_from(("uid", "another")),
    ),
    max_size=4,
    unique_by=lambda manifest: manifest["metadata"]["name"],
)


@given(st.lists(parents, max_size=5))
def test_readings_are_those_of_the_parents_as_they_are_now(history: list[list[dict[str, Any]]]) -> None:
    readings = ParentReadings()
    for manifests in history:
        assert readings.all_of(manifests, SHOP) == tuple(ParentReading.of(each, SHOP) for each in manifests)


def test_a_pass_over_parents_of_which_one_has_changed_reads_that_one() -> None:
    readings, many = ParentReadings(), [parent(number, "1") for number in range(200)]
    first = calls_of(lambda: readings.all_of(many, SHOP))
    one = calls_of(lambda: ParentReading.of(parent(0, "1"), SHOP))

    again = calls_of(lambda: readings.all_of([*many[:-1], parent(199, "2")], SHOP))

    assert first > 200 * one
    assert again < 10 * 200 + 2 * one


def test_what_is_remembered_is_what_is_there() -> None:
    readings = ParentReadings()
    readings.all_of([parent(number, "1") for number in range(200)], SHOP)
    left = readings.all_of([parent(0, "1")], SHOP)

    assert len(left) == 1
    assert len(readings) == 1
