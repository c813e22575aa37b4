"""RUN-11, H2: an object that cannot be decoded leaves its neighbours alone, and says itself that it cannot be read."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purekube.apimachinery.nesting import LEVELS, UNREADABLE, decode_answer, pruned, too_deep
from purekube.apimachinery.problems import ValidationProblems
from purekube.controller.informer.store import ObjectStore
from tests.support.effort import effort
from tests.support.violations import instance
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

MARK = "DEEP"
DEEPEST = 9_983
"""Levels that a kube-apiserver still stores, and at which CPython 3.13 gives up."""
BEYOND = 50_000
"""Levels that no interpreter follows, whatever stack a test runner gives it."""


def deep(levels: int, *, inside: str = "1") -> str:
    """That many lists and objects in each other, with brackets in texts among them."""
    half = levels // 2
    return '[{"]}":' * half + inside + "}]" * half


def text(value: Any, levels: int) -> bytes:
    """JSON in which each text MARK is something nested that deep."""
    return json.dumps(value).replace(f'"{MARK}"', deep(levels)).encode()


names = st.text(st.sampled_from('ab{}[]"\\,: é'), max_size=6)
shallow = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)
manifests = st.dictionaries(
    st.sampled_from(["metadata", "spec", "status", "data"]),
    st.dictionaries(st.sampled_from(["name", "values", "x{", 'q"']), shallow, max_size=4),
    max_size=4,
)


@pytest.mark.slow
@settings(max_examples=effort(0.625))
@given(st.lists(manifests, max_size=4), st.integers(0, 4))
def test_its_neighbours_are_read_as_if_it_were_not_there(items: list[Any], at: int) -> None:
    bad = {"metadata": {"name": "bad", "managedFields": MARK}, "spec": {"ok": [1], "values": MARK}, "status": {"a": 1}}
    found = decode_answer(text({"items": [*items[:at], bad, *items[at:]], "metadata": {}}, BEYOND), "items")

    read = found["items"].pop(min(at, len(items)))
    assert found == {"items": items, "metadata": {}}
    assert read == {
        "metadata": {"name": "bad", "managedFields": None},
        "spec": {"ok": [1], "values": None},
        "status": {"a": 1},
        UNREADABLE: ["spec.values"],
    }


@pytest.mark.slow
@settings(max_examples=effort(0.625))
@given(manifests)
def test_one_object_and_one_event_are_cut_at_the_same_places(manifest: Any) -> None:
    whole = {**manifest, "spec": {**manifest.get("spec", {}), "deep": MARK, "list": [1, MARK]}}
    alone = decode_answer(text(whole, BEYOND))
    event = decode_answer(text({"type": "ADDED", "object": whole}, BEYOND), "object")

    assert event == {"type": "ADDED", "object": alone}
    assert too_deep(alone) == ("spec.deep", "spec.list")
    assert {**alone["spec"], "deep": MARK, "list": [1, MARK]} == whole["spec"]


@given(manifests)
def test_what_can_be_read_is_read_as_it_is(manifest: Any) -> None:
    raw = json.dumps(manifest).encode()
    assert decode_answer(raw) == json.loads(raw)
    assert pruned(raw.decode()) == raw.decode()


@pytest.mark.parametrize("raw", [b"[" * 5_000, b'{"a":' * 5_000, b'{"a":{"b":' + b"[" * 3_000 + b"]" * 100, b"", b"}"])
def test_what_is_no_JSON_is_refused_however_deep(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_answer(raw)


@pytest.mark.parametrize("levels", [1_200, DEEPEST])
def test_an_instance_that_is_too_deep_is_invalid_and_not_taken_for_another(levels: int) -> None:
    """Its values are not to be deployed without what could not be read of them."""
    manifest = instance(values={"source": "inline", "inline": MARK})
    read = decode_answer(text(manifest, levels))
    with pytest.raises(ValidationProblems) as caught:
        read_application_instance(read)
    assert [str(problem) for problem in caught.value.problems] == [
        f"spec.values: is nested too deeply to be read: at most {LEVELS} levels"
    ]


def test_what_a_store_cannot_pack_is_kept_by_name_and_status() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    good = instance()
    bad = {**good, "spec": value, "metadata": {"name": "bad", "namespace": "n", "resourceVersion": "2", "uid": "u"}}
    store = ObjectStore(APPLICATION_INSTANCE)
    store.buffer([bad, good])
    changes = list(store.replace("3"))

    assert {change.ref.name for change in changes} == {"bad", good["metadata"]["name"]}
    held = store.get("n", "bad")
    assert too_deep(held) == ("spec",)
    while value != 1:  # one level after the other: letting go of it all at once would be deep as well
        value = value[0]
