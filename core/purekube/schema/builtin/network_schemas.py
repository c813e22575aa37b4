"""Schemas of Service, NetworkPolicy and Ingress."""

from typing import Final

from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin.schema_parts import (
    BOOL,
    CONDITIONS,
    INT32,
    INT_OR_STRING,
    LABEL_SELECTOR,
    STRING,
    STRING_MAP,
    STRINGS,
    BuiltIn,
    atomic_object,
    choice,
    defaulted,
    each,
    items,
    keyed,
    obj,
)

_PORT: Final = obj(
    "port",
    appProtocol=STRING,
    name=STRING,
    nodePort=INT32,
    port=INT32,
    protocol=defaulted(STRING, "TCP"),
    targetPort=INT_OR_STRING,
)
_BACKEND: Final = obj(
    resource=obj("kind", "name", apiGroup=STRING, kind=STRING, name=STRING),
    service=obj("name", name=STRING, port=obj(name=STRING, number=INT32)),
)
_PATH: Final = obj(
    "backend",
    "pathType",
    backend=_BACKEND,
    path=STRING,
    pathType=choice("Exact", "ImplementationSpecific", "Prefix"),
)
_STATUS_PORT: Final = obj("port", "protocol", error=STRING, port=INT32, protocol=STRING)
_PEER: Final = obj(
    ipBlock=obj("cidr", cidr=STRING, except_=STRINGS), namespaceSelector=LABEL_SELECTOR, podSelector=LABEL_SELECTOR
)
_POLICY_PORT: Final = obj(endPort=INT32, port=INT_OR_STRING, protocol=STRING)
SERVICE: Final = BuiltIn(
    Kind("", "v1", "Service", "services"),
    obj(
        spec=obj(
            allocateLoadBalancerNodePorts=BOOL,
            **each(
                STRING,
                "clusterIP externalName externalTrafficPolicy internalTrafficPolicy ipFamilyPolicy "
                "loadBalancerClass loadBalancerIP trafficDistribution",
            ),
            **each(STRINGS, "clusterIPs externalIPs ipFamilies loadBalancerSourceRanges"),
            healthCheckNodePort=INT32,
            ports=keyed(_PORT, "port", "protocol", patch_key="port"),
            publishNotReadyAddresses=BOOL,
            selector=atomic_object(STRING_MAP),
            sessionAffinity=choice("None", "ClientIP"),
            sessionAffinityConfig=obj(clientIP=obj(timeoutSeconds=INT32)),
            type=choice("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
        ),
        status=obj(
            conditions=CONDITIONS,
            loadBalancer=obj(ingress=items(obj(hostname=STRING, ip=STRING, ipMode=STRING))),
        ),
    ),
)
NETWORK_POLICY: Final = BuiltIn(
    Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    obj(
        spec=obj(
            egress=items(obj(ports=items(_POLICY_PORT), to=items(_PEER))),
            ingress=items(obj(from_=items(_PEER), ports=items(_POLICY_PORT))),
            podSelector=LABEL_SELECTOR,
            policyTypes=STRINGS,
        )
    ),
)
INGRESS: Final = BuiltIn(
    Kind("networking.k8s.io", "v1", "Ingress", "ingresses"),
    obj(
        spec=obj(
            defaultBackend=_BACKEND,
            ingressClassName=STRING,
            rules=items(obj(host=STRING, http=obj("paths", paths=items(_PATH)))),
            tls=items(obj(hosts=STRINGS, secretName=STRING)),
        ),
        status=obj(
            loadBalancer=obj(ingress=items(obj(hostname=STRING, ip=STRING, ports=items(_STATUS_PORT)))),
        ),
    ),
)
INGRESS_CLASS: Final = BuiltIn(
    Kind("networking.k8s.io", "v1", "IngressClass", "ingressclasses", namespaced=False),
    obj(
        spec=obj(
            controller=STRING, parameters=obj("kind", "name", **each(STRING, "apiGroup kind name namespace scope"))
        )
    ),
)
