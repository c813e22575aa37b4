"""The CRDs that boxes need and that no given file contains. Each is read from a cluster by its name.

A box is an operator that is defined in YAML. The other CRDs of the cluster are not read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.boxes.compiler.entries import entries_of
from purekube.boxes.model import OperatorBox
from purekube.boxes.schemas import CrdProblem, CrdVersions, plural_of
from purekube.ports import KubeApi
from purekube_run.boxes.load import LoadedBox
from purekube_run.process.command_line import CommandError


def missing_definitions(loaded: Iterable[LoadedBox]) -> tuple[str, ...]:
    """Return the names of the CRDs that the boxes in `loaded` need, and that no file contained.

    A CRD's name begins with the plural of its kind. If the plural is unknown, it is guessed from the kind.
    """
    return tuple(
        sorted(
            {
                name
                for loaded_box in loaded
                if loaded_box.model is not None
                for name in _missing(loaded_box, loaded_box.model)
            }
        )
    )


def _missing(loaded: LoadedBox, model: OperatorBox) -> Iterator[str]:
    if loaded.crd is None and model.spec.crd.name:
        yield model.spec.crd.name
    for api_version, kind in _kinds(model):
        known = None if loaded.schemas is None else loaded.schemas.find(api_version, kind)
        group = api_version.rpartition("/")[0]
        if group and (known is None or known.schema is None):
            yield known.kind.crd_name if known is not None else f"{plural_of(kind)}.{group}"


def _kinds(model: OperatorBox) -> Iterator[tuple[str, str]]:
    said: list[Mapping[str, Any]] = [entry.resource.template for entry in entries_of(model)]
    named = [(raw.get("apiVersion"), raw.get("kind")) for raw in said]
    for api_version, kind in (*named, *((external.api_version, external.kind) for external in model.spec.externals)):
        if isinstance(api_version, str) and isinstance(kind, str) and kind:
            yield api_version, kind


async def installed_definitions(api: KubeApi, names: Sequence[str]) -> list[CrdVersions]:
    """Return the CRDs with these `names` that exist in the cluster.

    Raises the OperatorErrors of `KubeApi.get`, and CommandError for an invalid CRD.
    """
    found: list[CrdVersions] = []
    for name in names:
        try:
            found.append(CrdVersions.of(await api.get(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, name))))
        except NotFound:
            continue
        except CrdProblem as error:
            raise CommandError(f"the CRD {name} of the cluster: {error}") from error
    return found
