"""Who applied an object, and what the next apply by the same hand makes of it (SEE-2)."""

import json
from typing import Any

import pytest

from purekube.apimachinery.manifest import LAST_APPLIED, merge_patch
from purekube.controller.appliers import (
    KUBECTL,
    KUBECTL_CLIENT_SIDE,
    Applier,
    applier_named,
    appliers_of,
    client_side_patch,
    estimated,
    overlaid,
    without_last_applied,
)

EARLY, LATE = "2026-06-01T10:00:00Z", "2026-06-01T11:00:00Z"
SPEC: dict[str, Any] = {"f:spec": {"f:size": {}}}
KEPT: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{LAST_APPLIED}": {}}}, **SPEC}
LABELS: dict[str, Any] = {"f:metadata": {"f:labels": {"f:team": {}}}}


def entry(manager: str, fields: Any = SPEC, operation: str = "Apply", **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsV1": fields, **more}


def live(*entries: Any, last: Any = None, spec: Any = None) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": "a", "managedFields": list(entries)}
    if last is not None:
        meta["annotations"] = {LAST_APPLIED: last if isinstance(last, str) else json.dumps(last)}
    return {"metadata": meta, "spec": {} if spec is None else spec}


CLIENT_SIDE = entry("kubectl-client-side-apply", KEPT, "Update")
FOUND: dict[str, tuple[dict[str, Any], tuple[Applier, ...]]] = {
    "a server-side apply": (live(entry("ci")), (Applier("ci"),)),
    "the same manager in two versions": (live(entry("ci"), entry("ci", apiVersion="v2")), (Applier("ci"),)),
    "kubectl apply": (live(CLIENT_SIDE), (KUBECTL_CLIENT_SIDE,)),
    "another client-side apply": (live(entry("argo", KEPT, "Update")), (Applier("argo", is_client_side=True),)),
    "an annotation alone": (live(last={"spec": {}}), (KUBECTL_CLIENT_SIDE,)),
    "an annotation that cannot be read": (live(last="{"), ()),
    "an annotation that is no object": (live(last="[]"), ()),
    "kubectl create": (live(entry("kubectl-create", SPEC, "Update")), ()),
    "the operators": (live(entry("operator")), ()),
    "a subresource": (live(entry("ci", SPEC, subresource="status")), ()),
    "kubectl, which holds its annotation apart": (
        live(entry("kubectl-last-applied", KEPT), entry("kubectl")),
        (KUBECTL,),
    ),
    "one who applies labels alone": (
        live(entry("ci", time=EARLY), entry("labeler", LABELS, time=LATE)),
        (Applier("ci"),),
    ),
    "labels alone": (live(entry("labeler", LABELS)), (Applier("labeler"),)),
    "the latest first": (
        live(entry("late", time=LATE), entry("early", time=EARLY)),
        (Applier("late"), Applier("early")),
    ),
    "both ways": (live(entry("ci", time=EARLY), {**CLIENT_SIDE, "time": LATE}), (KUBECTL_CLIENT_SIDE, Applier("ci"))),
    "at the same time, the last": (live(entry("a", time=LATE), entry("b", time=LATE)), (Applier("b"), Applier("a"))),
    "nobody": ({"metadata": {"name": "a"}}, ()),
}


@pytest.mark.parametrize("name", FOUND)
def test_managed_fields_and_annotation_tell_who_applied(name: str) -> None:
    manifest, appliers = FOUND[name]
    assert appliers_of(manifest, {"operator"}) == appliers


def test_an_object_that_does_not_exist_was_applied_by_nobody() -> None:
    assert appliers_of(None) == ()


def test_a_name_of_kubectl_says_how_it_applies() -> None:
    assert applier_named("kubectl-client-side-apply") == KUBECTL_CLIENT_SIDE
    assert applier_named("kubectl") == KUBECTL
    assert applier_named("ci") == Applier("ci")


PATCHES: dict[str, tuple[Any, Any, Any, Any]] = {
    # what was applied last, what is live, what the file has: the patch
    "nothing": ({"a": 1}, {"a": 1, "b": 2}, {"a": 1}, {}),
    "a change": ({"a": 1}, {"a": 1}, {"a": 2}, {"a": 2}),
    "an edit is put back": ({"a": 1}, {"a": 3}, {"a": 1}, {"a": 1}),
    "an omission": ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"a": 1}, {"b": None}),
    "an omission beneath": (
        {"a": {"b": 1, "c": 1}},
        {"a": {"b": 1, "c": 1, "d": 1}},
        {"a": {"b": 1}},
        {"a": {"c": None}},
    ),
    "what others set": ({}, {"b": 2}, {}, {}),
    "a null in the file": ({}, {"b": 2}, {"b": None}, {"b": None}),
    "an empty map": ({}, {}, {"a": {}}, {"a": {}}),
    "a switch": ({"inline": {"x": 1}}, {"inline": {"x": 1}}, {"ref": {"y": 1}}, {"inline": None, "ref": {"y": 1}}),
    "a map in the place of a text": ({"a": "x"}, {"a": "x"}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    "a list": ({"a": [1, 2]}, {"a": [1, 2, 3]}, {"a": [1]}, {"a": [1]}),
    "the same number": ({"a": 1}, {"a": 1}, {"a": 1.0}, {}),
    "an omission and a change in one map": (
        {"a": {"b": 1}},
        {"a": {"b": 1}},
        {"a": {"c": 1}},
        {"a": {"b": None, "c": 1}},
    ),
}


