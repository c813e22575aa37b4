"""Conversions: hub and spokes, what is kept in an annotation, reviews (PH-8, L23)."""

import json
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.schema import compile_schema
from purekube.schema.objectmeta import with_type_meta
from purekube.versions import (
    BrokenRoundTrip,
    Conversion,
    ConversionFailed,
    Converter,
    MalformedConversionReview,
    answer_review,
    check_round_trips,
    preservation_annotation,
)
from purekube.versions.converter import LARGEST_ANNOTATIONS

GROUP = "shops.example"
TEXT = {"type": "string"}
PART = {"type": "object", "properties": {"name": TEXT, "image": TEXT, "cpu": {"type": "integer"}}, "required": ["name"]}
NEW = {
    "size": {"type": "integer"},
    "tls": {"type": "object", "properties": {"secret": TEXT, "policy": TEXT}},
    "parts": {
        "type": "array",
        "items": PART,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    },
    "tier": {"type": "string", "default": "one"},
}
OLD = {
    "replicas": {"type": "integer"},
    "secret": TEXT,
    "images": {"type": "object", "additionalProperties": TEXT},
    "note": TEXT,
}


def schema(fields: dict[str, Any]) -> Any:
    spec = {"type": "object", "properties": fields}
    return with_type_meta(compile_schema({"type": "object", "properties": {"spec": spec}}))


def up(old: Any) -> Any:
    """`replicas` is renamed, `secret` moved, parts have more to say than their images; `note` is dropped."""
    spec = old.get("spec") or {}
    new: dict[str, Any] = {}
    if "replicas" in spec:
        new["size"] = spec["replicas"]
    if "secret" in spec:
        new["tls"] = {"secret": spec["secret"]}
    if "images" in spec:
        new["parts"] = [{"name": name, "image": image} for name, image in spec["images"].items()]
    return {**old, "spec": new}


def down(new: Any) -> Any:
    spec = new.get("spec") or {}
    old: dict[str, Any] = {}
    if "size" in spec:
        old["replicas"] = spec["size"]
    if "secret" in spec.get("tls", {}):
        old["secret"] = spec["tls"]["secret"]
    images = {part["name"]: part["image"] for part in spec.get("parts", ()) if "image" in part}
    if images:
        old["images"] = images
    return {**new, "spec": old}


SCHEMAS = {"v1": schema(NEW), "v1alpha1": schema(OLD)}
KEEPING = Converter.of(
    GROUP, "Shop", "v1", Conversion("v1alpha1", up, down, keeps=True, hub_keeps=True), schemas=SCHEMAS
)
PLAIN = Converter.of(GROUP, "Shop", "v1", Conversion("v1alpha1", up, down), schemas=SCHEMAS)


def shop(version: str, **spec: Any) -> dict[str, Any]:
    meta = {"name": "a", "namespace": "team", "uid": "u", "labels": {"a": "b"}}
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Shop", "metadata": meta, "spec": spec}


names = st.sampled_from(["web", "db", "job"])
texts = st.sampled_from(["x", "y", ""])
parts = st.lists(
    st.fixed_dictionaries({"name": names}, optional={"image": texts, "cpu": st.integers(0, 3)}),
    max_size=3,
    unique_by=lambda part: part["name"],
)
new_specs = st.fixed_dictionaries(
    {"tier": texts},
    optional={
        "size": st.integers(0, 3),
        "parts": parts,
        "tls": st.fixed_dictionaries({}, optional={"secret": texts, "policy": texts}),
    },
)
old_specs = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(0, 3),
        "secret": texts,
        "images": st.dictionaries(names, texts, max_size=3),
        "note": texts,
    },
)


@given(new_specs)
@example({"tier": "one", "parts": [{"name": "web", "cpu": 1}, {"name": "db", "image": "x", "cpu": 2}]})
@example({"tier": "x", "tls": {}, "parts": []})
def test_conversion_of_the_storage_version_and_back_is_the_identity(spec: dict[str, Any]) -> None:
    """L23: `up(down(x)) == x`, whatever the old version cannot hold; the annotation is gone again."""
    stored = shop("v1", **spec)
    assert KEEPING.convert(KEEPING.convert(stored, "v1alpha1"), "v1") == stored
    assert check_round_trips(KEEPING, "v1alpha1", [stored]) == 1


