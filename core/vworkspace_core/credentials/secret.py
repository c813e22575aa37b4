"""The content of the credentials Secret, as one value (PULL-8, PULL-9, OPS-4).

The Secret `vworkspace-agent-credentials` is in the operator's namespace. A malformed part of it counts as absent: the
code that needs the part reports that it is missing.
"""

import base64
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import attrs
import msgspec

from purekube.apimachinery.manifest import Manifest, ObjectRef, canonical_json, content_hash, get_path, metadata
from purekube.apimachinery.resources import SECRET
from purekube.apimachinery.secret_material import redact
from purekube.apimachinery.timestamps import format_time, time_or_none
from purekube.controller.managed_fields import entries
from vworkspace_core.api.installation import APPROVAL_KEY, CREDENTIALS_SECRET

ROTATION_REQUESTED: Final = "vworkspace.io/rotation-requested"
ROTATIONS_SERVED: Final = "vworkspace.io/rotations-served"
_MOST_SERVED: Final = 64


class CredentialKey(StrEnum):
    """The keys of the credentials Secret's data.

    The last three are written and read only by the operator; with them a rotation (replacement of the token) survives a
    crash.
    """

    URL = "control-plane-base-url"
    CLUSTER_ID = "cluster-id"
    TOKEN = "token"
    CA = "ca.crt"
    CERTIFICATE = "tls.crt"
    PRIVATE_KEY = "tls.key"
    APPROVAL_SECRET = APPROVAL_KEY
    SIGNING_KEY = "signing-public-key"
    DECRYPTION_KEY = "decryption-key"
    EXPIRES_AT = "token-expires-at"
    ISSUED_AT = "token-issued-at"
    PREVIOUS_TOKEN = "previous-token"


