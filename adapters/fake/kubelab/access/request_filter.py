"""The filter for every request, which authorizes it and then writes the audit log; the answers to access reviews."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from kubelab.access.account_tokens import AccountTokens
from kubelab.access.audit_log import AuditEntry, AuditLog
from kubelab.access.authorization import Authorize, Rbac, attributes_of, denied, review_attributes
from kubelab.model.calls import ADMIN, Caller, Reply, RequestTarget, RequestVerb, WriteOptions
from kubelab.model.conversion import ConversionNeeded
from kubelab.model.failure import ApiFailure, bad_request, invalid, method_not_allowed, no_route, not_found, not_served
from kubelab.model.records import encode
from kubelab.model.resources import ServedResource
from kubelab.storage.store import Store
from kubelab.writes.write_options import manager_of
from purekube.apimachinery.manifest import get_path
from purekube.schema.causes import invalid_value

T = TypeVar("T")

_METHODS: Final = {
    RequestVerb.GET: "GET",
    RequestVerb.LIST: "GET",
    RequestVerb.WATCH: "GET",
    RequestVerb.CREATE: "POST",
    RequestVerb.UPDATE: "PUT",
    RequestVerb.PATCH: "PATCH",
    RequestVerb.DELETE: "DELETE",
    RequestVerb.DELETE_COLLECTION: "DELETE",
}
"""The HTTP method of each verb."""


class RequestFilter:
    """A filter that every request to the embedded API server passes, for authorization and the audit log.

    The function `authorize` decides whether a caller may make a request. If it is None every caller may do everything;
    with `enforces` it is that of `rbac`. Each request that the filter has answered gets an entry in the audit log. The
    filter also answers access reviews, which ask what a user may do: every caller may ask about its own rights, and
    needs a right to ask about another user's. `tokens` answers whose a token is.
    """

    def __init__(
        self,
        store: Store,
        audit: AuditLog,
        now: Callable[[], datetime],
        rbac: Rbac,
        tokens: AccountTokens,
        *,
        enforces: bool,
    ) -> None:
        self.authorize: Authorize | None = rbac.allows if enforces else None
        self._rbac = rbac
        self._tokens = tokens
        self._store = store
        self._audit = audit
        self._now = now

    def admit(self, verb: RequestVerb, target: RequestTarget, caller: Caller, only: str = "") -> None:
        """Raise ApiFailure if the caller may not make the request `verb` on `target`.

        It is also raised if the resource does not serve the verb. `only` is the single name that a list or watch
        selects; empty if it selects by no name.
        """
        if self.authorize is not None:
            asked = attributes_of(verb, target, only)
            if not self.authorize(caller, asked):
                raise denied(caller, asked)
        _check_served(verb, target)

    def answer(
        self,
        verb: RequestVerb,
        target: RequestTarget,
        caller: Caller,
        act: Callable[[], T],
        options: WriteOptions | None = None,
        *,
        only: str = "",
    ) -> T:
        """Authorize the request, return the result of `act`, and write an audit entry even if either step fails.

        The request is `verb` on `target`, for writes with `options`. `act` carries it out. If it raises
        ConversionNeeded, no entry is written: a webhook converts the objects first, and then the caller repeats this
        call. `only` is the name that a list or watch selects; for roles with `resourceNames` it counts as the object's
        name.
        """
        before, status = self._store.version, 500
        try:
            self.admit(verb, target, caller, only)
            answer = act()
            # An ObjectPage or a watch has no status: both are 200.
            status = getattr(answer, "status", 200)
            return answer
        except ApiFailure as failure:
            status, failure.audited = failure.status, True
            raise
        except ConversionNeeded:
            status = 0  # the request is repeated once the conversion is done
            raise
        finally:
            if status:
                self._log(verb, target, caller, options, status, before)

    def refused(
        self, verb: RequestVerb, target: RequestTarget, caller: Caller, options: WriteOptions, failure: ApiFailure
    ) -> None:
        """Write an audit entry for the write `verb` on `target` with `options`, which was refused before it was stored.

        `failure` is the answer to the caller. It is marked as audited, so that no second entry is written for it.
        """
        failure.audited = True
        self._log(verb, target, caller, options, failure.status, self._store.version)

    def elsewhere(self, verb: RequestVerb, method: str, path: str, caller: Caller | None, status: int) -> None:
        """Write an audit entry for a request that is about no object: discovery, or a request with an unreadable body.

        `verb`, `method` (of HTTP) and `path` describe the request, and `status` is the HTTP status of the answer.
        `caller` is None for a caller who is not authenticated.
        """
        self._audit.add(
            AuditEntry(
                at=self._now(),
                method=method,
                verb=verb,
                path=path,
                user="" if caller is None else caller.user,
                manager="",
                status=status,
                version=self._store.version,
                changed=False,
                agent="" if caller is None else caller.agent,
            )
        )

    def review(self, resource: ServedResource, body: Any, caller: Caller) -> Reply:
        """Return the reply to `body`, a review of the kind `resource` that `caller` sent: the body with a status.

        Raises ApiFailure: 400 for a body that is not an object, 422 for a SubjectAccessReview without user and group.
        """
        if not isinstance(body, Mapping):
            raise bad_request("a review is an object")
        status = self._status(resource.kind, body, caller)
        # A review is created, though nothing is stored: hence 201, and metadata without a name.
        return Reply(
            201, encode({**body, **resource.type_meta, "metadata": {"creationTimestamp": None}, "status": status})
        )

    def _status(self, kind: str, body: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        match kind:
            case "SelfSubjectReview":
                return {"userInfo": {"username": caller.user, "groups": list(caller.groups)}}
            case "SelfSubjectAccessReview":
                return self._access(body, caller)
            case "SubjectAccessReview":
                return self._access(body, _subject_of(body))
            case "TokenReview":
                return self._tokens.review(body)
            case _:
                reviewed = ADMIN if self.authorize is None else caller
                held = [dict(rule) for rule in self._rbac.rules(reviewed, get_path(body, "spec", "namespace") or "")]
                # Discovery and health paths are open to everybody here, so the review says so.
                paths = {"verbs": ["get"], "nonResourceURLs": ["*"]}
                return {"resourceRules": held, "nonResourceRules": [paths], "incomplete": False}

    def _access(self, body: Mapping[str, Any], subject: Caller) -> dict[str, Any]:
        asked = review_attributes(get_path(body, "spec", "resourceAttributes") or {})
        return {"allowed": self.authorize is None or self.authorize(subject, asked)}

    def _log(
        self,
        verb: RequestVerb,
        target: RequestTarget,
        caller: Caller,
        options: WriteOptions | None,
        status: int,
        before: int,
    ) -> None:
        self._audit.add(
            AuditEntry(
                at=self._now(),
                method=_METHODS[verb],
                verb=verb,
                path=target.path,
                user=caller.user,
                manager="" if options is None else manager_of(options, caller),
                status=status,
                version=self._store.version,
                changed=self._store.version != before,
                dry_run=options is not None and options.dry_run,
                agent=caller.agent,
                impersonator=caller.impersonator,
            )
        )


def _check_served(verb: RequestVerb, target: RequestTarget) -> None:
    """Raise ApiFailure if the target's resource does not have the verb, scope or subresource of the request."""
    resource = target.resource
    if verb not in resource.verbs:
        raise method_not_allowed()
    scoped = target.namespace is not None
    if scoped and not resource.namespaced:
        raise _unrouted(target)
    if resource.namespaced and not scoped and verb is RequestVerb.CREATE:
        raise unscoped(resource)
    if resource.namespaced and not scoped and target.name:
        raise _unrouted(target)
    # For example `/status` of a kind without the status subresource (S-73).
    if target.subresource and target.subresource not in resource.subresources:
        raise not_found(resource.group, resource.plural, target.name) if resource.custom else no_route()
    # kubernetes: registry/core/namespace/storage/storage.go: FinalizeREST has no Get and no Patch.
    if target.subresource == "finalize" and verb is not RequestVerb.UPDATE:
        raise method_not_allowed()


def _unrouted(target: RequestTarget) -> ApiFailure:
    # Custom resources have one handler, which passes on what it does not serve, until the last handler answers in plain
    # text. Built-in kinds have routes, and a path without a route gets a Status (measured on 1.36.3).
    return not_served() if target.resource.custom else no_route()


def unscoped(resource: ServedResource) -> ApiFailure:
    """Return the failure for a write to the objects of all namespaces, which only lists and watches can name."""
    # apiextensions: apiserver/customresource_handler.go, ServeHTTP passes the request on (404). The router of built-in
    # kinds has the path, because of lists, but not for this method (405).
    return not_served() if resource.custom else method_not_allowed()


def _subject_of(body: Mapping[str, Any]) -> Caller:
    """Return the caller whose rights a SubjectAccessReview asks about.

    Raises ApiFailure 422 if the review names no user and no group, as kube-apiserver does.
    """
    user, groups = str(get_path(body, "spec", "user") or ""), get_path(body, "spec", "groups") or ()
    if not user and not groups:
        cause = invalid_value("spec.user", "", "at least one of user or group must be specified")
        raise invalid("authorization.k8s.io", "SubjectAccessReview", "", [cause])
    return Caller(user, tuple(map(str, groups)))
