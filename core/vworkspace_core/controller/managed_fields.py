"""Which fields of an object others hold, by its managedFields: what a conflict can be foreseen from (REC-3, REC-8).

Most of a manifest's managedFields are our own entry and Flux's status; of what is cached, only what others hold of
the fields that we write is kept, as a rule nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from vworkspace_core.api.labels import FIELD_MANAGER, MANAGED_BY, MANAGED_BY_VALUE
from vworkspace_core.apimachinery.manifest import Manifest, dig, metadata

_WRITTEN_METADATA = ("f:labels", "f:annotations", "f:ownerReferences")
_HELD = "managedFields"


def with_foreign_holders(manifest: Manifest) -> Manifest:
    """`manifest` with nothing in managedFields but what others hold of the fields that an apply may write.

    Of what does not carry our label nothing is kept: that is not applied over. Not a deep copy.
    """
    meta = metadata(manifest)
    if _HELD not in meta:
        return manifest
    kept = list(_foreign(meta[_HELD])) if dig(meta, "labels", MANAGED_BY) == MANAGED_BY_VALUE else []
    rest = {key: value for key, value in meta.items() if key != _HELD}
    return {**manifest, "metadata": {**rest, _HELD: kept} if kept else rest}


def _foreign(entries: Any) -> Iterable[Mapping[str, Any]]:
    for entry in entries if isinstance(entries, list) else ():
        fields = dig(entry, "fieldsV1")
        if dig(entry, "manager") == FIELD_MANAGER or dig(entry, "subresource") or not isinstance(fields, Mapping):
            continue
        meta = {key: value for key, value in (dig(fields, "f:metadata") or {}).items() if key in _WRITTEN_METADATA}
        rest = {key: value for key, value in fields.items() if key != "f:metadata"}
        if meta or rest:
            held = {"f:metadata": meta, **rest} if meta else rest
            yield {"manager": entry["manager"], "operation": dig(entry, "operation"), "fieldsV1": held}


def is_held_by_others(wanted: Manifest, live: Manifest | None) -> bool:
    """Whether another manager holds a field that `wanted` names. Whether that is a conflict, the server knows."""
    entries = dig(live, "metadata", _HELD)
    return any(_overlaps(entry["fieldsV1"], wanted) for entry in _foreign(entries))


def _overlaps(fields: Mapping[str, Any], wanted: Any) -> bool:
    """Whether a field set names a leaf that is in `wanted`. Items of lists count as soon as we send the list."""
    if not isinstance(wanted, Mapping):
        return True
    for key, beneath in fields.items():
        how, _, name = key.partition(":")
        if how != "f" or name not in wanted:
            continue
        if not isinstance(beneath, Mapping) or set(beneath) <= {"."} or _overlaps(beneath, wanted[name]):
            return True
    return False
