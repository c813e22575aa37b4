"""Annotations by which people tell any operator built on this framework something about an object."""

from typing import Final

from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.meta import ObjectMeta

ABANDON: Final = "vworkspace.io/abandon"
APPLIED_HASH: Final = "vworkspace.io/applied-hash"
"""An annotation of every object that a graph made: the hash of what was applied."""


def is_abandoned(meta: ObjectMeta) -> bool:
    """Report whether the finalizer may go without an uninstall (RES-5)."""
    return meta.annotations.get(ABANDON) == "true"


def names_in(manifest: Manifest | None, annotation: str) -> frozenset[str]:
    """Return the names, separated by commas, in an annotation by which an object agrees to something."""
    text = get_path(manifest, "metadata", "annotations", annotation)
    return frozenset(part.strip() for part in text.split(",") if part.strip()) if isinstance(text, str) else frozenset()
