"""The kind: a shop as people ask for it, and what came of it."""

from typing import Final, TypeAlias

import attrs

from purekube.reconcilers import Object, Resource, resource, schema_field


@attrs.frozen
class ShopSpec:
    """A shop in the service of shops."""

    title: str = schema_field("What customers read.", schema={"minLength": 1, "maxLength": 100})
    shelves: int = schema_field("How much it can hold.", default=1, schema={"minimum": 1})


@attrs.frozen
class ShopStatus:
    """The shop as the service reported it."""

    remote_id: str = schema_field("The service's own id of the shop.", default="")
    address: str = schema_field("Where customers find it.", default="")


Shop: TypeAlias = Object[ShopSpec, ShopStatus]
SHOP: Final[Resource[ShopSpec, ShopStatus]] = resource("shops.example.com", "v1", "Shop", ShopSpec, ShopStatus)
