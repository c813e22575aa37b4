"""A built-in kind with its schema as an OpenAPI document."""

from collections.abc import Mapping
from typing import Any

import attrs

from purekube.apimachinery.manifest import Kind


@attrs.frozen(eq=False)
class BuiltIn:
    """A built-in kind. `openapi` holds all fields except apiVersion, kind and metadata."""

    kind: Kind
    openapi: Mapping[str, Any] = attrs.field(repr=False)
