"""Caller, verb, target and options: the parts of a request that all verbs share."""

from enum import StrEnum
from typing import Final

import attrs

from kubelab.model.records import ObjectKey
from kubelab.model.requests import FieldValidation
from kubelab.model.resources import ServedResource

FOREGROUND: Final = "foregroundDeletion"
"""The finalizer of an owner that waits until its dependents are deleted (W-32)."""
ORPHAN: Final = "orphan"
"""The finalizer of an owner whose dependents are kept (W-32)."""


class RequestVerb(StrEnum):
    """The verbs of authorization rules and of the audit log. Server-side apply is a PATCH."""

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
    """The user and the User-Agent, whose first word names the field manager by default (S-53).

    `impersonator` is the user that authenticated, if it impersonates `user`.
    """

    user: str = "kubernetes-admin"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")
    agent: str = ""
    impersonator: str = ""

    @property
    def default_manager(self) -> str:
        """The field manager of a write that names none: the agent up to its first `/`."""
        return self.agent.partition("/")[0] or "unknown"


ADMIN: Final = Caller()
"""The caller who may do everything; without authorization every caller is treated as this one."""


@attrs.frozen
class RequestTarget:
    """The object or collection of a request. `namespace` None with a namespaced resource means all namespaces."""

    resource: ServedResource
    namespace: str | None = None
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> ObjectKey:
        """The key of the object in its table."""
        return (self.namespace or "", self.name)

    @property
    def path(self) -> str:
        """The URL path of the request."""
        resource = self.resource
        root = f"/apis/{resource.group}" if resource.group else "/api"
        parts = [root, resource.version]
        if self.namespace is not None:
            parts += ["namespaces", self.namespace]
        return "/".join(part for part in (*parts, resource.plural, self.name, self.subresource) if part)


@attrs.frozen
class WriteOptions:
    """The query of a write. `field_manager` is None when the caller names none."""

    field_manager: str | None = None
    force: bool = False
    dry_run: bool = False
    field_validation: FieldValidation = FieldValidation.WARN


PLAIN_WRITE: Final = WriteOptions()
"""A write whose query is empty."""


@attrs.frozen
class DeleteOptions:
    """The body and query of a DELETE. `propagation` is empty when the caller leaves it to the default."""

    uid: str | None = None
    resource_version: str | None = None
    propagation: str = ""
    dry_run: bool = False


PLAIN_DELETE: Final = DeleteOptions()
"""A delete without preconditions, with the kind's default propagation."""
