"""PH-7: which part of a kind is watched, and which updates are handled, one field away from each other."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import Manifest
from purekube.controller.informer.outline import outline_of
from purekube.reconcilers.watching import METADATA_ONLY, Filters, Watch, finalizers_of, has_new_content


def one(meta: dict[str, Any] | None = None, **fields: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": "Shop", "metadata": {"name": "shop", **(meta or {})}, **fields}


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        (one({"generation": 1}, spec=1), one({"generation": 2}, spec=1), True),
        (one({"generation": 2}, spec=1), one({"generation": 2}, spec=2), False),
        (one({"generation": 1}, spec=1), one(spec=1), False),
        (one(spec=1), one({"generation": 1}, spec=2), True),
        (one(spec=1, status=1), one(spec=1, status=2), False),
        (one(data={"a": 1}), one(data={"a": True}), True),
        (one(data={"a": 1}), one(data={"a": 1}, more=1), True),
        (one(data={"a": 1}), one(), True),
        (one({"resourceVersion": "1"}, data=1), one({"resourceVersion": "2"}, data=1), False),
        (one({"resourceVersion": "1"}), one({"resourceVersion": "2"}), True),
        (one({"resourceVersion": "1"}), one({"resourceVersion": "1"}), False),
        (one({"resourceVersion": "1"}, status=1), one({"resourceVersion": "2"}, status=1), True),
        ({**one(spec=1), "apiVersion": "v1"}, {**one(spec=1), "apiVersion": "v2"}, False),
        ({**one(spec=1), "kind": "a"}, {**one(spec=1), "kind": "b"}, False),
    ],
)
def test_content_is_new_by_its_generation_or_else_by_what_differs(old: Manifest, new: Manifest, changed: bool) -> None:
    assert has_new_content(old, new) is changed
    assert has_new_content(new, old) is changed
    assert Filters().passes(old, new) is changed
    assert not Filters(generation=False).passes(old, new)


def labelled(**labels: str) -> Manifest:
    return one({"generation": 1, "labels": labels})


def annotated(**annotations: str) -> Manifest:
    return one({"generation": 1, "annotations": annotations})


BARE = one({"generation": 1})


@pytest.mark.parametrize(
    ("selection", "old", "new", "passes"),
    [
        (True, {"a": "1"}, {"a": "2"}, True),
        (True, {"a": "1"}, {"a": "1"}, False),
        (True, {"a": "1"}, {}, True),
        (False, {"a": "1"}, {"a": "2"}, False),
        (("a",), {"a": "1"}, {"a": "2"}, True),
        (("a",), {"a": "1"}, {}, True),
        (("a",), {"b": "1"}, {"b": "2"}, False),
        (("a", "b"), {"b": "1"}, {"b": "2"}, True),
        ((), {"b": "1"}, {"b": "2"}, False),
    ],
)
def test_labels_and_annotations_pass_as_selected(
    selection: Any, old: dict[str, str], new: dict[str, str], passes: bool
) -> None:
    only_labels, only_annotations = Filters(labels=selection, annotations=False), Filters(False, False, selection)

    assert only_labels.passes(labelled(**old), labelled(**new)) is passes
    assert not only_labels.passes(annotated(**old), annotated(**new))
    assert only_annotations.passes(annotated(**old), annotated(**new)) is passes
    assert not only_annotations.passes(labelled(**old), labelled(**new))


def test_no_labels_equal_empty_labels() -> None:
    assert not Filters().passes(BARE, labelled())
    assert not Filters().passes(one({"generation": 1, "labels": None}), annotated())


@pytest.mark.parametrize(
    ("old", "new", "passes"),
    [
        ([], ["x/y"], True),
        (["x/y"], [], True),
        (["x/y"], ["x/y", "z"], False),
        ([], ["z"], False),
        (["x/y", "z"], ["z", "x/y"], False),
        ([], ["w"], True),
    ],
)
def test_a_finalizer_passes_where_it_is_named(old: list[str], new: list[str], passes: bool) -> None:
    given = one({"generation": 1, "finalizers": old}), one({"generation": 1, "finalizers": new})

    assert Filters(finalizers=("w", "x/y")).passes(*given) is passes
    assert not Filters().passes(*given)


def test_a_deletion_passes_whatever_is_filtered() -> None:
    nothing = Filters(generation=False, labels=False, annotations=False)
    going = one({"generation": 1, "deletionTimestamp": "now"})

    assert nothing.passes(BARE, going)
    assert not nothing.passes(going, going)


@pytest.mark.parametrize("answer", [True, False, 1, "", None])
def test_a_predicate_is_asked_last_with_old_and_new(answer: Any) -> None:
    asked: list[Any] = []

    def predicate(old: Manifest, new: Manifest) -> bool:
        asked.append((old, new))
        return answer  # type: ignore[no-any-return]

    filters = Filters(predicate=predicate)
    assert filters.passes(BARE, labelled()) is bool(answer)
    assert asked == [(BARE, labelled())]
    assert filters.passes(BARE, labelled(a="1"))
    assert len(asked) == 1, "what passes anyway is not asked about"


def test_a_predicate_that_raises_loses_no_update() -> None:
    assert Filters(predicate=lambda old, new: bool(1 / 0)).passes(BARE, BARE)


def test_of_large_objects_no_update_is_lost_that_their_outlines_do_not_show() -> None:
    def large(note: str, size: int = 9000) -> Manifest:
        manifest = one({"generation": 1, "annotations": {"applied": "x" * size, "note": note}}, spec={"text": "x"})
        return outline_of(manifest, note.encode())

    for filters in (Filters(), Filters(annotations={"note"})):
        assert filters.passes(large("a"), large("b"))
        assert not filters.passes(large("a"), large("a"))
    assert not Filters(annotations=False).passes(large("a"), large("b"))
    assert not Filters().passes(large("a", 9), large("a", 9))
    assert Filters(predicate=lambda old, new: False).passes(large("a"), large("a"))


def test_finalizers_are_those_of_a_list() -> None:
    assert finalizers_of(one({"finalizers": ["b", "a"]})) == ("b", "a")
    assert finalizers_of(one({"finalizers": ("b", 1)})) == ("b", "1")
    for none in ({"finalizers": "ab"}, {"finalizers": None}, {"finalizers": {"a": 1}}, {}):
        assert finalizers_of(one(none)) == ()


@pytest.mark.parametrize(
    ("fields", "whole", "paths"),
    [
        (None, True, ()),
        (METADATA_ONLY, False, ()),
        ((".status.phase", "spec"), False, (("status", "phase"), ("spec",))),
    ],
)
def test_a_watch_keeps_all_or_the_named_fields(
    fields: tuple[str, ...] | None, whole: bool, paths: tuple[tuple[str, ...], ...]
) -> None:
    watch = Watch(fields=fields)

    assert (watch.is_whole, watch.paths) == (whole, paths)
