"""The interpreter of the effects by which the agent's credential is renewed (PULL-8).

An effect is an action that the credential machine requests: a write of the Secret, or a call of the control plane. The
interpreter performs it, and returns the outcome as one event.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from purekube.apimachinery.errors import Invalid, NotFound, OperatorError, Stale, Unauthorized, Unavailable
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.problems import type_name
from purekube.apimachinery.resources import SECRET
from purekube.apimachinery.timestamps import parse_time
from purekube.ports import KubeApi
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.control_plane.port import ControlPlane
from vworkspace_core.credentials import messages as r
from vworkspace_core.credentials.secret import new_secret, secret_ref, stored_credential, with_stored

_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,8192}")


@attrs.frozen
class CredentialPerformer:
    """An interpreter that performs the credential machine's effects: writes of the Secret, and calls of the control
    plane.

    A Secret that gets its first credential also gets `url`, `cluster_id` and `ca`. If `names` is True, a Secret that
    had a credential before gets them too when it is written.
    """

    kube: KubeApi
    control: ControlPlane
    namespace: str
    url: str = ""
    cluster_id: str = ""
    display_name: str = ""
    ca: str = ""
    names: bool = False

    async def perform(self, effect: r.WriteSecret | r.TokenRequest) -> r.EffectAnswered:
        """Perform `effect` and return its answer. An OperatorError becomes a part of the answer and is not raised."""
        match effect:
            case r.WriteSecret():
                return r.EffectAnswered(effect.number, await self._write(effect))
            case r.RequestRotation() | r.RequestRegistration():
                return r.EffectAnswered(effect.number, await self._ask(effect))

    async def _ask(self, effect: r.TokenRequest) -> r.CredentialAnswer:
        try:
            if isinstance(effect, r.RequestRotation):
                return issued_by(await self.control.rotate())
            body = registration_body(effect.token, effect.cluster_id, self.display_name)
            return issued_by(await self.control.register(body), effect.cluster_id)
        except Unauthorized as error:
            return r.RequestUnanswered(error.message, rejected=True)
        except Unavailable as error:
            return r.RequestUnanswered(error.message, error.retry_after)
        except OperatorError as error:
            return r.RequestRefused(error.message)

    async def _write(self, effect: r.WriteSecret) -> r.CredentialAnswer:
        try:
            return await self._compare_and_set(effect)
        except (Unavailable, Stale) as error:
            return r.WriteFailed(error.message)
        except OperatorError as error:
            return r.WriteFailed(error.message, refused=True)

    async def _compare_and_set(self, effect: r.WriteSecret) -> r.CredentialAnswer:
        ref = secret_ref(self.namespace)
        try:
            secret = await self.kube.get(ref)
        except NotFound:
            if effect.expected:
                # The Secret was deleted: only its creator can decide what that means, by making a new one.
                return r.WriteFailed(f"{ref} is gone: create it anew", refused=True)
            first = new_secret(self.namespace, self.url, self.cluster_id, effect.stored, self.ca)
            await self.kube.create(first, kind=SECRET, field_manager=FIELD_MANAGER)
            return r.SecretWritten()
        if stored_credential(secret).token != effect.expected:
            return r.SecretChanged(stored_credential(secret))
        await self.kube.update(self._changed(effect, secret), kind=SECRET, field_manager=FIELD_MANAGER)
        return r.SecretWritten()

    def _changed(self, effect: r.WriteSecret, secret: Manifest) -> Manifest:
        """Return `secret` with the content that `effect` requests. The result keeps the resourceVersion of `secret`, so
        that the API server refuses a stale update.
        """
        changed = with_stored(secret, effect.stored)
        if self.names or not effect.expected:
            first = new_secret(self.namespace, self.url, self.cluster_id, effect.stored, self.ca)
            changed["data"] = {**changed["data"], **first["data"]}
        return changed


def registration_body(token: str, cluster_id: str = "", display_name: str = "") -> dict[str, str]:
    """Return the JSON body of the request `POST register` to the control plane, by which a cluster gets its credential.

    `token` is the one-time token. The cluster's id and display name are left out if they are empty.
    """
    optional = {"clusterId": cluster_id, "displayName": display_name}
    return {"registrationToken": token, **{name: text for name, text in optional.items() if text}}


def issued_by(answer: Mapping[str, Any], cluster_id: str = "") -> r.Issued:
    """Return the credential in an answer to `register` or `rotate`.

    Raises Unavailable if the answer is malformed, and Invalid if it is for another cluster than `cluster_id`, unless
    that is empty. No message shows the token.
    """
    token, ends = answer.get("token"), answer.get("expiresAt")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise Unavailable("the answer has no token that a header can hold")
    given = answer.get("clusterId")
    if cluster_id and given is not None and given != cluster_id:
        raise Invalid(f"the registration token is for cluster {given!r}, this one is {cluster_id!r}")
    return r.Issued(token, None if ends is None else _end(ends))


def _end(value: Any) -> datetime:
    """Return the expiry in an answer. Raises Unavailable if it is no time.

    A credential whose expiry cannot be read must not count as one without end, which is never renewed (PULL-8).
    """
    if not isinstance(value, str):
        raise Unavailable(f"the answer's expiresAt: must be an RFC 3339 time, not {type_name(value)}")
    try:
        return parse_time(value)
    except ValueError as error:
        raise Unavailable(f"the answer's expiresAt: {error}") from None
