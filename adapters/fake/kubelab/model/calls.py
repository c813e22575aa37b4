"""Values that pass between the API server and its handlers: callers, verbs, options, write requests and answers.

A handler makes the server available to clients, in process or over HTTP.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from kubelab.model.failure import ApiFailure
from kubelab.model.records import ObjectKey, Record, decode, encode
from kubelab.model.resources import ServedResource
from purekube.apimachinery.manifest import Manifest
from purekube.schema.node import Schema


class FieldValidation(StrEnum):
    """The values of the query parameter `fieldValidation`, in all writes except apply (W-36).

    They say whether fields that the schema does not declare are dropped silently, dropped with a warning, or refused.
    """

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


@attrs.frozen
class WriteRequest:
    """A write request without its body.

    `name` and `namespace` come from the URL (`name` is empty on POST; `namespace` is empty for cluster-scoped kinds).
    `manager` is the field manager, already defaulted from the User-Agent (S-53). `now` is RFC 3339 in whole seconds,
    UTC. A created object gets `uid` and, if its body has `generateName` and no name, `generated_name` (W-35). With
    `defers`, an object that violates its schema is not refused immediately, because mutating webhooks are called before
    validation. `settled` means that the live object was written and validated under the present schema. Only what the
    write changes has to be validated then. `admit` completes a new object from other objects in the store, or refuses
    it. `exceeds` returns the refusal of a valid object that exceeds a limit of its namespace.
    """

    manager: str
    now: str
    name: str = ""
    namespace: str = ""
    subresource: str = ""
    force: bool = False
    field_validation: FieldValidation = FieldValidation.WARN
    uid: str = ""
    generated_name: str = ""
    defers: bool = False
    settled: bool = False
    admit: Callable[[Manifest], Manifest] | None = None
    exceeds: Callable[[Manifest], ApiFailure | None] | None = None


@attrs.frozen
class WriteOutcome:
    """The outcome of a write.

    `object` is the object to store. Its `resourceVersion` is still the live one (absent on create); the store sets the
    next one. `changed` is False if the write changes nothing: `object` then equals the live object in everything,
    managedFields and times included, and the store writes nothing (S-65). `created` distinguishes 201 from 200.
    `warnings` are the texts for `Warning: 299` headers. `lacks_status` means that the status in `object` is a default
    that readers see although no write has stored it. The next write stores it, even if that write changes nothing else.
    `refusal` is the error of an invalid object, or of one that exceeds a limit, in a write that defers validation.
    `schema` is the schema by which the object was found valid; None if the object was not validated.
    """

    object: Mapping[str, Any]
    changed: bool
    created: bool = False
    warnings: tuple[str, ...] = ()
    lacks_status: bool = False
    refusal: ApiFailure | None = None
    schema: Schema | None = None


FOREGROUND: Final = "foregroundDeletion"
"""The finalizer of an owner that waits until its dependents are deleted (W-32)."""
ORPHAN: Final = "orphan"
"""The finalizer of an owner whose dependents are kept (W-32)."""


class RequestVerb(StrEnum):
    """The verbs of authorization rules and of the audit log. The verb of a server-side apply is PATCH."""

    GET = "get"
    LIST = "list"
    WATCH = "watch"
    CREATE = "create"
    UPDATE = "update"
    PATCH = "patch"
    DELETE = "delete"
    DELETE_COLLECTION = "deletecollection"

    @property
    def writes(self) -> bool:
        """True if a request with this verb may change an object."""
        return self not in {RequestVerb.GET, RequestVerb.LIST, RequestVerb.WATCH}


@attrs.frozen
class Caller:
    """The user who sends a request, and `agent`, the User-Agent of the request.

    The part of `agent` before its first `/` is the default field manager (S-53). If the request impersonates `user`,
    `impersonator` is the authenticated user.
    """

    user: str = "kubernetes-admin"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")
    agent: str = ""
    impersonator: str = ""

    @property
    def default_manager(self) -> str:
        """The field manager of a write that names none: the User-Agent up to its first `/`."""
        # apiserver: handlers/create.go, managerOrUserAgent.
        return self.agent.partition("/")[0] or "unknown"


ADMIN: Final = Caller()
"""The caller who may do everything; without authorization every caller is treated as this one."""


@attrs.frozen
class RequestTarget:
    """The object or collection of a request. `name` is empty for a collection, `subresource` for the object itself.

    `namespace` is None for a cluster-scoped resource. For a namespaced resource None means all namespaces.
    """

    resource: ServedResource
    namespace: str | None = None
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> ObjectKey:
        """The key under which the object is stored: its namespace (empty if cluster-scoped) and its name."""
        return (self.namespace or "", self.name)

    @property
    def path(self) -> str:
        """The URL path of the request."""
        resource = self.resource
        root = f"/apis/{resource.group}" if resource.group else "/api"
        where = () if self.namespace is None else ("namespaces", self.namespace)
        parts = (root, resource.version, *where, resource.plural, self.name, self.subresource)
        return "/".join(filter(None, parts))


@attrs.frozen
class WriteOptions:
    """The options in the query of a write, such as `dryRun`. `field_manager` is None if the client names no manager.

    `force` lets a server-side apply take fields away from other managers.
    """

    field_manager: str | None = None
    force: bool = False
    dry_run: bool = False
    field_validation: FieldValidation = FieldValidation.WARN


PLAIN_WRITE: Final = WriteOptions()
"""A write whose query is empty."""


@attrs.frozen
class DeleteOptions:
    """The options in the body and query of a DELETE. `propagation` is empty if the client names no propagation policy.

    `uid` and `resource_version` are preconditions: if set, only an object with these values is deleted. `grace` is the
    `gracePeriodSeconds` that the client asks for, None if it leaves them to the object.
    """

    uid: str | None = None
    resource_version: str | None = None
    propagation: str = ""
    dry_run: bool = False
    grace: int | None = None


PLAIN_DELETE: Final = DeleteOptions()
"""A delete without preconditions, with the kind's default propagation."""


