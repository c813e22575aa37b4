"""Impersonation: a request under another identity, for callers with the right `impersonate`.

Each part of the identity needs a right of its own, as on every kube-apiserver. The narrower rights of 1.36 and later
(`impersonate:…` and `impersonate-on:…`) are unknown here: a caller that has only them is refused.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from kubelab.access.authorization import Attributes, Authorize, denied
from kubelab.access.rbac import service_account
from kubelab.model.calls import Caller
from kubelab.model.failure import bad_request

_AUTHENTICATION: Final = "authentication.k8s.io"
_ACCOUNT: Final = re.compile(r"system:serviceaccount:([a-z0-9]([-a-z0-9]*[a-z0-9])?):([a-z0-9]([-a-z0-9.]*[a-z0-9])?)")
_ANONYMOUS: Final = "system:anonymous"
_AUTHENTICATED: Final = "system:authenticated"


@attrs.frozen
class Identity:
    """The identity in the `Impersonate-` headers of a request. It is empty without such headers."""

    user: str = ""
    groups: Sequence[str] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = attrs.field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self.user or self.groups or self.uid or self.extra)


def impersonated(caller: Caller, wanted: Identity, authorize: Authorize | None) -> Caller:
    """Return the caller with the identity `wanted`, or `caller` itself when it is empty.

    Raises ApiFailure: 400 for an identity without a user, 403 if `caller` lacks a right.
    """
    if not wanted:
        return caller
    if not wanted.user:
        raise bad_request("requested an identity without impersonating a user name")
    for asked in _rights(wanted):
        if authorize is not None and not authorize(caller, asked):
            raise denied(caller, asked)
    return Caller(wanted.user, _groups(wanted), caller.agent, impersonator=caller.user)


def _rights(wanted: Identity) -> Iterator[Attributes]:
    account = _ACCOUNT.fullmatch(wanted.user)
    if account is None:
        yield Attributes("impersonate", "", "users", name=wanted.user)
    else:
        yield Attributes("impersonate", "", "serviceaccounts", namespace=account[1], name=account[3])
    for group in wanted.groups:
        yield Attributes("impersonate", "", "groups", name=group)
    if wanted.uid:
        yield Attributes("impersonate", _AUTHENTICATION, "uids", name=wanted.uid)
    for key, values in wanted.extra.items():
        for value in values:
            yield Attributes("impersonate", _AUTHENTICATION, "userextras", subresource=key, name=value)


def _groups(wanted: Identity) -> tuple[str, ...]:
    """Return the groups of the impersonated user: those named, else those of its ServiceAccount."""
    account = _ACCOUNT.fullmatch(wanted.user)
    if account is not None and not wanted.groups:
        return service_account(account[1], account[3]).groups
    of_all = () if wanted.user == _ANONYMOUS or _AUTHENTICATED in wanted.groups else (_AUTHENTICATED,)
    return (*wanted.groups, *of_all)
