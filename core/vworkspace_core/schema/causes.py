"""The words of a refusal: causes with the reasons and texts that a real API server sends.

Field paths are those of `details.causes[].field`: `spec.ports[0].name`, `metadata.labels`, and `<nil>` for
what belongs to no field (the wire really says that).
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from vworkspace_core.apimachinery.errors import Cause

NO_FIELD: Final = "<nil>"

_encoder = msgspec.json.Encoder(order="sorted")


def quoted(text: str) -> str:
    """`text` in double quotes, as Go prints a string."""
    return _encoder.encode(text).decode()


def go_value(value: Any) -> str:
    """A JSON value as it stands in a message: strings quoted, objects and lists as JSON."""
    return _encoder.encode(value).decode()


def invalid_value(field: str, value: Any, detail: str, reason: str = "FieldValueInvalid") -> Cause:
    """`Invalid value: …: detail`."""
    return Cause(field, f"Invalid value: {go_value(value)}: {detail}", reason)


def invalid_type(field: str, value: Any, detail: str) -> Cause:
    """A value of the wrong JSON type or format."""
    return invalid_value(field, value, detail, "FieldValueTypeInvalid")


def required(field: str, detail: str = "") -> Cause:
    """A field that must be there is not."""
    return Cause(field, f"Required value: {detail}" if detail else "Required value", "FieldValueRequired")


def not_supported(field: str, value: Any, allowed: Sequence[Any]) -> Cause:
    """A value outside an enumeration."""
    listed = ", ".join(quoted(item if isinstance(item, str) else go_value(item)) for item in allowed)
    return Cause(field, f"Unsupported value: {go_value(value)}: supported values: {listed}", "FieldValueNotSupported")


def too_long(field: str, limit: int) -> Cause:
    """A string beyond `maxLength`."""
    return Cause(field, f"Too long: may not be more than {limit} bytes", "FieldValueTooLong")


def too_many(field: str, actual: int, limit: int) -> Cause:
    """A list or object with more members than allowed."""
    return Cause(field, f"Too many: {actual}: must have at most {limit} items", "FieldValueTooMany")


def duplicate(field: str, value: Any) -> Cause:
    """An item that a set or map list holds twice."""
    return Cause(field, f"Duplicate value: {go_value(value)}", "FieldValueDuplicate")


def forbidden_value(field: str, detail: str) -> Cause:
    """Something that may not be set or changed here."""
    return Cause(field, f"Forbidden: {detail}", "FieldValueForbidden")
