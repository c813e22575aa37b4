"""The file that configures simulated controllers: which actions fail, with which messages, and how long they take."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from kubelab.cluster.definitions import KubelabError, read_documents
from kubelab.downstream.behaviour import DownstreamBehaviour
from kubelab.flux.behaviour import FluxBehaviour
from purekube.apimachinery.converters import STRICT
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.structuring import structure_patiently

Behaviour: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
"""The content of a behaviour file, or the path of one."""
_OPTION = "behaviour"


@attrs.frozen
class ClusterBehaviour:
    """The behaviour of all simulated controllers of a cluster: which actions fail, and how long they take.

    `flux` is the behaviour of Flux's controllers, `downstream` that of all others. If one of the two is None, all
    actions of these controllers succeed.
    """

    flux: FluxBehaviour | None = None
    downstream: DownstreamBehaviour | None = None


def read_behaviour(behaviour: Behaviour) -> ClusterBehaviour:
    """Return the behaviour of the simulated controllers that a YAML file or a mapping describes.

    `behaviour` is the path of the file, or the mapping. The keys are the names of the fields of ClusterBehaviour and
    its parts, in camelCase. Raises KubelabError that names the file, and each wrong field with its path.
    """
    if isinstance(behaviour, Mapping):
        return _structured(behaviour, "")
    documents = read_documents(Path(behaviour), _OPTION)
    if len(documents) != 1:
        raise KubelabError(f"{behaviour}: must hold one document, not {len(documents)}", option=_OPTION)
    return _structured(documents[0], f"{behaviour}: ")


def _structured(value: Any, source: str) -> ClusterBehaviour:
    try:
        return structure_patiently(STRICT, ClusterBehaviour, value)
    except ValidationProblems as error:
        raise KubelabError(f"{source}{error}", option=_OPTION) from error
