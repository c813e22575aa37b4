"""PH-8: the answers to reviews of a kind whose functions validate and default its objects."""

import json
from base64 import b64decode
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.writes.patches import json_patch
from purekube.apimachinery.admission_review import AdmissionOperation, AdmissionRequest
from purekube.reconcilers import Resource, resource, reviewed, versioned
from purekube.reconcilers.kind_reviews import answer_defaulting, answer_validation, review_problem, webhook_needs
from tests.support.reviewed_shop import (
    PLAIN,
    SHOP,
    SPECS,
    ShopSpec,
    ShopStatus,
    default,
    growing,
    raising,
    request,
    shop,
    too_large,
)


def test_the_user_and_the_old_object_are_known_and_a_warning_admits_PH_8() -> None:
    smaller = request(shop(size=3), shop(size=5), user="boss")
    assert answer_validation(SHOP, smaller)["response"] == {"uid": "uid", "allowed": True}
    warned = answer_validation(SHOP, request(shop(size=51)))["response"]
    assert warned == {
        "uid": "uid",
        "allowed": True,
        "warnings": ["spec.size: large shops are closed on Mondays"],
    }


@pytest.mark.parametrize(
    "left_alone",
    [
        request(shop(tags=["corner"]), subresource="status"),
        AdmissionRequest("uid", AdmissionOperation.DELETE, old_object=shop()),
        request({**shop(tags=["corner"]), "metadata": {"name": "corner", "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    ],
)
def test_nothing_else_is_reviewed_PH_8(left_alone: AdmissionRequest) -> None:
    for answer in (answer_validation, answer_defaulting):
        assert answer(SHOP, left_alone)["response"] == {"uid": "uid", "allowed": True}


def test_a_function_thatraisings_refuses_and_says_so_PH_8() -> None:
    broken = reviewed(PLAIN, validate=raising, default=raising)
    for answer, name in ((answer_validation, "validate"), (answer_defaulting, "default")):
        response = answer(broken, request(shop()))["response"]
        assert response["allowed"] is False
        assert f"`{name}` of the kind raised KeyError: 'oops'" in response["status"]["message"]


def test_a_spec_that_its_classes_cannot_read_is_the_schemas_to_refuse_PH_8() -> None:
    unread = request(shop(size="large"))
    assert answer_defaulting(SHOP, unread)["response"]["allowed"] is True
    assert answer_validation(SHOP, unread)["response"]["status"]["details"]["causes"][0]["field"] == "spec.size"
    older = answer_validation(SHOP, request(shop(size=1), shop(size="large")))
    assert older["response"]["allowed"] is True, "an old object that cannot be read does not block its correction"


def test_a_status_that_does_not_fit_blocks_no_write_and_hides_no_old_object_PH_8() -> None:
    odd = {"status": {"conditions": [{"type": "Ready", "status": "Perhaps"}]}}
    smaller = request({**shop(size=3), **odd}, {**shop(size=5), **odd})
    assert answer_validation(SHOP, smaller)["response"]["status"]["message"].startswith("spec.size: only the boss")
    assert answer_validation(SHOP, attrs.evolve(smaller, user="boss"))["response"]["allowed"] is True
    assert "patch" in answer_defaulting(SHOP, smaller)["response"]


@given(SPECS, st.booleans())
def test_the_patch_of_defaults_makes_of_an_object_what_the_function_makes_of_its_spec_PH_8(
    given_spec: ShopSpec, has_spec: bool
) -> None:
    given_shop = SHOP.new("corner", given_spec if has_spec else ShopSpec())
    written = SHOP.manifest(given_shop) if has_spec else {**shop(), "spec": None}
    response = answer_defaulting(SHOP, request(written))["response"]
    patch = json.loads(b64decode(response["patch"])) if "patch" in response else []
    assert SHOP.read(json_patch(written, patch)).spec == default(given_shop)


def test_a_field_that_the_function_takes_away_is_removed_and_one_that_nobody_wrote_is_not_PH_8() -> None:
    bare = reviewed(PLAIN, default=lambda given_shop: attrs.evolve(given_shop.spec, host=None))
    response = answer_defaulting(bare, request(shop(host="h.example")))["response"]
    assert json.loads(b64decode(response["patch"])) == [{"op": "remove", "path": "/spec/host"}]
    assert "patch" not in answer_defaulting(bare, request(shop()))["response"]


@attrs.frozen
class Door:
    """A part of a spec, with a field that no attribute can have."""

    width: int = 1
    note: str | None = None
    SCHEMA = {"properties": {"read-at": {"type": "string"}}}  # noqa: RUF012


@attrs.frozen
class HouseSpec:
    """A spec with such parts."""

    door: Door = Door()
    doors: tuple[Door, ...] = ()


HOUSE = resource("shops.example", "v1", "House", HouseSpec, ShopStatus)


def house(**spec: Any) -> dict[str, Any]:
    return {**HOUSE.kind.manifest("corner", "team"), "spec": spec}


def defaulted(function: Callable[[HouseSpec], HouseSpec], written: dict[str, Any]) -> Any:
    """Return the spec that is stored."""
    kind = reviewed(HOUSE, default=lambda given_house: function(given_house.spec))
    response = answer_defaulting(kind, request(written))["response"]
    patch = json.loads(b64decode(response["patch"])) if "patch" in response else []
    return json_patch(written, patch)["spec"]


@pytest.mark.parametrize(
    ("functions", "told"),
    [
        ({"validate": lambda _: ["must not be small"]}, "it found 'must not be small', which is no Problem and no Adm"),
        ({"validate": lambda _: "no"}, "it found 'n', which is no Problem and no AdmissionWarning"),
        ({"default": lambda _: HOUSE.read({"metadata": {}})}, "raised ValidationProblems: "),
        ({"default": lambda _: None}, "it returned a NoneType, not a ShopSpec"),
        ({"default": lambda given_shop: given_shop}, "it returned a Object, not a ShopSpec"),
    ],
)
def test_an_answer_of_another_type_refuses_and_says_so_PH_8(functions: Any, told: str) -> None:
    broken = reviewed(PLAIN, **functions)
    answer = answer_validation if "validate" in functions else answer_defaulting
    response = answer(broken, request(shop()))["response"]
    assert response["allowed"] is False
    assert told in response["status"]["message"]
    assert told in review_problem(broken, shop())


def test_a_default_with_a_dict_in_the_place_of_a_class_refuses_and_names_the_field_PH_8() -> None:
    broken = reviewed(HOUSE, default=lambda _: HouseSpec(doors=({"width": 1},)))  # type: ignore[arg-type]
    response = answer_defaulting(broken, request(house()))["response"]
    assert response["allowed"] is False
    assert "raised TypeError: doors is a dict, not of the class of its field" in response["status"]["message"]
    assert "TypeError: doors is a dict" in review_problem(broken, house())


def wide(door: Door) -> Door:
    return Door(9)


def test_a_default_keeps_the_fields_that_no_class_declares_PH_8() -> None:
    old = {"width": 1, "note": "old", "read-at": "noon"}
    new = {"width": 9, "read-at": "noon"}
    assert defaulted(lambda spec: HouseSpec(wide(spec.door)), house(door=old)) == {"door": new}
    both = house(doors=[old, {"read-at": "night"}])
    every = defaulted(lambda spec: attrs.evolve(spec, doors=tuple(map(wide, spec.doors))), both)
    assert every == {"doors": [new, {"width": 9, "read-at": "night"}]}


@given(st.lists(st.integers(0, 3), max_size=4), st.lists(st.integers(0, 5), max_size=5))
@example([1, 2], [2, 1])
@example([1, 2], [2])
@example([1], [0, 1])
def test_a_default_that_moves_adds_or_removes_items_keeps_the_others_as_written_PH_8(
    before: list[int], after: list[int]
) -> None:
    written = house(doors=[{"width": width, "read-at": f"{width}"} for width in before])
    doors = defaulted(lambda spec: attrs.evolve(spec, doors=tuple(map(Door, after))), written).get("doors", [])
    assert [door["width"] for door in doors] == after
    common = sum((Counter(before) & Counter(after)).values())
    assert sum(door.get("read-at") == f"{door['width']}" for door in doors) == common


def test_a_new_object_without_a_name_is_reviewed_too_PH_8() -> None:
    nameless = {**shop(size=51), "metadata": {"generateName": "shop-", "creationTimestamp": None}}
    response = answer_defaulting(reviewed(PLAIN, default=lambda _: ShopSpec(7)), request(nameless))["response"]
    assert json.loads(b64decode(response["patch"])) == [{"op": "add", "path": "/spec/size", "value": 7}]
    assert answer_validation(SHOP, request(nameless))["response"]["warnings"]
    assert answer_validation(SHOP, request({**nameless, "metadata": {}}))["response"]["allowed"] is False


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (SHOP, ""),
        (PLAIN, ""),
        (reviewed(PLAIN, default=growing), "`default` is not idempotent: from its own {"),
        (reviewed(PLAIN, default=too_large), "`default` makes an object that the API server refuses: spec.size"),
        (reviewed(PLAIN, validate=raising), "a function that reviews it raised KeyError: 'oops'; the spec was {"),
        (reviewed(PLAIN, default=raising), "a function that reviews it raised KeyError: 'oops'; the spec was {"),
    ],
)
def test_an_example_shows_the_mistakes_of_functions_PH_8(kind: Resource[Any, Any], told: str) -> None:
    found = review_problem(kind, shop(tags=["a"]))
    assert found.startswith(told)
    assert bool(found) is bool(told)


def test_a_kind_says_what_it_needs_webhooks_for_PH_8() -> None:
    assert [webhook_needs(kind) for kind in (PLAIN, SHOP, versioned(SHOP))] == ["", *["validation, defaults"] * 2]
    assert [kind.needs_webhooks for kind in (PLAIN, SHOP)] == [False, True]
