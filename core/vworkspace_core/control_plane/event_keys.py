"""The key convention `<kind>/<namespace>/<name>@<generation>`, or a stable hash (PULL-1).

The generation is the control plane's: it counts the versions of the intent, and it is what
`vworkspace.io/last-applied-generation` remembers on the object.
"""

import re
from typing import Final

from purekube.apimachinery.manifest import ObjectRef

_VERSIONED: Final = re.compile(r"\A(?P<object>[^@]+)@(?P<generation>[1-9][0-9]{0,17})")


def object_key(ref: ObjectRef) -> str:
    """Return `<kind>/<namespace>/<name>`: the part before the generation."""
    return f"{ref.kind.kind}/{ref.namespace or ''}/{ref.name}"


def generation_in(key: str, ref: ObjectRef) -> int | None:
    """Return the generation that `key` gives for `ref`; None for a hash, and for a key about another object."""
    match = _VERSIONED.fullmatch(key)
    if match is None or match["object"].lower() != object_key(ref).lower():
        return None
    return int(match["generation"])
