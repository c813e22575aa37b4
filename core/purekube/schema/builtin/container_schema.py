"""The schema of a container: its command, mounts, probes and security context."""

from typing import Any, Final

from purekube.schema.builtin.openapi import (
    BOOL,
    INT32,
    INT64,
    INT_OR_STRING,
    QUANTITY,
    STRING,
    STRINGS,
    atomic_object,
    choice,
    defaulted,
    items,
    keyed,
    obj,
    table,
    unique,
)

QUANTITIES: Final = table(QUANTITY)
RESOURCES: Final = obj(
    claims=keyed(obj("name", name=STRING, request=STRING), "name"), limits=QUANTITIES, requests=QUANTITIES
)

_KEY_SELECTOR: Final = atomic_object(obj("key", key=STRING, name=STRING, optional=BOOL))
FIELD_SELECTOR: Final = atomic_object(obj("fieldPath", apiVersion=STRING, fieldPath=STRING))
RESOURCE_SELECTOR: Final = atomic_object(obj("resource", containerName=STRING, divisor=QUANTITY, resource=STRING))
_ENV: Final = obj(
    "name",
    name=STRING,
    value=STRING,
    valueFrom=obj(
        configMapKeyRef=_KEY_SELECTOR,
        secretKeyRef=_KEY_SELECTOR,
        fieldRef=FIELD_SELECTOR,
        resourceFieldRef=RESOURCE_SELECTOR,
        fileKeyRef=atomic_object(
            obj("key", "path", "volumeName", key=STRING, optional=BOOL, path=STRING, volumeName=STRING)
        ),
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
SECCOMP: Final = obj("type", localhostProfile=STRING, type=STRING)
APP_ARMOR: Final = obj("type", localhostProfile=STRING, type=STRING)
SE_LINUX: Final = obj(level=STRING, role=STRING, type=STRING, user=STRING)
WINDOWS: Final = obj(gmsaCredentialSpec=STRING, gmsaCredentialSpecName=STRING, hostProcess=BOOL, runAsUserName=STRING)
_SECURITY_CONTEXT: Final = obj(
    allowPrivilegeEscalation=BOOL,
    appArmorProfile=APP_ARMOR,
    capabilities=obj(add=STRINGS, drop=STRINGS),
    privileged=BOOL,
    procMount=STRING,
    readOnlyRootFilesystem=BOOL,
    runAsGroup=INT64,
    runAsNonRoot=BOOL,
    runAsUser=INT64,
    seLinuxOptions=SE_LINUX,
    seccompProfile=SECCOMP,
    windowsOptions=WINDOWS,
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
CONTAINER: Final = obj("name", **_CONTAINER_FIELDS)
EPHEMERAL: Final = obj("name", **_CONTAINER_FIELDS, targetContainerName=STRING)
