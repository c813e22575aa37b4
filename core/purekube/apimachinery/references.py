"""References from a manifest to other objects."""

import attrs

from purekube.apimachinery.fields import formed, schema_field
from purekube.apimachinery.formats import DNS_SUBDOMAIN, OBJECT_KEY


@attrs.frozen
class NameRef:
    """A Secret in the same namespace, by name."""

    name: str = schema_field(
        "Name of the Secret.", schema={"minLength": 1, "maxLength": 253}, rules=[formed(DNS_SUBDOMAIN)]
    )


@attrs.frozen
class KeyRef:
    """One key of a Secret or ConfigMap in the same namespace."""

    name: str = schema_field(
        "Name of the object.", schema={"minLength": 1, "maxLength": 253}, rules=[formed(DNS_SUBDOMAIN)]
    )
    key: str = schema_field("Key within it.", schema={"minLength": 1, "maxLength": 253}, rules=[formed(OBJECT_KEY)])


@attrs.frozen
class ObjectName:
    """A namespaced object by name."""

    name: str = schema_field("Name.")
    namespace: str = schema_field("Namespace.")
