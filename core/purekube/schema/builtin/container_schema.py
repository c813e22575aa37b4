"""The schema of a container: its command, mounts, probes and security context."""

from typing import Any, Final

from purekube.schema.builtin.schema_parts import (
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
    each,
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
    **each(STRING, "host path scheme"),
    httpHeaders=items(obj("name", "value", name=STRING, value=STRING)),
    port=INT_OR_STRING,
)
_HANDLER: Final[dict[str, Any]] = {
    "exec": obj(command=STRINGS),
    "httpGet": _HTTP_GET,
    "tcpSocket": obj("port", host=STRING, port=INT_OR_STRING),
}
_PROBE: Final = obj(
    **_HANDLER,
    grpc=obj("port", port=INT32, service=STRING),
    **each(INT32, "failureThreshold initialDelaySeconds periodSeconds successThreshold timeoutSeconds"),
    terminationGracePeriodSeconds=INT64,
)
_LIFECYCLE_HANDLER: Final = obj(**_HANDLER, sleep=obj("seconds", seconds=INT64))
SECCOMP: Final = obj("type", localhostProfile=STRING, type=STRING)
APP_ARMOR: Final = obj("type", localhostProfile=STRING, type=STRING)
SE_LINUX: Final = obj(level=STRING, role=STRING, type=STRING, user=STRING)
WINDOWS: Final = obj(gmsaCredentialSpec=STRING, gmsaCredentialSpecName=STRING, hostProcess=BOOL, runAsUserName=STRING)
_SECURITY_CONTEXT: Final = obj(
    **each(BOOL, "allowPrivilegeEscalation privileged readOnlyRootFilesystem runAsNonRoot"),
    appArmorProfile=APP_ARMOR,
    capabilities=obj(add=STRINGS, drop=STRINGS),
    procMount=STRING,
    runAsGroup=INT64,
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
    **each(STRING, "mountPath mountPropagation name recursiveReadOnly subPath subPathExpr"),
    readOnly=BOOL,
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
