"""The schema of pods and of the pod templates in every workload."""

from typing import Any, Final

from vworkspace_fake.apiserver.builtin.openapi import (
    ANY,
    BOOL,
    INT32,
    INT64,
    INT_OR_STRING,
    QUANTITY,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    choice,
    defaulted,
    items,
    keyed,
    merging,
    obj,
    table,
    unique,
    whole,
)
from vworkspace_fake.apiserver.builtin.shapes import (
    CONDITIONS,
    EMBEDDED_META,
    LABEL_SELECTOR,
    LOCAL_REFERENCE,
    NODE_SELECTOR_TERM,
    TYPED_REFERENCE,
)

__all__ = ["CLAIM_SPEC", "POD_SPEC", "POD_STATUS", "POD_TEMPLATE", "RESOURCES"]

_QUANTITIES: Final = table(QUANTITY)
RESOURCES: Final = obj(
    claims=keyed(obj("name", name=STRING, request=STRING), "name"), limits=_QUANTITIES, requests=_QUANTITIES
)

_KEY_SELECTOR: Final = whole(obj("key", key=STRING, name=STRING, optional=BOOL))
_FIELD_SELECTOR: Final = whole(obj("fieldPath", apiVersion=STRING, fieldPath=STRING))
_RESOURCE_SELECTOR: Final = whole(obj("resource", containerName=STRING, divisor=QUANTITY, resource=STRING))
_ENV: Final = obj(
    "name",
    name=STRING,
    value=STRING,
    valueFrom=obj(
        configMapKeyRef=_KEY_SELECTOR,
        secretKeyRef=_KEY_SELECTOR,
        fieldRef=_FIELD_SELECTOR,
        resourceFieldRef=_RESOURCE_SELECTOR,
        fileKeyRef=whole(obj("key", "path", "volumeName", key=STRING, optional=BOOL, path=STRING, volumeName=STRING)),
    ),
)
_ENV_FROM: Final = obj(
    prefix=STRING, configMapRef=obj(name=STRING, optional=BOOL), secretRef=obj(name=STRING, optional=BOOL)
)
_HTTP_GET: Final = obj(
    "port",
    host=STRING,
    httpHeaders=items(obj("name", "value", name=STRING, value=STRING)),
    path=STRING,
    port=INT_OR_STRING,
    scheme=STRING,
)
_HANDLER: Final[dict[str, Any]] = {
    "exec": obj(command=STRINGS),
    "httpGet": _HTTP_GET,
    "tcpSocket": obj("port", host=STRING, port=INT_OR_STRING),
}
_PROBE: Final = obj(
    **_HANDLER,
    grpc=obj("port", port=INT32, service=STRING),
    failureThreshold=INT32,
    initialDelaySeconds=INT32,
    periodSeconds=INT32,
    successThreshold=INT32,
    terminationGracePeriodSeconds=INT64,
    timeoutSeconds=INT32,
)
_LIFECYCLE_HANDLER: Final = obj(**_HANDLER, sleep=obj("seconds", seconds=INT64))
_SECCOMP: Final = obj("type", localhostProfile=STRING, type=STRING)
_APP_ARMOR: Final = obj("type", localhostProfile=STRING, type=STRING)
_SE_LINUX: Final = obj(level=STRING, role=STRING, type=STRING, user=STRING)
_WINDOWS: Final = obj(gmsaCredentialSpec=STRING, gmsaCredentialSpecName=STRING, hostProcess=BOOL, runAsUserName=STRING)
_SECURITY_CONTEXT: Final = obj(
    allowPrivilegeEscalation=BOOL,
    appArmorProfile=_APP_ARMOR,
    capabilities=obj(add=STRINGS, drop=STRINGS),
    privileged=BOOL,
    procMount=STRING,
    readOnlyRootFilesystem=BOOL,
    runAsGroup=INT64,
    runAsNonRoot=BOOL,
    runAsUser=INT64,
    seLinuxOptions=_SE_LINUX,
    seccompProfile=_SECCOMP,
    windowsOptions=_WINDOWS,
)
_PORT: Final = obj(
    "containerPort",
    containerPort=INT32,
    hostIP=STRING,
    hostPort=INT32,
    name=STRING,
    protocol=defaulted(STRING, "TCP"),
)
_MOUNT: Final = obj(
    "name",
    "mountPath",
    mountPath=STRING,
    mountPropagation=STRING,
    name=STRING,
    readOnly=BOOL,
    recursiveReadOnly=STRING,
    subPath=STRING,
    subPathExpr=STRING,
)
_CONTAINER_FIELDS: Final[dict[str, Any]] = {
    "args": STRINGS,
    "command": STRINGS,
    "env": keyed(_ENV, "name"),
    "envFrom": items(_ENV_FROM),
    "image": STRING,
    "imagePullPolicy": choice("Always", "IfNotPresent", "Never"),
    "lifecycle": obj(postStart=_LIFECYCLE_HANDLER, preStop=_LIFECYCLE_HANDLER, stopSignal=STRING),
    "livenessProbe": _PROBE,
    "name": STRING,
    "ports": keyed(_PORT, "containerPort", "protocol", patch_key="containerPort"),
    "readinessProbe": _PROBE,
    "resizePolicy": items(obj("resourceName", "restartPolicy", resourceName=STRING, restartPolicy=STRING)),
    "resources": RESOURCES,
    "restartPolicy": STRING,
    "restartPolicyRules": items(
        obj("action", action=STRING, exitCodes=obj("operator", operator=STRING, values=unique(INT32)))
    ),
    "securityContext": _SECURITY_CONTEXT,
    "startupProbe": _PROBE,
    "stdin": BOOL,
    "stdinOnce": BOOL,
    "terminationMessagePath": STRING,
    "terminationMessagePolicy": STRING,
    "tty": BOOL,
    "volumeDevices": keyed(obj("name", "devicePath", devicePath=STRING, name=STRING), "devicePath"),
    "volumeMounts": keyed(_MOUNT, "mountPath"),
    "workingDir": STRING,
}
_CONTAINER: Final = obj("name", **_CONTAINER_FIELDS)
_EPHEMERAL: Final = obj("name", **_CONTAINER_FIELDS, targetContainerName=STRING)

