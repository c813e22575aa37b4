"""The definitions of the built-in kinds HorizontalPodAutoscaler, ResourceQuota, LimitRange and PriorityClass."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubelab.builtin.definition_builder import built_in, filled
from kubelab.builtin.limit_checks import limit_range_causes, quota_causes, quota_update_causes
from kubelab.model.definition import Behaviour, NameRule
from kubelab.writes.metadata import name_problems
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest
from purekube.schema.builtin import cluster_schemas as schemas
from purekube.schema.causes import invalid_value, not_supported, required

_PREEMPTION: Final = ("PreemptLowerPriority", "Never")
_METRICS: Final = ("ContainerResource", "External", "Object", "Pods", "Resource")
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_BY_CPU: Final = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
"""The default metric of a HorizontalPodAutoscaler: 80 % of the requested CPU."""
_BY_PERCENT: Final = {"type": "Percent", "value": 100, "periodSeconds": 15}
_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _BY_PERCENT],
}
# defaultHPAScaleDownRules has no stabilization window: the controller takes its own flag then.
_DOWN: Final = {"selectPolicy": "Max", "policies": [_BY_PERCENT]}


def _read_autoscaler(manifest: Manifest) -> Manifest:
    spec = filled(manifest.get("spec") or {}, minReplicas=1)
    if not spec.get("metrics"):
        spec["metrics"] = [_BY_CPU]
    # kubernetes: apis/autoscaling/v2/defaults.go, SetDefaults_HorizontalPodAutoscalerBehavior fills both directions in
    # as soon as there is a behaviour.
    if isinstance(behaviour := spec.get("behavior"), Mapping):
        up, down = (
            filled(behaviour.get(way) or {}, **rules) for way, rules in (("scaleUp", _UP), ("scaleDown", _DOWN))
        )
        spec["behavior"] = {"scaleUp": up, "scaleDown": down}
    return filled({**manifest, "spec": spec}, status={"desiredReplicas": 0})


def _check_autoscaler(manifest: Manifest) -> Iterator[StatusCause]:
    spec = manifest["spec"]
    least, most = spec["minReplicas"], spec["maxReplicas"]
    if least < 1:
        yield invalid_value("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    if most < least:
        yield invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    yield from _scaled(spec["scaleTargetRef"], "spec.scaleTargetRef")
    yield from _check_metrics(spec["metrics"])


def _scaled(reference: Mapping[str, Any], path: str) -> Iterator[StatusCause]:
    for key in ("kind", "name"):
        for text in name_problems(reference.get(key, ""), NameRule.SEGMENT):
            yield invalid_value(f"{path}.{key}", reference[key], text)


def _check_metrics(metrics: Sequence[Mapping[str, Any]]) -> Iterator[StatusCause]:
    """Yield the problems of metrics of resources: each needs a share or an amount as its target."""
    for index, metric in enumerate(metrics):
        if metric.get("type") not in _METRICS:
            yield not_supported(f"spec.metrics[{index}].type", metric.get("type", ""), _METRICS)
        for source, part in metric.items():
            if source != "type" and (kind := part["target"]["type"]) not in _TARGETS:
                text = "must be either Utilization, Value, or AverageValue"
                yield invalid_value(f"spec.metrics[{index}].{source}.target.type", kind, text)
        target = (metric.get("resource") or {}).get("target") or {}
        if metric.get("type") == "Resource" and not target.get("averageUtilization") and not target.get("averageValue"):
            text = "must set either a target raw value or a target utilization"
            yield required(f"spec.metrics[{index}].resource.target.averageUtilization", text)


def _check_class(manifest: Manifest) -> Iterator[StatusCause]:
    if (policy := manifest["preemptionPolicy"]) not in _PREEMPTION:
        yield not_supported("preemptionPolicy", policy, _PREEMPTION)


def _check_value(new: Manifest, old: Manifest) -> Iterator[StatusCause]:
    if new["value"] != old["value"]:
        yield invalid_value("value", new["value"], "field is immutable")


def _read_limits(manifest: Manifest) -> Manifest:
    """Return a LimitRange with the defaults of its container limits filled in, as kube-apiserver does.

    A missing default limit becomes the maximum. A missing default request becomes the default limit or, without a
    default limit, the minimum.
    """
    spec = dict(manifest.get("spec") or {})
    limits = spec.get("limits")
    if isinstance(limits, list):
        spec["limits"] = [_limit(limit) if isinstance(limit, Mapping) else limit for limit in limits]
    return {**manifest, "spec": spec}


def _limit(limit: Mapping[str, Any]) -> Mapping[str, Any]:
    if limit.get("type") != "Container":
        return limit
    # kubernetes: apis/core/v1/defaults.go, SetDefaults_LimitRangeItem.
    default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
    request = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
    return {**limit, **({"default": default} if default else {}), **({"defaultRequest": request} if request else {})}


CAPACITY: Final = (
    built_in(
        schemas.HORIZONTAL_POD_AUTOSCALER,
        Behaviour(
            skeleton={"spec": {"scaleTargetRef": {}}, "status": {}},
            read=_read_autoscaler,
            on_create=lambda manifest: {**manifest, "status": {"desiredReplicas": 0}},
            check=_check_autoscaler,
        ),
        short_names=("hpa",),
        categories=("all",),
    ),
    built_in(
        schemas.RESOURCE_QUOTA,
        Behaviour(
            skeleton={"spec": {}, "status": {}},
            read=lambda manifest: filled(manifest, spec={}, status={}),
            # A struct without the tag omitempty is shown even if it is empty.
            on_create=lambda manifest: {**manifest, "status": {}},
            check=lambda manifest: quota_causes(manifest["spec"]),
            check_update=lambda new, old: quota_update_causes(new["spec"], old["spec"]),
        ),
        short_names=("quota",),
    ),
    built_in(
        schemas.LIMIT_RANGE,
        Behaviour(
            skeleton={"spec": {}},
            read=_read_limits,
            check=lambda manifest: limit_range_causes(manifest.get("spec") or {}),
        ),
        short_names=("limits",),
    ),
    built_in(
        schemas.PRIORITY_CLASS,
        Behaviour(
            # kubernetes: registry/scheduling/priorityclass/strategy.go counts no changes.
            on_create=lambda manifest: {**manifest, "metadata": {**manifest["metadata"], "generation": 1}},
            read=lambda manifest: filled(manifest, value=0, preemptionPolicy="PreemptLowerPriority"),
            check=_check_class,
            check_update=lambda new, old: [*_check_class(new), *_check_value(new, old)],
        ),
        short_names=("pc",),
    ),
)
