"""Who holds which field of an object, and the command that hands it back (REC-6, REC-8, RUN-12)."""

import json
from typing import Any

import pytest

from purekube.apimachinery.errors import Conflict, FieldConflict, Invalid, OperatorError
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, LEASE
from purekube.controller.decision import Failure
from purekube.controller.managed_fields import (
    StatusOwner,
    conflict_message,
    is_held_by_others,
    is_own_history,
    kubectl_name,
    kubectl_patch,
    other_holders,
    with_foreign_holders,
    with_written_annotations,
    without_managed_fields,
    written_annotation,
)

US = "operator"
REF = ObjectRef(CONFIG_MAP, "ns", "a")


def entry(manager: str, fields: Any, operation: str = "Apply", **more: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsV1": fields, **more}


def live(*entries: Any, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "ns", "managedFields": list(entries), **meta}}


def leaf(*path: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for step in reversed(path):
        fields = {f"f:{step}": fields}
    return fields


DESIRED = {"metadata": {"name": "a", "labels": {"l": "1"}}, "spec": {"size": 1, "parts": [{"name": "x"}]}}


@pytest.mark.parametrize(
    ("found", "held"),
    [
        (live(entry("kubectl", leaf("spec", "size"))), True),
        (live(entry(US, leaf("spec", "size"))), False),
        (live(entry("kubectl", leaf("spec", "other"))), False),
        (live(entry("kubectl", leaf("spec", "size"), subresource="status")), False),
        (live(entry("kubectl", leaf("spec", "size"), subresource="scale")), True),
        (live(entry("kubectl", {"f:spec": {".": {}}})), True),
        (live(entry("kubectl", {"f:spec": {}})), True),
        (live(entry("kubectl", {"f:spec": {"f:parts": {'k:{"name":"y"}': {}}}})), True),
        (live(entry("kubectl", {"f:spec": {"f:size": "x"}})), True),
        (live(entry("kubectl", leaf("metadata", "labels", "l"))), True),
        (live(entry("kubectl", leaf("metadata", "labels", "m"))), False),
        (live(entry("kubectl", "x")), False),
        (live(entry(US, leaf("spec", "other")), entry("kubectl", leaf("spec", "size"))), True),
        (None, False),
        ({"metadata": {"managedFields": "x"}}, False),
    ],
)
def test_a_field_that_another_manager_holds_may_conflict(found: Any, held: bool) -> None:
    assert is_held_by_others(DESIRED, found, US) is held


def written(**annotations: Any) -> dict[str, Any]:
    return {"f:metadata": {"f:annotations": {f"f:{name}": {} for name in annotations}}}


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([entry(US, written(a="1"))], "1"),
        ([entry("kubectl", written(a="1"))], None),
        ([entry(US, written(b="1"))], None),
        ([entry(US, written(a="1"), subresource="status")], None),
        ([entry("kubectl", written(a="1")), entry(US, written(a="1"))], "1"),
        ([], None),
    ],
)
def test_only_what_the_operator_itself_wrote_is_trusted_RUN_12(entries: list[Any], text: str | None) -> None:
    assert written_annotation(live(*entries, annotations={"a": "1"}), "a", US) == text
    assert written_annotation(live(*entries, annotations={"a": 1}), "a", US) is None
    assert written_annotation(None, "a", US) is None


def test_a_trimmed_copy_keeps_who_wrote_the_annotations() -> None:
    found = live(entry(US, written(a="1", b="2")), entry("kubectl", written(c="3")), annotations={"a": "1", "c": "3"})
    trimmed = {"metadata": {"name": "a"}}

    kept = with_written_annotations(trimmed, found, ["a", "b", "c"], US)

    mark = {"manager": US, "fieldsV1": written(a="1")}
    assert kept == {"metadata": {"name": "a", "managedFields": [mark]}}
    assert with_written_annotations(trimmed, found, ["c"], US) is trimmed
    before = {"metadata": {"managedFields": ["before"]}}
    assert with_written_annotations(before, found, ["a"], US)["metadata"]["managedFields"] == ["before", mark]


@pytest.mark.parametrize(
    ("error", "is_ours"),
    [
        (Conflict("x", (FieldConflict(US, ".spec"), FieldConflict(US, ".data"))), True),
        (Conflict("x", (FieldConflict(US, ".spec"), FieldConflict("kubectl", ".data"))), False),
        (Conflict("x", ()), False),
        (Invalid("x"), False),
    ],
)
def test_only_a_conflict_with_our_own_past_may_be_forced_REC_6(error: OperatorError, is_ours: bool) -> None:
    assert is_own_history(Failure(REF, "apply", error), US) is is_ours


def failure(found: Any = None, *conflicts: tuple[str, str]) -> tuple[Failure, Conflict]:
    error = Conflict("x", tuple(FieldConflict(manager, field) for manager, field in conflicts))
    return Failure(REF, "apply", error, found), error


def test_a_conflict_names_every_manager_with_its_fields_in_order_REC_8() -> None:
    told, error = failure(None, ("z", ".a"), (US, ".o"), ("b", ".c"), ("z", ".b"))
    assert conflict_message(told, error, US) == (f'{REF}: field manager "b" holds .c; field manager "z" holds .a, .b')
    eight = [("z", f".{number}") for number in range(8)]
    named = ", ".join(field for _, field in eight)
    told, error = failure(None, *eight)
    assert conflict_message(told, error, US).endswith(f"holds {named}")
    told, error = failure(None, *eight, ("z", ".8"))
    assert conflict_message(told, error, US).endswith(f"holds {named} and 1 more")


