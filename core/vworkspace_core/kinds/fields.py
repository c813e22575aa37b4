"""Fields of our own kinds: one declaration gives the attribute, its JSON name, its schema and its documentation.

The CRD generator and the strict validation read what `schema_field` recorded (RES-6: the classes are the
single source). JSON names are the attribute names in camelCase.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

__all__ = ["CelRule", "camel", "schema_field"]


@attrs.frozen
class CelRule:
    """One `x-kubernetes-validations` entry. A rule that mentions `oldSelf` is a transition rule."""

    rule: str
    message: str
    field_path: str = ""
    reason: str = ""


def camel(name: str) -> str:
    """JSON name of an attribute: `service_account_name` becomes `serviceAccountName`."""
    head, *tail = name.rstrip("_").split("_")
    return head + "".join(part.capitalize() for part in tail)


def schema_field(
    doc: str,
    *,
    default: Any = attrs.NOTHING,
    factory: Any = None,
    schema: Mapping[str, Any] | None = None,
    rules: Sequence[CelRule] = (),
    publish_default: bool = False,
) -> Any:
    """An attrs field that also knows its OpenAPI schema.

    `doc` becomes the description; `schema` is merged over what the type implies (pattern, maxLength, list
    type, …); `rules` become CEL rules of this field; `publish_default` writes the default into the CRD, so
    that the API server fills it in. A field without default is required.
    """
    meta = {
        "doc": doc,
        "schema": dict(schema or {}),
        "rules": tuple(rules),
        "publish_default": publish_default,
    }
    if factory is not None:
        return attrs.field(factory=factory, metadata=meta)
    return attrs.field(default=default, metadata=meta)
