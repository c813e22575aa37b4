"""Schemas of Service, NetworkPolicy and Ingress, of volumes and disruption budgets, and of quotas and autoscalers."""

from typing import Final

from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin import schema_parts as parts
from purekube.schema.builtin.pod_schemas import CLAIM_SPEC
from purekube.schema.builtin.schema_parts import (
    BuiltIn,
    OpenApi,
    atomic_object,
    choice,
    defaulted,
    items,
    keyed,
    obj,
    table,
)

_PORT: Final = obj(
    "port!:int32 appProtocol name nodePort:int32 targetPort:int-or-string", protocol=defaulted(parts.STRING, "TCP")
)
_BACKEND: Final = obj(
    resource=atomic_object(obj("kind! name! apiGroup")),
    service=obj("name!", port=atomic_object(obj("name number:int32"))),
)
_PATH: Final = obj(
    "backend! pathType! path", backend=_BACKEND, pathType=choice("Exact", "ImplementationSpecific", "Prefix")
)
_STATUS_PORT: Final = obj("port!:int32 protocol! error")
_PEER: Final = obj("namespaceSelector:selector podSelector:selector", ipBlock=obj("cidr! except:strings"))
_POLICY_PORT: Final = obj("protocol endPort:int32 port:int-or-string")
SERVICE: Final = BuiltIn(
    Kind("", "v1", "Service", "services"),
    obj(
        spec=obj(
            "clusterIP externalName externalTrafficPolicy internalTrafficPolicy ipFamilyPolicy loadBalancerClass "
            "loadBalancerIP trafficDistribution allocateLoadBalancerNodePorts:bool publishNotReadyAddresses:bool "
            "healthCheckNodePort:int32 clusterIPs:strings externalIPs:strings ipFamilies:strings "
            "loadBalancerSourceRanges:strings",
            ports=keyed(_PORT, "port", "protocol", patch_key="port"),
            selector=atomic_object(parts.STRING_MAP),
            sessionAffinity=choice("None", "ClientIP"),
            sessionAffinityConfig=obj(clientIP=obj("timeoutSeconds:int32")),
            type=choice("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
        ),
        status=obj("conditions:conditions", loadBalancer=obj(ingress=items(obj("hostname ip ipMode")))),
    ),
)
NETWORK_POLICY: Final = BuiltIn(
    Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    obj(
        spec=obj(
            "policyTypes:strings podSelector:selector",
            egress=items(obj(ports=items(_POLICY_PORT), to=items(_PEER))),
            ingress=items(obj(from_=items(_PEER), ports=items(_POLICY_PORT))),
        )
    ),
)
INGRESS: Final = BuiltIn(
    Kind("networking.k8s.io", "v1", "Ingress", "ingresses"),
    obj(
        spec=obj(
            "ingressClassName",
            defaultBackend=_BACKEND,
            rules=items(obj("host", http=obj("paths!", paths=items(_PATH)))),
            tls=items(obj("secretName hosts:strings")),
        ),
        status=obj(loadBalancer=obj(ingress=items(obj("hostname ip", ports=items(_STATUS_PORT))))),
    ),
)
INGRESS_CLASS: Final = BuiltIn(
    Kind("networking.k8s.io", "v1", "IngressClass", "ingressclasses", namespaced=False),
    obj(spec=obj("controller", parameters=obj("kind! name! apiGroup namespace scope"))),
)

PERSISTENT_VOLUME_CLAIM: Final = BuiltIn(
    Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    obj(
        spec=CLAIM_SPEC,
        status=obj(
            "currentVolumeAttributesClassName phase modifyVolumeStatus:any accessModes:strings "
            "allocatedResourceStatuses:string-map conditions:conditions allocatedResources:quantities "
            "capacity:quantities"
        ),
    ),
)
PERSISTENT_VOLUME: Final = BuiltIn(
    Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False),
    obj(
        spec={
            **obj(
                "persistentVolumeReclaimPolicy storageClassName volumeMode accessModes:strings capacity:quantities",
                claimRef=parts.OBJECT_REFERENCE,
            ),
            "x-kubernetes-preserve-unknown-fields": True,
        },
        status=obj("message phase reason lastPhaseTransitionTime:time"),
    ),
)
STORAGE_CLASS: Final = BuiltIn(
    Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False),
    obj(
        "provisioner! reclaimPolicy volumeBindingMode allowVolumeExpansion:bool mountOptions:strings "
        "parameters:string-map",
        allowedTopologies=items(parts.ANY),
    ),
)
POD_DISRUPTION_BUDGET: Final = BuiltIn(
    Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    obj(
        spec=obj(
            "unhealthyPodEvictionPolicy maxUnavailable:int-or-string minAvailable:int-or-string selector:selector"
        ),
        status=obj(
            "currentHealthy:int32 desiredHealthy:int32 disruptionsAllowed:int32 expectedPods:int32 "
            "observedGeneration:int64 conditions:conditions",
            disruptedPods=table(parts.TIME),
        ),
    ),
)

_TARGET: Final = obj("kind! name! apiVersion")
_METRIC: Final = obj("name! selector:selector")
_GOAL: Final = obj("type! averageUtilization:int32 averageValue:quantity value:quantity")
_MEASURED: Final = obj("averageUtilization:int32 averageValue:quantity value:quantity")


def _metric(value: str, schema: OpenApi) -> OpenApi:
    """Return the schema of one metric of an autoscaler, whose field named `value` has `schema`."""
    part = {value: schema}
    return obj(
        "type!",
        containerResource=obj(f"container! {value}! name!", **part),
        external=obj(f"{value}! metric!", metric=_METRIC, **part),
        object=obj(f"{value}! describedObject! metric!", describedObject=_TARGET, metric=_METRIC, **part),
        pods=obj(f"{value}! metric!", metric=_METRIC, **part),
        resource=obj(f"{value}! name!", **part),
    )


_POLICY: Final = obj("type! value!:int32 periodSeconds!:int32")
_RULES: Final = obj("selectPolicy stabilizationWindowSeconds:int32 tolerance:quantity", policies=items(_POLICY))

HORIZONTAL_POD_AUTOSCALER: Final = BuiltIn(
    Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    obj(
        spec=obj(
            "scaleTargetRef! maxReplicas!:int32 minReplicas:int32",
            behavior=obj(scaleDown=_RULES, scaleUp=_RULES),
            metrics=items(_metric("target", _GOAL)),
            scaleTargetRef=_TARGET,
        ),
        status=obj(
            "currentReplicas:int32 desiredReplicas:int32 observedGeneration:int64 lastScaleTime:time "
            "conditions:conditions",
            currentMetrics=items(_metric("current", _MEASURED)),
        ),
    ),
)
RESOURCE_QUOTA: Final = BuiltIn(
    Kind("", "v1", "ResourceQuota", "resourcequotas"),
    obj(
        spec=obj(
            "scopes:strings hard:quantities",
            scopeSelector=atomic_object(obj(matchExpressions=items(obj("scopeName! operator! values:strings")))),
        ),
        status=obj("hard:quantities used:quantities"),
    ),
)
LIMIT_RANGE: Final = BuiltIn(
    Kind("", "v1", "LimitRange", "limitranges"),
    obj(
        spec=obj(
            limits=items(
                obj(
                    "type default:quantities defaultRequest:quantities max:quantities "
                    "maxLimitRequestRatio:quantities min:quantities"
                )
            ),
        )
    ),
)
PRIORITY_CLASS: Final = BuiltIn(
    Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False),
    obj("value!:int32 description preemptionPolicy globalDefault:bool"),
)