@pytest.mark.parametrize("name", PATCHES)
def test_a_client_side_apply_removes_what_it_applied_and_the_file_omits(name: str) -> None:
    last, present, desired, patch = PATCHES[name]
    there = live(last={"spec": last}, spec=present)
    wanted = {"metadata": {"name": "a", "annotations": {LAST_APPLIED: "whatever"}}, "spec": desired}
    assert client_side_patch(there, wanted).get("spec", {}) == patch
    assert "metadata" not in client_side_patch(there, wanted)
    after = estimated(there, wanted, KUBECTL_CLIENT_SIDE)
    assert after["spec"] == merge_patch(present, patch)
    assert after["metadata"] == there["metadata"]


@pytest.mark.parametrize(
    ("last", "desired", "patch"),
    [
        ({}, {}, {}),
        ({}, {"annotations": {"a": "1"}}, {"metadata": {"annotations": {"a": "1"}}}),
        ({"a": "1"}, {}, {"metadata": {"annotations": {"a": None}}}),
        ({"a": "1"}, {"annotations": {}}, {"metadata": {"annotations": {"a": None}}}),
    ],
)
def test_annotations_of_others_stay_although_kubectl_keeps_an_empty_map_of_its_own(
    last: Any, desired: Any, patch: Any
) -> None:
    """What `kubectl apply` keeps always has annotations, also of a file without any."""
    kept = {"metadata": {"name": "a", "annotations": last}}
    annotations = {LAST_APPLIED: json.dumps(kept), "of/another": "x", **last}
    there = {"metadata": {"name": "a", "annotations": annotations}}

    assert client_side_patch(there, {"metadata": {"name": "a", **desired}}) == patch


def test_without_a_readable_annotation_a_client_side_apply_removes_nothing() -> None:
    for last in (None, "{", "[" * 100_000):
        assert client_side_patch(live(last=last, spec={"a": 1}), {"spec": {}}) == {}


def test_the_annotation_is_left_out_and_others_are_kept() -> None:
    assert without_last_applied(live(last={})) == {"metadata": {"name": "a", "managedFields": []}, "spec": {}}
    both = {"metadata": {"annotations": {LAST_APPLIED: "{}", "b": "1"}}}
    assert without_last_applied(both) == {"metadata": {"annotations": {"b": "1"}}}
    other = {"metadata": {"annotations": {"b": "1"}}}
    assert without_last_applied(other) is other


