"""The masking of secrets in objects, for recordings and for display; equal values stay equal in a recording (RES-7).

All chart values may be secret, whatever their keys. Their texts and numbers are replaced by a keyed hash, which shows
whether two are equal; the key is not kept. Digests of values are replaced too, since a short secret could be guessed
from its digest.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.manifest import LAST_APPLIED, Manifest, get_path
from purekube.apimachinery.meta import APPLIED_HASH
from purekube.apimachinery.secret_material import REDACTED, is_secret_key, redact
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

Mask: TypeAlias = Callable[[str | float], str]

MARK: Final = "masked-"
"""The prefix of every masked value."""
_VALUES: Final = frozenset({"values", "valuesPatch"})
_OF_INSTANCES: Final = frozenset({"inline", "valuesPatch"})
"""The fields of an instance that contain only chart values. Its field `values` also names their source."""
_DIGESTS: Final = frozenset({"configDigest", "lastAttemptedConfigDigest", "specHash"})
_DROPPED: Final = frozenset({"managedFields", LAST_APPLIED})
_TEXTS: Final = frozenset({"message", "note", "reason"})
"""The fields whose texts may quote a chart value."""
_SHORTEST_QUOTED: Final = 4
_MOST_QUOTED: Final = 5_000


@attrs.define
class Masker:
    """A masker of chart values and secrets in one recording: it replaces each by a hash.

    Equal values have equal hashes. The key of the hashes is never written.
    """

    key: bytes = attrs.field(repr=False)
    _quoted: set[str] = attrs.field(factory=set, repr=False)
    _pattern: re.Pattern[str] | None = attrs.field(default=None, repr=False)

    def masked(self, manifest: Manifest) -> dict[str, Any]:
        """Return an object in the form in which it is recorded: with chart values, their digests and secrets masked."""
        masked: dict[str, Any] = _Walk(_fields_of(manifest), self._mask, self._without_quotes).of(manifest)
        applied = get_path(masked, "metadata", "annotations", APPLIED_HASH)
        if applied and get_path(manifest, "spec", "values"):
            masked["metadata"]["annotations"][APPLIED_HASH] = self._mask(str(applied))
        return masked

    def _mask(self, value: str | float) -> str:
        text = str(value)
        if len(text) >= _SHORTEST_QUOTED and len(self._quoted) < _MOST_QUOTED and text not in self._quoted:
            self._quoted.add(text)
            self._pattern = None
        return MARK + hmac.new(self.key, text.encode(errors="replace"), hashlib.sha256).hexdigest()[:16]

    def _without_quotes(self, text: str) -> str:
        """Return a string, such as a message, with `***` in place of values that were masked in objects before."""
        if self._pattern is None and self._quoted:
            longest_first = sorted(self._quoted, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)


def without_values(manifest: Manifest) -> dict[str, Any]:
    """Return an object for display, with `***` instead of chart values, digests of values, and secrets."""
    shown: dict[str, Any] = _Walk(_fields_of(manifest), lambda value: REDACTED, lambda text: text).of(manifest)
    return shown


def holds_masked(value: Any) -> bool:
    """Report whether a value from a recording, or a part of the value, was masked."""
    if isinstance(value, str):
        return value.startswith(MARK)
    if isinstance(value, Mapping):
        return any(map(holds_masked, value.values()))
    return isinstance(value, list) and any(map(holds_masked, value))


def _fields_of(manifest: Manifest) -> frozenset[str]:
    return _OF_INSTANCES if manifest.get("kind") == APPLICATION_INSTANCE.kind else _VALUES


@attrs.frozen
class _Walk:
    """A walk through an object that masks values and secrets.

    `mask` replaces every value below the fields named in `fields`. `unquoted` returns a string without these values,
    for fields that may quote them, such as messages.
    """

    fields: frozenset[str]
    mask: Mask
    unquoted: Callable[[str], str]

    def of(self, value: Any, key: str = "") -> Any:
        """Return a value with secrets masked; `key` is the name of the field that contains the value."""
        if isinstance(value, Mapping):
            named = isinstance(value.get("name"), str) and isinstance(value.get("value"), str)
            return {
                name: self._masked(item)
                if self._is_value(name, item) or (named and name == "value")
                else self.of(item, str(name))
                for name, item in value.items()
                if name not in _DROPPED
            }
        if isinstance(value, list):
            return [self.of(item, key) for item in value]
        if isinstance(value, str):
            return redact(self.unquoted(value) if key in _TEXTS else value)
        return value

    def _is_value(self, name: str, item: Any) -> bool:
        if name in _DIGESTS or (name in self.fields and isinstance(item, Mapping | list)):
            return True
        return is_secret_key(name) and isinstance(item, str | int | float | list)

    def _masked(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: self._masked(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._masked(item) for item in value]
        if value is None or isinstance(value, bool) or value == "":
            return value
        return self.mask(value)
