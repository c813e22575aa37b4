"""The CEL types of a CRD's objects, by which expressions about these objects are checked."""

from collections.abc import Mapping
from typing import Any

from purekube.boxes.schemas import CrdProblem, CrdVersions
from purekube.cel.types import DYN, CelType


def type_of_definition(crd: Mapping[str, Any] | None) -> CelType:
    """Return the CEL type of a CRD's stored objects.

    Return the dynamic type if the CRD is missing or unusable. The command `box check` reports an unusable CRD.
    """
    try:
        return CrdVersions.of(crd).stored.type
    except CrdProblem:
        return DYN
