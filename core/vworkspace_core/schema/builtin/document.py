"""A built-in kind with its schema as an OpenAPI document."""

from collections.abc import Mapping
from typing import Any

import attrs

from vworkspace_core.apimachinery.manifest import Kind


@attrs.frozen(eq=False)
class BuiltIn:
    """`openapi` holds what is beside apiVersion, kind and metadata."""

    kind: Kind
    openapi: Mapping[str, Any] = attrs.field(repr=False)
