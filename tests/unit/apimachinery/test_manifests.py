"""Helpers on manifests, names, rights and definitions: exact answers at the edges (RES-5, RES-6, RUN-4, RUN-6)."""

import pickle
from collections import UserDict
from typing import Any

import pytest

from purekube.apimachinery.admission_review import (
    AdmissionOperation,
    AdmissionRequest,
    MalformedReview,
    allowed,
    patched,
    read_review,
    refused,
)
from purekube.apimachinery.definitions import Column, Definition, condition_path, text_at
from purekube.apimachinery.errors import (
    Conflict,
    FieldConflict,
    Forbidden,
    NotFound,
    Right,
    Unavailable,
    first_refusal,
    leaves_of,
    refused_right,
    unwrap_group,
)
from purekube.apimachinery.fields import formed, immutable
from purekube.apimachinery.formats import DNS_LABEL, EXACT_SEMVER, Form, mismatch_message
from purekube.apimachinery.manifest import (
    Kind,
    ObjectRef,
    canonical_json,
    content_hash,
    encoded_fields,
    equal_scalars,
    get_path,
    merge_patch,
    metadata,
    ref_of,
    same_json,
    with_preconditions,
)
from purekube.apimachinery.meta import ObjectMeta, is_abandoned, names_in
from purekube.apimachinery.names import bounded_name, closed_name, engine_object_name, is_label_value
from purekube.apimachinery.nesting import pruned
from purekube.apimachinery.problems import MOST_PROBLEMS, Problem
from purekube.apimachinery.resources import Access, resources, service_account_user

SHOP = Kind("example.com", "v1", "Shop", "shops")
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)


def test_a_kind_knows_its_names() -> None:
    assert (SHOP.api_version, SHOP.crd_name, NODE.api_version) == ("example.com/v1", "shops.example.com", "v1")
    assert SHOP.manifest("a") == {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "a"}}
    assert SHOP.manifest("a", "n")["metadata"] == {"name": "a", "namespace": "n"}
    assert SHOP.manifest("a", "")["metadata"] == {"name": "a", "namespace": ""}
    assert str(ObjectRef(SHOP, "n", "a")) == "Shop n/a"
    assert str(ObjectRef(NODE, None, "a")) == "Node a"


@pytest.mark.parametrize(
    ("value", "path", "found"),
    [
        ({"a": {"b": 1}}, ("a", "b"), 1),
        ({"a": {"b": 1}}, (), {"a": {"b": 1}}),
        ({"a": {"b": 1}}, ("a", "c"), None),
        ({"a": None}, ("a", "b"), None),
        ({"a": [1, 2]}, ("a", 0), 1),
        ({"a": [1, 2]}, ("a", 1), 2),
        ({"a": [1, 2]}, ("a", 2), None),
        ({"a": [1, 2]}, ("a", -2), 1),
        ({"a": [1, 2]}, ("a", -3), None),
        ({"a": [1, 2]}, ("a", "0"), None),
        ({"a": "text"}, ("a", 0), None),
        (UserDict({"a": UserDict({"b": 1})}), ("a", "b"), 1),
        (None, ("a",), None),
        (3, ("a",), None),
        (False, (), False),
    ],
)
def test_a_path_leads_to_its_value_or_to_nothing(value: Any, path: tuple[Any, ...], found: Any) -> None:
    assert get_path(value, *path) == found


def test_metadata_is_a_mapping_whatever_the_object_has() -> None:
    assert metadata({"metadata": {"name": "a"}}) == {"name": "a"}
    assert metadata({"metadata": UserDict({"name": "a"})}) == UserDict({"name": "a"})
    assert metadata({"metadata": None}) == metadata({"metadata": ["a"]}) == metadata({}) == {}
    assert ref_of({"metadata": {"name": "a", "namespace": "n"}}, SHOP) == ObjectRef(SHOP, "n", "a")
    assert ref_of({"metadata": {"name": "a", "namespace": "n"}}, NODE) == ObjectRef(NODE, None, "a")
    assert ref_of({}, SHOP) == ObjectRef(SHOP, None, "")