def held(**spec: Any) -> dict[str, Any]:
    return {"f:spec": {f"f:{name}": fields for name, fields in spec.items()}}


MINE = held(size={}, values={"f:inline": {".": {}, "f:debug": {}}}, parts={'k:{"name":"x"}': {}})
WHOLE = {"size": 1, "values": {"inline": {"debug": True}}, "parts": [{"name": "x"}], "mode": "default"}
ESTIMATES: dict[str, tuple[list[Any], Any, Any]] = {
    # the entries, what the file has: what is there afterwards
    "a field that it held alone goes": ([entry("ci", MINE)], {"size": 2}, {"size": 2, "mode": "default"}),
    "what another holds stays": (
        [entry("ci", MINE), entry("other", held(values={"f:inline": {"f:debug": {}}}), "Update")],
        {"size": 1},
        {"size": 1, "values": {"inline": {"debug": True}}, "mode": "default"},
    ),
    "a part of a map goes": (
        [entry("ci", MINE)],
        {"size": 1, "values": {"inline": {"more": 1}}, "parts": []},
        {"size": 1, "values": {"inline": {"more": 1}}, "parts": [], "mode": "default"},
    ),
    "what it did not apply stays": ([entry("other", MINE)], {"size": 2}, {**WHOLE, "size": 2}),
    "what it updated stays": ([entry("ci", MINE, "Update")], {"size": 2}, {**WHOLE, "size": 2}),
    "a subresource is not the object": ([entry("ci", MINE, subresource="scale")], {"size": 2}, {**WHOLE, "size": 2}),
    "without a field set": ([entry("ci", None), entry("other", None)], {"size": 2}, {**WHOLE, "size": 2}),
    "a field that is gone": ([entry("ci", held(gone={}))], {"size": 2}, {**WHOLE, "size": 2}),
    "a whole list": ([entry("ci", held(parts={}))], {}, {key: WHOLE[key] for key in ("size", "values", "mode")}),
    "a map that is a text now": ([entry("ci", held(size={"f:x": {}}))], {"size": 2}, {**WHOLE, "size": 2}),
}


@pytest.mark.parametrize("name", ESTIMATES)
def test_an_estimate_removes_what_the_manager_alone_held_and_omits(name: str) -> None:
    entries, desired, after = ESTIMATES[name]
    assert estimated(live(*entries, spec=WHOLE), {"spec": desired}, Applier("ci"))["spec"] == after


def test_an_object_that_does_not_exist_becomes_what_the_file_says() -> None:
    assert estimated(None, {"spec": {"a": 1}}, KUBECTL_CLIENT_SIDE) == {"spec": {"a": 1}}


@pytest.mark.parametrize(
    ("live", "desired", "after"),
    [
        ({"a": {"b": 1, "c": [1]}}, {"a": {"c": [2]}, "d": 1}, {"a": {"b": 1, "c": [2]}, "d": 1}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": {"b": {"c": 1, "d": 1}}}, {"a": {"b": {"c": 2}}}, {"a": {"b": {"c": 2, "d": 1}}}),
        ({"a": {"b": 1}}, {"a": 2}, {"a": 2}),
        ({"a": 2}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ([1], {"a": 1}, {"a": 1}),
        ({"a": 1}, [1], [1]),
    ],
)
def test_a_first_apply_merges_maps_and_replaces_lists(live: Any, desired: Any, after: Any) -> None:
    assert overlaid(live, desired) == after


def test_a_first_apply_keeps_the_order_of_what_is_there() -> None:
    after = overlaid({"b": {"y": 1, "x": 1}, "a": 1}, {"c": 1, "a": 2, "b": {"z": 1, "x": 2}})

    assert (list(after), list(after["b"])) == (["b", "a", "c"], ["y", "x", "z"])
