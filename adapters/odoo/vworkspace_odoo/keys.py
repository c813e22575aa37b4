"""The keys of the credentials Secret, PEM or JWK, each bound to the algorithms that it may be used with (PULL-9).

The Secret contains the operator's token and keys for the control plane. The keys verify and decrypt jobs (units of work
that Odoo sends). There may be several keys (consecutive PEM blocks, or a JWK set), so that a key can be replaced
without a time in which jobs are refused.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
from joserfc.errors import InvalidKeyTypeError
from joserfc.jwk import ECKey, OKPKey

from purekube.apimachinery.errors import Invalid

# No block contains the beginning of another: without that, a file of beginnings alone would take quadratic time.
_PEM: Final = re.compile(r"-----BEGIN ([A-Z ]+)-----(?:(?!-----BEGIN ).)+?-----END \1-----", re.DOTALL)
_LONGEST: Final = 65_536
_MOST: Final = 16

_SIGNATURES: Final = {"Ed25519": frozenset({"EdDSA", "Ed25519"}), "P-256": frozenset({"ES256"})}
_AGREEMENTS: Final = frozenset({"P-256", "P-384", "P-521", "X25519"})


@attrs.frozen
class BoundKey:
    """A key with the algorithms (`alg`) for which it may be used.

    The JOSE header of a received message can choose only among these algorithms.
    """

    key: ECKey | OKPKey = attrs.field(repr=False)
    algorithms: frozenset[str]

    def may_serve(self, header: Mapping[str, Any]) -> bool:
        """Report whether this key may verify or decrypt a message that has the JOSE header `header`.

        The header's `alg` must be one of the key's algorithms, and `kid` must match if both have one.
        """
        kid, own = header.get("kid"), self.key.kid
        return header.get("alg") in self.algorithms and (kid is None or own is None or kid == own)


def signing_keys(text: str) -> tuple[BoundKey, ...]:
    """Return the public keys in `text` (PEM or JWK), which verify signatures.

    Raises Invalid unless every key is a public Ed25519 or P-256 key. The message contains nothing of `text`.
    """
    keys = []
    for key in _keys(text, "signing-public-key"):
        if key.is_private:
            raise Invalid("signing-public-key in the credentials is a private key: give the public one")
        if key.curve_name not in _SIGNATURES:
            raise Invalid("signing-public-key in the credentials is neither an Ed25519 nor a P-256 key")
        keys.append(BoundKey(key, _SIGNATURES[key.curve_name]))
    return tuple(keys)


def decryption_keys(text: str) -> tuple[BoundKey, ...]:
    """Return the private keys in `text` (PEM or JWK), which decrypt payloads.

    Raises Invalid unless every key is a private P-256, P-384, P-521 or X25519 key. The message contains nothing of
    `text`.
    """
    keys = []
    for key in _keys(text, "decryption-key"):
        if not key.is_private:
            raise Invalid("decryption-key in the credentials is a public key: give the private one")
        if key.curve_name not in _AGREEMENTS:
            raise Invalid("decryption-key in the credentials is no P-256, P-384, P-521 or X25519 key")
        keys.append(BoundKey(key, frozenset({"ECDH-ES+A256KW"})))
    return tuple(keys)


def _keys(text: str, name: str) -> Iterator[ECKey | OKPKey]:
    if len(text) > _LONGEST:
        raise Invalid(f"{name} in the credentials is too long for a key")
    sources = list(_sources(text))
    if not 0 < len(sources) <= _MOST:
        raise Invalid(f"{name} in the credentials must be PEM or JWK, one key to {_MOST}")
    for source in sources:
        try:
            yield _imported(source)
        except Exception:
            # Libraries raise many errors for a broken key, and their messages may include the key.
            raise Invalid(f"{name} in the credentials is no elliptic-curve key that can be read") from None


def _sources(text: str) -> Iterator[Any]:
    """Yield every key in `text`, as PEM bytes or as a JWK, without importing it.

    Yield no key if `text` has another format.
    """
    if not text.lstrip().startswith("{"):
        yield from (match[0].encode() for match in _PEM.finditer(text))
        return
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return
    keys = document.get("keys", [document])
    yield from keys if isinstance(keys, list) else ()


def _imported(source: Any) -> ECKey | OKPKey:
    if isinstance(source, bytes):
        try:
            return ECKey.import_key(source)
        except InvalidKeyTypeError:
            return OKPKey.import_key(source)
    return OKPKey.import_key(source) if source["kty"] == "OKP" else ECKey.import_key(source)