def test_an_apply_is_bound_to_what_was_seen() -> None:
    manifest = {"kind": "Shop", "metadata": {"name": "a"}}
    live = {"metadata": {"name": "b", "uid": "u", "resourceVersion": "7", "labels": {}}}

    assert with_preconditions(manifest, live)["metadata"] == {"name": "a", "uid": "u", "resourceVersion": "7"}
    assert with_preconditions(manifest, {"metadata": {"uid": "u"}})["metadata"] == {"name": "a", "uid": "u"}
    assert with_preconditions(manifest, None) == {"kind": "Shop", "metadata": {"name": "a", "resourceVersion": "1"}}
    assert manifest == {"kind": "Shop", "metadata": {"name": "a"}}


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": None}, {}),
        ({}, {"a": None}, {}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": 1}, {"a": {"b": 2, "c": None}}, {"a": {"b": 2}}),
        ({"a": [1]}, {"a": [2]}, {"a": [2]}),
        ({"a": 1}, [1], [1]),
        ([1], {"a": 1}, {"a": 1}),
        (UserDict({"a": 1}), UserDict({"b": 2}), {"a": 1, "b": 2}),
        (None, {"a": {"b": None}}, {"a": {}}),
    ],
)
def test_a_merge_patch_is_applied_as_in_RFC_7396(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (True, True, True),
        (0, False, False),
        (None, None, True),
        (None, 0, False),
        ("a", "a", True),
        ("a", "b", False),
        (1, "1", False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [1, 2], True),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
        ([1], (1,), True),
        ([], {}, False),
        ({}, [], False),
        ([{"a": [1]}, 2], [{"a": [1]}, 2], True),
        ([{"a": [1]}, 2], [{"a": [1]}, 3], False),
        ([{"a": [1]}], [{"a": [True]}], False),
        ({"a": []}, {"a": None}, False),
        ({"a": UserDict({"b": 1})}, {"a": {"b": 1}}, True),
        ({"a": "x"}, {"a": ["x"]}, False),
        ([[], 1], [[], 2], False),
    ],
)
def test_two_values_are_the_same_json_or_not(first: Any, second: Any, same: bool) -> None:
    assert same_json(first, second) is same
    assert same_json(second, first) is same
    if not isinstance(first, dict | list | tuple):
        assert equal_scalars(first, second) is same


def test_content_is_encoded_in_one_way() -> None:
    assert canonical_json({"b": [1, "é"], "a": None}) == '{"a":null,"b":[1,"é"]}'.encode()
    assert content_hash({"b": 1, "a": 2}) == content_hash({"a": 2, "b": 1}) != content_hash({"a": 2, "b": 2})
    assert content_hash({}) == "44136fa355b3678a"
    assert encoded_fields({"kind": "Shop", "metadata": {}, "spec": {"b": 1, "a": 2}, "items": [1], "data": None}) == {
        "spec": b'{"a":2,"b":1}',
        "items": b"[1]",
    }


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("a" * 63, True),
        ("a" * 64, False),
        ("", False),
        ("a-b_c.d", True),
        ("-a", False),
        ("a.", False),
        ("A", True),
        ("a\n", False),
    ],
)
def test_a_label_value_has_its_rule(text: str, fits: bool) -> None:
    assert is_label_value(text) is fits


@pytest.mark.parametrize(
    ("name", "tail", "limit", "result"),
    [
        ("shop", "1", 6, "shop-1"),
        ("shop", "1", 5, "sho-1"),
        ("shop", "1", 3, "s-1"),
        ("shop", "1", 2, "1"),
        ("shop", "1", 1, "1"),
        ("a--b", "1", 5, "a-1"),
        ("a.-", "12", 5, "a-12"),
        ("---", "12", 4, "12"),
        ("", "1", 5, "-1"),
        ("shop", "", 5, "shop-"),
    ],
)
def test_a_name_is_shortened_before_its_tail(name: str, tail: str, limit: int, result: str) -> None:
    assert closed_name(name, tail, limit) == result


def test_a_limit_without_room_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^a limit of 1 leaves no room for 2 hash digits$"):
        closed_name("a", "12", 1)
    with pytest.raises(ValueError, match=r"^a limit of 9 leaves no room for 10 hash digits$"):
        bounded_name("a" * 10, 9)


