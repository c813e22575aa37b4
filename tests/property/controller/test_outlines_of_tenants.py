"""RUN-11: what a store holds is bounded by the number of objects, not by their size: no tenant fills the memory."""

from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.nesting import UNREADABLE
from purekube.controller.informer.outline import HELD_WHOLE, OUTLINE, bounded, is_outline
from purekube.controller.informer.store import ObjectStore
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

LARGEST_OUTLINE = 200 * 1024
KIND = APPLICATION_INSTANCE
encode = msgspec.json.encode


def manifest(name: str, version: str, **parts: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "tenant", "uid": f"uid-{name}", "resourceVersion": version}
    return {**KIND.manifest(name, "tenant"), **parts, "metadata": {**meta, **parts.get("metadata", {})}}


def heavy(size: int) -> Any:
    return "x" * size


SIZES = st.integers(0, 3_000_000)
LARGE = st.fixed_dictionaries(
    {
        "spec": st.dictionaries(st.sampled_from("abcdef"), SIZES.map(heavy), max_size=6),
        "status": st.dictionaries(st.sampled_from("ab"), SIZES.map(heavy), max_size=2),
        "metadata": st.fixed_dictionaries(
            {}, optional={name: SIZES.map(heavy) for name in ("annotations", "finalizers", "ownerReferences", "labels")}
        ),
    }
)


@given(LARGE)
@example({"spec": {f"member-{number}": "x" for number in range(100_000)}, "status": {}, "metadata": {}})
@example({"spec": {}, "status": {}, "metadata": {f"field-{number}": "x" for number in range(100_000)}})
def test_no_object_of_a_tenant_is_held_by_more_than_its_outline_RUN_11(parts: dict[str, Any]) -> None:
    whole = manifest("a", "1", **parts)
    held = bounded(whole)
    assert len(encode(held)) <= LARGEST_OUTLINE
    assert is_outline(held) is (len(encode(whole)) > HELD_WHOLE)
    if not is_outline(held):
        assert held == whole


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 200_000)), min_size=1, max_size=12))
@example([("a", 10), ("a", 200_000), ("a", 10)])
def test_a_store_holds_no_more_however_large_the_objects_of_a_tenant_are_RUN_11(writes: list[tuple[str, int]]) -> None:
    """Every write is still a change, with what it takes to find the object; by list as by watch."""
    store, watched = ObjectStore(KIND, whole=HELD_WHOLE), 0
    last: dict[str, Manifest] = {}
    for version, (name, size) in enumerate(writes, 1):
        owners = [{"uid": "owner", "kind": "A", "name": "a", "apiVersion": "v1"}]
        last[name] = manifest(name, str(version), spec={"values": heavy(size), "small": name}, metadata={})
        last[name]["metadata"]["ownerReferences"] = owners
        watched += len(store.put(last[name]))
        held = store.get("tenant", name)
        assert held is not None
        assert held["spec"]["small"] == name
        assert is_outline(held) is (len(encode(last[name])) > HELD_WHOLE)
    assert watched >= len(writes)
    assert store.indexed_names("owner", "owner") == sorted(("tenant", name) for name in last)
    listed = ObjectStore(KIND, whole=HELD_WHOLE)
    listed.buffer(last.values())
    list(listed.replace(str(len(writes))))
    for each in (store, listed):
        assert each.bytes <= len(last) * (HELD_WHOLE + 1024)


def test_an_outline_says_what_was_cut_out_and_changes_with_every_byte_RUN_11() -> None:
    one, other = (bounded(manifest("a", "1", spec={"values": heavy(100_000) + end})) for end in "ab")
    assert one[OUTLINE] != other[OUTLINE]
    deep = bounded({**manifest("a", "1", spec={"values": heavy(100_000)}), UNREADABLE: ["spec.deep"]})
    assert deep[UNREADABLE] == ("spec.deep",)
    assert is_outline(deep)
