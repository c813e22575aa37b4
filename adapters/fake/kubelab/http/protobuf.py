"""The decoding of request bodies that clients send as protobuf instead of JSON.

kubectl does so for the built-in kinds that `kubectl create` makes, such as ConfigMap or Deployment, for access reviews,
and for the options of a DELETE; the typed clients of controller-runtime for every built-in kind.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import msgspec

from kubelab.model.failure import bad_request, unsupported_media_type
from kubelab.model.go_fields import GoField, fields, kinds
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


def _raw(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise bad_request("proto: wrong wireType for a field")
    return value


def _text(value: Any) -> str:
    return _raw(value).decode("utf-8", "replace")


def _moment(value: Any) -> datetime | None:
    """Return a point in time, or None for the zero time of Go, whose message is empty."""
    parts = dict(fields_of(_raw(value)))
    if not parts:
        return None
    try:
        seconds = datetime.fromtimestamp(_integer(parts.get(1, 0)), UTC)
    except (OverflowError, ValueError, OSError):
        raise bad_request("proto: a time outside of the calendar") from None
    return seconds + timedelta(microseconds=_integer(parts.get(2, 0)) // 1000)


def _time(value: Any) -> str | None:
    moment = _moment(value)
    return None if moment is None else format_time(moment)


def _micro_time(value: Any) -> str | None:
    moment = _moment(value)
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"


def _json(value: Any) -> Any:
    """Return the object in a RawExtension or a FieldsV1, whose only field is its JSON."""
    content = _raw(dict(fields_of(_raw(value))).get(1, b""))
    try:
        return msgspec.json.decode(content) if content else None
    except msgspec.DecodeError:
        raise bad_request("proto: a raw object is no JSON") from None


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
    "microtime": _micro_time,
    "int-or-string": _int_or_string,
    "quantity": lambda value: _text(dict(fields_of(_raw(value))).get(1, b"")),
    "raw": _json,
    "extra": lambda value: [_text(item) for _, item in fields_of(_raw(value))],
}


@cache
def _readers(message: str) -> Mapping[int, tuple[GoField, Read]]:
    """Return the fields of a message by their numbers, each with the decoder of its values."""
    return {field.number: (field, _reader(field.type)) for field in fields(message)}


def _reader(kind: str) -> Read:
    return _SCALARS.get(kind) or (lambda value: _read_members(_raw(value), kind))


def _read_members(raw: bytes, name: str) -> dict[str, Any]:
    """Return the members, in JSON, of the message `name`. Fields that Kubernetes does not have are left out."""
    message: dict[str, Any] = {}
    readers = _readers(name)
    for number, value in fields_of(raw):
        if number not in readers:
            continue
        field, read = readers[number]
        if field.is_map:
            parts = dict(fields_of(_raw(value)))
            message.setdefault(field.name, {})[_text(parts.get(1, b""))] = read(parts.get(2, b""))
            continue
        member = read(value)
        if field.is_list:
            message.setdefault(field.name, []).append(member)
        elif field.name == "-":
            message |= member
        elif member is not None and (member or not field.left_out):
            message[field.name] = member
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
    name = kind if kind == "DeleteOptions" else kinds().get((version, kind))
    if name is None:
        raise unsupported_media_type(("application/json", "application/yaml", f"({version} {kind} not as protobuf)"))
    return {"apiVersion": version, "kind": kind, **_read_members(_raw(envelope.get(2, b"")), name)}
