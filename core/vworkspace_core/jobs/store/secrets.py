"""A Secret of the job store: one value under the name of its role, in a format that can change (PULL-4)."""

import base64
from typing import Any, Final

from vworkspace_core.api import labels
from vworkspace_core.apimachinery.manifest import Manifest, dig
from vworkspace_core.apimachinery.resources import SECRET

SECRET_TYPE: Final = "vworkspace.io/job"
FORMAT: Final = 1
"""Format of what is written; a record or segment of a later one is left alone."""


def secret_manifest(namespace: str, name: str, role: str, value: bytes) -> dict[str, Any]:
    """A Secret of the store with one value, under the name of its role."""
    made = SECRET.manifest(name, namespace)
    made["metadata"]["labels"] = {labels.JOB_STORE: role}
    return {**made, "type": SECRET_TYPE, "data": {role: base64.b64encode(value).decode()}}


def role_of(secret: Manifest) -> str:
    """What the Secret is for; empty for one that is none of the store's."""
    if secret.get("type") != SECRET_TYPE:
        return ""
    found = dig(secret, "metadata", "labels", labels.JOB_STORE)
    return found if isinstance(found, str) else ""


def value_of(secret: Manifest, role: str) -> bytes:
    """The one value of a Secret of the store. Raises ValueError."""
    text = dig(secret, "data", role)
    if not isinstance(text, str):
        raise ValueError(f"it has no data.{role}")
    return base64.b64decode(text, validate=True)


def later_format(value: Any) -> str | None:
    """What to say of a value that a later version wrote; None for one of this version. Raises ValueError."""
    found = dig(value, "v")
    if isinstance(found, int) and found > FORMAT:
        return f"it has format {found}, this version reads {FORMAT}"
    if found != FORMAT:
        raise ValueError("it does not say in which format it is")
    return None


def first_line(error: Exception) -> str:
    """What is wrong with a Secret, shortly."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
