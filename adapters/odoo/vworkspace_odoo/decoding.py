"""Decoding of the control plane's answers: they may contain anything, and none may stop the agent (PULL-7).

The agent is the operator in a cluster. It fetches jobs (units of work) from the control plane.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import attrs

from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.nesting import pruned
from vworkspace_core.control_plane.port import OversizedJob

LONGEST_BODY: Final = 16 * 1024 * 1024
"""The most bytes of an answer, after decompression."""

MOST_VALUES: Final = 400_000
"""The most values of an answer, counted as its `{`, `[` and commas. 16 MB of `{}` would take half a GB (RUN-11)."""

_SEPARATORS: Final = (b"{", b"[", b",")

MOST_JOBS: Final = 1000
"""The most jobs taken from one answer of the control plane.

It offers the others again, since they have not been acknowledged.
"""

_MOST_TOKENS: Final = 4 * MOST_VALUES
"""The most tokens (strings and brackets) that MOST_VALUES values can have.

Each comma comes with two strings, each bracket with one more token.
"""

_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_FIELDS: Final = (b'"id"', b'"idempotencyKey"')
_FIELD: Final = re.compile(rb'\s*+:\s*+("[^"\\]*+(?:\\.[^"\\]*+)*+"|-?\d{1,40}+(?![\d.eE]))', re.DOTALL)

_JSON_TYPES: Final = re.compile(r"application/(?:[\w.+-]*\+)?json\b", re.IGNORECASE)


def is_json(content_type: str) -> bool:
    """Report whether a content type is JSON: `application/json`, or a type that ends in `+json`.

    Our own media type ends in `+json`. Web frameworks send `application/json`.
    """
    return _JSON_TYPES.match(content_type.strip()) is not None


def decode(body: bytes, where: str) -> Mapping[str, Any]:
    """Return `body` decoded as a JSON object. Raises Unavailable if that fails or the answer has too many values.

    `where` names the request in the error's message. Text that strict parsers refuse is accepted (lone surrogates, NaN,
    very long integers, very deep nesting), so that one bad job does not hide the others; the agent refuses that job
    alone later. An answer with more than MOST_VALUES values (400,000) is refused before any object is built.
    """
    if (count := _values(body)) > MOST_VALUES:
        problem = f"the answer has some {count} values, at most {MOST_VALUES} are taken: send fewer jobs at a time"
        raise Unavailable(f"{where}: {problem}")
    try:
        text = body.decode("utf-8")
        answer = _loads(text)
    except UnicodeDecodeError:
        raise Unavailable(f"{where}: the body is not UTF-8") from None
    except ValueError as error:
        raise Unavailable(f"{where}: the body is not JSON ({error})") from None
    if not isinstance(answer, Mapping):
        raise Unavailable(f"{where}: the body is not a JSON object")
    return answer


def jobs_of(body: bytes, where: str) -> list[Any]:
    """Return the jobs in an answer that is small enough to be decoded as a whole (`fits`), at most MOST_JOBS (1000).

    Raises Unavailable if the answer has no list of jobs; `where` names the request in the message.
    """
    jobs = decode(body, where).get("jobs")
    if not isinstance(jobs, list):
        raise Unavailable(f"{where}: the answer has no list of jobs")
    return jobs[:MOST_JOBS]


def fits(body: bytes) -> bool:
    """Report whether an answer is small enough to be decoded as a whole: True if it has at most 400,000 JSON values."""
    return _values(body) <= MOST_VALUES


def jobs_that_fit(body: bytes, where: str, longest: int = LONGEST_BODY) -> list[Any]:
    """Return the first jobs of an answer that is too large, as many as fit into the limits.

    `body` has too many values, or is only the first `longest` bytes of the answer. If a job is too large on its own, it
    is returned as an `OversizedJob`, and no later job is returned. Once the agent has refused that job, the control
    plane offers the later jobs again. The function takes up to a second, and memory for the jobs that fit. Raises
    Unavailable if no job can be returned.
    """
    jobs: list[Any] = []
    left = MOST_VALUES
    for span in islice(_spans(body), MOST_JOBS):
        values = _values(body, span.begin, span.end)
        if span.end is None or values > MOST_VALUES:
            if (refused := _oversized(span, body, longest if not jobs else None)) is not None:
                jobs.append(refused)
            break
        if (left := left - values) < 0:
            break
        jobs.append(_job(body[span.begin : span.end], where))
    if not jobs:
        problem = f"more than {longest} bytes or {MOST_VALUES} values, and no job that could be taken or refused alone"
        raise Unavailable(f"{where}: the answer has {problem}: send fewer jobs at a time")
    return jobs


@attrs.frozen
class _Span:
    """The bytes of a job in an answer, from `begin` to `end`. `fields` has the job's `id` and `idempotencyKey`.

    `end` is None if the answer is cut off within the job, or if the job has so many tokens that its end is not
    searched.
    """

    begin: int
    end: int | None
    fields: Mapping[str, Any]


def _oversized(span: _Span, body: bytes, longest: int | None) -> OversizedJob | None:
    """Return the job at `span` as an OversizedJob, which the agent refuses. Return None if it cannot be refused.

    A job without an id cannot be refused. A job with too many values can. A job that is only cut off can be refused if
    it is the first in the answer: the caller then gives `longest`, the number of bytes read. Otherwise `longest` is
    None.
    """
    if "id" not in span.fields:
        return None
    if _values(body, span.begin, span.end) > MOST_VALUES:
        return OversizedJob(span.fields, f"the job has more than {MOST_VALUES} values")
    return None if longest is None else OversizedJob(span.fields, f"the job has some {longest} bytes or more")


def _spans(body: bytes) -> Iterator[_Span]:
    """Yield the byte range of each member of the list `jobs`, in linear time and without recursion.

    The last range has no end if its job has more tokens than a job may have.
    """
    depth, looked_at, begin, name = 0, 0, 0, b""
    is_list, fields = False, dict[str, Any]()
    for token in _TOKEN.finditer(body):
        looked_at += 1
        match token[0][:1]:
            case b'"' if depth == 1:
                name = token[0]
            case b'"' if depth == 3 and is_list and token[0] in _FIELDS:
                fields |= _field(body, token)
            case b"{" | b"[" as bracket:
                depth += 1
                if depth == 2:
                    is_list = bracket == b"[" and name == b'"jobs"'
                elif depth == 3 and is_list:
                    begin, fields, looked_at = token.start(), {}, 0
            case b"}" | b"]":
                depth -= 1
                if depth == 2 and is_list:
                    yield _Span(begin, token.end(), fields)
                elif depth == 1 and is_list:
                    return
        if looked_at > _MOST_TOKENS:
            break
    if depth >= 3 and is_list:
        yield _Span(begin, None, fields)


def _field(body: bytes, name: re.Match[bytes]) -> dict[str, Any]:
    """Return a dict with one JSON field of `body`: the one whose name is the text that `name` matched.

    Return an empty dict if that text is not the name of a field, but a value.
    """
    field = _FIELD.match(body, name.end())
    try:
        return {} if field is None else {json.loads(name[0]): json.loads(field[1])}
    except ValueError:
        return {}


def _values(body: bytes, begin: int = 0, end: int | None = None) -> int:
    return sum(body.count(separator, begin, end) for separator in _SEPARATORS)


def _job(raw: bytes, where: str) -> Any:
    try:
        return _loads(raw.decode("utf-8"))
    except ValueError as error:
        raise Unavailable(f"{where}: a job is not JSON in UTF-8 ({error})") from None


def _loads(text: str) -> Any:
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        return json.loads(pruned(text), parse_int=_integer)


def _integer(text: str) -> int | float:
    # int() refuses numbers of thousands of digits, and thereby the whole body; as a float such a number is infinite.
    return int(text) if len(text) <= 20 else float(text)
