"""The Secrets in which Helm stores releases: the hooks in them are read and verified (OPS-8).

Helm writes `data.release` as base64 of gzip of JSON, and Kubernetes encodes that again as base64. Every account that
may write Secrets can forge one. A Secret is therefore trusted only if it matches the digest that Flux recorded:
`status.history[].digest` of the HelmRelease is the SHA-256 of the release as helm-controller observes it. The hashed
text is Go's JSON encoding of an object with the fields

    name, version, info, chartMetadata, config, manifest, hooks, namespace, ociDigest

in this order, followed by a line feed. `hooks` has no tests; `config` and `hooks` are `null` if there are none;
`ociDigest` is taken from the history's entry, since Helm does not store it. Helm's JSON contains every part character
by character, so the text is assembled from these parts without encoding them again.
"""

import base64
import binascii
import hashlib
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import msgspec

from purekube.apimachinery.manifest import Manifest, get_path

LARGEST_RELEASE: Final = 4 * 1024 * 1024
"""The maximum size of a decompressed release in bytes. (A Secret holds at most 1 MiB of compressed data.)"""

LARGEST_HOOK: Final = 256 * 1024
"""The maximum size of a hook's manifest in bytes."""

_GZIP: Final = b"\x1f\x8b\x08"
_NULL, _EMPTY, _NO_TEXT = msgspec.Raw(b"null"), msgspec.Raw(b"{}"), msgspec.Raw(b'""')
_TEST: Final = "test"


class UnreadableRelease(ValueError):
    """An error for a release Secret whose content is not what Helm writes, or not what Flux recorded.

    The message repeats none of the content.
    """


@attrs.frozen
class RecordedHook:
    """A Helm hook in Helm's record of a release.

    `events` are the events at which the hook runs, and `manifest` is YAML text.
    """

    name: str
    kind: str
    manifest: str = attrs.field(repr=False)
    events: tuple[str, ...]


class _Chart(msgspec.Struct):
    metadata: msgspec.Raw = _EMPTY


class _Release(msgspec.Struct):
    """Helm's record of a release, with each part as raw JSON."""

    name: msgspec.Raw = _NO_TEXT
    version: msgspec.Raw = msgspec.Raw(b"0")
    info: msgspec.Raw = _EMPTY
    chart: _Chart = msgspec.field(default_factory=_Chart)
    config: msgspec.Raw = _NULL
    manifest: msgspec.Raw = _NO_TEXT
    hooks: list[msgspec.Raw] | None = None
    namespace: msgspec.Raw = _NO_TEXT


class _Hook(msgspec.Struct):
    name: str = ""
    kind: str = ""
    manifest: str = ""
    events: list[str] | None = None


def proved_hooks(secret: Manifest, recorded: Mapping[str, Any]) -> tuple[RecordedHook, ...]:
    """Return the hooks of the release in `secret`, after verifying it against `recorded`, an entry of Flux's history.

    The history is the field `status.history` of the HelmRelease. Test hooks are left out, even if they also serve other
    events, because the digest that Flux recorded does not cover them. Raises UnreadableRelease if the Secret cannot be
    decoded, or is not the one that Flux recorded.
    """
    try:
        release = msgspec.json.decode(_text_of(secret), type=_Release)
        hooks = [(raw, msgspec.json.decode(raw, type=_Hook)) for raw in release.hooks or ()]
    except (binascii.Error, zlib.error, msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableRelease(f"the release Secret cannot be decoded ({type(error).__name__})") from None
    covered = [(raw, hook) for raw, hook in hooks if _TEST not in (hook.events or ())]
    digests = {_digest(text) for text in _observations(release, [bytes(raw) for raw, _ in covered], recorded)}
    if recorded.get("digest") not in digests:
        raise UnreadableRelease("the release Secret is not the one that Flux recorded: its checksum differs")
    return tuple(RecordedHook(hook.name, hook.kind, hook.manifest, tuple(hook.events or ())) for _, hook in covered)


def _observations(release: _Release, hooks: list[bytes], recorded: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the texts of which Flux may have recorded the checksum when it observed `release`.

    `hooks` are its hooks as JSON, and `recorded` is the entry of Flux's history. Newer versions of Flux omit an empty
    `ociDigest`; older ones include it.
    """
    empty = bytes(release.config) in (b"null", b"{}")
    parts = {
        b"name": bytes(release.name),
        b"version": bytes(release.version),
        b"info": bytes(release.info),
        b"chartMetadata": bytes(release.chart.metadata),
        b"config": b"null" if empty else bytes(release.config),
        b"manifest": bytes(release.manifest),
        b"hooks": b"[" + b",".join(hooks) + b"]" if hooks else b"null",
        b"namespace": bytes(release.namespace),
    }
    oci = recorded.get("ociDigest")
    if isinstance(oci, str) and oci:
        yield _object({**parts, b"ociDigest": msgspec.json.encode(oci)})
        return
    yield _object(parts)
    yield _object({**parts, b"ociDigest": b'""'})


def _object(parts: Mapping[bytes, bytes]) -> bytes:
    return b"{" + b",".join(b'"' + name + b'":' + value for name, value in parts.items()) + b"}\n"


def _digest(text: bytes) -> str:
    return "sha256:" + hashlib.sha256(text).hexdigest()


def _text_of(secret: Manifest) -> bytes:
    data = get_path(secret, "data", "release")
    if not isinstance(data, str):
        raise UnreadableRelease("the release Secret has no data.release")
    packed = base64.b64decode(base64.b64decode(data, validate=True), validate=True)
    # Releases of very old Helm are not packed (Helm 4.2.2: pkg/storage/driver/util.go, decodeRelease).
    return _unpack(packed) if packed.startswith(_GZIP) else packed


def _unpack(packed: bytes) -> bytes:
    # 31: a gzip header and trailer around the deflate stream (zlib, inflateInit2). gzip.decompress has no limit of
    # size.
    unpacker = zlib.decompressobj(wbits=31)
    text = unpacker.decompress(packed, LARGEST_RELEASE)
    if unpacker.unconsumed_tail:
        raise UnreadableRelease(f"the release unpacks to more than {LARGEST_RELEASE // 1024 // 1024} MiB")
    if not unpacker.eof:
        raise UnreadableRelease("the release is cut short")
    return text