def test_the_command_removes_exactly_the_entries_of_those_managers_the_last_first() -> None:
    found = live(
        entry("z", leaf("data", "a")),
        entry(US, leaf("data")),
        entry("z", leaf("status"), "Update", subresource="status"),
        entry("z", leaf("data", "b"), "Update", subresource="scale"),
        entry("other", leaf("data")),
    )
    told, error = failure(found, ("z", ".data.a"))

    message = conflict_message(told, error, US)

    begin = message.index("[{")
    steps = json.loads(message[begin : message.rindex("]") + 1])
    expected = []
    for index, operation in ((3, "Update"), (0, "Apply")):
        path = f"/metadata/managedFields/{index}"
        expected += [
            {"op": "test", "path": f"{path}/manager", "value": "z"},
            {"op": "test", "path": f"{path}/operation", "value": operation},
            {"op": "remove", "path": path},
        ]
    assert steps == expected
    assert ". To hand it back: kubectl patch " in message
    told, error = failure(live(entry("other", leaf("data"))), ("z", ".data.a"))
    assert "To hand it back" not in conflict_message(told, error, US)


def test_other_holders_of_a_field_are_those_of_the_object_and_not_of_its_status() -> None:
    found = live(
        entry("a", leaf("spec", "suspend")),
        entry("b", leaf("spec", "other")),
        entry(US, leaf("spec", "suspend")),
        entry("c", leaf("spec", "suspend"), subresource="status"),
        entry("d", leaf("spec", "suspend"), subresource="scale"),
    )

    assert other_holders(found, US, "spec", "suspend") == {"a", "d"}
    assert other_holders(found, "a", "spec", "suspend") == {US, "d"}
    assert other_holders(None, US, "spec") == set()


def test_a_cached_copy_keeps_only_what_others_hold_of_fields_that_an_apply_may_write() -> None:
    meta: dict[str, Any] = {"f:labels": {"f:l": {}}, "f:finalizers": {}, "f:annotations": {}, "f:ownerReferences": {}}
    found = live(
        entry(US, leaf("spec")),
        entry("status", leaf("status"), subresource="status"),
        entry("broken", None),
        entry("finalizers", {"f:metadata": {"f:finalizers": {}}}),
        entry("mixed", {"f:metadata": meta, "f:spec": {}}, "Update", time="2026-01-01T00:00:00Z", apiVersion="v1"),
        entry("last", {"f:spec": {}}),
    )

    kept = with_foreign_holders(found, US)["metadata"]["managedFields"]

    written_meta = {name: fields for name, fields in meta.items() if name != "f:finalizers"}
    assert kept == [
        {"manager": "mixed", "operation": "Update", "fieldsV1": {"f:metadata": written_meta, "f:spec": {}}},
        {"manager": "last", "operation": "Apply", "fieldsV1": {"f:spec": {}}},
    ]
    assert "managedFields" not in with_foreign_holders(live(entry(US, leaf("spec"))), US)["metadata"]
    bare = {"metadata": {"name": "a"}}
    assert with_foreign_holders(bare, US) is without_managed_fields(bare) is bare


def test_an_object_is_named_as_kubectl_takes_it() -> None:
    assert kubectl_name(REF) == "configmaps a -n ns"
    assert kubectl_name(ObjectRef(LEASE, None, "a")) == "leases.coordination.k8s.io a"
    steps = [{"op": "remove", "path": "/a'b"}]
    quoted = """'[{"op":"remove","path":"/a'"'"'b"}]'"""
    assert kubectl_patch(REF, steps) == f"kubectl patch configmaps a -n ns --type=json -p {quoted}"


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        ('k:{"type":"Ready"}', ".status.conditions[Ready].status"),
        ('k:{"name":"x"}', '.status.conditions[{"name":"x"}].status'),
        ("k:not JSON", ".status.conditions[not JSON].status"),
        ("k:7", ".status.conditions[7].status"),
        ("v:7", ".status.conditions[7].status"),
    ],
)
def test_a_held_condition_is_named_by_its_type_or_else_by_its_key(item: str, shown: str) -> None:
    every = frozenset({"Ready", '{"name":"x"}', "not JSON", "7"})
    owner = StatusOwner(US, {CONFIG_MAP: every})
    fields: dict[str, Any] = {"f:status": {"f:conditions": {item: {".": {}, "f:status": {}}}}}
    found = {**live(entry("kubectl", fields, subresource="status")), "kind": "ConfigMap"}

    holder = owner.holder(found)
    assert holder is not None
    assert (holder.manager, holder.field) == ("kubectl", shown)
    steps = [
        {"op": "test", "path": "/metadata/managedFields/0/manager", "value": "kubectl"},
        {"op": "remove", "path": "/metadata/managedFields/0"},
    ]
    assert holder.command == kubectl_patch(REF, steps) == owner.hand_over(found)


def test_the_status_of_an_unknown_kind_is_handed_back_by_no_command() -> None:
    found = live(entry("kubectl", leaf("status", "phase"), subresource="status"))
    holder = StatusOwner(US, {CONFIG_MAP: frozenset()}).holder(found)

    assert holder is not None
    assert (holder.field, holder.command) == (".status.phase", "")
    assert StatusOwner(US, {CONFIG_MAP: frozenset()}).hand_over(found) == ""


def test_a_cached_status_keeps_its_entries_where_another_manager_has_one() -> None:
    owner = StatusOwner(US, {CONFIG_MAP: frozenset()})
    ours, spec = entry(US, leaf("status", "a"), subresource="status"), entry("kubectl", leaf("spec"))
    theirs = entry("kubectl", leaf("status", "b"), subresource="status")

    assert "managedFields" not in owner.with_holders(live(ours, spec))["metadata"]
    assert "managedFields" not in owner.with_holders(live(spec))["metadata"]
    assert owner.with_holders(live(ours, spec, theirs))["metadata"]["managedFields"] == [ours, theirs]
