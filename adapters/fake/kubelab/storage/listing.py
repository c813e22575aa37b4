"""The rules of list requests (W-01 to W-06): which resourceVersion a list shows, and how its pages continue."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs
import msgspec

from kubelab.model.calls import ListedPage
from kubelab.model.conversion import for_each
from kubelab.model.failure import ApiFailure, bad_request, expired, internal, invalid
from kubelab.model.records import ObjectKey, Record
from kubelab.storage.selectors import FieldTerm, Requirement
from purekube.apimachinery.errors import StatusCause
from purekube.schema.causes import forbidden_value, not_supported

_COMPACTED: Final = "The resourceVersion for the provided list is too old."
_EXPIRED_TOKEN: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
# apiserver: storage/etcd3/errors.go, handleCompactedErrorForPaging; 0 could not be distinguished from a token without a
# version.
_INCONSISTENT: Final = -1
"""The resourceVersion in a continue token that continues a list in the current state, not in that of its first page."""


@attrs.frozen
class ListOptions:
    """The options in the query of a list or watch, such as its selectors, as the client sent them.

    Empty text and zero mean that the client did not send the option.
    """

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    send_initial_events: bool | None = None
    allow_bookmarks: bool = False
    timeout_seconds: float | None = None


EVERYTHING: Final = ListOptions()
"""The options of a list or watch without a query."""


@attrs.frozen
class ReadPlan:
    """The plan for reading one page of a list: its resourceVersion, its start and its size.

    `version` None reads the present state. `after` is the last key of the previous page, None for the first page.
    """

    version: int | None
    after: ObjectKey | None
    limit: int


@attrs.frozen
class Selection:
    """The namespace and selectors by which a list, a watch or a collection's delete selects objects.

    `namespace` None selects all namespaces. `read_field` returns the value of a record at the path of a field selector.
    """

    namespace: str | None
    labels: tuple[Requirement, ...]
    fields: tuple[FieldTerm, ...]
    read_field: Callable[[Record, str], str]

    def matches(self, record: Record) -> bool:
        """Report whether the selection contains the object in the state `record`.

        Its namespace, labels and fields must match.
        """
        if self.namespace is not None and record.key[0] != self.namespace:
            return False
        if not all(requirement.holds(record.labels) for requirement in self.labels):
            return False
        return all(term.holds(self.read_field(record, term.path)) for term in self.fields)

    def of(self, records: Iterable[Record]) -> list[Record]:
        """Return those of `records` that are selected.

        If field selectors need objects in the request's version and webhooks must convert some of them first, raises
        one ConversionNeeded for all these records.
        """
        if not self.fields:
            return [record for record in records if self.matches(record)]
        return [record for record in for_each(records, lambda one: one if self.matches(one) else None) if record]


def plan_list(options: ListOptions, current: int, floor: int) -> ReadPlan:
    """Return how to read the page of a list that `options` request.

    `current` is the store's resourceVersion, `floor` the oldest one in the history. Raises ApiFailure for invalid
    options, and for a resourceVersion that is too old (410) or not reached yet (504).
    """
    _check_match(options)
    if options.continue_token:
        return _plan_page(options, floor)
    # With "0" any cached state is an answer, and the limit is ignored (W-01).
    if not options.resource_version or options.resource_version == "0":
        return ReadPlan(None, None, 0 if options.resource_version == "0" else options.limit)
    version = _number(options.resource_version, "invalid resource version: ")
    if version > current:
        raise from_the_future(version, current)
    # By the API's table for lists, a limit with a version means Exact even without a match.
    exact = options.resource_version_match == "Exact" or (options.limit > 0 and not options.resource_version_match)
    if not exact:
        return ReadPlan(None, None, options.limit)
    if version < floor:
        raise expired(_COMPACTED)
    return ReadPlan(version, None, options.limit)


def _plan_page(options: ListOptions, floor: int) -> ReadPlan:
    if options.resource_version and options.resource_version != "0":
        raise bad_request("specifying resource version is not allowed when using continue")
    version, after = _read_token(options.continue_token)
    # A token of a 410: the list goes on in the newest state, which is inconsistent with its first pages (W-05).
    if version == _INCONSISTENT:
        return ReadPlan(None, after, options.limit)
    if version < floor:
        # The token in the error continues with the current state: the whole list is inconsistent then (W-05).
        raise expired(_EXPIRED_TOKEN, continue_token(_INCONSISTENT, after))
    return ReadPlan(version, after, options.limit)


def page_of(records: list[Record], plan: ReadPlan, version: int, selective: bool) -> ListedPage:
    """Return the first `plan.limit` of `records` as one page of a list; all of them if the limit is 0.

    If records remain, the page says how many, unless the list has selectors (`selective`, W-04). `version` is the
    resourceVersion of the list.
    """
    # apiserver: storage/continue.go, PrepareContinueToken: only if more keys follow, so a last page that is full has
    # none.
    if not plan.limit or len(records) <= plan.limit:
        return ListedPage(tuple(records), version)
    page = tuple(records[: plan.limit])
    # With a selector kube-apiserver would have to read everything to count the rest, so it sends no count (W-04).
    return ListedPage(
        page, version, continue_token(version, page[-1].key), None if selective else len(records) - plan.limit
    )


def continue_token(version: int, after: ObjectKey) -> str:
    """Return an opaque token with which a client continues a list after the object with the key `after`.

    The list continues with the objects as they were at the resourceVersion `version`.
    """
    token = {"v": "meta.k8s.io/v1", "rv": version, "start": list(after)}
    # apiserver: storage/continue.go, EncodeContinue: base64 for URLs without padding. Clients must not read it, so the
    # start may be a pair here instead of a path.
    return urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: tuple[str, str]


def _read_token(text: str) -> tuple[int, ObjectKey]:
    try:
        token = msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (ValueError, msgspec.MsgspecError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    return token.rv, token.start


def watch_version(options: ListOptions) -> int | None:
    """Return the resourceVersion from which a watch starts, or None if the watch starts with all objects.

    A watch without a resourceVersion, or from 0, starts with all objects. Raises ApiFailure with status 500 if the
    resourceVersion is not a number, as kube-apiserver answers (W-02).
    """
    # A watch from 0 may begin with any state; the one here begins with the newest.
    return parsed_version(options.resource_version) or None


def parsed_version(text: str) -> int:
    """Return the resourceVersion of a get or a watch, 0 if it has none. Raises ApiFailure 500 if it is no number."""
    try:
        return _number(text) if text else 0
    except ApiFailure as failure:
        # The same text is 400 on a list and 500 on a get or watch, as measured on a kube-apiserver 1.36 (W-02).
        raise internal(failure.message) from failure


def check_watch_options(options: ListOptions) -> None:
    """Raise ApiFailure 422 for combinations of watch options that kube-apiserver refuses (W-12)."""
    # apimachinery: apis/meta/internalversion/validation/validation.go, validateWatchOptions: all problems are reported,
    # and in this order.
    match, causes = options.resource_version_match, []
    if options.send_initial_events is not None and match != "NotOlderThan":
        causes.append(_forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if match:
        if options.send_initial_events is None:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            causes.append(_forbidden(why))
        if match != "NotOlderThan":
            causes.append(_unsupported(match, "NotOlderThan"))
        if options.continue_token:
            causes.append(_forbidden("resourceVersionMatch is forbidden when continue is provided"))
    _refuse(causes)


def _check_match(options: ListOptions) -> None:
    # apimachinery: apis/meta/internalversion/validation/validation.go, ValidateListOptions.
    match, version, causes = options.resource_version_match, options.resource_version, []
    if match:
        if not version:
            causes.append(_forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.continue_token:
            causes.append(_forbidden("resourceVersionMatch is forbidden when continue is provided"))
        if match not in {"Exact", "NotOlderThan"}:
            causes.append(_unsupported(match, "Exact", "NotOlderThan", ""))
        if match == "Exact" and version == "0":
            causes.append(_forbidden('resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        causes.append(forbidden_value("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    _refuse(causes)


def _forbidden(why: str) -> StatusCause:
    return forbidden_value("resourceVersionMatch", why)


def _unsupported(match: str, *supported: str) -> StatusCause:
    return not_supported("resourceVersionMatch", match, supported)


def _refuse(causes: Sequence[StatusCause]) -> None:
    if causes:
        raise invalid("meta.k8s.io", "ListOptions", "", causes)


def _number(text: str, prefix: str = "") -> int:
    if not (text.isascii() and text.isdigit()):
        why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(prefix + why)
    return int(text)


def from_the_future(version: int, current: int) -> ApiFailure:
    """Build the 504 for a resourceVersion that the server has not reached yet (W-03)."""
    # apiserver: storage/errors.go, NewTooLargeResourceVersionError. A kube-apiserver waits for the version first
    # (blockTimeout in storage/cacher/watch_cache.go, 3 s); the one here can only be reached by another request.
    cause = StatusCause("", "Too large resource version", "ResourceVersionTooLarge")
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    return ApiFailure(504, "Timeout", message, causes=(cause,), details={"retryAfterSeconds": 1})


def flag(query: Mapping[str, str], name: str) -> bool:
    """Report whether the boolean parameter `name` is set in `query`: present, and neither "false" nor "0"."""
    # Kubernetes decodes a parameter without a value (`?watch`) as true.
    return name in query and query[name].lower() not in ("false", "0")


def list_options(query: Mapping[str, str]) -> ListOptions:
    """Return the options of a list, a watch or a collection's delete. Raises ApiFailure 400 for a malformed number."""
    # apiserver: handlers/get.go ignores `timeout`, and a `timeoutSeconds` of 0 is the same as none.
    timeout = query.get("timeoutSeconds")
    return ListOptions(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        # No validation refuses a negative limit, and etcd3/store.go takes only a positive one (measured: all objects).
        limit=max(0, integer(query.get("limit") or "0")),
        continue_token=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
        resource_version_match=query.get("resourceVersionMatch", ""),
        send_initial_events=flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
        allow_bookmarks=flag(query, "allowWatchBookmarks"),
        timeout_seconds=integer(timeout or "0") or None,
    )


_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


def integer(text: str) -> int:
    """Return the number in a query parameter. Raises ApiFailure 400 if it is none."""
    if not _INTEGER.fullmatch(text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)
