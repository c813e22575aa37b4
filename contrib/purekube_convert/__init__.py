"""The conversion of other frameworks' files to boxes: Katalogs of Orkestra, ResourceGraphDefinitions of kro (PH-6).

A box is a YAML file that describes an operator; so is a Katalog. The conversion is pure: it takes a document, and
returns boxes and everything that has no counterpart in a box, with its path in the document.
"""

from collections.abc import Mapping
from typing import Any

from purekube.apimachinery.problems import Problem, ValidationProblems
from purekube.boxes.read import read_box
from purekube.boxes.schemas import Schemas
from purekube_convert.katalog import convert_katalog
from purekube_convert.result import ConversionResult, ConvertedBox
from purekube_convert.rgd import convert_definition

__all__ = ["ConversionResult", "ConvertedBox", "convert", "definition_files"]


def convert(
    document: Any, crds: Mapping[str, Mapping[str, Any]] | None = None, known: Schemas | None = None
) -> ConversionResult:
    """Convert a Katalog of Orkestra or a ResourceGraphDefinition of kro to boxes.

    `crds` are the CRDs that a Katalog names, by file name. `known` are the schemas of kinds that a
    ResourceGraphDefinition uses. The result has everything that could not be converted as a problem.
    """
    if not isinstance(document, Mapping):
        return ConversionResult((), (Problem("", "must be an object"),))
    if document.get("kind") == "ResourceGraphDefinition":
        return _looked_over(convert_definition(document, Schemas() if known is None else known))
    if "operatorBox" in document or document.get("kind") == "Katalog":
        return _looked_over(convert_katalog(document, crds or {}))
    told = "is neither a Katalog of Orkestra nor a ResourceGraphDefinition of kro"
    return ConversionResult((), (Problem("", told),))


def _looked_over(conversion: ConversionResult) -> ConversionResult:
    """Return `conversion` after a check of its boxes, with the problems that the check found.

    A conversion that has problems already is not checked.
    """
    told = list(conversion.problems)
    for made in conversion.boxes if not told else ():
        try:
            read_box(made.box)
        except ValidationProblems as error:
            told += [Problem("", f"the box {made.name!r} is not right: {problem}") for problem in error.problems]
    return ConversionResult(conversion.boxes, tuple(told))


def definition_files(document: Any) -> tuple[str, ...]:
    """Return the names of the CRD files (`crdFile`) in a Katalog."""
    found: dict[str, None] = {}
    pending = [document]
    for _ in range(10_000):
        if not pending:
            break
        node = pending.pop()
        if isinstance(node, Mapping):
            if isinstance(node.get("crdFile"), str):
                found[node["crdFile"]] = None
            pending += [value for value in node.values() if isinstance(value, Mapping)]
    return tuple(found)