_KEY_TO_PATH: Final = items(obj("key", "path", key=STRING, mode=INT32, path=STRING))
_DOWNWARD_ITEMS: Final = items(
    obj("path", fieldRef=_FIELD_SELECTOR, mode=INT32, path=STRING, resourceFieldRef=_RESOURCE_SELECTOR)
)
CLAIM_SPEC: Final = obj(
    accessModes=STRINGS,
    dataSource=TYPED_REFERENCE,
    dataSourceRef=obj("kind", "name", apiGroup=STRING, kind=STRING, name=STRING, namespace=STRING),
    resources=obj(limits=_QUANTITIES, requests=_QUANTITIES),
    selector=LABEL_SELECTOR,
    storageClassName=STRING,
    volumeAttributesClassName=STRING,
    volumeMode=STRING,
    volumeName=STRING,
)
_PROJECTION: Final = obj(
    clusterTrustBundle=obj(
        "path", labelSelector=LABEL_SELECTOR, name=STRING, optional=BOOL, path=STRING, signerName=STRING
    ),
    configMap=obj(items=_KEY_TO_PATH, name=STRING, optional=BOOL),
    downwardAPI=obj(items=_DOWNWARD_ITEMS),
    podCertificate=ANY,
    secret=obj(items=_KEY_TO_PATH, name=STRING, optional=BOOL),
    serviceAccountToken=obj("path", audience=STRING, expirationSeconds=INT64, path=STRING),
)
_VOLUME: Final = obj(
    "name",
    name=STRING,
    configMap=obj(defaultMode=INT32, items=_KEY_TO_PATH, name=STRING, optional=BOOL),
    csi=obj(
        "driver",
        driver=STRING,
        fsType=STRING,
        nodePublishSecretRef=LOCAL_REFERENCE,
        readOnly=BOOL,
        volumeAttributes=STRING_MAP,
    ),
    downwardAPI=obj(defaultMode=INT32, items=_DOWNWARD_ITEMS),
    emptyDir=obj(medium=STRING, sizeLimit=QUANTITY),
    ephemeral=obj(volumeClaimTemplate=obj("spec", metadata=EMBEDDED_META, spec=CLAIM_SPEC)),
    hostPath=obj("path", path=STRING, type=STRING),
    image=obj(pullPolicy=STRING, reference=STRING),
    iscsi=ANY,
    nfs=obj("server", "path", path=STRING, readOnly=BOOL, server=STRING),
    persistentVolumeClaim=obj("claimName", claimName=STRING, readOnly=BOOL),
    projected=obj(defaultMode=INT32, sources=items(_PROJECTION)),
    secret=obj(defaultMode=INT32, items=_KEY_TO_PATH, optional=BOOL, secretName=STRING),
    rbd=ANY,
    cephfs=ANY,
    fc=ANY,
    glusterfs=ANY,
    awsElasticBlockStore=ANY,
    azureDisk=ANY,
    azureFile=ANY,
    gcePersistentDisk=ANY,
    vsphereVolume=ANY,
)
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
    requiredDuringSchedulingIgnoredDuringExecution=whole(
        obj("nodeSelectorTerms", nodeSelectorTerms=items(NODE_SELECTOR_TERM))
    ),
)
_POD_SECURITY_CONTEXT: Final = obj(
    appArmorProfile=_APP_ARMOR,
    fsGroup=INT64,
    fsGroupChangePolicy=STRING,
    runAsGroup=INT64,
    runAsNonRoot=BOOL,
    runAsUser=INT64,
    seLinuxChangePolicy=STRING,
    seLinuxOptions=_SE_LINUX,
    seccompProfile=_SECCOMP,
    supplementalGroups=items(INT64),
    supplementalGroupsPolicy=STRING,
    sysctls=items(obj("name", "value", name=STRING, value=STRING)),
    windowsOptions=_WINDOWS,
)

POD_SPEC: Final = obj(
    "containers",
    activeDeadlineSeconds=INT64,
    affinity=obj(nodeAffinity=_NODE_AFFINITY, podAffinity=_POD_AFFINITY, podAntiAffinity=_POD_AFFINITY),
    automountServiceAccountToken=BOOL,
    containers=keyed(_CONTAINER, "name"),
    dnsConfig=obj(nameservers=STRINGS, options=items(obj(name=STRING, value=STRING)), searches=STRINGS),
    dnsPolicy=choice("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    enableServiceLinks=BOOL,
    ephemeralContainers=keyed(_EPHEMERAL, "name"),
    hostAliases=keyed(obj("ip", hostnames=STRINGS, ip=STRING), "ip"),
    hostIPC=BOOL,
    hostNetwork=BOOL,
    hostPID=BOOL,
    hostUsers=BOOL,
    hostname=STRING,
    hostnameOverride=STRING,
    imagePullSecrets=keyed(whole(obj(name=defaulted(STRING, ""))), "name"),
    initContainers=keyed(_CONTAINER, "name"),
    nodeName=STRING,
    nodeSelector=whole(STRING_MAP),
    os=obj("name", name=STRING),
    overhead=_QUANTITIES,
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
    volumes=keyed(_VOLUME, "name"),
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
    allocatedResources=_QUANTITIES,
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
