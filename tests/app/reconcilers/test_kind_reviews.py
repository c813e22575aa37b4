"""PH-8: validation and defaults of a kind in Python, in its webhooks and in a cluster in memory."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.admission_review import AdmissionOperation, AdmissionRequest
from purekube.apimachinery.errors import Invalid
from purekube.reconcilers import (
    Admission,
    AdmissionWarning,
    Object,
    Problem,
    Resource,
    resource,
    reviewed,
    schema_field,
    versioned,
)
from purekube.reconcilers.kind_reviews import answer_defaulting, answer_validation, webhook_needs
from purekube_kit.fake import FakeCluster
from purekube_run.process.command_line import CommandError
from purekube_run.versions.round_trips import check_kinds


@attrs.frozen
class ShopSpec:
    """A shop."""

    size: int = schema_field("Rooms.", default=1, schema={"minimum": 0, "maximum": 100})
    host: str | None = schema_field("Where.", default=None)
    tags: tuple[str, ...] = schema_field("Words.", default=())


@attrs.frozen
class ShopStatus:
    """Nothing."""


Shop: TypeAlias = Object[ShopSpec, ShopStatus]
PLAIN = resource("shops.example", "v1", "Shop", ShopSpec, ShopStatus)


def validate(admission: Admission[ShopSpec, ShopStatus]) -> Iterable[Problem | AdmissionWarning]:
    new, old = admission.object, admission.old
    if new.metadata.name in new.spec.tags:
        yield Problem("spec.tags", "must not have the shop's own name")
    if old is not None and new.spec.size < old.spec.size and admission.user != "boss":
        yield Problem("spec.size", "only the boss makes a shop smaller")
    if new.spec.size > 50:
        yield AdmissionWarning("large shops are closed on Mondays", "spec.size")


def default(shop: Shop) -> ShopSpec:
    host = shop.spec.host or f"{shop.metadata.name}.example.com"
    return attrs.evolve(shop.spec, host=host, tags=tuple(dict.fromkeys(shop.spec.tags)))


SHOP = reviewed(PLAIN, validate=validate, default=default)


def request(new: Any, old: Any = None, **more: Any) -> AdmissionRequest:
    operation = AdmissionOperation.CREATE if old is None else AdmissionOperation.UPDATE
    return AdmissionRequest("uid", operation, object=new, old_object=old, **more)


def shop(name: str = "corner", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "shops.example/v1", "kind": "Shop", "metadata": {"name": name}, "spec": spec}


SPECS = st.builds(
    ShopSpec, st.integers(0, 100), st.none() | st.just("h.example"), st.lists(st.sampled_from("abc")).map(tuple)
)


@given(SPECS)
def test_defaults_reach_the_stored_object_and_change_no_more_PH_8(spec: ShopSpec) -> None:
    with FakeCluster(SHOP) as cluster:
        made = cluster.create(SHOP.new("corner", spec))
        assert made.spec == default(attrs.evolve(made, spec=spec))
        again = cluster.change(made, {"metadata": {"labels": {"a": "b"}}})
        assert again.spec == made.spec


def test_what_is_refused_names_each_field_and_is_not_stored_PH_8() -> None:
    with FakeCluster(SHOP) as cluster:
        with pytest.raises(Invalid, match=r"spec\.tags: must not have the shop's own name"):
            cluster.create(SHOP.new("corner", ShopSpec(tags=("corner",))))
        assert not cluster.exists(SHOP, "corner")
        mine = cluster.create(SHOP.new("corner", ShopSpec(size=5)))
        with pytest.raises(Invalid, match=r"spec\.size: only the boss"):
            cluster.change(mine, size=4)
        with pytest.raises(Invalid, match="should be less than or equal to 100"):
            cluster.change(mine, size=101)


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


def _raise(_: object) -> Any:
    raise KeyError("oops")


def test_a_function_that_raises_refuses_and_says_so_PH_8() -> None:
    broken = reviewed(PLAIN, validate=_raise, default=_raise)
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


def _growing(shop: Shop) -> ShopSpec:
    return attrs.evolve(shop.spec, tags=(*shop.spec.tags, "more"))


def _too_large(shop: Shop) -> ShopSpec:
    return attrs.evolve(shop.spec, size=101)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (reviewed(PLAIN, default=_growing), "`default` is not idempotent"),
        (reviewed(PLAIN, default=_too_large), "`default` makes an object that the API server refuses: spec.size"),
        (reviewed(PLAIN, validate=_raise), "a function that reviews it raised KeyError: 'oops'"),
    ],
)
def test_mistakes_are_found_when_the_kind_is_loaded_PH_8(kind: Resource[Any, Any], told: str) -> None:
    with pytest.raises(CommandError) as raised:
        check_kinds([kind])
    assert told in raised.value.message
    assert "the spec was" in raised.value.message


def test_a_kind_says_what_it_needs_webhooks_for_PH_8() -> None:
    assert check_kinds([SHOP]) == ()
    assert [webhook_needs(kind) for kind in (PLAIN, SHOP, versioned(SHOP))] == ["", *["validation, defaults"] * 2]
    assert [kind.needs_webhooks for kind in (PLAIN, SHOP)] == [False, True]
