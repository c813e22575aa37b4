"""Signatures and encryption with joserfc: detached JWS over RFC 8785 JSON; JWE with ECDH-ES+A256KW, A256GCM (PULL-9).

Input is checked before the library gets it: the number of parts, their alphabet and length, and that all members of the
header are known. A header can therefore bring no key of its own (`jwk`, `jku`, `x5u`, `x5c`), no compression (`zip`),
no extension (`crit`, `b64`), and no other algorithm than the key's.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import rfc8785
from joserfc import jwe, jws
from joserfc.jwa import JWSAlgModel

from purekube.apimachinery.errors import Invalid
from vworkspace_odoo.keys import BoundKey

_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]*")
_SIGNATURE_LIMITS: Final = (1024, 0, 512)
_SEALED_LIMITS: Final = (2048, 512, 64, 4 * 1024 * 1024, 64)
_SIGNATURE_HEADER: Final = frozenset({"alg", "kid", "typ"})
_SEALED_HEADER: Final = frozenset({"alg", "enc", "epk", "apu", "apv", "kid", "typ", "cty"})
# The prefix `application/` may be left out (RFC 7515, section 4.1.10).
_JSON_CONTENT: Final = (None, "json", "application/json")


class _Signatures(jws.JWSRegistry):
    """A joserfc registry that accepts only the algorithms of the key, and skips joserfc's warnings about algorithms."""

    max_header_length = _SIGNATURE_LIMITS[0]
    max_signature_length = _SIGNATURE_LIMITS[2]

    def get_alg(self, name: str) -> JWSAlgModel:
        if name not in (self.allowed or ()):
            raise ValueError("not allowed")
        return self.algorithms[name]


class _Envelopes(jwe.JWERegistry):
    max_protected_header_length = _SEALED_LIMITS[0]
    max_ciphertext_length = _SEALED_LIMITS[3]


def canonical(content: Mapping[str, Any]) -> bytes:
    """Return `content` as canonical JSON (RFC 8785). Raises Invalid for values that JSON cannot represent."""
    try:
        return rfc8785.dumps(dict(content))
    except (rfc8785.CanonicalizationError, RecursionError, UnicodeError):
        raise Invalid("the job has a value that canonical JSON (RFC 8785) cannot hold") from None


def verify_detached(signature: str, content: bytes, keys: Sequence[BoundKey]) -> None:
    """Verify that `signature` is a detached JWS (RFC 7515, appendix F) over `content` by one of `keys`.

    Raises Invalid if `signature` is malformed, or if none of the keys verifies it.
    """
    parts = _parts(signature, _SIGNATURE_LIMITS, "the signature")
    if parts[1]:
        raise Invalid("the signature is not detached: its second part must be empty")
    header = _header(parts[0], _SIGNATURE_HEADER, "the signature")

    def good(key: BoundKey) -> bool:
        registry = _Signatures(algorithms=list(key.algorithms))
        jws.deserialize_compact(signature, key.key, registry=registry, payload=content)
        return True

    if _first(keys, header, good, "the signature is not by an algorithm or key of this cluster") is None:
        raise Invalid("the signature does not match the job, this cluster and its key")


def decrypt_compact(sealed: str, keys: Sequence[BoundKey]) -> bytes:
    """Return the decrypted content of a JWE in compact form.

    Raises Invalid if the JWE is malformed, its encryption is not permitted, or none of `keys` decrypts it.
    """
    parts = _parts(sealed, _SEALED_LIMITS, "encryptedPayload")
    if any(len(part) > limit for part, limit in zip(parts, _SEALED_LIMITS, strict=True)):
        raise Invalid("encryptedPayload has a part that is too long")
    header = _header(parts[0], _SEALED_HEADER, "encryptedPayload")
    if header.get("enc") != "A256GCM":
        raise Invalid("encryptedPayload is not encrypted with A256GCM")
    if header.get("cty") not in _JSON_CONTENT:
        raise Invalid("encryptedPayload holds something else than JSON: nesting is not taken")

    def plain(key: BoundKey) -> bytes | None:
        registry = _Envelopes(algorithms=[*key.algorithms, "A256GCM"])
        return jwe.decrypt_compact(sealed, key.key, registry=registry).plaintext

    opened: bytes | None = _first(
        keys, header, plain, "encryptedPayload is not for an algorithm or key of this cluster"
    )
    if opened is None:
        raise Invalid("encryptedPayload cannot be decrypted: it is for another key, or damaged")
    return opened


def read_json(plain: bytes) -> Any:
    """Return the JSON value of a decrypted payload. Raises Invalid if it is not JSON or an object has a key twice."""
    try:
        return json.loads(plain.decode("utf-8"), object_pairs_hook=_unambiguous)
    except (ValueError, RecursionError):
        raise Invalid("what encryptedPayload holds is not JSON") from None


def _first(
    keys: Sequence[BoundKey], header: Mapping[str, Any], use: Callable[[BoundKey], Any], none_serves: str
) -> Any:
    """Try `use` with each key that suits `header`, and return its first result.

    Return None if `use` fails with all of these keys. Raises Invalid with the message `none_serves` if no key suits
    `header`.
    """
    serving = [key for key in keys if key.may_serve(header)]
    if not serving:
        raise Invalid(none_serves)
    for key in serving:
        try:
            return use(key)
        except Exception:
            # Libraries refuse hostile input with many errors; the exact one would help only the sender.
            continue
    return None


def _parts(text: str, limits: Sequence[int], what: str) -> list[str]:
    """Return the parts of a JWS or JWE in compact form. `limits` has the longest length of each part.

    Raises Invalid for any other string. The message calls it `what`, such as `the signature`.
    """
    if len(text) > sum(limits) + len(limits):
        raise Invalid(f"{what} is too long")
    parts = text.split(".", len(limits))
    if len(parts) != len(limits) or not all(map(_SEGMENT.fullmatch, parts)):
        raise Invalid(f"{what} does not have {len(limits)} base64url parts")
    return parts


def _header(part: str, admitted: frozenset[str], what: str) -> Mapping[str, Any]:
    """Return the decoded protected header of a JWS or JWE.

    Raises Invalid for members that are not `admitted`; its message calls the JWS or JWE `what`.
    """
    try:
        # JOSE leaves the padding out (RFC 7515, section 2), and Python requires it.
        raw = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
        header = json.loads(raw.decode("utf-8"), object_pairs_hook=_unambiguous)
    except (ValueError, RecursionError):
        raise Invalid(f"{what} has no header that can be read") from None
    if not isinstance(header, Mapping) or not admitted.issuperset(header):
        raise Invalid(f"{what} has a header with members that are not admitted")
    if not all(isinstance(value, str) for name, value in header.items() if name != "epk"):
        raise Invalid(f"{what} has a header with members of a wrong type")
    return header


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Of a name that comes twice, parsers take the first, the last or neither (RFC 8259, section 4).
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name comes twice")
    return members