def test_a_long_name_ends_with_its_hash() -> None:
    assert bounded_name("a" * 63) == "a" * 63
    assert bounded_name("a" * 64) == "a" * 52 + "-ffe054fe7a"
    assert bounded_name("ab.." + "c" * 20, 14) == "ab-" + bounded_name("ab.." + "c" * 20, 10)
    assert engine_object_name("op", "01234567-89ab") == "op-01234567"
    assert engine_object_name("op", "01234567") == "op-01234567"
    assert engine_object_name("op", "012345678") != "op-01234567"
    assert engine_object_name("o" * 70, "01234567-89ab") == "o" * 54 + "-01234567"
    assert len(engine_object_name("op", "no uid")) == len("op-01234567")


@pytest.mark.parametrize(
    ("text", "levels", "result"),
    [
        ('{"a":1}', 1, '{"a":1}'),
        ('{"a":1}', 0, "null"),
        ('{"a":{"b":1}}', 1, '{"a":null}'),
        ('{"a":{"b":1}}', 2, '{"a":{"b":1}}'),
        ("[[1],[2],3]", 1, "[null,null,3]"),
        ("[[[1]],[2]]", 2, "[[null],[2]]"),
        ('["[[","]",{"a":"\\\\"}]', 1, '["[[","]",null]'),
        ("[[[[1]]]]", 1, "[null]"),
        ("[1", 1, "[1"),
        ("[[1", 1, "[null"),
        ("3", 0, "3"),
        ('[{"a":[1,{"b":2}]},{"c":3}]', 2, '[{"a":null},{"c":3}]'),
    ],
)
def test_what_is_nested_deeper_becomes_null(text: str, levels: int, result: str) -> None:
    assert pruned(text, levels) == result


def test_rights_are_gathered_by_resource_and_name() -> None:
    found = resources(
        [
            Access(SHOP, ("get", "list")),
            Access(SHOP, ("watch",)),
            Access(SHOP, ("patch",), "status"),
            Access(SHOP, ("get",), name="a"),
        ]
    )

    assert found == {
        ("example.com", "shops", ""): {"get", "list", "watch"},
        ("example.com", "shops/status", ""): {"patch"},
        ("example.com", "shops", "a"): {"get"},
    }
    assert service_account_user("n", "a") == "system:serviceaccount:n:a"


REFUSED = 'shops.example.com "a" is forbidden: User "u" cannot {} resource "{}" in API group "{}" {}'


@pytest.mark.parametrize(
    ("message", "right", "shown"),
    [
        (
            REFUSED.format("get", "shops", "example.com", 'in the namespace "n"'),
            Right("get", "example.com", "shops", "n", "u"),
            "get shops.example.com in namespace n",
        ),
        (
            REFUSED.format("list", "pods/log", "", "at the cluster scope"),
            Right("list", "", "pods/log", "", "u"),
            "list pods/log in the whole cluster",
        ),
        (
            REFUSED.format("patch", "shops/status", "example.com", 'in the namespace "n"'),
            Right("patch", "example.com", "shops/status", "n"),
            "patch shops.example.com/status in namespace n",
        ),
        (
            REFUSED.format("impersonate-on:get", "x", "y", 'in the namespace "n"'),
            Right("impersonate", "", "serviceaccounts", "n"),
            "impersonate serviceaccounts in namespace n",
        ),
    ],
)
def test_a_refusal_names_the_missing_right(message: str, right: Right, shown: str) -> None:
    found = refused_right(message)

    assert (found, str(found), Forbidden(message).right) == (right, shown, right)
    assert found is not None
    assert found.user == "u"


def test_other_refusals_name_none() -> None:
    quota, missing = Forbidden("exceeded quota"), Forbidden(REFUSED.format("get", "a", "b", "at the cluster scope"))

    assert quota.right is None
    assert first_refusal([NotFound("x"), quota, missing, Forbidden("y")]) is missing
    assert first_refusal([NotFound(missing.message), quota]) is None


def test_errors_survive_a_process_and_groups_are_opened() -> None:
    conflict = Conflict("m", (FieldConflict("b", ".x"), FieldConflict("a", ".y")))
    conflict.request_id = "r"
    again = pickle.loads(pickle.dumps(conflict))
    late = pickle.loads(pickle.dumps(Unavailable("l", retry_after=2.5, status=503)))

    assert [one.manager for one in again.conflicts] == ["a", "b"]
    assert (type(again), str(again), again.message, again.request_id) == (Conflict, "m", "m", "r")
    assert (late.retry_after, late.status, late.may_have_happened, late.request_id) == (2.5, 503, True, "")
    first, second = ValueError("1"), KeyError("2")
    group = ExceptionGroup("g", [ExceptionGroup("h", [first]), second])
    assert list(leaves_of(group)) == [first, second]
    assert list(leaves_of(first)) == [first]
    assert unwrap_group(ExceptionGroup("g", [ExceptionGroup("h", [first])])) is first
    assert unwrap_group(group) is group
    assert unwrap_group(first) is first


