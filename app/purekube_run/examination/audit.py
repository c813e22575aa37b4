"""The record of every request of the examined operator, parsed, with its response."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import anyio
import attrs
import yaml

from kubelab.http.app import ResourcePath, parse_path
from kubelab.http.protobuf import CONTENT_TYPE as PROTOBUF
from kubelab.http.protobuf import decode_object
from kubelab.model.failure import ApiFailure
from purekube.apimachinery.manifest import Kind, ObjectRef, get_path

_APPLY: Final = "application/apply-patch"
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_REVIEWS: Final = frozenset({"authorization.k8s.io", "authentication.k8s.io"})
"""The API groups of reviews, such as SelfSubjectAccessReview. A create of a review changes nothing."""


@attrs.define(eq=False)
class RecordedRequest:
    """One recorded request of an operator, and its response. `number` counts the requests of an examination.

    `at` is in seconds since the examination began. `process` is the number of the process that sent the request.
    `status` is the HTTP status, or 0 without a response.
    """

    number: int
    at: float
    process: int
    method: str
    path: ResourcePath
    query: Mapping[str, str]
    agent: str
    content_type: str
    body: Any = attrs.field(repr=False)
    status: int = 0
    answer: Any = attrs.field(default=None, repr=False)
    disturbed: str = ""
    """The name of the injected fault that disturbed the request; empty if there was none."""
    accept: str = ""
    """The media types that the operator accepts as the response, in the order of its preference."""

    @property
    def verb(self) -> str:
        """The verb as in Kubernetes audit logs, except that a server-side apply is `apply`."""
        if self.method in ("GET", "HEAD"):
            watches = self.query.get("watch") in ("true", "1")
            return "get" if self.path.name else "watch" if watches else "list"
        if self.method == "PATCH" and self.content_type.startswith(_APPLY):
            return "apply"
        return _VERBS.get(self.method, self.method.lower())

    @property
    def writes(self) -> bool:
        """True if the request may change an object: it is a write, and no dry run.

        A review, such as a SubjectAccessReview, does not count as a write.
        """
        return self.method not in ("GET", "HEAD") and not self.query.get("dryRun") and self.path.group not in _REVIEWS

    @property
    def reads_metadata_only(self) -> bool:
        """True for a read whose response has only the metadata of objects, as metadata clients ask for it.

        They name `application/json` last, for API servers that do not know how to cut the objects.
        """
        return self.method == "GET" and "as=PartialObjectMetadata" in self.accept.partition(",")[0]

    @property
    def succeeded(self) -> bool:
        """True if the API server accepted the request."""
        return 200 <= self.status < 300

    @property
    def created(self) -> bool:
        """True if the request created an object, by create or by apply.

        A write of a subresource creates none, although a token, an eviction and a binding are answered 201.
        """
        return self.writes and self.status == 201 and not self.path.subresource

    @property
    def manager(self) -> str:
        """The field manager of a write: the query parameter `fieldManager`, or else the first part of the user agent,
        as in the API server.
        """
        # apiserver: endpoints/handlers/create.go, managerOrUserAgent.
        return self.query.get("fieldManager") or self.agent.partition("/")[0]

    @property
    def forces(self) -> bool:
        """True for a request with `force`: a server-side apply that takes fields from other managers."""
        return self.query.get("force", "").lower() in ("true", "1")

    @property
    def name(self) -> str:
        """The name of the request's object. For a create it is taken from the body or the response."""
        names = (self.path.name, *(str(get_path(each, "metadata", "name") or "") for each in (self.body, self.answer)))
        return next(filter(None, names), "")

    def concerns(self, ref: ObjectRef, subresource: str | None = None) -> bool:
        """Report whether the request is for `ref` and this `subresource`.

        None means any subresource, and "" means the object itself.
        """
        same = (self.path.group, self.path.plural) == (ref.kind.group, ref.kind.plural) and self.name == ref.name
        return same and self.path.namespace == ref.namespace and subresource in (None, self.path.subresource)

    def is_of(self, *kinds: Kind) -> bool:
        """Report whether the request is for objects of one of these kinds."""
        return any((self.path.group, self.path.plural) == (kind.group, kind.plural) for kind in kinds)

    def __str__(self) -> str:
        where = "/".join(part for part in (self.path.namespace, self.name) if part)
        part = f"{self.path.plural}/{self.path.subresource}" if self.path.subresource else self.path.plural
        marks = f" forced by {self.manager}" if self.forces else ""
        why = f" ({self.disturbed})" if self.disturbed else ""
        return (
            f"request {self.number} at {self.at:.1f} s: {self.verb} {part} {where}{marks} -> {self.status or '-'}{why}"
        )


Where: TypeAlias = Callable[[RecordedRequest], bool]
"""A predicate that selects recorded requests."""


class Audit:
    """The record of all requests that the processes under examination sent, in the order of arrival."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.calls: list[RecordedRequest] = []
        self._news = anyio.Event()

    @property
    def seconds(self) -> float:
        """The seconds since the examination began."""
        return time.monotonic() - self._began

    @property
    def number(self) -> int:
        """The number of the last recorded request, or 0 before the first."""
        return len(self.calls)

    def begin(
        self, process: int, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> RecordedRequest | None:
        """Record a request, and return the record, to which `answered` later adds the response.

        `process` is the number of the process that sent the request. Return None for a request that is for no resource
        (discovery, version).
        """
        parsed = parse_path(path)
        if parsed is None or not parsed.plural:
            return None
        content_type = headers.get("content-type", "")
        call = RecordedRequest(
            self.number + 1,
            self.seconds,
            process,
            method,
            parsed,
            query,
            headers.get("user-agent", ""),
            content_type,
            _decoded(body, content_type),
            accept=headers.get("accept", ""),
        )
        self.calls.append(call)
        self._notify()
        return call

    def answered(self, call: RecordedRequest | None, status: int, body: bytes) -> None:
        """Add the response to the record `call` of its request, if there is one. `status` is the HTTP status. `body` is
        empty for watches.
        """
        if call is not None:
            call.status = status
            call.answer = _decoded(body, "application/json") if call.writes else None
            self._notify()

    def where(self, test: Where, since: int = 0) -> Iterator[RecordedRequest]:
        """Yield the requests for which `test` returns True, among those with a number above `since`."""
        return (call for call in self.calls[since:] if test(call))

    def first(self, test: Where, since: int = 0) -> RecordedRequest | None:
        """Return the first request above the number `since` for which `test` returns True, or None if there is none."""
        return next(self.where(test, since), None)

    async def until(self, test: Where, seconds: float, since: int = 0) -> RecordedRequest | None:
        """Wait for the first request above the number `since` for which `test` returns True, and return it.

        Return None if there is no such request within `seconds`.
        """
        with anyio.move_on_after(seconds):
            while (call := self.first(test, since)) is None:
                await self._news.wait()
            return call
        return None

    def _notify(self) -> None:
        self._news.set()
        self._news = anyio.Event()


def _decoded(body: bytes, content_type: str) -> Any:
    """Return the parsed body, which is JSON or protobuf, or YAML for a server-side apply.

    Return None if the body is none of them, and the text of a protobuf message whose kind is not known.
    """
    if not body:
        return None
    if content_type.startswith(PROTOBUF):
        try:
            return decode_object(body)
        except ApiFailure:
            return {"": body.decode(errors="replace")}
    try:
        return json.loads(body)
    except ValueError:
        if not content_type.startswith(_APPLY):
            return None
    try:
        return yaml.safe_load(body)
    except yaml.YAMLError:
        return None
