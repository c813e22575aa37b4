"""Rendered manifests in the form in which the API server stores them."""

import base64
from collections.abc import Mapping
from typing import Any


def as_stored(secret: dict[str, Any]) -> dict[str, Any]:
    """Return a Secret with its plain texts in `data`, as it is stored: `stringData` would always differ."""
    plain = secret.pop("stringData", None)
    if isinstance(plain, Mapping):
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}
    return secret