@given(old_specs)
@example({"note": "x"})
@example({"images": {}})
def test_conversion_of_an_old_version_and_back_is_the_identity(spec: dict[str, Any]) -> None:
    """L23: `down(up(y)) == y`."""
    old = shop("v1alpha1", **spec)
    assert KEEPING.convert(KEEPING.convert(old, "v1"), "v1alpha1") == old


@given(new_specs, old_specs)
@example(
    {"tier": "x", "tls": {"policy": "p"}, "parts": [{"name": "db", "cpu": 1}]}, {"secret": "s", "images": {"web": "x"}}
)
def test_conversion_lets_a_change_in_the_other_version_win(spec: dict[str, Any], changed: dict[str, Any]) -> None:
    """What the old version can say is what it says, whatever the annotation kept."""
    seen = KEEPING.convert(shop("v1", **spec), "v1alpha1")
    written = KEEPING.convert({**seen, "spec": changed}, "v1")
    assert KEEPING.convert(written, "v1alpha1")["spec"] == changed
    assert written["spec"].get("size") == changed.get("replicas")
    assert written["spec"]["tier"] == spec["tier"], "the old version has nothing to say about it"
    if "policy" in spec.get("tls", {}) and "secret" not in spec["tls"]:
        assert written["spec"]["tls"]["policy"] == spec["tls"]["policy"], "nor about this"
    unseen = {part["name"] for part in spec.get("parts", ()) if "image" not in part}
    assert unseen <= {part["name"] for part in written["spec"].get("parts", ())}, "nor about these"


def test_conversion_keeps_the_rest_of_an_item_that_the_other_version_changes() -> None:
    stored = shop("v1", tier="one", parts=[{"name": "web", "image": "x", "cpu": 1}, {"name": "db", "cpu": 2}])
    seen = KEEPING.convert(stored, "v1alpha1")
    seen["spec"]["images"]["web"] = "y"
    again = KEEPING.convert(seen, "v1")
    assert again["spec"]["parts"] == [{"name": "web", "image": "y", "cpu": 1}, {"name": "db", "cpu": 2}]


def test_conversion_keeps_what_the_other_version_cannot_hold_where_it_adds_something_beside_PH_8() -> None:
    """The old version saw nothing of `tls` and `parts`, for which it has words all the same."""
    stored = shop("v1", tier="one", tls={"policy": "strict"}, parts=[{"name": "job", "cpu": 2}, {"name": "db"}])
    seen = KEEPING.convert(stored, "v1alpha1")
    assert seen["spec"] == {}
    seen["spec"] = {"secret": "s", "images": {"web": "x", "db": "y"}}

    again = KEEPING.convert(seen, "v1")["spec"]
    assert again["tls"] == {"secret": "s", "policy": "strict"}
    assert again["parts"] == [{"name": "job", "cpu": 2}, {"name": "web", "image": "x"}, {"name": "db", "image": "y"}]


def up_in_order(old: Any) -> Any:
    """As the API server writes it: the keys of an object are sorted."""
    images = (old.get("spec") or {}).get("images") or {}
    return {**old, "spec": {"parts": [{"name": name, "image": images[name]} for name in sorted(images)]}}


def test_conversion_keeps_the_rest_of_items_that_come_back_in_another_order_PH_8() -> None:
    conversion = Conversion("v1alpha1", up_in_order, down, keeps=True)
    converter = Converter.of(GROUP, "Shop", "v1", conversion, schemas=SCHEMAS)
    parts = [{"name": "web", "image": "x", "cpu": 1}, {"name": "db", "image": "y", "cpu": 2}, {"name": "job", "cpu": 3}]
    stored = shop("v1", tier="one", parts=parts)
    seen = converter.convert(stored, "v1alpha1")
    assert converter.convert(seen, "v1") == stored

    seen["spec"]["images"] = {"db": "z"}
    again = converter.convert(seen, "v1")["spec"]["parts"]
    assert sorted(again, key=lambda part: part["name"]) == [
        {"name": "db", "image": "z", "cpu": 2},
        {"name": "job", "cpu": 3},
    ]


