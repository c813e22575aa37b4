"""The decoding of request bodies that kubectl sends as protobuf instead of JSON.

kubectl does so for the built-in kinds that `kubectl create` makes, such as ConfigMap or Deployment, for access reviews,
and for the options of a DELETE.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import attrs

from kubelab.model.failure import bad_request, unsupported_media_type
from purekube.apimachinery.timestamps import format_time

Field = tuple[int, int | bytes]
"""A field's number and value: an int for varints, bytes for everything length-delimited."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def fields_of(message: bytes) -> Iterator[Field]:
    """Yield the fields of a protobuf message in order, each as its field number and its undecoded value.

    The value is an int if it has the wire type varint, and bytes otherwise. Raises ApiFailure 400 for malformed data.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}.get(kind, -1)
        if size < 0 or at + size > len(message):
            raise bad_request("proto: cannot parse invalid wire-format data")
        yield number, message[at : at + size]
        at += size


def text_field(number: int, value: str | bytes) -> bytes:
    """Return the encoded protobuf field with the field number `number` and the value `value`, a string or bytes."""
    raw = value.encode() if isinstance(value, str) else value
    return _encoded(number << 3 | _BYTES) + _encoded(len(raw)) + raw


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    # A varint has at most ten bytes.
    while at < len(message) and shift < 64:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise bad_request("proto: cannot parse invalid wire-format data")


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
# apimachinery: runtime/serializer/protobuf/protobuf.go: every message begins with these four bytes and a
# runtime.Unknown, which names the kind.
_MAGIC: Final = b"k8s\x00"

Read = Callable[[Any], Any]

_MESSAGES: Final[Mapping[str, str]] = {
    "ObjectMeta": "1 name, 2 generateName, 3 namespace, 5 uid, 6 resourceVersion, 8 creationTimestamp time,"
    " 11 labels text{}, 12 annotations text{}, 13 ownerReferences OwnerReference*, 14 finalizers text*",
    "OwnerReference": "1 kind, 3 name, 4 uid, 5 apiVersion, 6 controller bool, 7 blockOwnerDeletion bool",
    "DeleteOptions": "1 gracePeriodSeconds int, 2 preconditions Preconditions, 3 orphanDependents bool,"
    " 4 propagationPolicy, 5 dryRun text*",
    "Preconditions": "1 uid, 2 resourceVersion",
    "NamespaceSpec": "1 finalizers text*",
    "ObjectReference": "1 kind, 2 namespace, 3 name",
    "ServiceSpec": "1 ports ServicePort*, 2 selector text{}, 3 clusterIP, 4 type, 5 externalIPs text*,"
    " 7 sessionAffinity, 10 externalName, 11 externalTrafficPolicy, 13 publishNotReadyAddresses bool?",
    "ServicePort": "1 name, 2 protocol, 3 port int, 4 targetPort int-or-string, 5 nodePort int?, 6 appProtocol",
    "ResourceQuotaSpec": "1 hard quantity{}, 2 scopes text*",
    "LabelSelector": "1 matchLabels text{}",
    "PodTemplateSpec": "1 metadata ObjectMeta, 2 spec PodSpec",
    "PodSpec": "2 containers Container*, 3 restartPolicy",
    "Container": "1 name, 2 image, 3 command text*, 4 args text*, 6 ports ContainerPort*",
    "ContainerPort": "1 name, 3 containerPort int, 4 protocol",
    "DeploymentSpec": "1 replicas int, 2 selector LabelSelector, 3 template PodTemplateSpec",
    "JobSpec": "1 parallelism int, 2 completions int, 6 template PodTemplateSpec, 7 backoffLimit int",
    "CronJobSpec": "1 schedule, 3 concurrencyPolicy, 4 suspend bool, 5 jobTemplate JobTemplateSpec, 8 timeZone",
    "JobTemplateSpec": "1 metadata ObjectMeta, 2 spec JobSpec",
    "IngressSpec": "1 defaultBackend IngressBackend, 2 tls IngressTLS*, 3 rules IngressRule*, 4 ingressClassName",
    "IngressBackend": "4 service IngressServiceBackend",
    "IngressServiceBackend": "1 name, 2 port ServiceBackendPort",
    "ServiceBackendPort": "1 name, 2 number int?",
    "IngressTLS": "1 hosts text*, 2 secretName",
    "IngressRule": "1 host, 2 - IngressRuleValue",
    "IngressRuleValue": "1 http HTTPIngressRuleValue",
    "HTTPIngressRuleValue": "1 paths HTTPIngressPath*",
    "HTTPIngressPath": "1 path, 2 backend IngressBackend, 3 pathType",
    "PodDisruptionBudgetSpec": "1 minAvailable int-or-string, 2 selector LabelSelector, 3 maxUnavailable int-or-string",
    "PolicyRule": "1 verbs text*, 2 apiGroups text*, 3 resources text*, 4 resourceNames text*, 5 nonResourceURLs text*",
    "RoleRef": "1 apiGroup, 2 kind, 3 name",
    "Subject": "1 kind, 2 apiGroup, 3 name, 4 namespace",
    "SelfSubjectAccessReviewSpec": "1 resourceAttributes ResourceAttributes,"
    " 2 nonResourceAttributes NonResourceAttributes",
    "ResourceAttributes": "1 namespace, 2 verb, 3 group, 4 version, 5 resource, 6 subresource, 7 name",
    "NonResourceAttributes": "1 path, 2 verb",
    "SelfSubjectRulesReviewSpec": "1 namespace",
}
"""The fields of each message, as in Kubernetes' `.proto` files: number, JSON name, and type, by default `text`.

