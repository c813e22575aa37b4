"""Impersonation: a request under another identity, for callers with the right `impersonate`.

Each part of the identity needs a right of its own, as on every kube-apiserver. The narrower rights of 1.36 and later
(`impersonate:…` and `impersonate-on:…`) are unknown here: a caller that has only them is refused.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from kubelab.access.authorization import Attributes, Authorize, denied, service_account
from kubelab.model.calls import Caller
from kubelab.model.failure import bad_request

_AUTHENTICATION: Final = "authentication.k8s.io"
_ACCOUNT: Final = re.compile(r"system:serviceaccount:([a-z0-9]([-a-z0-9]*[a-z0-9])?):([a-z0-9]([-a-z0-9.]*[a-z0-9])?)")
_ANONYMOUS: Final = "system:anonymous"
_AUTHENTICATED: Final = "system:authenticated"
_UNAUTHENTICATED: Final = "system:unauthenticated"


@attrs.frozen
class Identity:
    """The identity in the `Impersonate-` headers of a request. Without such headers the identity is empty."""

    user: str = ""
    groups: Sequence[str] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = attrs.field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self.user or self.groups or self.uid or self.extra)


def impersonated(caller: Caller, identity: Identity, authorize: Authorize | None) -> Caller:
    """Return the caller with the requested `identity`, or `caller` itself if `identity` is empty.

    The function `authorize` checks that `caller` has the right to impersonate; if it is None, no right is needed.
    Raises ApiFailure: 400 for an identity without a user, 403 if `caller` lacks a right.
    """
    if not identity:
        return caller
    if not identity.user:
        raise bad_request("requested an identity without impersonating a user name")
    for asked in _rights(identity):
        if authorize is not None and not authorize(caller, asked):
            raise denied(caller, asked)
    return Caller(identity.user, _groups(identity), caller.agent, impersonator=caller.user)


def _rights(identity: Identity) -> Iterator[Attributes]:
    account = _ACCOUNT.fullmatch(identity.user)
    # apiserver: endpoints/filters/impersonation/impersonation.go: a service account is a resource of its own to
    # impersonate, in its namespace.
    if account is None:
        yield Attributes("impersonate", "", "users", name=identity.user)
    else:
        yield Attributes("impersonate", "", "serviceaccounts", namespace=account[1], name=account[3])
    for group in identity.groups:
        yield Attributes("impersonate", "", "groups", name=group)
    if identity.uid:
        yield Attributes("impersonate", _AUTHENTICATION, "uids", name=identity.uid)
    for key, values in identity.extra.items():
        for value in values:
            yield Attributes("impersonate", _AUTHENTICATION, "userextras", subresource=key, name=value)


def _groups(identity: Identity) -> tuple[str, ...]:
    """Return the groups of the impersonated user.

    The result has the requested groups or, if none are requested for a ServiceAccount, that account's own groups.
    `system:authenticated` is added or, for the anonymous user, `system:unauthenticated`.
    """
    account = _ACCOUNT.fullmatch(identity.user)
    # apiserver: endpoints/filters/impersonation/impersonation.go: groups in the headers are the whole truth, so the
    # account's own are left out then.
    if account is not None and not identity.groups:
        return service_account(account[1], account[3]).groups
    # apiserver: endpoints/filters/impersonation/impersonation.go: one of the two groups of all users is added, unless
    # the headers name one.
    if identity.user == _ANONYMOUS:
        return (*identity.groups, *(() if _UNAUTHENTICATED in identity.groups else (_UNAUTHENTICATED,)))
    named = {_AUTHENTICATED, _UNAUTHENTICATED} & set(identity.groups)
    return (*identity.groups, *(() if named else (_AUTHENTICATED,)))