def test_conversion_touches_no_metadata_but_its_annotation() -> None:
    stored = shop("v1", tier="x")
    seen = KEEPING.convert(stored, "v1alpha1")
    assert {**seen["metadata"], "annotations": None} == {**stored["metadata"], "annotations": None}
    assert list(seen["metadata"]["annotations"]) == [preservation_annotation("v1")]
    assert json.loads(seen["metadata"]["annotations"][preservation_annotation("v1")]) == [
        {"at": ["spec", "tier"], "was": "x", "became": "one"}
    ]


HOSTILE = ["", "{", "[]", "[1]", "{}", '[{"at": []}]', '[{"at": ["metadata", "uid"], "was": "x"}]', "[" * 100_000]
HOSTILE += ['[{"at": ["spec", {"name": 1}, "x"], "was": 1}]', '[{"at": [{}], "was": 1}]', '[{"at": ["spec", 3]}]']


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_conversion_reads_past_an_annotation_that_somebody_made(text: str) -> None:
    old = shop("v1alpha1", replicas=2)
    old["metadata"]["annotations"] = {preservation_annotation("v1"): text, "mine": "x"}
    made = KEEPING.convert(old, "v1")
    assert made["spec"] == {"size": 2, "tier": "one"}
    assert made["metadata"]["annotations"] == {"mine": "x"}
    assert made["metadata"]["uid"] == "u"


def test_conversion_that_loses_a_field_is_named_with_it() -> None:
    """The field, what it was, what it became, and what would keep it."""
    with pytest.raises(BrokenRoundTrip) as caught:
        check_round_trips(PLAIN, "v1alpha1", [shop("v1", tier="one", tls={"secret": "s", "policy": "p"})])
    told = "v1 to v1alpha1 and back changes spec.tls.policy: 'p' becomes nothing (`keeps: annotation` keeps what"
    assert str(caught.value).startswith(f"conversion of v1alpha1: {told}")
    assert caught.value.part == "up"
    with pytest.raises(BrokenRoundTrip, match=r"changes spec\.note: 'n' becomes nothing"):
        check_round_trips(PLAIN, "v1alpha1", [shop("v1alpha1", note="n")])
    with pytest.raises(BrokenRoundTrip, match=r"changes spec\.parts\[name=web\]: .* becomes nothing"):
        check_round_trips(
            PLAIN, "v1alpha1", [shop("v1", tier="one", parts=[{"name": "web"}, {"name": "db", "image": ""}])]
        )


@pytest.mark.parametrize("given_version", ["v1", "v1alpha1"])
@pytest.mark.parametrize("part", ["up", "down"])
def test_a_function_that_fails_in_a_round_trip_is_named_with_its_part(part: str, given_version: str) -> None:
    functions = {"up": up, "down": down, part: raising}
    converter = Converter.of(GROUP, "Shop", "v1", Conversion("v1alpha1", functions["up"], functions["down"]))
    example = shop("v1", tier="one") if given_version == "v1" else shop("v1alpha1", replicas=1)

    with pytest.raises(BrokenRoundTrip, match=f"gives no object of {'v1' if part == 'up' else 'v1alpha1'}:") as caught:
        check_round_trips(converter, "v1alpha1", [example])
    assert (caught.value.version, caught.value.part) == ("v1alpha1", part)


def raising(manifest: Any) -> Any:
    raise KeyError("size")


def other_name(manifest: Any) -> Any:
    return {**manifest, "metadata": {**manifest["metadata"], "name": "b"}}


BROKEN = [
    (raising, "'size'"),
    (lambda manifest: None, "gives NoneType, and no object"),
    (other_name, "may not change metadata.name"),
    (lambda manifest: {**manifest, "metadata": []}, "metadata that is no object"),
    (lambda manifest: {**manifest, "metadata": {**manifest["metadata"], "labels": {"a": 1}}}, "labels must be texts"),
]


@pytest.mark.parametrize(("function", "told"), BROKEN, ids=[told for _, told in BROKEN])
def test_conversion_by_a_function_that_goes_wrong_names_the_object(function: Any, told: str) -> None:
    converter = Converter.of(GROUP, "Shop", "v1", Conversion("v1alpha1", function, function))
    with pytest.raises(ConversionFailed, match=told) as caught:
        converter.convert(shop("v1"), "v1alpha1")
    assert str(caught.value).startswith("Shop team/a (shops.example/v1) as shops.example/v1alpha1: ")


