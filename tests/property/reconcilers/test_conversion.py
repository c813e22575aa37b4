"""Kinds of attrs classes in two versions: typed conversions, their CRD, and an API server that asks them (PH-8)."""

from typing import Any

import attrs
import pytest

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.reconcilers import Resource, conversion, resource, schema_field, versioned
from purekube.versions import ConversionFailed, answer_review, preservation_annotation
from purekube_run.process.command_line import CommandError
from purekube_run.versions.round_trips import check_kinds
from tests.support.simulation import START

GROUP = "shops.example"


@attrs.frozen
class OldSpec:
    """A shop as it was."""

    replicas: int = schema_field("How many.", default=1)
    host: str | None = schema_field("Where.", default=None)


@attrs.frozen
class ShopSpec:
    """A shop."""

    size: int = schema_field("How many.", default=1)
    hosts: tuple[str, ...] = schema_field("Where.", default=())
    color: str = schema_field("Of the front.", default="red")


@attrs.frozen
class ShopStatus:
    """What it says."""

    url: str | None = schema_field("Address.", default=None)


@attrs.frozen
class OtherStatus:
    """Another."""

    address: str | None = schema_field("Address.", default=None)


def up(old: OldSpec) -> ShopSpec:
    return ShopSpec(old.replicas, () if old.host is None else (old.host,))


def down(new: ShopSpec) -> OldSpec:
    return OldSpec(new.size, new.hosts[0] if new.hosts else None)


OLD = resource(GROUP, "v1alpha1", "Shop", OldSpec, ShopStatus)
NEW = resource(GROUP, "v1", "Shop", ShopSpec, ShopStatus)
SHOP = versioned(NEW, conversion(OLD, NEW, up=up, down=down, keeps=True))


def test_a_conversion_between_classes_is_tried_on_examples_of_both() -> None:
    """L23."""
    assert SHOP.converter is not None
    assert check_kinds([SHOP, OLD]) == (SHOP.converter,)
    assert [version["name"] for version in SHOP.crd()["spec"]["versions"]] == ["v1", "v1alpha1"]
    assert [version["storage"] for version in SHOP.crd()["spec"]["versions"]] == [True, False]
    lossy = versioned(NEW, conversion(OLD, NEW, up=up, down=down))
    with pytest.raises(
        CommandError, match=r"Shop of shops.example: conversion of v1alpha1: .* changes spec\.(color|hosts)"
    ):
        check_kinds([lossy])


def test_an_api_server_asks_the_conversion_of_a_kind_in_either_version() -> None:
    """What one version has and the other cannot say is kept; a change in the old version wins."""
    assert SHOP.converter is not None
    converters = (SHOP.converter,)
    api = InProcessKube(ApiServer(now=lambda: START, ask=lambda webhook, review: answer_review(review, converters)))
    asked = {"clientConfig": {"url": "https://shops.example/convert"}, "conversionReviewVersions": ["v1"]}
    crd = SHOP.crd()
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": asked}
    run_sync(api.create(crd, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="test"))
    spec = ShopSpec(3, ("a.example", "b.example"), "blue")
    made = SHOP.manifest(SHOP.new("a", spec, namespace="default"))
    run_sync(api.apply(made, kind=NEW.kind, field_manager="one"))
    seen = run_sync(api.get(ObjectRef(OLD.kind, "default", "a")))
    assert OLD.read(seen).spec == OldSpec(3, "a.example")
    changed = {**OLD.kind.manifest("a", "default"), "spec": {"replicas": 4}}
    with_force = run_sync(api.apply(changed, kind=OLD.kind, field_manager="two", force=True))
    assert OLD.read(with_force).spec == OldSpec(4, "a.example")
    stored = run_sync(api.get(ObjectRef(NEW.kind, "default", "a")))
    assert SHOP.read(stored).spec == ShopSpec(4, ("a.example", "b.example"), "blue")
    assert preservation_annotation("v1") not in stored["metadata"].get("annotations", {})


def test_a_conversion_of_an_object_that_does_not_fit_its_class_names_the_field() -> None:
    assert SHOP.converter is not None
    bad = {**OLD.kind.manifest("a", "default"), "spec": {"replicas": "many"}}
    with pytest.raises(ConversionFailed, match=r"Shop default/a .*: spec\.replicas"):
        SHOP.converter.convert(bad, "v1")


def test_an_object_is_converted_before_the_server_has_generated_its_name() -> None:
    """A mutating webhook is asked about the stored version of a new object, which has no name yet."""
    assert SHOP.converter is not None
    meta = {"generateName": "shop-", "namespace": "default", "creationTimestamp": None}
    given = {**OLD.kind.manifest("a", "default"), "metadata": meta, "spec": {"replicas": 3}}
    made = SHOP.converter.convert(given, "v1")
    assert (made["metadata"], made["spec"]["size"]) == (meta, 3)


def test_a_conversion_of_statuses_of_two_classes_keeps_what_the_engine_writes() -> None:
    other = resource(GROUP, "v1beta1", "Shop", ShopSpec, OtherStatus)
    with pytest.raises(ValueError, match="of two classes: give up_status and down_status"):
        conversion(other, NEW, up=lambda spec: spec, down=lambda spec: spec)
    kind = versioned(
        NEW,
        conversion(
            other,
            NEW,
            up=lambda spec: spec,
            down=lambda spec: spec,
            up_status=lambda status: ShopStatus(status.address),
            down_status=lambda status: OtherStatus(status.url),
        ),
    )
    assert kind.converter is not None
    written = {"url": "u", "observedGeneration": 2, "conditions": []}
    stored = {**NEW.kind.manifest("a", "default"), "spec": {}, "status": written}
    assert kind.converter.convert(stored, "v1beta1")["status"] == {
        "address": "u",
        "observedGeneration": 2,
        "conditions": [],
    }


def test_a_status_that_both_versions_share_is_kept_as_it_is() -> None:
    assert SHOP.converter is not None
    stored = {**NEW.kind.manifest("a", "default"), "spec": {}, "status": {"url": "u", "observedGeneration": 2}}

    assert SHOP.converter.convert(stored, "v1alpha1")["status"] == stored["status"]


def test_a_status_that_both_versions_share_need_not_fit_its_class() -> None:
    """One object that cannot be converted fails each list of its kind, and an older schema may have let it in."""
    assert SHOP.converter is not None
    stored = {**NEW.kind.manifest("a", "default"), "spec": {}, "status": {"url": 5, "conditions": [{"type": 1}]}}

    assert SHOP.converter.convert(stored, "v1alpha1")["status"] == stored["status"]


WRONG: list[tuple[Any, str]] = [
    (lambda: conversion(OLD, OLD, up=lambda spec: spec, down=lambda spec: spec), "is converted to itself"),
    (
        lambda: conversion(resource(GROUP, "v1", "Stall", OldSpec, ShopStatus), NEW, up=up, down=down),
        "the same kind, and not Stall and Shop",
    ),
    (lambda: versioned(OLD, conversion(OLD, NEW, up=up, down=down)), "and not to v1alpha1 .* which is stored"),
    (
        lambda: versioned(NEW, *(conversion(OLD, NEW, up=up, down=down) for _ in range(2))),
        "the version v1alpha1 is there twice",
    ),
]


@pytest.mark.parametrize(("make", "told"), WRONG, ids=[told for _, told in WRONG])
def test_a_conversion_that_cannot_be_registered_says_why(make: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make()


def test_a_kind_without_further_versions_converts_nothing() -> None:
    plain: Resource[ShopSpec, ShopStatus] = NEW
    assert plain.converter is None
