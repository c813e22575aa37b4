"""The verification and decryption of job payloads with the keys of the credentials Secret (PULL-9).

The Secret contains the operator's token and keys for the control plane. A job is a unit of work that Odoo sends.
`JosePayloads` implements the port `PayloadOpener`. Only signed or encrypted jobs need the package joserfc, which is a
quarter of the size of an installation. The extra `signatures` installs it, and the first such job imports it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import attrs

from purekube.apimachinery.errors import Invalid

INSTALL: Final = "pip install 'vworkspace-operator[operator,signatures]'"


@attrs.frozen
class JosePayloads:
    """A verifier and decrypter of job payloads with the keys of the credentials Secret.

    The Secret contains the operator's token and keys for the control plane. A job is a unit of work that Odoo sends. An
    unusable key or a missing package is reported only when a job needs it.
    """

    signing_key: str = attrs.field(default="", repr=False)
    decryption_key: str = attrs.field(default="", repr=False)

    @property
    def can_verify(self) -> bool:
        """True if a key that verifies signatures is configured."""
        return bool(self.signing_key)

    def verify(self, signature: str, content: Mapping[str, Any]) -> None:
        """Verify that `signature` is a detached JWS over the canonical JSON of `content`. Raises Invalid if not."""
        with _installed():
            from vworkspace_odoo.jose import canonical, verify_detached
            from vworkspace_odoo.keys import signing_keys
        verify_detached(signature, canonical(content), signing_keys(self.signing_key))

    def decrypt(self, sealed: str) -> Any:
        """Return the JSON value in the encrypted payload `sealed` (JWE). Raises Invalid if it cannot be decrypted."""
        if not self.decryption_key:
            raise Invalid("the credentials have no decryption-key")
        with _installed():
            from vworkspace_odoo.jose import decrypt_compact, read_json
            from vworkspace_odoo.keys import decryption_keys
        return read_json(decrypt_compact(sealed, decryption_keys(self.decryption_key)))


@contextmanager
def _installed() -> Iterator[None]:
    """Raise Invalid if the package joserfc, which the block imports, is missing. The message says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise Invalid(
            f"the operator cannot read signed or encrypted jobs: {error.name} is missing; {INSTALL}"
        ) from None
