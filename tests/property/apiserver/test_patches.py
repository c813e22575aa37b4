"""JSON merge patch, JSON patch and strategic merge patch, against their specifications."""

import copy
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelab.builtin.resources import BUILTIN_DEFINITIONS
from kubelab.model.failure import ApiFailure
from kubelab.writes.patches import json_patch, strategic_merge
from purekube.apimachinery.manifest import merge_patch
from purekube.schema.compile import compile_schema
from purekube.schema.structure import equal

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c/d", "~"]), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c/d", "~"]), JSON, max_size=3)


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_rfc_7386(document: Any, patch: Any, result: Any) -> None:
    assert merge_patch(document, patch) == result


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_of_mappings_that_cannot_be_changed_is_that_of_their_copies(document: Any, patch: Any) -> None:
    assert merge_patch(_unchangeable(document), _unchangeable(patch)) == merge_patch(document, patch)


def _unchangeable(value: Any) -> Any:
    if isinstance(value, dict):
        return MappingProxyType({key: _unchangeable(item) for key, item in value.items()})
    return value


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_is_idempotent_and_pure(document: Any, patch: Any) -> None:
    before = copy.deepcopy((document, patch))
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once
    assert (document, patch) == before


@pytest.mark.parametrize(
    ("document", "operations", "result"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"foo": "bar", "baz": "qux"}),
        ({"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}], {"foo": ["bar", "qux", "baz"]}),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["x"]}], {"foo": ["bar", ["x"]]}),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
        ({"a": [1, 2]}, [{"op": "replace", "path": "/a/0", "value": 5}], {"a": [5, 2]}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        ({"foo": ["all", "cows"]}, [{"op": "move", "from": "/foo/1", "path": "/foo/0"}], {"foo": ["cows", "all"]}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        (
            {"a/b": 1, "m~n": 2},
            [{"op": "test", "path": "/a~1b", "value": 1}, {"op": "remove", "path": "/m~0n"}],
            {"a/b": 1},
        ),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}], {"a": 1}),
        ({"a": 1}, [{"op": "test", "path": "/b", "value": None}], {"a": 1}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
        ({"a": [1, 2, 3]}, [{"op": "remove", "path": "/a/-1"}], {"a": [1, 2]}),
    ],
)
def test_the_examples_of_rfc_6902(document: Any, operations: Any, result: Any) -> None:
    before = copy.deepcopy(document)
    assert json_patch(document, operations) == result
    assert document == before


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/a", "value": True},
        {"op": "remove", "path": "/zz"},
        {"op": "remove", "path": ""},
        {"op": "replace", "path": "/zz/y", "value": 1},
        {"op": "add", "path": "/zz/y", "value": 1},
        {"op": "add", "path": "/l/5", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "path": "no-slash", "value": 1},
        {"op": "move", "from": "/zz", "path": "/b"},
        {"op": "copy", "from": "/zz/y", "path": "/b"},
        {"op": "eat", "path": "/a"},
        {"path": "/a"},
    ],
)
def test_an_operation_that_cannot_be_done_is_422_without_causes_W_37(operation: dict[str, Any]) -> None:
    with pytest.raises(ApiFailure) as caught:
        json_patch({"a": 1, "l": [1]}, [operation])
    assert (caught.value.status, caught.value.reason, caught.value.causes) == (422, "Invalid", ())
    assert caught.value.message == "the server rejected our request due to an error in our request"


def test_what_is_no_list_of_operations_is_400() -> None:
    patches: list[Any] = [{}, "x", [1]]
    for patch in patches:
        with pytest.raises(ApiFailure) as caught:
            json_patch({}, patch)
        assert caught.value.status == 400


def test_too_many_operations_are_413_W_37() -> None:
    with pytest.raises(ApiFailure) as caught:
        json_patch({}, [{"op": "add", "path": "/a", "value": 1}] * 10_001)
    assert caught.value.status == 413


@given(OBJECTS, st.sampled_from(["a", "b", "c/d", "~"]), JSON)
def test_add_then_test_then_remove(document: dict[str, Any], key: str, value: Any) -> None:
    path = "/" + key.replace("~", "~0").replace("/", "~1")
    add = {"op": "add", "path": path, "value": value}
    added = json_patch(document, [add, {"op": "test", "path": path, "value": value}])
    assert equal(added[key], value)
    assert json_patch(added, [{"op": "remove", "path": path}]) == {k: v for k, v in document.items() if k != key}


POD = next(
    builtin_definition for builtin_definition in BUILTIN_DEFINITIONS if builtin_definition.kind.kind == "Pod"
).schema.properties["spec"]
BASE: dict[str, Any] = {
    "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}],
    "nodeSelector": {"x": "y"},
}


@pytest.mark.parametrize(
    ("patch", "result"),
    [
        (
            {"containers": [{"name": "a", "image": "2"}]},
            {"containers": [{"name": "a", "image": "2"}, BASE["containers"][1]]},
        ),
        (
            {"containers": [{"name": "c", "image": "1"}]},
            {"containers": [{"name": "c", "image": "1"}, *BASE["containers"]]},
        ),
        ({"containers": [{"name": "a", "$patch": "delete"}]}, {"containers": [{"name": "b", "image": "1"}]}),
        ({"containers": [{"$patch": "replace"}, {"name": "z"}]}, {"containers": [{"name": "z"}]}),
        ({"nodeSelector": {"x": None, "k": "v"}}, {"nodeSelector": {"k": "v"}}),
        ({"nodeSelector": None}, {}),
        ({"nodeSelector": {"$patch": "replace", "n": "1"}}, {"nodeSelector": {"n": "1"}}),
        (
            {"containers": [], "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]},
            {"containers": [{"name": "b", "image": "1"}, {"name": "a", "image": "1"}]},
        ),
        (
            {"dnsPolicy": "Default", "$retainKeys": ["dnsPolicy", "containers"]},
            {"containers": BASE["containers"], "dnsPolicy": "Default"},
        ),
    ],
)
def test_strategic_merge_patches(patch: dict[str, Any], result: dict[str, Any]) -> None:
    before = copy.deepcopy(BASE)
    merged = strategic_merge(POD, BASE, patch)
    assert {key: merged[key] for key in result} == result
    assert before == BASE
    assert "nodeSelector" not in merged or "nodeSelector" in BASE


def test_sets_unite_and_atomic_lists_are_replaced_by_strategic_patches() -> None:
    text = {"type": "string"}
    schema = compile_schema(
        {
            "type": "object",
            "properties": {
                "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
                "list": {"type": "array", "items": text},
            },
        }
    )
    document = {"set": ["a", "b"], "list": ["a"]}
    assert strategic_merge(schema, document, {"set": ["b", "c"], "list": ["z"]}) == {
        "set": ["a", "b", "c"],
        "list": ["z"],
    }
    assert strategic_merge(schema, document, {"$deleteFromPrimitiveList/set": ["a"]})["set"] == ["b"]


@pytest.mark.parametrize("patch", [[], {"$patch": "eat"}])
def test_a_strategic_patch_that_makes_no_sense_is_400(patch: Any) -> None:
    with pytest.raises(ApiFailure) as caught:
        strategic_merge(POD, BASE, patch)
    assert caught.value.status == 400
