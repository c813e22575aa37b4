"""The schemas of pods: containers, volumes, and the spec, status and template of a pod."""

from typing import Any, Final

from purekube.schema.builtin import schema_parts as parts
from purekube.schema.builtin.schema_parts import atomic_object, choice, defaulted, items, keyed, merging, obj, unique

_RESOURCES: Final = obj("limits:quantities requests:quantities", claims=keyed(obj("name! request"), "name"))

_KEY_SELECTOR: Final = atomic_object(obj("key! name optional:bool"))
_FIELD_SELECTOR: Final = atomic_object(obj("fieldPath! apiVersion"))
_RESOURCE_SELECTOR: Final = atomic_object(obj("resource! containerName divisor:quantity"))
_ENV: Final = obj(
    "name! value",
    valueFrom=obj(
        configMapKeyRef=_KEY_SELECTOR,
        secretKeyRef=_KEY_SELECTOR,
        fieldRef=_FIELD_SELECTOR,
        resourceFieldRef=_RESOURCE_SELECTOR,
        fileKeyRef=atomic_object(obj("key! path! volumeName! optional:bool")),
    ),
)
_ENV_FROM: Final = obj("prefix", configMapRef=obj("name optional:bool"), secretRef=obj("name optional:bool"))
_HTTP_GET: Final = obj("port!:int-or-string host path scheme", httpHeaders=items(obj("name! value!")))
_HANDLER: Final[dict[str, Any]] = {
    "exec": obj("command:strings"),
    "httpGet": _HTTP_GET,
    "tcpSocket": obj("port!:int-or-string host"),
}
_PROBE: Final = obj(
    "failureThreshold:int32 initialDelaySeconds:int32 periodSeconds:int32 successThreshold:int32 "
    "timeoutSeconds:int32 terminationGracePeriodSeconds:int64",
    **_HANDLER,
    grpc=obj("port!:int32 service"),
)
_LIFECYCLE_HANDLER: Final = obj(**_HANDLER, sleep=obj("seconds!:int64"))
_SECCOMP: Final = obj("type! localhostProfile")
_APP_ARMOR: Final = obj("type! localhostProfile")
_SE_LINUX: Final = obj("level role type user")
_WINDOWS: Final = obj("gmsaCredentialSpec gmsaCredentialSpecName runAsUserName hostProcess:bool")
_SECURITY_CONTEXT: Final = obj(
    "procMount allowPrivilegeEscalation:bool privileged:bool readOnlyRootFilesystem:bool runAsNonRoot:bool "
    "runAsGroup:int64 runAsUser:int64",
    appArmorProfile=_APP_ARMOR,
    capabilities=obj("add:strings drop:strings"),
    seLinuxOptions=_SE_LINUX,
    seccompProfile=_SECCOMP,
    windowsOptions=_WINDOWS,
)
_PORT: Final = obj("containerPort!:int32 hostIP name hostPort:int32", protocol=defaulted(parts.STRING, "TCP"))
_MOUNT: Final = obj("name! mountPath! mountPropagation recursiveReadOnly subPath subPathExpr readOnly:bool")
_CONTAINER: Final = obj(
    "name! image restartPolicy terminationMessagePath terminationMessagePolicy workingDir args:strings command:strings "
    "stdin:bool stdinOnce:bool tty:bool",
    env=keyed(_ENV, "name"),
    envFrom=items(_ENV_FROM),
    imagePullPolicy=choice("Always", "IfNotPresent", "Never"),
    lifecycle=obj("stopSignal", postStart=_LIFECYCLE_HANDLER, preStop=_LIFECYCLE_HANDLER),
    livenessProbe=_PROBE,
    ports=keyed(_PORT, "containerPort", "protocol", patch_key="containerPort"),
    readinessProbe=_PROBE,
    resizePolicy=items(obj("resourceName! restartPolicy!")),
    resources=_RESOURCES,
    restartPolicyRules=items(obj("action!", exitCodes=obj("operator!", values=unique(parts.INT32)))),
    securityContext=_SECURITY_CONTEXT,
    startupProbe=_PROBE,
    volumeDevices=keyed(obj("name! devicePath!"), "devicePath"),
    volumeMounts=keyed(_MOUNT, "mountPath"),
)
_EPHEMERAL: Final = obj("name! targetContainerName", **_CONTAINER["properties"])

_KEY_TO_PATH: Final = items(obj("key! path! mode:int32"))
_DOWNWARD_ITEMS: Final = items(obj("path! mode:int32", fieldRef=_FIELD_SELECTOR, resourceFieldRef=_RESOURCE_SELECTOR))
CLAIM_SPEC: Final = obj(
    "storageClassName volumeAttributesClassName volumeMode volumeName accessModes:strings selector:selector",
    dataSource=parts.TYPED_REFERENCE,
    dataSourceRef=obj("kind! name! apiGroup namespace"),
    resources=obj("limits:quantities requests:quantities"),
)
_PROJECTION: Final = obj(
    "podCertificate:any",
    clusterTrustBundle=obj("path! name signerName optional:bool labelSelector:selector"),
    configMap=obj("name optional:bool", items=_KEY_TO_PATH),
    downwardAPI=obj(items=_DOWNWARD_ITEMS),
    secret=obj("name optional:bool", items=_KEY_TO_PATH),
    serviceAccountToken=obj("path! audience expirationSeconds:int64"),
)
_VOLUME: Final = obj(
    "name! iscsi:any rbd:any cephfs:any fc:any glusterfs:any awsElasticBlockStore:any azureDisk:any azureFile:any "
    "gcePersistentDisk:any vsphereVolume:any",
    configMap=obj("name optional:bool defaultMode:int32", items=_KEY_TO_PATH),
    csi=obj("driver! fsType readOnly:bool volumeAttributes:string-map", nodePublishSecretRef=parts.LOCAL_REFERENCE),
    downwardAPI=obj("defaultMode:int32", items=_DOWNWARD_ITEMS),
    emptyDir=obj("medium sizeLimit:quantity"),
    ephemeral=obj(volumeClaimTemplate=obj("spec!", metadata=parts.EMBEDDED_META, spec=CLAIM_SPEC)),
    hostPath=obj("path! type"),
    image=obj("pullPolicy reference"),
    nfs=obj("server! path! readOnly:bool"),
    persistentVolumeClaim=obj("claimName! readOnly:bool"),
    projected=obj("defaultMode:int32", sources=items(_PROJECTION)),
    secret=obj("secretName optional:bool defaultMode:int32", items=_KEY_TO_PATH),
)

