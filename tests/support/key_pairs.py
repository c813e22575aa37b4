"""New keys for a control plane that seals its jobs, and for the cluster that opens them."""

from typing import Any

import attrs
from joserfc.jwk import ECKey, OKPKey

from vworkspace_fake.controlplane.sealing import Sealing


@attrs.frozen
class KeyPairs:
    """New keys for a control plane and a cluster.

    `sealing` encrypts and signs jobs for the cluster. `signing_public_key` and `decryption_key` are PEM texts for the
    cluster's credentials Secret.
    """

    sealing: Sealing
    signing_public_key: str
    decryption_key: str = attrs.field(repr=False)

    @classmethod
    def generate(cls, *, signing: str = "Ed25519", encryption: str = "P-256") -> "KeyPairs":
        """Return new keys on the given elliptic curves, one for signing and one for encryption."""
        signer, recipient = _generated(signing), _generated(encryption)
        public = recipient.import_key(recipient.as_pem(private=False))
        return cls(
            Sealing(signer, public),
            signer.as_pem(private=False).decode(),
            recipient.as_pem(private=True).decode(),
        )


def _generated(curve: str) -> Any:
    kind: Any = ECKey if curve.startswith("P-") else OKPKey
    return kind.generate_key(curve)
