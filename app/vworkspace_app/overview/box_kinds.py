"""Kinds of boxes in a cluster, by what their definitions say: for `status`, which knows no file of them."""

from collections.abc import Iterable, Mapping

from vworkspace_app.overview.reading import Reader
from vworkspace_core.apimachinery.manifest import Kind, Manifest
from vworkspace_core.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from vworkspace_core.boxes.labels import BOX_NAME
from vworkspace_core.overview.definitions import kind_of, words_of


async def kinds_of_boxes(reader: Reader) -> tuple[Kind, ...]:
    """Those whose definition carries the label of a box, as `box init` and `box manifests` write it."""
    return _kinds(await reader.all(CUSTOM_RESOURCE_DEFINITION, selector=BOX_NAME))


async def kinds_by_word(reader: Reader, word: str) -> Mapping[str, Kind]:
    """The kind that a word of the command line means, whoever defined it; nothing where no definition has it."""
    definitions = await reader.all(CUSTOM_RESOURCE_DEFINITION)
    found = _kinds(each for each in definitions if word in words_of(each))
    return {word: found[0]} if found else {}


def _kinds(definitions: Iterable[Manifest]) -> tuple[Kind, ...]:
    return tuple(kind for each in definitions if (kind := kind_of(each)) is not None)
