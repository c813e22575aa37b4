"""The signing and encryption of jobs by a control plane (PULL-9): the only module here that needs joserfc.

A job is a unit of work that the control plane sends to the operator in a cluster.
"""

import json
from collections.abc import Mapping
from typing import Any

import attrs
import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwe, jws
from joserfc.jwk import ECKey, OKPKey

from vworkspace_core.jobs.payload_security import signed_content


class _Registry(jws.JWSRegistry):
    """A joserfc registry that permits large payloads, and skips joserfc's warning about the name EdDSA."""

    max_payload_length = 16 * 1024 * 1024

    def get_alg(self, name: str) -> Any:
        return self.algorithms[name]


class _Envelopes(jwe.JWERegistry):
    max_ciphertext_length = 16 * 1024 * 1024


@attrs.frozen
class Sealing:
    """A function that encrypts a job and then signs it, before the job is sent.

    `signing_key` is a private Ed25519 or P-256 key; `recipient_key` is the public key of the cluster. Without
    `recipient_key` a job is not encrypted, and without `signing_key` it is not signed.
    """

    signing_key: ECKey | OKPKey | None = attrs.field(default=None, repr=False)
    recipient_key: ECKey | OKPKey | None = attrs.field(default=None, repr=False)

    def __call__(self, raw: Mapping[str, Any], cluster_id: str) -> dict[str, Any]:
        """Return the job `raw` as it is sent to the cluster: encrypted and signed."""
        sealed = dict(raw)
        if self.recipient_key is not None:
            sealed["encryptedPayload"] = self.encrypt(sealed.pop("payload"))
        if self.signing_key is not None:
            sealed["signature"] = self.sign(signed_content(sealed, cluster_id))
        return sealed

    def encrypt(self, payload: Any) -> str:
        """Return a JWE with `payload`, the payload of a job, encrypted with the cluster's public key."""
        assert self.recipient_key is not None
        header = {"alg": "ECDH-ES+A256KW", "enc": "A256GCM"}
        registry = _Envelopes(algorithms=list(header.values()))
        return jwe.encrypt_compact(header, json.dumps(payload), self.recipient_key, registry=registry)

    def sign(self, content: Mapping[str, Any]) -> str:
        """Return a detached JWS over the canonical JSON of `content`, signed with `signing_key`."""
        assert self.signing_key is not None
        header = {"alg": "EdDSA" if self.signing_key.curve_name == "Ed25519" else "ES256"}
        whole = jws.serialize_compact(header, rfc8785.dumps(dict(content)), self.signing_key, registry=_Registry())
        return jws.detach_content(whole)


def key_in(pem: str) -> ECKey | OKPKey:
    """Return the elliptic-curve key in a PEM text.

    Raises ValueError if there is none; the message contains no part of the text.
    """
    for kind in (ECKey, OKPKey):
        try:
            return kind.import_key(pem)
        except Exception:
            continue
    raise ValueError("not an elliptic-curve key in PEM")


def signing_key_of(seed: bytes) -> OKPKey:
    """Return the Ed25519 key derived from a seed of 32 bytes.

    A fixed seed gives every run of a simulation the same signatures.
    """
    private = Ed25519PrivateKey.from_private_bytes(seed)
    return OKPKey.import_key(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
