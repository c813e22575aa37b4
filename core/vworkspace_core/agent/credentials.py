"""What the credentials Secret holds, as one value (PULL-8, PULL-9, OPS-4).

The Secret `vworkspace-agent-credentials` lies in the operator's namespace. Whatever of it cannot be read counts as
absent: who needs a part says that it is missing.
"""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import attrs

from vworkspace_core.agent.credential_age import token_since
from vworkspace_core.agent.times import format_time, parse_time
from vworkspace_core.known import SECRET
from vworkspace_core.manifest import Manifest, ObjectRef, dig

__all__ = ["CREDENTIALS_SECRET", "CredentialKey", "Credentials", "credentials_of", "data_of", "secret_ref"]

CREDENTIALS_SECRET: Final = "vworkspace-agent-credentials"


class CredentialKey(StrEnum):
    """Keys of the Secret. The last two are ours: how a rotation survives a crash."""

    URL = "control-plane-base-url"
    CLUSTER_ID = "cluster-id"
    TOKEN = "token"
    CA = "ca.crt"
    CERTIFICATE = "tls.crt"
    PRIVATE_KEY = "tls.key"
    APPROVAL_SECRET = "approval-secret"
    SIGNING_KEY = "signing-public-key"
    DECRYPTION_KEY = "decryption-key"
    EXPIRES_AT = "token-expires-at"
    PREVIOUS_TOKEN = "previous-token"


@attrs.frozen
class Credentials:
    """Who we are to the control plane, and the keys we share with it. Only URL, id and expiry show in a `repr`.

    `previous_token` is kept until `token` has worked; certificates and keys are PEM (the last two also JWK), empty
    where there are none.
    """

    url: str = ""
    cluster_id: str = ""
    token: str = attrs.field(default="", repr=False)
    expires_at: datetime | None = None
    previous_token: str = attrs.field(default="", repr=False)
    ca: str = attrs.field(default="", repr=False)
    certificate: str = attrs.field(default="", repr=False)
    private_key: str = attrs.field(default="", repr=False)
    approval_secret: bytes | None = attrs.field(default=None, repr=False)
    signing_key: str = attrs.field(default="", repr=False)
    decryption_key: str = attrs.field(default="", repr=False)
    since: datetime | None = attrs.field(default=None, eq=False)
    """When the token came where it lies; two credentials are no different for it."""


def secret_ref(namespace: str) -> ObjectRef:
    """Where the Secret lies."""
    return ObjectRef(SECRET, namespace, CREDENTIALS_SECRET)


def credentials_of(secret: Manifest) -> Credentials:
    """What `secret` (with `data` as the API server sends it) says. Total: never raises."""
    text = {key: _text(secret, key) for key in CredentialKey}
    return Credentials(
        url=text[CredentialKey.URL],
        cluster_id=text[CredentialKey.CLUSTER_ID],
        token=text[CredentialKey.TOKEN],
        expires_at=_instant(text[CredentialKey.EXPIRES_AT]),
        previous_token=text[CredentialKey.PREVIOUS_TOKEN],
        ca=text[CredentialKey.CA],
        certificate=text[CredentialKey.CERTIFICATE],
        private_key=text[CredentialKey.PRIVATE_KEY],
        approval_secret=_bytes(secret, CredentialKey.APPROVAL_SECRET) or None,
        signing_key=text[CredentialKey.SIGNING_KEY],
        decryption_key=text[CredentialKey.DECRYPTION_KEY],
        since=token_since(secret),
    )


def data_of(url: str, cluster_id: str, token: str, expires_at: datetime | None) -> Mapping[str, str]:
    """`data` of a Secret for a credential just issued: what registration keeps."""
    found = {CredentialKey.URL: url, CredentialKey.CLUSTER_ID: cluster_id, CredentialKey.TOKEN: token}
    if expires_at is not None:
        found[CredentialKey.EXPIRES_AT] = format_time(expires_at)
    return {key.value: base64.b64encode(value.encode()).decode() for key, value in found.items()}


def _bytes(secret: Manifest, key: CredentialKey) -> bytes:
    found: Any = dig(secret, "data", key.value)
    if not isinstance(found, str):
        return b""
    try:
        # A trailing newline comes with every editor and every `--from-file`; it is never meant.
        return base64.b64decode(found, validate=True).strip()
    except (binascii.Error, ValueError):
        return b""


def _text(secret: Manifest, key: CredentialKey) -> str:
    try:
        return _bytes(secret, key).decode()
    except UnicodeDecodeError:
        return ""


def _instant(text: str) -> datetime | None:
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None
