"""The conversion of CEL values to JSON."""

import base64
import math
from collections.abc import Mapping
from typing import Any, Final

from purekube.cel.limits import Budget, EvaluationError
from purekube.cel.moments import duration_text, timestamp_text
from purekube.cel.values import Duration, Timestamp, type_name

_EXACT: Final = 2.0**53
"""The number below which a double holds every integer exactly."""

_PARTS_A_STEP: Final = 16
_CHARACTERS_A_PART: Final = 64


def spend_for_parts(value: Any, budget: Budget) -> None:
    """Subtract the cost of visiting all parts of `value` from `budget`. Raises LimitExceeded if too little remains.

    An expression builds at little cost a value that contains another one many times: written out, it may have more
    parts than any memory.
    """
    pending, parts = [value], 0
    while pending:
        one = pending.pop()
        parts += 1
        if isinstance(one, Mapping):
            pending.extend(one.values())
        elif isinstance(one, list | tuple):
            pending.extend(one)
        elif isinstance(one, str | bytes):
            parts += len(one) // _CHARACTERS_A_PART
        if parts >= _PARTS_A_STEP:
            budget.spend(parts // _PARTS_A_STEP)
            parts %= _PARTS_A_STEP


def as_json(value: Any) -> Any:
    """Return a CEL value as JSON: times, durations and bytes become strings, a whole double becomes an integer.

    Raises EvaluationError for a value that JSON cannot express, such as nan, a type or a key that is not a string.
    """
    match value:
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            if not math.isfinite(value):
                raise EvaluationError("nan and infinity cannot be written as JSON")
            return int(value) if value.is_integer() and abs(value) < _EXACT else value
        case Mapping():
            return {_key_of(key): as_json(item) for key, item in value.items()}
        case list() | tuple():
            return [as_json(item) for item in value]
        case Timestamp():
            return timestamp_text(value)
        case Duration():
            return duration_text(value)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            raise EvaluationError(f"a value of type {type_name(value)} cannot be written as JSON")


def _key_of(key: Any) -> str:
    if not isinstance(key, str):
        raise EvaluationError(f"the key of an object is a text, not {type_name(key)}")
    return key
