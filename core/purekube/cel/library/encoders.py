"""The CEL library of encoders: functions for base64 and JSON."""

import base64
import binascii
from typing import Any, Final

from purekube.cel.limits import Budget, EvaluationError, of_type
from purekube.cel.signatures import built, function, text_cost


def _encode(budget: Budget, value: Any) -> str:
    return str(built(budget, base64.b64encode(of_type(bytes, value)).decode()))


def _decode(budget: Budget, text: Any) -> bytes:
    """Decode base64 with or without its padding."""
    text = of_type(str, text)
    try:
        padded = text if text.endswith("=") else text + "=" * (-len(text) % 4)
        return bytes(built(budget, base64.b64decode(padded.encode("ascii"), validate=True)))
    except (binascii.Error, UnicodeEncodeError) as error:
        raise EvaluationError("invalid base64") from error


FUNCTIONS: Final = (
    function("base64.encode(bytes) -> string", _encode, cost=text_cost, with_budget=True),
    function("base64.decode(string) -> bytes", _decode, cost=text_cost, with_budget=True),
)
