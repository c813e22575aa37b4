"""The schemas of a pod's spec and status, and of the pod template in workloads."""

from typing import Final

from purekube.schema.builtin.container_schema import (
    APP_ARMOR,
    CONTAINER,
    EPHEMERAL,
    QUANTITIES,
    RESOURCES,
    SE_LINUX,
    SECCOMP,
    WINDOWS,
)
from purekube.schema.builtin.schema_parts import (
    ANY,
    BOOL,
    CONDITIONS,
    EMBEDDED_META,
    INT32,
    INT64,
    LABEL_SELECTOR,
    NODE_SELECTOR_TERM,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    atomic_object,
    choice,
    defaulted,
    each,
    items,
    keyed,
    merging,
    obj,
)
from purekube.schema.builtin.volume_schema import VOLUME

_TOLERATION: Final = obj(effect=STRING, key=STRING, operator=STRING, tolerationSeconds=INT64, value=STRING)
_SPREAD: Final = obj(
    "maxSkew",
    "topologyKey",
    "whenUnsatisfiable",
    labelSelector=LABEL_SELECTOR,
    matchLabelKeys=STRINGS,
    maxSkew=INT32,
    minDomains=INT32,
    **each(STRING, "nodeAffinityPolicy nodeTaintsPolicy topologyKey whenUnsatisfiable"),
)
_AFFINITY_TERM: Final = obj(
    "topologyKey",
    labelSelector=LABEL_SELECTOR,
    **each(STRINGS, "matchLabelKeys mismatchLabelKeys namespaces"),
    namespaceSelector=LABEL_SELECTOR,
    topologyKey=STRING,
)
_POD_AFFINITY: Final = obj(
    preferredDuringSchedulingIgnoredDuringExecution=items(
        obj("weight", "podAffinityTerm", podAffinityTerm=_AFFINITY_TERM, weight=INT32)
    ),
    requiredDuringSchedulingIgnoredDuringExecution=items(_AFFINITY_TERM),
)
_NODE_AFFINITY: Final = obj(
    preferredDuringSchedulingIgnoredDuringExecution=items(
        obj("weight", "preference", preference=NODE_SELECTOR_TERM, weight=INT32)
    ),
    requiredDuringSchedulingIgnoredDuringExecution=atomic_object(
        obj("nodeSelectorTerms", nodeSelectorTerms=items(NODE_SELECTOR_TERM))
    ),
)
_POD_SECURITY_CONTEXT: Final = obj(
    appArmorProfile=APP_ARMOR,
    **each(INT64, "fsGroup runAsGroup runAsUser"),
    **each(STRING, "fsGroupChangePolicy seLinuxChangePolicy supplementalGroupsPolicy"),
    runAsNonRoot=BOOL,
    seLinuxOptions=SE_LINUX,
    seccompProfile=SECCOMP,
    supplementalGroups=items(INT64),
    sysctls=items(obj("name", "value", name=STRING, value=STRING)),
    windowsOptions=WINDOWS,
)

POD_SPEC: Final = obj(
    "containers",
    activeDeadlineSeconds=INT64,
    affinity=obj(nodeAffinity=_NODE_AFFINITY, podAffinity=_POD_AFFINITY, podAntiAffinity=_POD_AFFINITY),
    **each(
        BOOL,
        "automountServiceAccountToken enableServiceLinks hostIPC hostNetwork hostPID hostUsers "
        "setHostnameAsFQDN shareProcessNamespace",
    ),
    containers=keyed(CONTAINER, "name"),
    dnsConfig=obj(nameservers=STRINGS, options=items(obj(name=STRING, value=STRING)), searches=STRINGS),
    dnsPolicy=choice("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    ephemeralContainers=keyed(EPHEMERAL, "name"),
    hostAliases=keyed(obj("ip", hostnames=STRINGS, ip=STRING), "ip"),
    **each(
        STRING,
        "hostname hostnameOverride nodeName preemptionPolicy priorityClassName runtimeClassName "
        "schedulerName serviceAccount serviceAccountName subdomain",
    ),
    imagePullSecrets=keyed(atomic_object(obj(name=defaulted(STRING, ""))), "name"),
    initContainers=keyed(CONTAINER, "name"),
    nodeSelector=atomic_object(STRING_MAP),
    os=obj("name", name=STRING),
    overhead=QUANTITIES,
    priority=INT32,
    readinessGates=items(obj("conditionType", conditionType=STRING)),
    resourceClaims=keyed(obj("name", name=STRING, resourceClaimName=STRING, resourceClaimTemplateName=STRING), "name"),
    resources=RESOURCES,
    restartPolicy=choice("Always", "OnFailure", "Never"),
    schedulingGates=keyed(obj("name", name=STRING), "name"),
    securityContext=_POD_SECURITY_CONTEXT,
    terminationGracePeriodSeconds=INT64,
    tolerations=items(_TOLERATION),
    topologySpreadConstraints=keyed(_SPREAD, "topologyKey", "whenUnsatisfiable", patch_key="topologyKey"),
    volumes=keyed(VOLUME, "name"),
)

POD_TEMPLATE: Final = obj(metadata=EMBEDDED_META, spec=POD_SPEC)

_CONTAINER_STATUS: Final = obj(
    "name",
    **each(STRING, "name image imageID containerID stopSignal"),
    **each(ANY, "state lastState volumeMounts user allocatedResourcesStatus"),
    ready=BOOL,
    restartCount=INT32,
    started=BOOL,
    allocatedResources=QUANTITIES,
    resources=RESOURCES,
)

POD_STATUS: Final = obj(
    conditions=CONDITIONS,
    containerStatuses=items(_CONTAINER_STATUS),
    ephemeralContainerStatuses=items(_CONTAINER_STATUS),
    extendedResourceClaimStatus=ANY,
    **each(STRING, "hostIP message nominatedNodeName phase podIP qosClass reason resize"),
    hostIPs=items(obj("ip", ip=STRING)),
    initContainerStatuses=items(_CONTAINER_STATUS),
    observedGeneration=INT64,
    podIPs=merging(obj("ip", ip=STRING), "ip"),
    resourceClaimStatuses=items(ANY),
    startTime=TIME,
)
