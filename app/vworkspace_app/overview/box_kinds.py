"""Boxes for a command that looks at a cluster: from files, and as kinds from the labels of the cluster's CRDs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from purekube.apimachinery.manifest import Kind, Manifest
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.boxes.labels import BOX_NAME
from purekube.composites.parent import CONTROLLER_NAME
from purekube.ports import KubeApi
from vworkspace_app.overview.reading import PermittedReader
from vworkspace_core.overview.definitions import kind_of, words_of

if TYPE_CHECKING:
    from purekube.boxes.box import Box


async def boxes_of(api: KubeApi, files: Sequence[str]) -> "list[Box]":
    """Load boxes from files, and from the cluster the CRDs that the files lack. Raises CommandError."""
    if not files:
        return []
    from purekube_run.boxes.installed import installed_definitions, missing_definitions
    from purekube_run.boxes.load import load_boxes, runnable

    loaded = load_boxes(files)
    if names := missing_definitions(loaded):
        loaded = load_boxes(files, installed=await installed_definitions(api, names))
    return runnable(loaded)


async def kinds_of_boxes(reader: PermittedReader) -> tuple[Kind, ...]:
    """Return the kinds whose definition carries the label of a box or a controller.

    `box init`, `box manifests --crds-only` and `controllers crds` write it.
    """
    labels = (BOX_NAME, CONTROLLER_NAME)
    return _kinds([each for label in labels for each in await reader.all(CUSTOM_RESOURCE_DEFINITION, selector=label)])


async def kinds_by_word(reader: PermittedReader, word: str) -> Mapping[str, Kind]:
    """Return the kinds that a word of the command line means, of any origin; empty if no definition has the word."""
    definitions = await reader.all(CUSTOM_RESOURCE_DEFINITION)
    found = _kinds(each for each in definitions if word in words_of(each))
    return {word: found[0]} if found else {}


def _kinds(definitions: Iterable[Manifest]) -> tuple[Kind, ...]:
    return tuple(kind for each in definitions if (kind := kind_of(each)) is not None)
