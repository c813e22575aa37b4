"""When an apply is needed, field by field, with and without a schema (REC-6, PH-2)."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import canonical_json, content_hash
from purekube.controller.drift import needs_apply, stamp
from purekube.schema import compile_schema

OWNER = {"uid": "u", "controller": True}
DESIRED: dict[str, Any] = {
    "kind": "Part",
    "metadata": {"name": "a", "labels": {"l": "1"}, "ownerReferences": [OWNER]},
    "spec": {"size": 1, "on": True, "list": [1, {"a": "b"}], "none": None, "empty": {}},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """What is stored, with another value at a path; what is removed is `...`."""
    *steps, last = path.split(".")

    def put(at: Any, left: list[str]) -> Any:
        if left:
            return {**at, left[0]: put(at[left[0]], left[1:])}
        kept = {name: inner for name, inner in at.items() if name != last}
        return kept if value is ... else {**kept, last: value}

    made: dict[str, Any] = put(DESIRED, steps)
    return made


@pytest.mark.parametrize(
    ("live", "needed"),
    [
        (None, True),
        (DESIRED, False),
        ({**DESIRED, "status": {"x": 1}}, False),
        (changed("kind", "Other"), True),
        (changed("kind", ...), True),
        (changed("spec", ...), True),
        (changed("spec.more", 1), False),
        (changed("spec.size", 2), True),
        (changed("spec.size", 1.0), False),
        (changed("spec.size", "1"), True),
        (changed("spec.size", True), True),
        (changed("spec.on", 1), True),
        (changed("spec.size", ...), True),
        (changed("spec.none", ...), True),
        (changed("spec.empty", ...), True),
        (changed("spec.empty", {"x": 1}), False),
        (changed("spec.list", [1]), True),
        (changed("spec.list", [1, {"a": "b"}, 2]), True),
        (changed("spec.list", [{"a": "b"}, 1]), True),
        (changed("spec.list", [1, {"a": "b", "c": "d"}]), False),
        (changed("spec.list", {"0": 1}), True),
        (changed("spec", []), True),
        (changed("metadata.name", "b"), True),
        (changed("metadata.labels", {"l": "1", "m": "2"}), False),
        (changed("metadata.labels", {"l": "2"}), True),
        (changed("metadata.labels", None), True),
        (changed("metadata.uid", "x"), False),
        (changed("metadata.ownerReferences", [{"uid": "v"}, {**OWNER, "name": "n"}]), False),
        (changed("metadata.ownerReferences", [{**OWNER, "controller": False}]), True),
        (changed("metadata.ownerReferences", None), True),
        (changed("metadata", None), True),
    ],
)
def test_an_apply_is_needed_where_a_field_of_ours_differs(live: Any, needed: bool) -> None:
    assert needs_apply(DESIRED, live) is needed


def test_text_that_was_encoded_before_is_compared_as_it_is() -> None:
    encoded = {"spec": canonical_json(DESIRED["spec"])}

    assert not needs_apply(DESIRED, DESIRED, encoded=encoded)
    assert needs_apply(DESIRED, changed("spec.size", 2), encoded=encoded)
    assert not needs_apply(DESIRED, changed("spec.more", 2), encoded=encoded)


ITEM = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "port": {"type": "integer", "default": 80}, "v": {"type": "string"}},
}
SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "cpu": {"x-kubernetes-int-or-string": True},
                    "text": {"type": "string"},
                    "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "atomic": {"type": "array", "items": {"x-kubernetes-int-or-string": True}},
                    "map": {
                        "type": "array",
                        "items": ITEM,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name", "port"],
                    },
                },
            }
        },
    }
)


def needed(desired: Any, live: Any, *, drops_empty: bool = False) -> bool:
    return needs_apply({"spec": desired}, {"spec": live}, SCHEMA, drops_empty=drops_empty)


@pytest.mark.parametrize(
    ("desired", "live", "differs"),
    [
        ({"cpu": "1000m"}, {"cpu": "1"}, False),
        ({"cpu": "1"}, {"cpu": 1}, False),
        ({"cpu": "1024Mi"}, {"cpu": "1Gi"}, False),
        ({"cpu": "1000m"}, {"cpu": "2"}, True),
        ({"cpu": "x"}, {"cpu": "y"}, True),
        ({"cpu": True}, {"cpu": 1}, True),
        ({"cpu": 1}, {"cpu": True}, True),
        ({"text": "1000m"}, {"text": "1"}, True),
        ({"set": ["a"]}, {"set": ["b", "a"]}, False),
        ({"set": ["a", "c"]}, {"set": ["b", "a"]}, True),
        ({"atomic": ["1", "2"]}, {"atomic": [1, "2000m"]}, False),
        ({"atomic": ["1"]}, {"atomic": ["1", "2"]}, True),
        ({"atomic": ["1"]}, {"atomic": "1"}, True),
        ({"map": [{"name": "a", "v": "x"}]}, {"map": [{"name": "b"}, {"name": "a", "v": "x", "port": 80}]}, False),
        ({"map": [{"name": "a", "v": "x"}]}, {"map": [{"name": "a", "v": "y", "port": 80}]}, True),
        ({"map": [{"name": "a", "port": 81}]}, {"map": [{"name": "a", "port": 80}]}, True),
        ({"map": [{"name": "a"}]}, {"map": []}, True),
        ({"map": [{"name": "a"}]}, {}, True),
        ({"text": None}, {}, False),
        ({"text": None}, {"text": "x"}, True),
        ({"text": ""}, {}, True),
        ({"unknown": [1]}, {"unknown": [1]}, False),
        ({"unknown": [1]}, {"unknown": [2]}, True),
    ],
)
def test_a_schema_says_what_the_server_stores_in_another_form(desired: Any, live: Any, differs: bool) -> None:
    assert needed(desired, live) is differs


@pytest.mark.parametrize("empty", [0, False, "", [], {}, None])
def test_a_built_in_kind_drops_what_is_empty(empty: Any) -> None:
    assert not needed({"text": empty}, {}, drops_empty=True)
    assert needed({"text": empty}, {}) is (empty is not None)
    assert needs_apply({"spec": {"text": empty}}, {"spec": {}}, drops_empty=True) is False
    assert needed({"text": "x"}, {}, drops_empty=True)


def test_a_stamp_is_the_hash_of_what_was_there_before_it() -> None:
    manifest: dict[str, Any] = {"metadata": {"name": "a"}, "spec": 1}
    digest = content_hash(manifest)

    assert stamp(manifest, "h") is manifest
    assert manifest["metadata"]["annotations"] == {"h": digest}
    more: dict[str, Any] = {"metadata": {"annotations": {"a": "1"}}}
    assert sorted(stamp(more, "h")["metadata"]["annotations"]) == ["a", "h"]


@pytest.mark.parametrize("text", ["1e99999999999999999999", "1E-99999999999999999999", "9" * 5000])
def test_an_amount_beyond_all_numbers_is_a_change_like_any_other_RUN_11(text: str) -> None:
    schema = compile_schema({"type": "object", "properties": {"size": {"x-kubernetes-int-or-string": True}}})

    assert needs_apply({"size": text}, {"size": "1Gi"}, schema) is True
