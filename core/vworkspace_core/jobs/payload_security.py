"""Authenticity of the payload of a control plane's job, and its decryption (PULL-9).

    the job has               the cluster requires     result
    ------------------------  -----------------------  --------------------------------------------------
    a good signature          either                   the payload
    a wrong signature         either                   failed/JobPayloadSignatureInvalid
    a signature, no key here  no signature             the payload: nothing more is required
    a signature, no key here  a signature              failed/JobPayloadSignatureInvalid
    no signature              a signature              failed/JobPayloadSignatureInvalid
    no signature, a key here  no signature             failed as above, unless the setting is `unsigned` (`in_force`)
    an encrypted payload      either                   its content; else failed/JobPayloadDecryptionFailed
    secrets in the clear      encrypted secrets        failed/JobPayloadDecryptionFailed

The signature covers what is sent, and is checked first: nothing of unknown origin is decrypted. No message quotes a
refused payload. A decrypted payload is in memory only: records hold the job as it was sent.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, Protocol

import attrs

from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.secret_material import find_secret_material
from vworkspace_core.jobs.result import JobResult, Reason


class Signatures(StrEnum):
    """The operator's setting for whether jobs of the control plane must be signed, in addition to the requirements of
    the Cluster object.

    REQUIRED demands signatures. AUTO demands them if a key that verifies signatures is configured. UNSIGNED demands
    none.
    """

    AUTO = "auto"
    REQUIRED = "required"
    UNSIGNED = "unsigned"


LONGEST_SIGNATURE: Final = 2048
"""The longest detached JWS, in characters: header and signature of one key."""
LONGEST_SEALED: Final = 4 * 1024 * 1024
"""The longest encrypted payload, in characters, before any of it is decoded."""


class PayloadOpener(Protocol):
    """A holder of keys that verifies signatures and decrypts payloads of the control plane's jobs.

    Calls have no side effects.
    """

    @property
    def can_verify(self) -> bool:
        """True if a key for signatures was configured, even if that key is unusable."""
        ...

    def verify(self, signature: str, content: Mapping[str, Any]) -> None:
        """Verify that `signature` is a detached JWS over the canonical JSON of `content`. Raises Invalid otherwise."""
        ...

    def decrypt(self, sealed: str) -> Any:
        """Return the JSON value in `sealed`, a JWE encrypted for the operator's key.

        Raises Invalid if `sealed` cannot be decrypted or holds no JSON. The message quotes none of the input.
        """
        ...


@attrs.frozen
class Security:
    """The requirements on payloads of the control plane's jobs: whether they must be signed, and secrets in them
    encrypted.

    `opener` has the keys that verify and decrypt payloads, None if there are none.
    """

    require_signed: bool = False
    require_encrypted_secrets: bool = False
    opener: PayloadOpener | None = attrs.field(default=None, repr=False)


def required_by(clusters: Iterable[Manifest], cluster_id: str) -> Security:
    """Return the requirements on payloads that the Cluster objects with this cluster's id make.

    If there are several objects, the strictest requirements count. The result has no keys yet (see `in_force`).
    """
    ours = [cluster for cluster in clusters if get_path(cluster, "spec", "clusterId") == cluster_id]

    def asked(field: str) -> bool:
        # Anything but an explicit no is a yes: a typing error must not switch a check off.
        return any(get_path(cluster, "spec", "security", field) not in (None, False) for cluster in ours)

    return Security(asked("requireSignedPayloads"), asked("requireEncryptedSecretPayloads"))


def in_force(required: Security, opener: PayloadOpener | None, signatures: Signatures = Signatures.AUTO) -> Security:
    """Return a copy of `required` that has the keys of `opener`, and that may require signatures in addition.

    Signatures are required if `required` requires them, or if `signatures` is REQUIRED. They are also required if
    `signatures` is AUTO and `opener` has a key that verifies them: an attacker could remove an optional signature.
    UNSIGNED adds no requirement. With `opener=None` there are no keys: AUTO adds no requirement, jobs that must be
    signed fail, and so do jobs with an encrypted payload.
    """
    by_key = opener is not None and opener.can_verify and signatures is not Signatures.UNSIGNED
    signed = required.require_signed or signatures is Signatures.REQUIRED or by_key
    return attrs.evolve(required, require_signed=signed, opener=opener)


def signed_content(raw: Mapping[str, Any], cluster_id: str) -> dict[str, Any]:
    """Return the part of the job `raw` that its signature covers, with the payload as sent, whether encrypted or not.

    The cluster's id is part of it, so that a job signed for one cluster is invalid in another.
    """
    content = {"cluster": cluster_id, **{name: raw.get(name) for name in ("expiresAt", "idempotencyKey", "kind")}}
    sent = "payload" if raw.get("encryptedPayload") is None else "encryptedPayload"
    return {**content, sent: raw.get(sent)}


def opened(raw: Mapping[str, Any], security: Security, cluster_id: str) -> Mapping[str, Any] | JobResult:
    """Return the job `raw` with its signature verified and its payload decrypted, or a failed result.

    `security` has the requirements and the keys. The signature covers `cluster_id`, the id of this cluster. `raw`
    itself is returned if it was not encrypted. It must have no `flaws` (values that JSON parsers refuse).
    """
    try:
        _check_signature(raw, security, cluster_id)
    except Invalid as error:
        return JobResult.failed(Reason.SIGNATURE_INVALID, error.message)
    return decrypted(raw, security)


def decrypted(raw: Mapping[str, Any], security: Security) -> Mapping[str, Any] | JobResult:
    """Return the job `raw` with its payload decrypted, or a failed result if it cannot be decrypted.

    `security` has the requirements and the key. The signature is not verified again, because the keys may have changed
    since the job was accepted.
    """
    try:
        return _decrypted(raw, security)
    except Invalid as error:
        return JobResult.failed(Reason.DECRYPTION_FAILED, error.message)


def _check_signature(raw: Mapping[str, Any], security: Security, cluster_id: str) -> None:
    signature = raw.get("signature")
    if signature is None:
        if security.require_signed:
            raise Invalid("the job has no signature, and this cluster requires one")
        return
    if not isinstance(signature, str) or not 0 < len(signature) <= LONGEST_SIGNATURE:
        raise Invalid(f"the signature must be a text of at most {LONGEST_SIGNATURE} characters")
    if security.opener is not None and security.opener.can_verify:
        security.opener.verify(signature, signed_content(raw, cluster_id))
    elif security.require_signed:
        raise Invalid("the credentials have no signing-public-key to check signatures with")


def _decrypted(raw: Mapping[str, Any], security: Security) -> Mapping[str, Any]:
    sealed = raw.get("encryptedPayload")
    if sealed is None:
        if security.require_encrypted_secrets and find_secret_material(raw.get("payload")):
            raise Invalid("the payload brings secrets in the clear, and this cluster requires them encrypted")
        return raw
    if raw.get("payload") is not None:
        raise Invalid("the job has a payload and an encryptedPayload: one of the two")
    if not isinstance(sealed, str) or not 0 < len(sealed) <= LONGEST_SEALED:
        raise Invalid(f"encryptedPayload must be a text of at most {LONGEST_SEALED} characters")
    if security.opener is None:
        raise Invalid("the credentials have no decryption-key")
    payload = security.opener.decrypt(sealed)
    if not isinstance(payload, Mapping):
        raise Invalid("what encryptedPayload holds is not a JSON object")
    return {**{name: value for name, value in raw.items() if name != "encryptedPayload"}, "payload": payload}
