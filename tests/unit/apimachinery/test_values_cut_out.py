"""RUN-11: what is cut out of an object that is nested too deeply, where that is told, and what stays as it is."""

import gc
import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from purekube.apimachinery.nesting import UNREADABLE, decode_answer, decode_with, too_deep

DEEP = "[" * 50_000 + "]" * 50_000


def decoded(value: Any, *path: str | tuple[str, ...]) -> Any:
    """What is read of JSON in which each text `deep` is a value that no decoder follows."""
    return decode_answer(json.dumps(value).replace('"deep"', DEEP).encode(), *path)


@pytest.mark.parametrize(
    ("manifest", "read", "paths"),
    [
        ({"spec": {"a": "deep", "b": 1}}, {"spec": {"a": None, "b": 1}}, ["spec.a"]),
        (
            {"count": 5, "on": True, "off": None, "rate": 1.5, "text": "x", "spec": {"a": "deep"}},
            {"count": 5, "on": True, "off": None, "rate": 1.5, "text": "x", "spec": {"a": None}},
            ["spec.a"],
        ),
        ({"items": [1, "deep", "x", "deep"]}, {"items": [1, None, "x", None]}, ["items.1", "items.3"]),
        (
            {"metadata": {"managedFields": "deep", "labels": "deep"}, "spec": {"managedFields": "deep"}},
            {"metadata": {"managedFields": None, "labels": None}, "spec": {"managedFields": None}},
            ["metadata.labels", "spec.managedFields"],
        ),
        ({"metadata": {"managedFields": "deep"}}, {"metadata": {"managedFields": None}}, None),
    ],
)
def test_the_paths_of_what_was_cut_out_are_told_beside_it(manifest: Any, read: Any, paths: list[str] | None) -> None:
    found = decoded(manifest)

    assert found == {**read, **({} if paths is None else {UNREADABLE: paths})}
    assert too_deep(found) == tuple(paths or ())


def test_each_object_at_the_path_is_marked_alone() -> None:
    bad, good = {"spec": {"a": "deep"}}, {"spec": {"a": 1}}
    marked = {"spec": {"a": None}, UNREADABLE: ["spec.a"]}

    assert decoded({"items": [good, bad, 3, bad]}, "items") == {"items": [good, marked, 3, marked]}
    assert decoded({"object": bad, "kind": "x"}, "object") == {"object": marked, "kind": "x"}
    review = {"request": {"object": bad, "oldObject": good, "other": 1}}
    assert decoded(review, "request", ("object", "oldObject")) == {
        "request": {"object": marked, "oldObject": good, "other": 1}
    }


def test_the_object_may_be_an_attribute_of_what_is_decoded() -> None:
    """As in an event of a watch, which is decoded into a class."""

    def event(raw: bytes) -> SimpleNamespace:
        return SimpleNamespace(**msgspec.json.decode(raw))

    raw = json.dumps({"type": "ADDED", "object": {"spec": {"a": "deep"}}}).replace('"deep"', DEEP).encode()
    found = decode_with(event, raw, "object")

    assert (found.type, found.object) == ("ADDED", {"spec": {"a": None}, UNREADABLE: ["spec.a"]})


def test_what_is_no_mark_names_no_path() -> None:
    for manifest in ({}, {UNREADABLE: "spec.a"}, {UNREADABLE: None}, [UNREADABLE], None):
        assert too_deep(manifest) == ()


@pytest.mark.parametrize("raw", ["[" * 50_000, '{"spec":{"a":' + "[" * 50_000, DEEP + "]", '{"spec":{"a":' + DEEP])
def test_brackets_without_their_ends_are_no_json(raw: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_answer(raw.encode())


@pytest.mark.parametrize(("size", "collects"), [(64 * 1024 - 1, True), (64 * 1024, False)])
def test_a_large_text_is_decoded_without_the_garbage_collector(size: int, collects: bool) -> None:
    """It would take most of the time."""
    seen = []

    def decode(raw: bytes) -> int:
        seen.append(gc.isenabled())
        return len(raw)

    assert decode_with(decode, b" " * size) == size
    assert (seen, gc.isenabled()) == ([collects], True)
