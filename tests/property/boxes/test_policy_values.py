"""A MutatingAdmissionPolicy of a box makes of every object what the box's own webhook makes of it (PH-10)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.filled_objects import VALUES, Shops, filling, shop

LABELS = st.fixed_dictionaries(
    {},
    optional={"a": st.sampled_from(["x", ""]), "b": st.just("y"), "n": st.sampled_from(["1.5", "2", "no number"])},
)
DEEP: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={"name": st.sampled_from([None, "own", {}, []]), "other": st.sampled_from([None, "", 0, False])},
)
FREE: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {}, optional={"deep": DEEP | st.sampled_from([None, 3, "x", []]), "more": st.sampled_from([None, "m"])}
)
GOOD = st.fixed_dictionaries(
    {"image": st.sampled_from(["i", "ü"]), "parts": st.lists(st.just({"name": "p"}), max_size=2)},
    optional={
        "host": st.sampled_from([None, "", "mine"]),
        "free": FREE | st.none(),
        "ratio": st.sampled_from([None, 0, 2.5]),
        "replicas": st.integers(0, 2),
        "port": st.sampled_from([None, 1, "http"]),
    },
)
BAD = st.sampled_from([None, 3, {}, {"image": "i", "parts": [], "free": 3}, {"image": "i", "parts": [], "free": []}])
SPECS: st.SearchStrategy[Any] = st.integers(0, 5).flatmap(lambda drawn: GOOD if drawn else BAD)
FIELDS = st.permutations([*VALUES]).flatmap(lambda names: st.integers(1, len(names)).map(lambda count: names[:count]))


@pytest.mark.slow
@given(FIELDS, st.lists(st.tuples(SPECS, LABELS), min_size=1, max_size=3))
def test_an_object_is_filled_in_by_the_policy_as_by_the_webhook_PH_10(fields: list[str], written: Any) -> None:
    box = filling({field: VALUES[field] for field in fields})
    objects = [shop(box, spec, labels) for spec, labels in written]
    assert Shops(box).with_policy().outcome(*objects) == Shops(box).with_webhook().outcome(*objects)
