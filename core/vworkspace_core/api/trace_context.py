"""Positions of spans in traces, in the format of W3C Trace Context (SEE-7)."""

import re
from typing import Final

import attrs

from purekube.apimachinery.manifest import content_hash

_TRACEPARENT: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")


@attrs.frozen
class TraceContext:
    """The position of a span in a trace: the trace-id and parent-id of W3C Trace Context, in hex."""

    trace: str
    span: str
    is_sampled: bool = True

    @classmethod
    def parsed(cls, text: object) -> "TraceContext | None":
        """Return the context in the text of a `traceparent` header, or None if the text is not a valid header."""
        match = _TRACEPARENT.fullmatch(text) if isinstance(text, str) else None
        return None if match is None else cls(match[1], match[2], bool(int(match[3], 16) & 1))

    @classmethod
    def of(cls, *identity: str | int) -> "TraceContext":
        """Return the context of the root span of a trace whose ids are hashes of `identity`.

        The same identity always gives the same trace id and span id.
        """
        first, second = content_hash(["trace", *identity]), content_hash(["more", *identity])
        return cls(first + second, content_hash(["span", *identity]))

    def child(self, *identity: str | int) -> "TraceContext":
        """Return the context of a child span in the same trace.

        Its span id is a hash of this span's id and `identity`, so the same identity always gives the same id.
        """
        return attrs.evolve(self, span=content_hash([self.trace, self.span, *identity]))

    def __str__(self) -> str:
        return f"00-{self.trace}-{self.span}-{int(self.is_sampled):02x}"


def job_context(cluster: str, key: str, traceparent: object = "") -> tuple[TraceContext, str]:
    """Return two answers: the trace context of the span of a control plane's job, and the id of its parent span.

    The span's id is made from `cluster`, the cluster's id, and `key`, the job's idempotency key. A valid `traceparent`
    names the parent; otherwise the span is a root and the id is empty.
    """
    above = TraceContext.parsed(traceparent)
    return (TraceContext.of(cluster, key), "") if above is None else (above.child(cluster, key), above.span)
