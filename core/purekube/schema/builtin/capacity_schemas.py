"""Schemas of HorizontalPodAutoscaler, ResourceQuota, LimitRange and PriorityClass."""

from typing import Final

from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin.schema_parts import (
    BOOL,
    CONDITIONS,
    INT32,
    INT64,
    LABEL_SELECTOR,
    QUANTITY,
    STRING,
    STRINGS,
    TIME,
    BuiltIn,
    OpenApi,
    atomic_object,
    each,
    items,
    obj,
    table,
)

_TARGET: Final = obj("kind", "name", **each(STRING, "apiVersion kind name"))
_METRIC: Final = obj("name", name=STRING, selector=LABEL_SELECTOR)
_GOAL: Final = obj("type", averageUtilization=INT32, averageValue=QUANTITY, type=STRING, value=QUANTITY)
_MEASURED: Final = obj(averageUtilization=INT32, averageValue=QUANTITY, value=QUANTITY)


def _metric(value: str, schema: OpenApi) -> OpenApi:
    """Return the schema of one metric of an autoscaler, whose field named `value` has `schema`."""
    part = {value: schema}
    return obj(
        "type",
        containerResource=obj("container", value, "name", container=STRING, name=STRING, **part),
        external=obj(value, "metric", metric=_METRIC, **part),
        object=obj(value, "describedObject", "metric", describedObject=_TARGET, metric=_METRIC, **part),
        pods=obj(value, "metric", metric=_METRIC, **part),
        resource=obj(value, "name", name=STRING, **part),
        type=STRING,
    )


_POLICY: Final = obj("type", "value", "periodSeconds", periodSeconds=INT32, type=STRING, value=INT32)
_RULES: Final = obj(policies=items(_POLICY), selectPolicy=STRING, stabilizationWindowSeconds=INT32, tolerance=QUANTITY)

HORIZONTAL_POD_AUTOSCALER: Final = BuiltIn(
    Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    obj(
        spec=obj(
            "scaleTargetRef",
            "maxReplicas",
            behavior=obj(scaleDown=_RULES, scaleUp=_RULES),
            metrics=items(_metric("target", _GOAL)),
            **each(INT32, "maxReplicas minReplicas"),
            scaleTargetRef=_TARGET,
        ),
        status=obj(
            conditions=CONDITIONS,
            currentMetrics=items(_metric("current", _MEASURED)),
            **each(INT32, "currentReplicas desiredReplicas"),
            lastScaleTime=TIME,
            observedGeneration=INT64,
        ),
    ),
)
RESOURCE_QUOTA: Final = BuiltIn(
    Kind("", "v1", "ResourceQuota", "resourcequotas"),
    obj(
        spec=obj(
            hard=table(QUANTITY),
            scopeSelector=atomic_object(
                obj(
                    matchExpressions=items(
                        obj("scopeName", "operator", operator=STRING, scopeName=STRING, values=STRINGS)
                    )
                )
            ),
            scopes=STRINGS,
        ),
        status=obj(hard=table(QUANTITY), used=table(QUANTITY)),
    ),
)
LIMIT_RANGE: Final = BuiltIn(
    Kind("", "v1", "LimitRange", "limitranges"),
    obj(
        spec=obj(
            "limits",
            limits=items(
                obj("type", type=STRING, **each(table(QUANTITY), "default defaultRequest max maxLimitRequestRatio min"))
            ),
        )
    ),
)
PRIORITY_CLASS: Final = BuiltIn(
    Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False),
    obj("value", description=STRING, globalDefault=BOOL, preemptionPolicy=STRING, value=INT32),
)
