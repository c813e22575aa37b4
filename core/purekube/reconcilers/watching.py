"""The selection of the objects that a controller watches, and of the changes that it handles (PH-7)."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, get_path, metadata, same_json
from purekube.controller.informer.outline import OUTLINE, is_outline

Predicate: TypeAlias = Callable[[Manifest, Manifest], bool]
"""A function of the old and the new object that returns True if the change must be handled."""

METADATA_ONLY: Final[tuple[str, ...]] = ()
"""The value of `Watch.fields` for a watch that keeps only the metadata of each object in memory."""

_REST: Final = frozenset({"apiVersion", "kind", "metadata", "status"})


@attrs.frozen
class Watch:
    """The objects of a kind that are watched, and which part of each is kept in memory.

    `namespace` is one namespace, or None for all. `fields` None keeps full objects; `METADATA_ONLY` keeps only
    metadata; paths such as `.status.phase` keep metadata and these fields. Parts that are not kept are read from the
    API server when an object is reconciled.
    """

    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""
    fields: tuple[str, ...] | None = None

    @property
    def is_whole(self) -> bool:
        """Report whether full objects are kept in memory."""
        return self.fields is None

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The fields of each watched object that are kept in memory in addition to its metadata, each as a path of
        keys.

        They are the paths in `fields`; none for full objects and for `METADATA_ONLY`.
        """
        return tuple(tuple(path.strip(".").split(".")) for path in self.fields or ())


@attrs.frozen
class Watched:
    """A kind that a controller watches in addition to the kind that it reconciles, with a selection of the objects."""

    kind: Kind
    watch: Watch = Watch(fields=METADATA_ONLY)


@attrs.frozen
class Filters:
    """A filter that drops updates of an object unless they change a selected part. Adds and deletes always pass.

    `generation` lets an update with a new generation pass. For a kind without generations it lets an update pass that
    changes anything except metadata and status. `labels` and `annotations` select the names whose change lets an update
    pass: True selects all, False none. `finalizers` are names whose addition or removal lets an update pass, in
    addition to the controller's own finalizers. `predicate` is called last with the old and the new object, and lets
    the update pass by returning True; if it raises, or if only an outline of a large object is in memory, the update
    passes.
    """

    generation: bool = True
    labels: bool | Collection[str] = True
    annotations: bool | Collection[str] = True
    finalizers: Collection[str] = ()
    predicate: Predicate | None = None

    def passes(self, old: Manifest, new: Manifest) -> bool:
        """Report whether an update from `old` to `new` must be handled."""
        before, now = metadata(old), metadata(new)
        return (
            before.get("deletionTimestamp") != now.get("deletionTimestamp")
            or (self.generation and has_new_content(old, new))
            or _differs(self.labels, before.get("labels"), now.get("labels"))
            or _differs(self.annotations, before.get("annotations"), now.get("annotations"))
            or any((name in finalizers_of(old)) != (name in finalizers_of(new)) for name in self.finalizers)
            or (self.predicate is not None and _satisfies(self.predicate, old, new))
        )


def finalizers_of(manifest: Manifest) -> tuple[str, ...]:
    """Return the finalizers of an object."""
    listed = metadata(manifest).get("finalizers")
    return tuple(map(str, listed)) if isinstance(listed, list | tuple) else ()


def has_new_content(old: Manifest, new: Manifest) -> bool:
    """Report whether the generation of an object differs between `old` and `new`.

    For a kind without generations, report whether any field except metadata and status differs.
    """
    before, now = (get_path(one, "metadata", "generation") for one in (old, new))
    if before is not None and now is not None:
        return bool(before != now)
    left, right = _content(old), _content(new)
    if not left and not right:  # its content is not kept
        return bool(get_path(old, "metadata", "resourceVersion") != get_path(new, "metadata", "resourceVersion"))
    return not same_json(left, right)


def _content(manifest: Manifest) -> Mapping[str, Any]:
    return {name: value for name, value in manifest.items() if name not in _REST}


def _differs(desired: bool | Collection[str], old: Any, new: Any) -> bool:
    if desired is False:
        return False
    before, now = (found if isinstance(found, Mapping) else {} for found in (old, new))
    if desired is True:
        return dict(before) != dict(now)
    return any(before.get(name) != now.get(name) for name in (*desired, OUTLINE))


def _satisfies(predicate: Predicate, old: Manifest, new: Manifest) -> bool:
    try:
        # A predicate cannot judge outlines: what it compares may be missing from both.
        return is_outline(old) or is_outline(new) or bool(predicate(old, new))
    except Exception:
        return True
