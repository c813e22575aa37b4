"""Projections: the part of an object that a cache keeps, if only a part is read (RUN-1)."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from purekube.apimachinery.manifest import Manifest, metadata
from purekube.controller.informer.store import without_managed_fields


def projected(
    paths: Iterable[tuple[str, ...]], identity: Collection[str] | None = None
) -> Callable[[Manifest], Manifest]:
    """Return a function that keeps only the fields at `paths` (an empty path: all fields) and some metadata.

    `identity` names the metadata; None keeps all metadata except managedFields.
    """
    desired = [*dict.fromkeys(paths)]
    if () in desired:
        return without_managed_fields

    def slim(manifest: Manifest) -> Manifest:
        meta = metadata(without_managed_fields(manifest))
        out: dict[str, Any] = {key: manifest[key] for key in ("apiVersion", "kind") if key in manifest}
        out["metadata"] = {key: meta[key] for key in (meta if identity is None else identity) if key in meta}
        for path in desired:
            _copy(manifest, out, path)
        return out

    return slim


def _copy(source: Mapping[str, Any], target: dict[str, Any], path: tuple[str, ...]) -> None:
    """Copy one path; if a step leads into a value that is no mapping, copy that value whole."""
    for step in path[:-1]:
        if not isinstance(source.get(step), Mapping):
            break
        if not isinstance(target.get(step), dict):
            target[step] = {}
        source, target = source[step], target[step]
    else:
        step = path[-1]
    if step in source:
        target[step] = source[step]