_TOLERATION: Final = obj("effect key operator value tolerationSeconds:int64")
_SPREAD: Final = obj(
    "maxSkew!:int32 topologyKey! whenUnsatisfiable! nodeAffinityPolicy nodeTaintsPolicy minDomains:int32 "
    "matchLabelKeys:strings labelSelector:selector"
)
_AFFINITY_TERM: Final = obj(
    "topologyKey! matchLabelKeys:strings mismatchLabelKeys:strings namespaces:strings labelSelector:selector "
    "namespaceSelector:selector"
)
_POD_AFFINITY: Final = obj(
    preferredDuringSchedulingIgnoredDuringExecution=items(
        obj("weight!:int32 podAffinityTerm!", podAffinityTerm=_AFFINITY_TERM)
    ),
    requiredDuringSchedulingIgnoredDuringExecution=items(_AFFINITY_TERM),
)
_NODE_AFFINITY: Final = obj(
    preferredDuringSchedulingIgnoredDuringExecution=items(
        obj("weight!:int32 preference!", preference=parts.NODE_SELECTOR_TERM)
    ),
    requiredDuringSchedulingIgnoredDuringExecution=atomic_object(
        obj("nodeSelectorTerms!", nodeSelectorTerms=items(parts.NODE_SELECTOR_TERM))
    ),
)
_POD_SECURITY_CONTEXT: Final = obj(
    "fsGroupChangePolicy seLinuxChangePolicy supplementalGroupsPolicy runAsNonRoot:bool fsGroup:int64 "
    "runAsGroup:int64 runAsUser:int64",
    appArmorProfile=_APP_ARMOR,
    seLinuxOptions=_SE_LINUX,
    seccompProfile=_SECCOMP,
    supplementalGroups=items(parts.INT64),
    sysctls=items(obj("name! value!")),
    windowsOptions=_WINDOWS,
)

POD_SPEC: Final = obj(
    "containers! hostname hostnameOverride nodeName preemptionPolicy priorityClassName runtimeClassName "
    "schedulerName serviceAccount serviceAccountName subdomain automountServiceAccountToken:bool "
    "enableServiceLinks:bool hostIPC:bool hostNetwork:bool hostPID:bool hostUsers:bool setHostnameAsFQDN:bool "
    "shareProcessNamespace:bool priority:int32 activeDeadlineSeconds:int64 terminationGracePeriodSeconds:int64 "
    "overhead:quantities",
    affinity=obj(nodeAffinity=_NODE_AFFINITY, podAffinity=_POD_AFFINITY, podAntiAffinity=_POD_AFFINITY),
    containers=keyed(_CONTAINER, "name"),
    dnsConfig=obj("nameservers:strings searches:strings", options=items(obj("name value"))),
    dnsPolicy=choice("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    ephemeralContainers=keyed(_EPHEMERAL, "name"),
    hostAliases=keyed(obj("ip! hostnames:strings"), "ip"),
    imagePullSecrets=keyed(atomic_object(obj(name=defaulted(parts.STRING, ""))), "name"),
    initContainers=keyed(_CONTAINER, "name"),
    nodeSelector=atomic_object(parts.STRING_MAP),
    os=obj("name!"),
    readinessGates=items(obj("conditionType!")),
    resourceClaims=keyed(obj("name! resourceClaimName resourceClaimTemplateName"), "name"),
    resources=_RESOURCES,
    restartPolicy=choice("Always", "OnFailure", "Never"),
    schedulingGates=keyed(obj("name!"), "name"),
    securityContext=_POD_SECURITY_CONTEXT,
    tolerations=items(_TOLERATION),
    topologySpreadConstraints=keyed(_SPREAD, "topologyKey", "whenUnsatisfiable", patch_key="topologyKey"),
    volumes=keyed(_VOLUME, "name"),
)

POD_TEMPLATE: Final = obj(metadata=parts.EMBEDDED_META, spec=POD_SPEC)

_CONTAINER_STATUS: Final = obj(
    "name! image imageID containerID stopSignal ready:bool started:bool restartCount:int32 state:any lastState:any "
    "volumeMounts:any user:any allocatedResourcesStatus:any allocatedResources:quantities",
    resources=_RESOURCES,
)

POD_STATUS: Final = obj(
    "hostIP message nominatedNodeName phase podIP qosClass reason resize observedGeneration:int64 startTime:time "
    "extendedResourceClaimStatus:any conditions:conditions",
    containerStatuses=items(_CONTAINER_STATUS),
    ephemeralContainerStatuses=items(_CONTAINER_STATUS),
    hostIPs=items(obj("ip!")),
    initContainerStatuses=items(_CONTAINER_STATUS),
    podIPs=merging(obj("ip!"), "ip"),
    resourceClaimStatuses=items(parts.ANY),
)
