"""The decoding of request bodies that kubectl sends as protobuf instead of JSON.

kubectl does so for the built-in kinds that `kubectl create` makes, such as ConfigMap or Deployment, for access reviews,
and for the options of a DELETE.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from kubelab.model.failure import ApiFailure, bad_request, unsupported_media_type
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
    """Return the encoded protobuf field with the field number `number` and the value `value`, a text or bytes."""
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


@attrs.frozen
class WireField:
    """The description of one field of a protobuf message: its JSON name, and the decoder `read` of its values.

    With `many` the field is repeated, and becomes a JSON list. With `keyed` it is a map, and becomes a JSON object. The
    members of a field without a name are members of the message itself in JSON.
    """

    name: str
    read: Read
    many: bool = False
    keyed: bool = False


def _raw(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise bad_request("proto: wrong wireType for a field")
    return value


def _text(value: Any) -> str:
    return _raw(value).decode("utf-8", "replace")


def _base64(value: Any) -> str:
    return b64encode(_raw(value)).decode()


def _flag(value: Any) -> bool:
    return bool(value)


def _time(value: Any) -> str | None:
    seconds = dict(fields_of(_raw(value))).get(1)
    return format_time(datetime.fromtimestamp(int(seconds), UTC)) if seconds else None


def _pair(read: Read) -> Read:
    def pair(value: Any) -> tuple[str, Any]:
        parts = dict(fields_of(_raw(value)))
        return _text(parts.get(1, b"")), read(parts.get(2, b""))

    return pair


def _text_map(name: str) -> WireField:
    return WireField(name, _pair(_text), keyed=True)


def _texts(name: str) -> WireField:
    return WireField(name, _text, many=True)


def _message(**numbers: WireField) -> Read:
    """Return a function that decodes a protobuf message to JSON.

    `numbers` are the message's fields by their numbers (`f1`, `f2`, …).
    """
    members = {int(number[1:]): member for number, member in numbers.items()}
    return lambda value: _read_members(_raw(value), members)


def _read_members(raw: bytes, members: Mapping[int, WireField]) -> dict[str, Any]:
    message: dict[str, Any] = {}
    for number, value in fields_of(raw):
        member = members.get(number)
        if member is None:
            continue
        read = member.read(value)
        if member.keyed:
            message.setdefault(member.name, {})[read[0]] = read[1]
        elif member.many:
            message.setdefault(member.name, []).append(read)
        elif not member.name:
            message |= read
        elif read not in ("", None):
            message[member.name] = read
    return message


_OWNER: Final = _message(
    f1=WireField("kind", _text),
    f3=WireField("name", _text),
    f4=WireField("uid", _text),
    f5=WireField("apiVersion", _text),
    f6=WireField("controller", _flag),
    f7=WireField("blockOwnerDeletion", _flag),
)
_METADATA: Final = WireField(
    "metadata",
    _message(
        f1=WireField("name", _text),
        f2=WireField("generateName", _text),
        f3=WireField("namespace", _text),
        f5=WireField("uid", _text),
        f6=WireField("resourceVersion", _text),
        f8=WireField("creationTimestamp", _time),
        f11=_text_map("labels"),
        f12=_text_map("annotations"),
        f13=WireField("ownerReferences", _OWNER, many=True),
        f14=_texts("finalizers"),
    ),
)
_RULE: Final = _message(
    f1=_texts("verbs"),
    f2=_texts("apiGroups"),
    f3=_texts("resources"),
    f4=_texts("resourceNames"),
    f5=_texts("nonResourceURLs"),
)
_SUBJECT: Final = _message(
    f1=WireField("kind", _text),
    f2=WireField("apiGroup", _text),
    f3=WireField("name", _text),
    f4=WireField("namespace", _text),
)
_ROLE_REF: Final = _message(f1=WireField("apiGroup", _text), f2=WireField("kind", _text), f3=WireField("name", _text))
_ROLE: Final = _message(f1=_METADATA, f2=WireField("rules", _RULE, many=True))
_BINDING: Final = _message(
    f1=_METADATA, f2=WireField("subjects", _SUBJECT, many=True), f3=WireField("roleRef", _ROLE_REF)
)
_NAMED: Final = _message(f1=WireField("kind", _text), f2=WireField("namespace", _text), f3=WireField("name", _text))
_RESOURCE_ATTRIBUTES: Final = _message(
    f1=WireField("namespace", _text),
    f2=WireField("verb", _text),
    f3=WireField("group", _text),
    f4=WireField("version", _text),
    f5=WireField("resource", _text),
    f6=WireField("subresource", _text),
    f7=WireField("name", _text),
)
_PATH_ATTRIBUTES: Final = _message(f1=WireField("path", _text), f2=WireField("verb", _text))


def _integer(value: Any) -> int:
    """Return a signed integer: protobuf encodes a negative one as if it had 64 bits without a sign."""
    if not isinstance(value, int):
        raise bad_request("proto: wrong wireType for a field")
    return value - (1 << 64 if value >> 63 else 0)


def _unless_zero(read: Read) -> Read:
    """Return a decoder that leaves the field out if its value is 0 or false, as its JSON does."""
    return lambda value: read(value) or None


def _int_or_string(value: Any) -> Any:
    parts = dict(fields_of(_raw(value)))
    return _text(parts.get(3, b"")) if parts.get(1) else _integer(parts.get(2, 0))


def _quantity(value: Any) -> str:
    return _text(dict(fields_of(_raw(value))).get(1, b""))


_PORT: Final = _message(
    f1=WireField("name", _text), f3=WireField("containerPort", _integer), f4=WireField("protocol", _text)
)
_CONTAINER: Final = _message(
    f1=WireField("name", _text),
    f2=WireField("image", _text),
    f3=_texts("command"),
    f4=_texts("args"),
    f6=WireField("ports", _PORT, many=True),
)
_TEMPLATE: Final = WireField(
    "template",
    _message(
        f1=_METADATA,
        f2=WireField(
            "spec",
            _message(f2=WireField("containers", _CONTAINER, many=True), f3=WireField("restartPolicy", _text)),
        ),
    ),
)
_SELECTOR: Final = WireField("selector", _message(f1=_text_map("matchLabels")))
_DEPLOYMENT_SPEC: Final = _message(f1=WireField("replicas", _integer), f2=_SELECTOR, f3=_TEMPLATE)
_JOB_SPEC: Final = _message(
    f1=WireField("parallelism", _integer),
    f2=WireField("completions", _integer),
    f6=_TEMPLATE,
    f7=WireField("backoffLimit", _integer),
)

_CRON_JOB_SPEC: Final = _message(
    f1=WireField("schedule", _text),
    f3=WireField("concurrencyPolicy", _text),
    f4=WireField("suspend", _flag),
    f5=WireField("jobTemplate", _message(f1=_METADATA, f2=WireField("spec", _JOB_SPEC))),
    f8=WireField("timeZone", _text),
)
_SERVICE_PORT: Final = _message(
    f1=WireField("name", _text),
    f2=WireField("protocol", _text),
    f3=WireField("port", _integer),
    f4=WireField("targetPort", _int_or_string),
    f5=WireField("nodePort", _unless_zero(_integer)),
    f6=WireField("appProtocol", _text),
)
_SERVICE_SPEC: Final = _message(
    f1=WireField("ports", _SERVICE_PORT, many=True),
    f2=_text_map("selector"),
    f3=WireField("clusterIP", _text),
    f4=WireField("type", _text),
    f5=_texts("externalIPs"),
    f7=WireField("sessionAffinity", _text),
    f10=WireField("externalName", _text),
    f11=WireField("externalTrafficPolicy", _text),
    f13=WireField("publishNotReadyAddresses", _unless_zero(_flag)),
)
_INGRESS_BACKEND: Final = _message(
    f4=WireField(
        "service",
        _message(
            f1=WireField("name", _text),
            f2=WireField("port", _message(f1=WireField("name", _text), f2=WireField("number", _unless_zero(_integer)))),
        ),
    )
)
_INGRESS_PATH: Final = _message(
    f1=WireField("path", _text), f2=WireField("backend", _INGRESS_BACKEND), f3=WireField("pathType", _text)
)
_INGRESS_PATHS: Final = _message(f1=WireField("paths", _INGRESS_PATH, many=True))
_INGRESS_RULE: Final = _message(
    f1=WireField("host", _text), f2=WireField("", _message(f1=WireField("http", _INGRESS_PATHS)))
)
_INGRESS_SPEC: Final = _message(
    f1=WireField("defaultBackend", _INGRESS_BACKEND),
    f2=WireField("tls", _message(f1=_texts("hosts"), f2=WireField("secretName", _text)), many=True),
    f3=WireField("rules", _INGRESS_RULE, many=True),
    f4=WireField("ingressClassName", _text),
)

_DELETE_OPTIONS: Final = _message(
    f1=WireField("gracePeriodSeconds", _integer),
    f2=WireField("preconditions", _message(f1=WireField("uid", _text), f2=WireField("resourceVersion", _text))),
    f3=WireField("orphanDependents", _flag),
    f4=WireField("propagationPolicy", _text),
    f5=_texts("dryRun"),
)
"""The decoder of DeleteOptions, which is the same message in every API group."""

_KINDS: Final[Mapping[tuple[str, str], Read]] = {
    ("v1", "Namespace"): _message(f1=_METADATA, f2=WireField("spec", _message(f1=_texts("finalizers")))),
    ("v1", "ConfigMap"): _message(
        f1=_METADATA,
        f2=_text_map("data"),
        f3=WireField("binaryData", _pair(_base64), keyed=True),
        f4=WireField("immutable", _flag),
    ),
    ("v1", "Secret"): _message(
        f1=_METADATA,
        f2=WireField("data", _pair(_base64), keyed=True),
        f3=WireField("type", _text),
        f4=_text_map("stringData"),
        f5=WireField("immutable", _flag),
    ),
    ("v1", "ServiceAccount"): _message(f1=_METADATA, f2=WireField("secrets", _NAMED, many=True)),
    ("v1", "Service"): _message(f1=_METADATA, f2=WireField("spec", _SERVICE_SPEC)),
    ("v1", "ResourceQuota"): _message(
        f1=_METADATA,
        f2=WireField("spec", _message(f1=WireField("hard", _pair(_quantity), keyed=True), f2=_texts("scopes"))),
    ),
    ("apps/v1", "Deployment"): _message(f1=_METADATA, f2=WireField("spec", _DEPLOYMENT_SPEC)),
    ("batch/v1", "Job"): _message(f1=_METADATA, f2=WireField("spec", _JOB_SPEC)),
    ("batch/v1", "CronJob"): _message(f1=_METADATA, f2=WireField("spec", _CRON_JOB_SPEC)),
    ("networking.k8s.io/v1", "Ingress"): _message(f1=_METADATA, f2=WireField("spec", _INGRESS_SPEC)),
    ("policy/v1", "PodDisruptionBudget"): _message(
        f1=_METADATA,
        f2=WireField(
            "spec",
            _message(
                f1=WireField("minAvailable", _int_or_string),
                f2=_SELECTOR,
                f3=WireField("maxUnavailable", _int_or_string),
            ),
        ),
    ),
    ("scheduling.k8s.io/v1", "PriorityClass"): _message(
        f1=_METADATA,
        f2=WireField("value", _integer),
        f3=WireField("globalDefault", _unless_zero(_flag)),
        f4=WireField("description", _text),
        f5=WireField("preemptionPolicy", _text),
    ),
    ("rbac.authorization.k8s.io/v1", "Role"): _ROLE,
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): _ROLE,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): _BINDING,
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): _message(
        f1=_METADATA,
        f2=WireField(
            "spec",
            _message(
                f1=WireField("resourceAttributes", _RESOURCE_ATTRIBUTES),
                f2=WireField("nonResourceAttributes", _PATH_ATTRIBUTES),
            ),
        ),
    ),
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): _message(
        f1=_METADATA, f2=WireField("spec", _message(f1=WireField("namespace", _text)))
    ),
    ("authentication.k8s.io/v1", "SelfSubjectReview"): _message(f1=_METADATA),
}


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
    read = _DELETE_OPTIONS if kind == "DeleteOptions" else _KINDS.get((version, kind))
    if read is None:
        raise _not_described(version, kind)
    return {"apiVersion": version, "kind": kind, **read(envelope.get(2, b""))}


def _not_described(version: str, kind: str) -> ApiFailure:
    return unsupported_media_type(("application/json", "application/yaml", f"({version} {kind} not as protobuf)"))
