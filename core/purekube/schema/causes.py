"""The causes of a refusal, with the same reasons and messages as a real API server's (`details.causes` of a Status).

Field paths are those of `details.causes[].field`: `spec.ports[0].name`, `metadata.labels`, and `<nil>` for a cause that
concerns no field (a real server sends this text).
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from purekube.apimachinery.errors import StatusCause

NO_FIELD: Final = "<nil>"

_encoder = msgspec.json.Encoder(order="sorted")


def quoted(text: str) -> str:
    """Return `text` in double quotes, as Go prints a string."""
    return _encoder.encode(text).decode()


def go_value(value: Any) -> str:
    """Return a JSON value as the API server's messages show it: strings quoted, objects and lists as JSON."""
    return _encoder.encode(value).decode()


def invalid_value(field: str, value: Any, detail: str, reason: str = "FieldValueInvalid") -> StatusCause:
    """Return the StatusCause for an invalid value at the path `field`, with the message `Invalid value: …: detail`."""
    return StatusCause(field, f"Invalid value: {go_value(value)}: {detail}", reason)


def invalid_type(field: str, value: Any, detail: str) -> StatusCause:
    """Return the StatusCause for a value at the path `field` that has the wrong JSON type or format.

    `detail` is the end of the message.
    """
    return invalid_value(field, value, detail, "FieldValueTypeInvalid")


def required(field: str, detail: str = "") -> StatusCause:
    """Return the StatusCause for a missing required field. `detail` is added to the message."""
    return StatusCause(field, f"Required value: {detail}" if detail else "Required value", "FieldValueRequired")


def not_supported(field: str, value: Any, allowed: Sequence[Any]) -> StatusCause:
    """Return the StatusCause for a value at the path `field` that is not one of `allowed`, the values
    of an enumeration.
    """
    listed = ", ".join(quoted(item if isinstance(item, str) else go_value(item)) for item in allowed)
    return StatusCause(
        field, f"Unsupported value: {go_value(value)}: supported values: {listed}", "FieldValueNotSupported"
    )


def too_long(field: str, limit: int) -> StatusCause:
    """Return the StatusCause for a string at the path `field` that is longer than `limit` (`maxLength`)."""
    return StatusCause(field, f"Too long: may not be more than {limit} bytes", "FieldValueTooLong")


def too_many(field: str, actual: int, limit: int) -> StatusCause:
    """Return the StatusCause for a list or object at the path `field` with `actual` members, more than `limit`."""
    return StatusCause(field, f"Too many: {actual}: must have at most {limit} items", "FieldValueTooMany")


def duplicate(field: str, value: Any) -> StatusCause:
    """Return the StatusCause for a duplicate item `value` of a set or map list. `field` is the path of the item."""
    return StatusCause(field, f"Duplicate value: {go_value(value)}", "FieldValueDuplicate")


def forbidden_value(field: str, detail: str) -> StatusCause:
    """Return the StatusCause for a field at the path `field` that may not be set or changed; `detail` says why."""
    return StatusCause(field, f"Forbidden: {detail}", "FieldValueForbidden")
