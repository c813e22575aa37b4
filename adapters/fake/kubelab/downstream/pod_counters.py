"""Controllers that count the pods of workloads: the statuses of PodDisruptionBudgets and HorizontalPodAutoscalers.

There are no pods: a workload's ready replicas count as healthy pods with the labels of its template. An autoscaler has
no metrics, so it never changes the number of its target's replicas.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubelab.downstream.controller import (
    NOTHING,
    DownstreamController,
    ObjectView,
    PassResult,
    change,
    waiting_for,
    with_condition,
)
from kubelab.downstream.kinds import HORIZONTAL_POD_AUTOSCALER, POD_DISRUPTION_BUDGET
from kubelab.downstream.workload_controllers import share_of
from kubelab.simulation.effects import PassStep
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.meta import selects_labels
from purekube.apimachinery.resources import DEPLOYMENT, STATEFUL_SET

_COUNTED: Final = (DEPLOYMENT, STATEFUL_SET)


def _budget(view: ObjectView) -> PassStep[PassResult]:
    if view.live is None or view.deleting:
        return NOTHING
    selector = view.spec.get("selector") or {}
    labels = ("spec", "template", "metadata", "labels")
    counted = [live for _, live in _workloads(view) if selects_labels(selector, get_path(live, *labels) or {})]
    expected = sum(int(get_path(live, "spec", "replicas") or 0) for live in counted)
    healthy = sum(int(get_path(live, "status", "readyReplicas") or 0) for live in counted)
    desired = _desired(view.spec, expected)
    # A budget that matches no pod yet allows nothing: it may be late for its first pods (disruption/disruption.go,
    # updatePdbStatus).
    allowed = max(0, healthy - desired) if expected else 0
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        # Always empty, as UpdateDisruptionAllowedCondition sets none (component-helpers, apps/poddisruptionbudget).
        "message": "",
        "observedGeneration": view.generation,
    }
    status = {
        "conditions": with_condition(view.status.get("conditions") or [], condition, view.now),
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": view.generation,
    }
    yield from change(view, {"status": status}, subresource="status")
    return NOTHING


def _workloads(view: ObjectView) -> Iterator[tuple[ObjectRef, Manifest]]:
    return (each for kind in _COUNTED for each in view.all_of(kind, view.ref.namespace))


def _desired(spec: Mapping[str, Any], expected: int) -> int:
    """Return the number of healthy pods that a PodDisruptionBudget with this spec requires.

    Percentages are taken of the `expected` number of pods, and rounded up.
    """
    if (least := spec.get("minAvailable")) is not None:
        return share_of(least, expected)
    return max(0, expected - share_of(spec.get("maxUnavailable", 0), expected))


def _autoscaler(view: ObjectView) -> PassStep[PassResult]:
    if view.live is None or view.deleting:
        return NOTHING
    target = view.spec.get("scaleTargetRef") or {}
    wanted = (target.get("kind"), target.get("name"))
    found = next((live for ref, live in _workloads(view) if (ref.kind.kind, ref.name) == wanted), None)
    conditions = view.status.get("conditions") or []
    for condition in _unscalable(target) if found is None else _SCALABLE:
        conditions = with_condition(conditions, condition, view.now)
    replicas = int(get_path(found, "spec", "replicas") or 0)
    status = {
        **view.status,
        "conditions": conditions,
        "desiredReplicas": replicas,
        **({} if found is None else {"currentReplicas": replicas}),
    }
    yield from change(view, {"status": status}, subresource="status")
    return NOTHING


_SCALABLE: Final = (
    {
        "type": "AbleToScale",
        "status": "True",
        "reason": "ReadyForNewScale",
        "message": "recommended size matches current size",
    },
    {
        "type": "ScalingActive",
        "status": "True",
        "reason": "ValidMetricFound",
        "message": "the HPA was able to successfully calculate a replica count",
    },
)


def _unscalable(target: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    kind = next((kind for kind in _COUNTED if kind.kind == target.get("kind")), None)
    resource = target.get("kind") if kind is None else f"{kind.plural}.{kind.group}"
    missing = f'{resource} "{target.get("name")}" not found'
    said = f"the HPA controller was unable to get the target's current scale: {missing}"
    return ({"type": "AbleToScale", "status": "False", "reason": "FailedGetScale", "message": said},)


_NEIGHBOURS: Final = waiting_for(_COUNTED, (POD_DISRUPTION_BUDGET, HORIZONTAL_POD_AUTOSCALER))
POD_COUNTERS: Final = (
    DownstreamController("disruption-controller", (POD_DISRUPTION_BUDGET,), _budget, _COUNTED, _NEIGHBOURS),
    DownstreamController("horizontal-pod-autoscaler", (HORIZONTAL_POD_AUTOSCALER,), _autoscaler, _COUNTED, _NEIGHBOURS),
)
"""The controllers that count pods; their names are the field managers of their writes."""
