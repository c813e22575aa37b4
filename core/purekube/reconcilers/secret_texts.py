"""Texts of users' code without the values of Secrets: an exception may quote whatever the code has read."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Final

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import SECRET
from purekube.apimachinery.secret_material import REDACTED

_SHORTEST: Final = 4
"""The length of the shortest value that is removed: removing shorter ones would make the message unreadable."""


def without_secrets(text: str, objects: Mapping[ObjectRef, Manifest]) -> str:
    """Return `text` without any value of the Secrets among `objects`, neither encoded nor decoded."""
    found = {value for ref, live in objects.items() if ref.kind == SECRET for value in _values(live)}
    for value in sorted(found, key=len, reverse=True):
        text = text.replace(value, REDACTED)
    return text


def _values(secret: Manifest) -> Iterator[str]:
    data = get_path(secret, "data")
    for value in data.values() if isinstance(data, Mapping) else ():
        if isinstance(value, str) and len(value) >= _SHORTEST:
            yield value
            yield from _decoded_forms(value)


def _decoded_forms(value: str) -> Iterator[str]:
    try:
        plain = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return
    for one in (plain, repr(plain)[1:-1], *plain.splitlines()):
        if len(one) >= _SHORTEST:
            yield one
