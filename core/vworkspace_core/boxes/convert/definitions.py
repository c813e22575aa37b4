"""What a CustomResourceDefinition says about the objects of its kind, for expressions about them."""

from collections.abc import Mapping
from typing import Any

from vworkspace_core.boxes.schemas import CrdProblem, CrdVersions
from vworkspace_core.cel.types import DYN, CelType


def type_of_definition(crd: Mapping[str, Any] | None) -> CelType:
    """The type of the stored objects of a definition; unknown where it cannot be used, which `box check` tells."""
    try:
        return CrdVersions.of(crd).stored.type
    except CrdProblem:
        return DYN