A type with `*` is that of a repeated field, which becomes a list in JSON; one with `{}` is that of the values of a map
from strings; one with `?` leaves the field out if it is 0 or false, as its JSON does. The members of a field with the
name `-` are members of the message itself in JSON.
"""
_ROLE: Final = "2 rules PolicyRule*"
_BINDING: Final = "2 subjects Subject*, 3 roleRef RoleRef"
_KINDS: Final[Mapping[tuple[str, str], str]] = {
    ("v1", "Namespace"): "2 spec NamespaceSpec",
    ("v1", "ConfigMap"): "2 data text{}, 3 binaryData bytes{}, 4 immutable bool",
    ("v1", "Secret"): "2 data bytes{}, 3 type, 4 stringData text{}, 5 immutable bool",
    ("v1", "ServiceAccount"): "2 secrets ObjectReference*",
    ("v1", "Service"): "2 spec ServiceSpec",
    ("v1", "ResourceQuota"): "2 spec ResourceQuotaSpec",
    ("apps/v1", "Deployment"): "2 spec DeploymentSpec",
    ("batch/v1", "Job"): "2 spec JobSpec",
    ("batch/v1", "CronJob"): "2 spec CronJobSpec",
    ("networking.k8s.io/v1", "Ingress"): "2 spec IngressSpec",
    ("policy/v1", "PodDisruptionBudget"): "2 spec PodDisruptionBudgetSpec",
    ("scheduling.k8s.io/v1", "PriorityClass"): "2 value int, 3 globalDefault bool?, 4 description, 5 preemptionPolicy",
    ("rbac.authorization.k8s.io/v1", "Role"): _ROLE,
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): _ROLE,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): _BINDING,
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): "2 spec SelfSubjectAccessReviewSpec",
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): "2 spec SelfSubjectRulesReviewSpec",
    ("authentication.k8s.io/v1", "SelfSubjectReview"): "",
}
"""The fields of each kind that can be decoded, by apiVersion and kind, in addition to `1 metadata ObjectMeta`."""


def _raw(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise bad_request("proto: wrong wireType for a field")
    return value


def _text(value: Any) -> str:
    return _raw(value).decode("utf-8", "replace")


def _time(value: Any) -> str | None:
    seconds = dict(fields_of(_raw(value))).get(1)
    return format_time(datetime.fromtimestamp(int(seconds), UTC)) if seconds else None


def _integer(value: Any) -> int:
    """Return a signed integer: protobuf encodes a negative one as if it had 64 bits without a sign."""
    if not isinstance(value, int):
        raise bad_request("proto: wrong wireType for a field")
    return value - (1 << 64 if value >> 63 else 0)


def _int_or_string(value: Any) -> Any:
    parts = dict(fields_of(_raw(value)))
    return _text(parts.get(3, b"")) if parts.get(1) else _integer(parts.get(2, 0))


_SCALARS: Final[Mapping[str, Read]] = {
    "text": _text,
    "bytes": lambda value: b64encode(_raw(value)).decode(),
    "bool": bool,
    "int": _integer,
    "time": _time,
    "int-or-string": _int_or_string,
    "quantity": lambda value: _text(dict(fields_of(_raw(value))).get(1, b"")),
    "bool?": lambda value: bool(value) or None,
    "int?": lambda value: _integer(value) or None,
}


@attrs.frozen
class WireField:
    """One field of a protobuf message: its JSON name, the decoder `read` of its values, and the end of its type."""

    name: str
    read: Read
    many: bool
    keyed: bool


def _field(declared: str) -> tuple[int, WireField]:
    number, name, *given = declared.split()
    kind = given[0] if given else "text"
    plain = kind.rstrip("*{}")
    read = _SCALARS.get(plain) or (lambda value: _read_members(_raw(value), _MESSAGES[plain]))
    return int(number), WireField(name, read, kind.endswith("*"), kind.endswith("{}"))


@cache
def _fields(declared: str) -> Mapping[int, WireField]:
    return dict(map(_field, declared.split(", ")))


def _read_members(raw: bytes, declared: str) -> dict[str, Any]:
    """Return the members, in JSON, of a message whose fields `declared` describes. Other fields are left out."""
    message: dict[str, Any] = {}
    for number, value in fields_of(raw):
        member = _fields(declared).get(number)
        if member is None:
            continue
        if member.keyed:
            parts = dict(fields_of(_raw(value)))
            message.setdefault(member.name, {})[_text(parts.get(1, b""))] = member.read(parts.get(2, b""))
            continue
        read = member.read(value)
        if member.many:
            message.setdefault(member.name, []).append(read)
        elif member.name == "-":
            message |= read
        elif read not in ("", None):
            message[member.name] = read
    return message


def decode_object(raw: bytes) -> dict[str, Any]:
    """Return the object in `raw`, a request body in Kubernetes' protobuf format, in its JSON form.

    Raises ApiFailure 400 if the body is not in this format, and 415 if this module cannot decode the object's kind.
    """
    if not raw.startswith(_MAGIC):
        raise bad_request("the object provided is no Kubernetes protobuf message")
    envelope = dict(fields_of(raw[len(_MAGIC) :]))
    type_meta = dict(fields_of(_raw(envelope.get(1, b""))))
    version, kind = _text(type_meta.get(1, b"")), _text(type_meta.get(2, b""))
    # The options are the same message in every API group, and clients name the group of the object.
    if kind == "DeleteOptions":
        declared = _MESSAGES[kind]
    elif (version, kind) in _KINDS:
        declared = ", ".join(filter(None, ("1 metadata ObjectMeta", _KINDS[version, kind])))
    else:
        raise unsupported_media_type(("application/json", "application/yaml", f"({version} {kind} not as protobuf)"))
    return {"apiVersion": version, "kind": kind, **_read_members(_raw(envelope.get(2, b"")), declared)}
