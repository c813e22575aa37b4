"""What caches keep of objects of which only a part is read (RUN-1)."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from vworkspace_core.apimachinery.manifest import Manifest, metadata
from vworkspace_core.controller.informer.store import without_managed_fields


def projected(
    paths: Iterable[tuple[str, ...]], identity: Collection[str] | None = None
) -> Callable[[Manifest], Manifest]:
    """An object with the fields at `paths` only, the empty path being all of it, and with the metadata of `identity`.

    None keeps all metadata but managedFields.
    """
    wanted = [*dict.fromkeys(paths)]
    if () in wanted:
        return without_managed_fields

    def slim(manifest: Manifest) -> Manifest:
        meta = metadata(without_managed_fields(manifest))
        out: dict[str, Any] = {key: manifest[key] for key in ("apiVersion", "kind") if key in manifest}
        out["metadata"] = {key: meta[key] for key in (meta if identity is None else identity) if key in meta}
        for path in wanted:
            _copy(manifest, out, path)
        return out

    return slim


def _copy(source: Mapping[str, Any], target: dict[str, Any], path: tuple[str, ...]) -> None:
    """One path; a step into anything but a mapping takes the whole of it."""
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
