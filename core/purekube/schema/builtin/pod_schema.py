"""The schema of pods and of the pod templates in every workload."""

from typing import Final

from purekube.schema.builtin.common_types import CONDITIONS, EMBEDDED_META, LABEL_SELECTOR, NODE_SELECTOR_TERM
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
from purekube.schema.builtin.openapi import (
    ANY,
    BOOL,
    INT32,
    INT64,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    atomic_object,
    choice,
    defaulted,
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
    nodeAffinityPolicy=STRING,
    nodeTaintsPolicy=STRING,
    topologyKey=STRING,
    whenUnsatisfiable=STRING,
)
_AFFINITY_TERM: Final = obj(
    "topologyKey",
    labelSelector=LABEL_SELECTOR,
    matchLabelKeys=STRINGS,
    mismatchLabelKeys=STRINGS,
    namespaceSelector=LABEL_SELECTOR,
    namespaces=STRINGS,
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
    fsGroup=INT64,
    fsGroupChangePolicy=STRING,
    runAsGroup=INT64,
    runAsNonRoot=BOOL,
    runAsUser=INT64,
    seLinuxChangePolicy=STRING,
    seLinuxOptions=SE_LINUX,
    seccompProfile=SECCOMP,
    supplementalGroups=items(INT64),
    supplementalGroupsPolicy=STRING,
    sysctls=items(obj("name", "value", name=STRING, value=STRING)),
    windowsOptions=WINDOWS,
)

POD_SPEC: Final = obj(
    "containers",
    activeDeadlineSeconds=INT64,
    affinity=obj(nodeAffinity=_NODE_AFFINITY, podAffinity=_POD_AFFINITY, podAntiAffinity=_POD_AFFINITY),
    automountServiceAccountToken=BOOL,
    containers=keyed(CONTAINER, "name"),
    dnsConfig=obj(nameservers=STRINGS, options=items(obj(name=STRING, value=STRING)), searches=STRINGS),
    dnsPolicy=choice("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    enableServiceLinks=BOOL,
    ephemeralContainers=keyed(EPHEMERAL, "name"),
    hostAliases=keyed(obj("ip", hostnames=STRINGS, ip=STRING), "ip"),
    hostIPC=BOOL,
    hostNetwork=BOOL,
    hostPID=BOOL,
    hostUsers=BOOL,
    hostname=STRING,
    hostnameOverride=STRING,
    imagePullSecrets=keyed(atomic_object(obj(name=defaulted(STRING, ""))), "name"),
    initContainers=keyed(CONTAINER, "name"),
    nodeName=STRING,
    nodeSelector=atomic_object(STRING_MAP),
    os=obj("name", name=STRING),
    overhead=QUANTITIES,
    preemptionPolicy=STRING,
    priority=INT32,
    priorityClassName=STRING,
    readinessGates=items(obj("conditionType", conditionType=STRING)),
    resourceClaims=keyed(obj("name", name=STRING, resourceClaimName=STRING, resourceClaimTemplateName=STRING), "name"),
    resources=RESOURCES,
    restartPolicy=choice("Always", "OnFailure", "Never"),
    runtimeClassName=STRING,
    schedulerName=STRING,
    schedulingGates=keyed(obj("name", name=STRING), "name"),
    securityContext=_POD_SECURITY_CONTEXT,
    serviceAccount=STRING,
    serviceAccountName=STRING,
    setHostnameAsFQDN=BOOL,
    shareProcessNamespace=BOOL,
    subdomain=STRING,
    terminationGracePeriodSeconds=INT64,
    tolerations=items(_TOLERATION),
    topologySpreadConstraints=keyed(_SPREAD, "topologyKey", "whenUnsatisfiable", patch_key="topologyKey"),
    volumes=keyed(VOLUME, "name"),
)

POD_TEMPLATE: Final = obj(metadata=EMBEDDED_META, spec=POD_SPEC)

_CONTAINER_STATUS: Final = obj(
    "name",
    name=STRING,
    state=ANY,
    lastState=ANY,
    ready=BOOL,
    restartCount=INT32,
    image=STRING,
    imageID=STRING,
    containerID=STRING,
    started=BOOL,
    allocatedResources=QUANTITIES,
    resources=RESOURCES,
    volumeMounts=ANY,
    user=ANY,
    allocatedResourcesStatus=ANY,
    stopSignal=STRING,
)

POD_STATUS: Final = obj(
    conditions=CONDITIONS,
    containerStatuses=items(_CONTAINER_STATUS),
    ephemeralContainerStatuses=items(_CONTAINER_STATUS),
    extendedResourceClaimStatus=ANY,
    hostIP=STRING,
    hostIPs=items(obj("ip", ip=STRING)),
    initContainerStatuses=items(_CONTAINER_STATUS),
    message=STRING,
    nominatedNodeName=STRING,
    observedGeneration=INT64,
    phase=STRING,
    podIP=STRING,
    podIPs=merging(obj("ip", ip=STRING), "ip"),
    qosClass=STRING,
    reason=STRING,
    resize=STRING,
    resourceClaimStatuses=items(ANY),
    startTime=TIME,
)
