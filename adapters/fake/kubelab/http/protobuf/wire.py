"""The protobuf wire format, as far as Kubernetes messages need it: varints and length-delimited fields."""

from collections.abc import Iterator

from kubelab.model.failure import bad_request

Field = tuple[int, int | bytes]
"""A field's number and value: an int for varints, bytes for everything length-delimited."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def fields_of(message: bytes) -> Iterator[Field]:
    """Yield the fields of a message in their order. Raises ApiFailure 400 for malformed data."""
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
    """Encode one length-delimited field."""
    raw = value.encode() if isinstance(value, str) else value
    return _encoded(number << 3 | _BYTES) + _encoded(len(raw)) + raw


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
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