@attrs.frozen
class Reply:
    """The server's answer to a request: one object, or the Status of a deletion, as JSON bytes.

    `status` is the HTTP status. `warnings` are strings for Warning headers.
    """

    status: int
    raw: bytes
    warnings: tuple[str, ...] = ()

    def object(self) -> dict[str, Any]:
        """Return the answer as a decoded copy, which callers may change."""
        copy: dict[str, Any] = decode(self.raw)
        return copy


@attrs.frozen
class ListedPage:
    """One page of a list: its selected records, the list's resourceVersion, and the token for the next page.

    The token of the last page is empty. `remaining` is the number of objects after this page; None if it is not
    reported.
    """

    records: tuple[Record, ...]
    version: int
    continue_token: str = ""
    remaining: int | None = None


@attrs.frozen
class ObjectPage:
    """One page of a list as the answer to a request: the records of `page`, in the version of `resource`."""

    resource: ServedResource
    page: ListedPage

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of the list itself."""
        meta: dict[str, Any] = {"resourceVersion": str(self.page.version)}
        # An unstructured list writes the field even if it is empty, a typed one omits it (measured).
        if self.page.continue_token or self.resource.custom:
            meta["continue"] = self.page.continue_token
        if self.page.remaining is not None:
            meta["remainingItemCount"] = self.page.remaining
        return meta

    def raws(self) -> list[bytes]:
        """Return each object of the page as JSON bytes, in the requested version."""
        return [self.resource.render(record) for record in self.page.records]

    def objects(self) -> list[Mapping[str, Any]]:
        """Return the objects of the page as decoded copies, which the caller may change."""
        return [decode(raw) for raw in self.raws()]

    def raw(self) -> bytes:
        """Return the whole list object as JSON. Items of built-in kinds have no `kind` and no `apiVersion`."""
        head = encode({"kind": self.resource.list_kind, "apiVersion": self.resource.api_version})[:-1]
        # Go's typed lists set the type of the list only; the items of an unstructured list have their own (measured).
        raws = self.raws() if self.resource.custom else [encode(_untyped(item)) for item in self.objects()]
        return b"".join((head, b',"metadata":', encode(self.metadata()), b',"items":[', b",".join(raws), b"]}"))


def _untyped(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in manifest.items() if key not in ("kind", "apiVersion")}


def deleted_status(resource: ServedResource, name: str, uid: str) -> Reply:
    """Return the Status that answers the deletion of an object of `resource` (W-31).

    The Status contains the object's `name` and `uid`.
    """
    # apiserver: registry/generic/registry/store.go, finalizeDelete: the plural is in `kind`, as in most details of a
    # Status.
    details = {"name": name, "group": resource.group, "kind": resource.plural, "uid": uid}
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }
    return Reply(200, encode(body))
