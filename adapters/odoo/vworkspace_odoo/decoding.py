"""Reading what the control plane sends: anything may come, and nothing of it may stop the loop (PULL-7)."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from vworkspace_core.errors import Unavailable
from vworkspace_core.nesting import pruned

__all__ = ["LONGEST_BODY", "MOST_JOBS", "MOST_VALUES", "decode", "is_json"]

LONGEST_BODY: Final = 16 * 1024 * 1024
"""Bytes of an answer, after decompression."""

MOST_VALUES: Final = 400_000
"""Brackets, braces and commas of an answer. 16 MB of `{}` would be half a gigabyte of objects (RUN-11)."""

_SEPARATORS: Final = (b"{", b"[", b",")

MOST_JOBS: Final = 1000
"""Jobs taken from one answer: the others are offered again, since nobody has acknowledged them."""

_JSON_TYPES: Final = re.compile(r"application/(?:[\w.+-]*\+)?json\b", re.IGNORECASE)


def is_json(content_type: str) -> bool:
    """Whether a body of this type is JSON: our own media type, or plain JSON as frameworks send it."""
    return _JSON_TYPES.match(content_type.strip()) is not None


def decode(body: bytes, where: str) -> Mapping[str, Any]:
    """`body` as a JSON object. Raises Unavailable, which says what is wrong with it.

    Takes what strict readers refuse (lone surrogates, NaN, endless integers, nesting without end), because
    one bad job must not hide the others: the core refuses that job alone. Of more values than an answer may have,
    nothing is built.
    """
    if (count := sum(map(body.count, _SEPARATORS))) > MOST_VALUES:
        told = f"the answer has some {count} values, at most {MOST_VALUES} are taken: send fewer jobs at a time"
        raise Unavailable(f"{where}: {told}")
    try:
        text = body.decode("utf-8")
        found = _loads(text)
    except UnicodeDecodeError:
        raise Unavailable(f"{where}: the body is not UTF-8") from None
    except ValueError as error:
        raise Unavailable(f"{where}: the body is not JSON ({error})") from None
    if not isinstance(found, Mapping):
        raise Unavailable(f"{where}: the body is not a JSON object")
    return found


def _loads(text: str) -> Any:
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        return json.loads(pruned(text), parse_int=_integer)


def _integer(text: str) -> int | float:
    # int() refuses thousands of digits, and with them the whole body; as a float such a number is infinite.
    return int(text) if len(text) <= 20 else float(text)