def test_conversion_between_two_spokes_goes_by_the_hub() -> None:
    third = Conversion("v1beta1", lambda one: one, lambda one: one)
    converter = Converter.of(
        GROUP, "Shop", "v1", KEEPING.spokes["v1alpha1"], third, schemas={**SCHEMAS, "v1beta1": SCHEMAS["v1"]}
    )
    old = shop("v1alpha1", replicas=3, secret="s", note="kept")
    middle = converter.convert(old, "v1beta1")
    assert middle["spec"] == {"size": 3, "tls": {"secret": "s"}, "tier": "one"}
    assert converter.convert(middle, "v1alpha1") == old
    with pytest.raises(ValueError, match="v1 is there twice"):
        Converter.of(GROUP, "Shop", "v1", Conversion("v1", up, down))


def review(*objects: Any, version: str = f"{GROUP}/v1") -> dict[str, Any]:
    request = {"uid": "r", "desiredAPIVersion": version, "objects": list(objects)}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}


def test_a_conversion_review_is_answered_object_by_object() -> None:
    given = [shop("v1alpha1", replicas=1), shop("v1", tier="x")]
    before = deepcopy(given)
    response = answer_review(review(*given), [KEEPING])["response"]
    assert (response["uid"], response["result"]) == ("r", {"status": "Success"})
    assert [converted_obj["spec"] for converted_obj in response["convertedObjects"]] == [
        {"size": 1, "tier": "one"},
        {"tier": "x"},
    ]
    assert given == before
    assert answer_review(review(), [KEEPING])["response"]["convertedObjects"] == []


@pytest.mark.parametrize(
    ("objects", "version", "told"),
    [
        ((shop("v1"), shop("v7")), f"{GROUP}/v1", "Shop team/a (shops.example/v7) as shops.example/v1: Shop has no"),
        ((shop("v1"),), f"{GROUP}/v7", "has no version v7, but v1, v1alpha1"),
        (({**shop("v1"), "kind": "Other"},), f"{GROUP}/v1", "nothing here converts this kind"),
        ((shop("v1"),), "v1", "nothing here converts this kind"),
        (({**shop("v1"), "apiVersion": "other/v1"},), f"{GROUP}/v1alpha1", "is no Shop of shops.example"),
        ((3,), f"{GROUP}/v1", "is no JSON object"),
    ],
)
def test_a_conversion_review_fails_as_a_whole_and_names_the_object(
    objects: tuple[Any, ...], version: str, told: str
) -> None:
    response = answer_review(review(*objects, version=version), [KEEPING])["response"]
    assert response["convertedObjects"] == []
    assert response["result"]["status"] == "Failure"
    assert told in response["result"]["message"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


@given(json_values, st.sampled_from(["body", "request", "objects", "object", "metadata", "spec"]))
def test_a_conversion_review_of_any_shape_ends_in_an_answer_or_a_named_refusal(value: Any, where: str) -> None:
    given = review(shop("v1alpha1", replicas=1))
    match where:
        case "body":
            given = value
        case "request":
            given["request"] = value
        case "objects":
            given["request"]["objects"] = value
        case "object":
            given["request"]["objects"] = [value]
        case _:
            given["request"]["objects"][0][where] = value
    with suppress(MalformedConversionReview):
        assert answer_review(given, [KEEPING])["response"]["result"]["status"] in ("Success", "Failure")


REVIEW = review(shop("v1"))
NO_LISTS: list[Any] = [None, {}, "x"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ([], "the body is no JSON object"),
        ({**REVIEW, "apiVersion": "v1"}, "the body is no apiextensions.k8s.io/v1 ConversionReview"),
        ({**REVIEW, "kind": "AdmissionReview"}, "the body is no apiextensions.k8s.io/v1 ConversionReview"),
        ({**REVIEW, "request": []}, "request: is required"),
        *(
            ({**REVIEW, "request": {**REVIEW["request"], name: value}}, f"request.{name}: is required")
            for name in ("uid", "desiredAPIVersion")
            for value in (None, "", 3, ["x"])
        ),
        *(
            ({**REVIEW, "request": {**REVIEW["request"], "objects": value}}, "request.objects: must be a list")
            for value in NO_LISTS
        ),
    ],
)
def test_a_body_that_is_no_conversion_review_is_refused_at_its_field(body: Any, told: str) -> None:
    with pytest.raises(MalformedConversionReview) as refused:
        answer_review(body, [KEEPING])
    assert str(refused.value) == told


