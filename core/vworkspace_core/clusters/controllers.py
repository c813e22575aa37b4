"""Availability of the controllers that the operator relies on: ControllersHealthy and `installedEngines`.

A controller counts as missing if a CRD of its kinds is missing, and only if instances need it: a missing engine (a
controller such as Velero that carries out Operations) is no fault of the cluster (an Operation that requires it reports
that). It counts as degraded if the operator cannot watch its kinds: their informer has failed several times in a row,
which takes at least half a minute, so that a passing failure changes nothing. A missing right is named, with the
command that grants it. The controller's pods are not checked: only its objects show whether they work.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from purekube.apimachinery import resources as known
from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.errors import refused_right
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.meta import ConditionStatus
from vworkspace_core.api import kinds as own_kinds
from vworkspace_core.api.installation import PRINTED, Installation
from vworkspace_core.api.reasons import ClusterConditionType, ClusterReason
from vworkspace_core.api.remedies import FLUX, crds_remedy, not_permitted
from vworkspace_core.operations.engines import ENGINES

_OPERATOR: Final = "vworkspace-operator"
IN_A_ROW: Final = 6
"""The number of consecutive failures of an informer from which its controller counts as degraded.

With the informer's backoff this takes half a minute.
"""


@attrs.frozen
class InformerReport:
    """The state of one kind's informer. `trouble` is the error message of the last failure, empty if there is none.

    `served` says that the API server serves the kind. `failures` counts consecutive failures.
    """

    served: bool = True
    failures: int = 0
    trouble: str = ""


@attrs.frozen
class _Controller:
    name: str
    kinds: tuple[Kind, ...]
    install: str = ""
    """The project to install for a controller that instances need; empty for one that only Operations need."""


_SOURCES: Final = (known.OCI_REPOSITORY, known.HELM_REPOSITORY, known.HELM_CHART)
FLUX_KINDS: Final = (known.HELM_RELEASE, *_SOURCES)
"""The kinds of Flux whose CRDs must be installed before any instance can be deployed."""
_CONTROLLERS: Final = (
    _Controller("source-controller", _SOURCES, FLUX),
    _Controller("helm-controller", (known.HELM_RELEASE,), FLUX),
    *(
        _Controller(engine.controller.name, engine.controller.definitions)
        for engine in ENGINES.values()
        if engine.controller is not None and engine.controller.install != FLUX
    ),
)
_FLUX_CONTROLLERS: Final = tuple(
    attrs.evolve(each, install=f"install {each.install}") for each in _CONTROLLERS if each.install
)
_NAMES: Final = {kind: controller.name for controller in _CONTROLLERS for kind in controller.kinds} | dict.fromkeys(
    own_kinds.OWN_KINDS, _OPERATOR
)
"""The name of the controller that reconciles each kind."""


def installed_engines(watched: Mapping[Kind, InformerReport]) -> tuple[str, ...]:
    """Return the names of the engines (such as `velero`) whose kinds the API server serves, in alphabetical order.

    `watched` has the states of all informers by kind.
    """
    return tuple(
        name
        for name, engine in sorted(ENGINES.items())
        if engine.controller is None or all(_served(watched, kind) for kind in engine.controller.definitions)
    )


def controllers_condition(
    watched: Mapping[Kind, InformerReport], installation: Installation = PRINTED
) -> DesiredCondition:
    """Return the condition ControllersHealthy of the Cluster object from `watched`, the states of all informers by
    kind.

    Its reason is about missing controllers if there are any, or else about degraded controllers. Its message names all
    missing and degraded controllers. `installation` decides how the message says to grant a missing right.
    """
    missing, degraded = list(_missing(watched, installation)), list(_degraded(watched, installation))
    message = ". ".join((*missing, *degraded))
    kind = ClusterConditionType.CONTROLLERS_HEALTHY
    if missing:
        return DesiredCondition(kind, ConditionStatus.FALSE, ClusterReason.CONTROLLER_MISSING, message)
    if degraded:
        return DesiredCondition(kind, ConditionStatus.FALSE, ClusterReason.CONTROLLER_DEGRADED, message)
    return DesiredCondition(kind, ConditionStatus.TRUE, ClusterReason.ALL_CONTROLLERS_READY)


def _missing(watched: Mapping[Kind, InformerReport], installation: Installation) -> Iterator[str]:
    own = _Controller(_OPERATOR, own_kinds.OWN_KINDS, crds_remedy(installation))
    for controller in (own, *_FLUX_CONTROLLERS):
        if absent := [kind.crd_name for kind in controller.kinds if not _served(watched, kind)]:
            yield f"{controller.name}: {', '.join(absent)} not installed. To fix: {controller.install}"


def _degraded(watched: Mapping[Kind, InformerReport], installation: Installation) -> Iterator[str]:
    troubles = {kind: each.trouble for kind, each in watched.items() if each.served and each.failures >= IN_A_ROW}
    for kind, trouble in sorted(troubles.items()):
        if trouble:
            right = refused_right(trouble)
            message = trouble if right is None else not_permitted(right, installation)
            yield f"{_NAMES.get(kind, 'kube-apiserver')}: {kind.kind} cannot be watched: {message}"


def _served(watched: Mapping[Kind, InformerReport], kind: Kind) -> bool:
    return kind in watched and watched[kind].served