def test_a_column_of_a_definition_finds_its_text() -> None:
    shop = {"status": {"conditions": [{"type": "Other"}, {"type": "Ready", "reason": "Done"}], "count": 3, "text": "a"}}

    assert text_at(shop, ".status.text") == "a"
    assert text_at(shop, ".status.count") == text_at(shop, ".status.none.more") == ""
    assert text_at(shop, condition_path("Ready", "reason")) == "Done"
    assert (
        text_at(shop, condition_path("Gone", "reason"))
        == text_at({"status": {"conditions": {}}}, condition_path("a", "b"))
        == ""
    )
    assert condition_path("Ready", "reason") == '.status.conditions[?(@.type=="Ready")].reason'


def test_a_definition_has_the_names_of_its_kind() -> None:
    full = Definition(
        SHOP,
        "A shop.",
        {"a": 1},
        {"b": 2},
        [Column("A", ".a", priority=1), Column("B", ".b", "date")],
        ["s"],
        ["c"],
        {"r": 3},
    )
    bare = Definition(NODE, "A node.", {}, {}).manifest()
    manifest = full.manifest()

    assert manifest["metadata"] == {"name": "shops.example.com"}
    assert manifest["spec"]["names"] == {
        "kind": "Shop",
        "listKind": "ShopList",
        "plural": "shops",
        "singular": "shop",
        "categories": ["c"],
        "shortNames": ["s"],
    }
    assert (manifest["spec"]["scope"], bare["spec"]["scope"]) == ("Namespaced", "Cluster")
    assert bare["spec"]["names"] == {"kind": "Node", "listKind": "NodeList", "plural": "nodes", "singular": "node"}
    assert full.version()["additionalPrinterColumns"] == [
        {"name": "A", "type": "string", "jsonPath": ".a", "priority": 1},
        {"name": "B", "type": "date", "jsonPath": ".b"},
    ]
    assert full.schema()["r"] == 3
    assert (full.version()["name"], full.version()["served"], full.version()["storage"]) == ("v1", True, True)


def test_rules_of_fields_have_their_text_in_cel_and_their_words() -> None:
    of_value, of_field = formed(DNS_LABEL), formed(DNS_LABEL, of="name", example="web")

    assert of_value.rule == "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')"
    assert (of_field.rule[:18], of_field.field_path, of_value.field_path) == ("self.name.matches(", ".name", "")
    assert (
        of_value.message
        == "must be lower-case letters, digits and hyphens, with a letter or digit at both ends, such as nextcloud"
    )
    assert of_field.refusal(ObjectMeta("A")) == of_field.message + ", not 'A'"
    assert of_field.message.endswith("such as web")
    assert (of_value.holds("a-b", None), of_value.holds("A", None), of_field.holds(ObjectMeta("a"), None)) == (
        True,
        False,
        True,
    )
    assert formed(r"^[a-z][a-zA-Z0-9_]*$").refusal("1").endswith("not '1'")
    assert r"\\d" in formed(EXACT_SEMVER).rule
    assert formed(Form(r"^'\d$", "a quote", "x"), of="a").rule == r"self.a.matches('^\'\\d$')"
    assert (immutable().is_transition, of_value.is_transition, immutable().refusal("a")) == (
        True,
        False,
        "is immutable",
    )
    assert (immutable().holds(1, 1), immutable().holds(1, 2)) == (True, False)
    assert mismatch_message(DNS_LABEL, "A") == of_value.refusal("A")
    assert mismatch_message("^x$", "A") == "does not have the form that is asked for: 'A'"