@pytest.mark.parametrize("version", ["v1", "v7"])
def test_an_answer_is_a_conversion_review_with_nothing_but_a_response(version: str) -> None:
    answer = answer_review(review(shop("v1"), version=f"{GROUP}/{version}"), [KEEPING])

    assert {**answer, "response": None} == {
        "apiVersion": REVIEW["apiVersion"],
        "kind": REVIEW["kind"],
        "response": None,
    }
    assert answer["response"].keys() == {"uid", "result", "convertedObjects"}


def test_a_converter_takes_its_own_kind_alone() -> None:
    for other in ({**shop("v1"), "kind": "Other"}, {**shop("v1"), "apiVersion": "other/v1"}):
        with pytest.raises(ConversionFailed, match=r"is no Shop of shops\.example"):
            KEEPING.convert(other, "v1alpha1")


def converting(function: Any) -> dict[str, Any]:
    """A Shop of the old version by this function."""
    return Converter.of(GROUP, "Shop", "v1", Conversion("v1alpha1", function, function)).convert(shop("v1"), "v1alpha1")


def test_a_function_may_say_itself_why_it_fails() -> None:
    refused = ConversionFailed(shop("v1"), "v1alpha1", "no tls")

    def refusing(one: Any) -> Any:
        raise refused

    with pytest.raises(ConversionFailed) as caught:
        converting(refusing)
    assert caught.value is refused


def test_a_function_need_not_say_version_kind_and_metadata() -> None:
    expected = {**shop("v1alpha1"), "spec": {"a": 1}}
    assert converting(lambda one: {"spec": {"a": 1}}) == expected
    assert converting(lambda one: {"apiVersion": "x", "kind": "y", "spec": {"a": 1}}) == expected
    labels = {**shop("v1")["metadata"], "labels": {"c": "d"}}
    assert converting(lambda one: {"metadata": labels, "spec": {"a": 1}}) == {**expected, "metadata": labels}


def wordless(manifest: Any) -> Any:
    raise ValueError


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"finalizers": ["a"]}, "a conversion may not change metadata.finalizers"),
        ({"uid": None}, "a conversion may not change metadata.uid"),
        ({"labels": ["a"]}, "metadata.labels must be texts"),
        ({"labels": {"a": "b", "c": 1}}, "metadata.labels must be texts"),
        ({"annotations": {"a": None, "c": "d"}}, "metadata.annotations must be texts"),
    ],
)
def test_a_function_may_change_labels_and_annotations_alone(change: dict[str, Any], told: str) -> None:
    meta = {key: value for key, value in {**shop("v1")["metadata"], **change}.items() if value is not None}
    with pytest.raises(ConversionFailed, match=f"{told}$"):
        converting(lambda one: {**one, "metadata": meta})
    with pytest.raises(ConversionFailed, match=r"ValueError$"):
        converting(wordless)


@pytest.mark.parametrize(("keeps", "hub_keeps"), [(True, False), (False, True), (False, False)])
def test_each_version_keeps_what_the_other_cannot_hold_where_it_is_asked_to(keeps: bool, hub_keeps: bool) -> None:
    conversion = Conversion("v1alpha1", up, down, keeps=keeps, hub_keeps=hub_keeps)
    converter = Converter.of(GROUP, "Shop", "v1", conversion, schemas=SCHEMAS)
    new, old = shop("v1", tier="one", tls={"secret": "s", "policy": "p"}), shop("v1alpha1", note="n")
    for one in (new, old):
        one["metadata"]["annotations"] = {"mine": "stays"}

    made_old, made_new = converter.convert(new, "v1alpha1"), converter.convert(old, "v1")
    assert [len(made["metadata"]["annotations"]) for made in (made_old, made_new)] == [1 + keeps, 1 + hub_keeps]
    assert all(made["metadata"]["annotations"]["mine"] == "stays" for made in (made_old, made_new))
    assert (converter.convert(made_old, "v1") == new) is keeps
    assert (converter.convert(made_new, "v1alpha1") == old) is hub_keeps
    plain = converter.without_annotations()
    assert [plain.convert(*each)["metadata"] for each in ((new, "v1alpha1"), (old, "v1"))] == [new["metadata"]] * 2


