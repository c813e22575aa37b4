"""Helm's release Secrets: what they hold of hooks, and nothing else of them (OPS-8).

Helm writes `data.release` as base64 of gzip of JSON, and Kubernetes has its own base64 around that. The values of
the release are in there too: this module hands out hooks only.
"""

import base64
import binascii
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from vworkspace_core.manifest import Manifest, dig

__all__ = ["UnreadableRelease", "hooks_of", "revision_of"]

LARGEST_RELEASE: Final = 32 * 1024 * 1024
"""Bytes a release may unpack to; a Secret holds one of at most 1 MiB packed."""

_GZIP: Final = b"\x1f\x8b\x08"


class UnreadableRelease(ValueError):
    """A release Secret that does not hold what Helm writes. The message repeats nothing of it."""


def revision_of(secret: Manifest) -> int:
    """The revision that the Secret records, 0 where its label says nothing of use."""
    text = dig(secret, "metadata", "labels", "version")
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10 else 0


def hooks_of(secret: Manifest) -> Iterator[Mapping[str, Any]]:
    """The hooks of the release, each with `name`, `kind` and `manifest` (YAML text). Raises UnreadableRelease."""
    release = _decode(dig(secret, "data", "release"))
    hooks = dig(release, "hooks")
    return iter([hook for hook in hooks if isinstance(hook, Mapping)] if isinstance(hooks, list) else [])


def _decode(data: Any) -> Any:
    if not isinstance(data, str):
        raise UnreadableRelease("the release Secret has no data.release")
    try:
        packed = base64.b64decode(base64.b64decode(data, validate=True), validate=True)
        # Releases of very old Helm are not packed.
        return msgspec.json.decode(_unpack(packed) if packed.startswith(_GZIP) else packed)
    except (binascii.Error, zlib.error, msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableRelease(f"the release Secret cannot be decoded ({type(error).__name__})") from None


def _unpack(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    text = unpacker.decompress(packed, LARGEST_RELEASE)
    if unpacker.unconsumed_tail:
        raise UnreadableRelease(f"the release unpacks to more than {LARGEST_RELEASE} bytes")
    if not unpacker.eof:
        raise UnreadableRelease("the release is cut short")
    return text
