"""Tokens of ServiceAccounts: their issue by TokenRequests, and the callers to whom they belong.

A token is a JSON Web Token with the claims of kube-apiserver's. Its signature is one that only this server can check.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from kubelab.access.authorization import service_account
from kubelab.admission.pods import ACCOUNTS
from kubelab.model.calls import Caller, Reply, RequestTarget
from kubelab.model.failure import ApiFailure, bad_request, invalid, not_found, stale
from kubelab.model.records import Record, encode
from kubelab.storage.store import Store
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.timestamps import format_time
from purekube.schema.causes import invalid_value

AUDIENCE: Final = "https://kubernetes.default.svc"
"""The audience of tokens for this server, which is also their issuer."""
_GROUP: Final = "authentication.k8s.io"
_KIND: Final = "TokenRequest"
_HOUR: Final = 3600
_LEAST: Final = 600
_BOUND: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}

Fields = Mapping[str, Any]


class AccountTokens:
    """The part of the in-memory API server that issues tokens of ServiceAccounts, and recognizes them.

    A token is valid until its time is over, or until its account or the object that it is bound to is deleted.
    """

    def __init__(self, store: Store, now: Callable[[], datetime], uid: Callable[[], str]) -> None:
        self._store = store
        self._now = now
        self._uid = uid
        self._key = secrets.token_bytes(32)
        self.known: Mapping[str, Caller] = {}
        """The callers by tokens that are not of a ServiceAccount, for TokenReviews."""

    def issue(self, target: RequestTarget, body: Any) -> Reply:
        """Answer the TokenRequest `body` for the account that `target` names: the request with a token.

        Raises ApiFailure 404 for an account or a bound object that is not there, 409 for another uid, and 422 for a
        duration that is too short or too long.
        """
        # kubernetes: registry/core/serviceaccount/storage/token.go, Create.
        given = body if isinstance(body, Mapping) else {}
        _check_type(given)
        _check_name(given, target)
        account = self._account(target.namespace or "", target.name)
        if account is None:
            raise not_found("", "serviceaccounts", target.name)
        if (uid := get_path(given, "metadata", "uid")) not in (None, "", account.uid):
            why = f"the UID in the token request ({uid}) does not match the UID of the service account ({account.uid})"
            raise stale(_GROUP, _KIND, target.name, why)
        spec = {"audiences": [AUDIENCE], "expirationSeconds": _HOUR, **_known(given.get("spec") or {})}
        _check_spec(spec)
        bound = self._bound(target, spec.get("boundObjectRef"))
        now = self._now()
        ends = now + timedelta(seconds=spec["expirationSeconds"])
        times = {"iat": _seconds(now), "nbf": _seconds(now), "exp": _seconds(ends)}
        owner = {"namespace": target.namespace, "serviceaccount": {"name": target.name, "uid": account.uid}, **bound}
        subject = service_account(target.namespace or "", target.name).user
        claims = {"aud": spec["audiences"], **times, "iss": AUDIENCE, "jti": self._uid(), "kubernetes.io": owner}
        answer = {
            "kind": _KIND,
            "apiVersion": f"{_GROUP}/v1",
            "metadata": {
                "name": target.name,
                "namespace": target.namespace,
                "uid": account.uid,
                "creationTimestamp": format_time(now),
            },
            "spec": {"boundObjectRef": None, **spec},
            "status": {"token": self._signed({**claims, "sub": subject}), "expirationTimestamp": format_time(ends)},
        }
        return Reply(201, encode(answer))

    def caller(self, token: str, audiences: tuple[str, ...] = (AUDIENCE,)) -> Caller | None:
        """Return the caller to whom a token belongs, None if the token is not valid for one of `audiences`."""
        claims = self._valid_claims(token, audiences)
        return None if claims is None else _caller_of(claims)

    def _valid_claims(self, token: str, audiences: tuple[str, ...]) -> Fields | None:
        claims = self._claims(token)
        if claims is None or claims["exp"] <= _seconds(self._now()) or not set(audiences) & set(claims["aud"]):
            return None
        owner = claims["kubernetes.io"]
        namespace, account = owner["namespace"], owner["serviceaccount"]
        bound = [(plural, owner[kind.lower()]) for kind, plural in _BOUND.items() if kind.lower() in owner]
        held = [(self._account(namespace, account["name"]), account)]
        held += [
            (self._store.get(("", plural), ("" if plural == "nodes" else namespace, each["name"])), each)
            for plural, each in bound
        ]
        return None if any(record is None or record.uid != each["uid"] for record, each in held) else claims

    def review(self, body: Fields) -> dict[str, Any]:
        """Return the status of the TokenReview `body`. Raises ApiFailure 400 if it has no token."""
        token, wanted = get_path(body, "spec", "token"), get_path(body, "spec", "audiences") or [AUDIENCE]
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        if (known := self.known.get(str(token))) is not None and AUDIENCE in wanted:
            user = {"username": known.user, "groups": list(known.groups)}
            return {"authenticated": True, "user": user, "audiences": [AUDIENCE]}
        claims = self._valid_claims(str(token), tuple(wanted))
        if claims is None:
            return {"user": {}, "error": "invalid bearer token"}
        caller = _caller_of(claims)
        uid = claims["kubernetes.io"]["serviceaccount"]["uid"]
        user = {"username": caller.user, "uid": uid, "groups": list(caller.groups)}
        shared = [audience for audience in claims["aud"] if audience in wanted]
        return {"authenticated": True, "user": user, "audiences": shared}

    def _account(self, namespace: str, name: str) -> Record | None:
        return self._store.get(ACCOUNTS, (namespace, name))

    def _bound(self, target: RequestTarget, reference: Fields | None) -> dict[str, Any]:
        """Return the claims about the object that a token is bound to: it is valid as long as the object."""
        if not reference:
            return {}
        kind, name = reference.get("kind", ""), reference.get("name", "")
        if reference.get("apiVersion") != "v1" or kind not in _BOUND:
            group, _, version = str(reference.get("apiVersion", "")).rpartition("/")
            raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        key = ("" if kind == "Node" else target.namespace or "", name)
        record = self._store.get(("", _BOUND[kind]), key)
        if record is None:
            raise not_found("", _BOUND[kind], name)
        if kind == "Pod" and get_path(record.shared(), "spec", "serviceAccountName") != target.name:
            why = "to pod running with different serviceaccount name."
            raise bad_request(f'cannot bind token for serviceaccount "{target.name}" {why}')
        if (uid := reference.get("uid")) and uid != record.uid:
            why = f"the UID in the bound object reference ({uid}) does not match the UID in record."
            raise stale("", kind, name, f"{why} The object might have been deleted and then recreated")
        return {kind.lower(): {"name": name, "uid": record.uid}}

    # --- the token ---------------------------------------------------------------------------------------------------

    def _signed(self, claims: Fields) -> str:
        head = _encoded(encode({"alg": "HS256", "typ": "JWT"}))
        content = f"{head}.{_encoded(encode(claims))}"
        return f"{content}.{self._signature(content)}"

    def _signature(self, content: str) -> str:
        return _encoded(hmac.digest(self._key, content.encode(), hashlib.sha256))

    def _claims(self, token: str) -> Fields | None:
        content, _, signature = token.rpartition(".")
        if not token.isascii() or not hmac.compare_digest(signature, self._signature(content)):
            return None
        part = content.partition(".")[2]
        claims: Fields = msgspec.json.decode(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return claims


def _caller_of(claims: Fields) -> Caller:
    owner = claims["kubernetes.io"]
    return service_account(owner["namespace"], owner["serviceaccount"]["name"])


def _encoded(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _seconds(instant: datetime) -> int:
    return int(instant.timestamp())


def _known(spec: Fields) -> dict[str, Any]:
    given = ((key, spec.get(key)) for key in ("audiences", "expirationSeconds", "boundObjectRef"))
    return {key: value for key, value in given if value is not None and value != []}


def _check_type(given: Fields) -> None:
    if (kind := given.get("kind", _KIND)) != _KIND:
        version = str(given.get("apiVersion"))
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {_KIND}: converting '
            f"({version.rpartition('/')[2]}.{kind}) to (authentication.{_KIND}): unknown conversion"
        )


def _check_name(given: Fields, target: RequestTarget) -> None:
    if (name := get_path(given, "metadata", "name")) not in (None, "", target.name):
        text = "must match the service account name if specified"
        raise invalid(_GROUP, _KIND, target.name, [invalid_value("metadata.name", name, text)])
    if get_path(given, "metadata", "namespace") not in (None, "", target.namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def _check_spec(spec: Fields) -> None:
    if not isinstance(spec["audiences"], list):
        raise _mistyped(spec["audiences"], "audiences", "[]string")
    seconds = spec["expirationSeconds"]
    if not isinstance(seconds, int):
        raise _mistyped(seconds, "expirationSeconds", "int64")
    causes: list[StatusCause] = []
    if seconds < _LEAST:
        causes.append(_duration(seconds, "less than 10 minutes"))
    if seconds > 2**32:
        causes.append(_duration(seconds, "larger than 2^32 seconds"))
    if causes:
        raise invalid(_GROUP, _KIND, "", causes)


def _duration(seconds: int, what: str) -> StatusCause:
    return invalid_value("spec.expirationSeconds", seconds, f"may not specify a duration {what}")


def _mistyped(value: Any, field: str, wanted: str) -> ApiFailure:
    kind = {str: "string", bool: "bool", list: "array"}.get(type(value), "object")
    return bad_request(
        f'{_KIND} in version "v1" cannot be handled as a {_KIND}: json: cannot unmarshal {kind} into Go struct field '
        f"{_KIND}Spec.spec.{field} of type {wanted}"
    )