def test_annotations_keep_as_much_as_an_api_server_takes_and_no_more() -> None:
    def converted(length: int) -> dict[str, str]:
        made = KEEPING.convert(shop("v1alpha1", note="n" * length), "v1")
        annotations: dict[str, str] = made["metadata"]["annotations"]
        return annotations

    least = sum(len(name) + len(text) for name, text in converted(1).items()) - 1
    assert (
        sum(len(name) + len(text) for name, text in converted(LARGEST_ANNOTATIONS - least).items())
        == LARGEST_ANNOTATIONS
    )
    with pytest.raises(ConversionFailed, match=f"all annotations have {LARGEST_ANNOTATIONS} together"):
        converted(LARGEST_ANNOTATIONS - least + 1)


def up_to_a_text(old: Any) -> Any:
    return {**old, "spec": {"size": "x"}}


def down_by_counting(new: Any) -> Any:
    return {**new, "spec": {"replicas": new["spec"]["size"] + 1}}


@pytest.mark.parametrize("kept", [True, False])
def test_an_invalid_object_of_a_round_trip_is_told_before_what_follows_from_it(kept: bool) -> None:
    conversion = Conversion("v1alpha1", up_to_a_text, down_by_counting, keeps=kept, hub_keeps=kept)
    converter = Converter.of(GROUP, "Shop", "v1", conversion, schemas=SCHEMAS)

    with pytest.raises(BrokenRoundTrip, match=r"gives no valid object of v1: spec\.size: ") as caught:
        check_round_trips(converter, "v1alpha1", [shop("v1alpha1", replicas=1)])
    assert caught.value.part == "up"


def unlabelled(manifest: Any) -> Any:
    return {**manifest, "metadata": {**manifest["metadata"], "labels": {}}}


@pytest.mark.parametrize("keeps", [True, False])
def test_what_a_round_trip_changes_is_told_in_short_with_a_hint_where_one_helps(keeps: bool) -> None:
    conversion = Conversion("v1alpha1", up, unlabelled, keeps=keeps)
    with pytest.raises(BrokenRoundTrip) as caught:
        check_round_trips(Converter.of(GROUP, "Shop", "v1", conversion), "v1alpha1", [shop("v1alpha1")])
    hint = "" if keeps else " (`keeps: annotation` keeps what the other version cannot hold)"
    told = "v1alpha1 to v1 and back changes metadata.labels: {'a': 'b'} becomes {}"
    assert (caught.value.part, caught.value.message) == ("down", told + hint)
    for length, shown in ((78, f"'{'n' * 78}'"), (79, f"'{'n' * 79}…")):
        with pytest.raises(BrokenRoundTrip) as caught:
            check_round_trips(PLAIN, "v1alpha1", [shop("v1alpha1", note="n" * length)])
        assert f"changes spec.note: {shown} becomes nothing" in caught.value.message


@pytest.mark.parametrize(("before", "after"), [({"a": "b"}, None), (None, {"a": "b"})])
def test_labels_that_come_or_go_in_a_round_trip_are_told(before: Any, after: Any) -> None:
    def relabelled(manifest: Any) -> Any:
        meta = {key: value for key, value in {**manifest["metadata"], "labels": after}.items() if value is not None}
        return {**manifest, "metadata": meta}

    given = shop("v1alpha1")
    given["metadata"] = {key: value for key, value in {**given["metadata"], "labels": before}.items() if value}
    converter = Converter.of(GROUP, "Shop", "v1", Conversion("v1alpha1", up, relabelled, keeps=True))
    with pytest.raises(BrokenRoundTrip, match=f"changes metadata.labels: {before} becomes {after}$"):
        check_round_trips(converter, "v1alpha1", [given])