@attrs.frozen
class StoredCredential:
    """The tokens and rotation records that the credentials Secret holds.

    `requested` names the request whose rotation is under way. A request is a string such as `job/<key>`. `served` has
    the requests that were served last: it maps the part before the slash, such as `job`, to hashes of the parts after
    it.
    """

    token: str = attrs.field(default="", repr=False)
    previous: str = attrs.field(default="", repr=False)
    expires_at: datetime | None = None
    issued_at: datetime | None = None
    requested: str = ""
    served: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)

    def has_served(self, request: str) -> bool:
        """Report whether a recorded rotation has served `request`, a string such as `job/<key>`."""
        sort, _, what = request.partition("/")
        return content_hash(what) in self.served.get(sort, ())

    def with_served(self, requests: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
        """Return the value that the attribute `served`, the record of served requests, has after a rotation for
        `requests`.

        Earlier requests stay in it: a Cluster object requests the same until a user edits that object.
        """
        hashes = dict(self.served)
        for request in requests:
            sort, _, what = request.partition("/")
            served = content_hash(what)
            others = (each for each in hashes.get(sort, ()) if each != served)
            hashes[sort] = (*others, served)[-_MOST_SERVED:]
        return hashes


@attrs.frozen
class Credentials:
    """The credentials with which the operator calls the control plane, and the keys that both use to check messages.

    A `repr` shows no secret. `token` is the token in use, `stored` the Secret's record of tokens. Certificates and keys
    are PEM strings (`signing_key` and `decryption_key` may be JWK), empty if absent. `approval_secret` is the key by
    which approvals are verified.
    """

    url: str = attrs.field(default="", repr=lambda url: repr(redact(url)))
    cluster_id: str = ""
    token: str = attrs.field(default="", repr=False)
    stored: StoredCredential = attrs.field(factory=StoredCredential)
    ca: str = attrs.field(default="", repr=False)
    certificate: str = attrs.field(default="", repr=False)
    private_key: str = attrs.field(default="", repr=False)
    approval_secret: bytes | None = attrs.field(default=None, repr=False)
    signing_key: str = attrs.field(default="", repr=False)
    decryption_key: str = attrs.field(default="", repr=False)
    since: datetime | None = attrs.field(default=None, eq=False)
    """The time when the token was written to its Secret or file; it does not count when credentials are compared."""

    @property
    def expires_at(self) -> datetime | None:
        """The time when the token expires, by the control plane's clock, or None if never or unknown."""
        return self.stored.expires_at


def secret_ref(namespace: str) -> ObjectRef:
    """Return a reference to the credentials Secret in `namespace`."""
    return ObjectRef(SECRET, namespace, CREDENTIALS_SECRET)


def credentials_of(secret: Manifest) -> Credentials:
    """Read the credentials from `secret`, whose `data` is encoded as the API server sends it. Never raises."""
    text = {key: _text(secret, key) for key in CredentialKey}
    return Credentials(
        url=text[CredentialKey.URL],
        cluster_id=text[CredentialKey.CLUSTER_ID],
        token=text[CredentialKey.TOKEN],
        stored=stored_credential(secret),
        ca=text[CredentialKey.CA],
        certificate=text[CredentialKey.CERTIFICATE],
        private_key=text[CredentialKey.PRIVATE_KEY],
        approval_secret=_bytes(secret, CredentialKey.APPROVAL_SECRET) or None,
        signing_key=text[CredentialKey.SIGNING_KEY],
        decryption_key=text[CredentialKey.DECRYPTION_KEY],
        since=token_since(secret),
    )


def stored_credential(secret: Manifest) -> StoredCredential:
    """Return the tokens, their times and the rotation requests that `secret` records.

    Absent or malformed strings are empty, and times None. Never raises.
    """
    annotations = metadata(secret).get("annotations")
    return StoredCredential(
        token=_text(secret, CredentialKey.TOKEN),
        previous=_text(secret, CredentialKey.PREVIOUS_TOKEN),
        expires_at=time_or_none(_text(secret, CredentialKey.EXPIRES_AT)),
        issued_at=time_or_none(_text(secret, CredentialKey.ISSUED_AT)),
        requested=str(get_path(annotations, ROTATION_REQUESTED) or ""),
        served=_served(get_path(annotations, ROTATIONS_SERVED)),
    )


def with_stored(secret: Manifest, stored: StoredCredential) -> dict[str, Any]:
    """Return `secret` with the credential `stored` written into it; all other content is kept."""
    meta = dict(metadata(secret))
    annotations = _without_none({**(meta.get("annotations") or {}), **_annotations(stored)})
    meta.pop("annotations", None)
    if annotations:
        meta["annotations"] = annotations
    data = _without_none({**(get_path(secret, "data") or {}), **_data(stored)})
    return {**secret, "metadata": meta, "data": data}


def _data(stored: StoredCredential) -> dict[str, str | None]:
    times = {CredentialKey.EXPIRES_AT: stored.expires_at, CredentialKey.ISSUED_AT: stored.issued_at}
    texts = {
        CredentialKey.TOKEN: stored.token,
        CredentialKey.PREVIOUS_TOKEN: stored.previous,
        **{key: format_time(at) if at is not None else "" for key, at in times.items()},
    }
    return {key.value: _encoded(text) for key, text in texts.items()}


def _annotations(stored: StoredCredential) -> dict[str, str | None]:
    served = canonical_json(stored.served).decode() if stored.served else None
    return {ROTATION_REQUESTED: stored.requested or None, ROTATIONS_SERVED: served}


def new_secret(namespace: str, url: str, cluster_id: str, stored: StoredCredential, ca: str = "") -> dict[str, Any]:
    """Return the agent's credentials Secret in `namespace` for a cluster that was just registered.

    `url` is the address of the control plane, and `cluster_id` the cluster's id there. `stored` has the token. `ca` is
    the certificate authority (PEM) to trust at `url`, or an empty string.
    """
    meta = {"labels": {"app.kubernetes.io/managed-by": "vworkspace-operator"}}
    texts = {CredentialKey.URL: url, CredentialKey.CLUSTER_ID: cluster_id, CredentialKey.CA: ca}
    names = _without_none({key.value: _encoded(text) for key, text in texts.items()})
    manifest = SECRET.manifest(secret_ref(namespace).name, namespace, meta, type="Opaque", data=names)
    return with_stored(manifest, stored)


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _encoded(text: str) -> str | None:
    return base64.b64encode(text.encode()).decode() if text else None


def _served(text: Any) -> Mapping[str, tuple[str, ...]]:
    try:
        hashes = msgspec.json.decode(text if isinstance(text, str) else "{}", type=dict[str, tuple[str, ...]])
    except msgspec.DecodeError:
        return {}
    return hashes


def _bytes(secret: Manifest, key: CredentialKey) -> bytes:
    text: Any = get_path(secret, "data", key.value)
    if not isinstance(text, str):
        return b""
    try:
        # Every editor and every `--from-file` adds a trailing newline, which is never meant.
        return base64.b64decode(text, validate=True).strip()
    except ValueError:
        return b""


def _text(secret: Manifest, key: CredentialKey) -> str:
    try:
        return _bytes(secret, key).decode()
    except UnicodeDecodeError:
        return ""


def token_since(secret: Manifest) -> datetime | None:
    """Return the latest time at which the present token may have been written, or None if unknown.

    That is the last write of the field manager that owns the key `token`, or else the Secret's creation. The API server
    keeps one time for all fields of a manager, so the token may be older than the result.
    """
    owned = (entry for _, entry in entries(secret) if get_path(entry, "fieldsV1", "f:data", "f:token") is not None)
    times = [moment for entry in owned if (moment := time_or_none(get_path(entry, "time"))) is not None]
    return max(times, default=None) or time_or_none(get_path(secret, "metadata", "creationTimestamp"))