def test_names_in_an_annotation_are_separated_by_commas() -> None:
    def of(value: Any) -> dict[str, Any]:
        return {"metadata": {"annotations": {"a": value}}}

    assert names_in(of("x, y ,,z"), "a") == {"x", "y", "z"}
    assert (
        names_in(of(""), "a") == names_in(of(None), "a") == names_in(of(3), "a") == names_in(None, "a") == frozenset()
    )
    assert names_in(of("x"), "b") == frozenset()
    assert is_abandoned(ObjectMeta("a", annotations={"vworkspace.io/abandon": "true"}))
    assert not is_abandoned(ObjectMeta("a", annotations={"vworkspace.io/abandon": "yes"}))
    assert not is_abandoned(ObjectMeta("a"))


def review(**request: Any) -> dict[str, Any]:
    body = {"uid": "u", "operation": "CREATE", **request}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": body}


def test_a_review_is_read() -> None:
    full = review(
        namespace="n",
        name="a",
        subResource="status",
        userInfo={"username": "me"},
        object={"b": 1},
        oldObject={"c": 2},
        operation="UPDATE",
    )

    assert read_review(full) == AdmissionRequest(
        "u", AdmissionOperation.UPDATE, "n", "a", "status", "me", {"b": 1}, {"c": 2}
    )
    assert read_review(review(userInfo=None)) == AdmissionRequest("u", AdmissionOperation.CREATE)
    assert read_review(review(object={"b": 1})).written == {"b": 1}
    assert read_review(full).written is None
    assert read_review(review(operation="DELETE", object={"b": 1})).written is None
    assert read_review(review(operation="CONNECT", object={"b": 1})).written is None
    assert read_review(review(operation="UPDATE", object={"b": 1})).written == {"b": 1}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ([], "the body is no JSON object"),
        ({}, "the body is no admission.k8s.io/v1 AdmissionReview"),
        ({**review(), "apiVersion": "admission.k8s.io/v1beta1"}, "the body is no admission.k8s.io/v1 AdmissionReview"),
        ({**review(), "kind": "Other"}, "the body is no admission.k8s.io/v1 AdmissionReview"),
        ({**review(), "request": None}, "request: is required"),
        (review(uid=""), "request.uid: is required"),
        (review(uid=3), "request.uid: is required"),
        (review(operation="create"), "request.operation: must be one of CREATE, UPDATE, DELETE, CONNECT"),
        (review(operation=None), "request.operation: must be one of CREATE, UPDATE, DELETE, CONNECT"),
        (review(namespace=3), "request.namespace: must be a string"),
        (review(name=3), "request.name: must be a string"),
        (review(subResource=3), "request.subResource: must be a string"),
        (review(object=3), "request.object: must be an object"),
        (review(oldObject=[]), "request.oldObject: must be an object"),
    ],
)
def test_a_malformed_review_is_refused(body: Any, problem: str) -> None:
    with pytest.raises(MalformedReview) as error:
        read_review(body)

    assert str(error.value) == problem


def test_a_review_is_answered() -> None:
    asked = AdmissionRequest("u", AdmissionOperation.CREATE)
    frame = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    problems = [Problem(f"p{at}", "token=abcdef1") for at in range(40)]

    assert allowed(asked) == patched(asked, []) == {**frame, "response": {"uid": "u", "allowed": True}}
    assert allowed(asked, [Problem("a", "b" * 300)])["response"]["warnings"] == ["a: " + "b" * 253]
    assert allowed(asked, problems)["response"]["warnings"] == [f"p{at}: token=***" for at in range(MOST_PROBLEMS)]
    assert patched(asked, [{"op": "add"}])["response"] == {
        "uid": "u", "allowed": True, "patchType": "JSONPatch", "patch": "W3sib3AiOiJhZGQifV0=",
    }  # fmt: skip
    answer = refused(asked, problems)
    status = answer["response"]["status"]
    assert (answer["kind"], answer["response"]["uid"], answer["response"]["allowed"]) == ("AdmissionReview", "u", False)
    assert {name: value for name, value in status.items() if name not in ("message", "details")} == {
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid",
    }  # fmt: skip
    assert len(status["details"]["causes"]) == MOST_PROBLEMS
    assert status["details"]["causes"][0] == {"reason": "FieldValueInvalid", "message": "token=***", "field": "p0"}
    assert status["message"].startswith("p0: token=***; p1: token=***")
    assert (
        len(refused(asked, [Problem("a", "b" * 4_000), Problem("c", "d" * 4_000)])["response"]["status"]["message"])
        == 4_096
    )
