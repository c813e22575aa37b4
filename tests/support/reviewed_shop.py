"""A kind whose objects are validated and defaulted by functions in Python."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import attrs
from hypothesis import strategies as st

from purekube.apimachinery.admission_review import AdmissionOperation, AdmissionRequest
from purekube.reconcilers import Admission, AdmissionWarning, Object, Problem, resource, reviewed, schema_field


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


def raising(_: object) -> Any:
    raise KeyError("oops")


def growing(shop: Shop) -> ShopSpec:
    return attrs.evolve(shop.spec, tags=(*shop.spec.tags, "more"))


def too_large(shop: Shop) -> ShopSpec:
    return attrs.evolve(shop.spec, size=101)
