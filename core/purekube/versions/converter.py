"""The versions of one kind: the hub, which is the storage version, and spokes, each with its conversion (PH-8).

Guarantees
    Pure. The result is of the requested version, with the identity and metadata of the input; only labels and
    annotations may differ. It has no field that its version does not declare, and all defaults are filled in. An
    exception of a user's function becomes ConversionFailed, with the object's name.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Manifest, metadata, same_json
from purekube.schema import Schema, apply_defaults, prune
from purekube.versions import preservation

Convert = Callable[[Manifest], Mapping[str, Any]]
"""A function that converts an object from one version to another. It may modify its argument."""

# apimachinery: api/validation/objectmeta.go, TotalAnnotationSizeLimitB.
LARGEST_ANNOTATIONS: Final = 256 * 1024
"""The most bytes that all annotations of an object may have together."""

_FREE: Final = ("labels", "annotations")


class ConversionFailed(ValueError):
    """The error for an object that cannot be converted. `why` is the reason without the object's name."""

    def __init__(self, manifest: Manifest, api_version: str, why: str) -> None:
        meta = metadata(manifest)
        name = "/".join(str(meta[key]) for key in ("namespace", "name") if meta.get(key))
        self.why = why
        super().__init__(f"{manifest.get('kind')} {name} ({manifest.get('apiVersion')}) as {api_version}: {why}")


@attrs.frozen
class Conversion:
    """A conversion between the storage version (the hub) and one other `version` (a spoke).

    `up` converts objects of `version` to the hub's version, `down` the reverse. With `keeps` an annotation on objects
    of the spoke keeps data that only the hub can express. With `hub_keeps` an annotation on objects of the hub keeps
    data that only the spoke can express. Without these, the functions themselves must lose no data.
    """

    version: str
    up: Convert
    down: Convert
    keeps: bool = False
    hub_keeps: bool = False


@attrs.frozen(eq=False)
class Converter:
    """A converter between all versions of a kind. `schemas` maps versions to their schemas.

    Objects of a version without a schema are neither pruned nor defaulted.
    """

    group: str
    kind: str
    hub: str
    spokes: Mapping[str, Conversion]
    schemas: Mapping[str, Schema] = attrs.field(factory=dict, repr=False)

    @classmethod
    def of(
        cls, group: str, kind: str, hub: str, *conversions: Conversion, schemas: Mapping[str, Schema] | None = None
    ) -> "Converter":
        """Return the converter of a kind from its conversions. `hub` is the storage version.

        `schemas` maps versions to their schemas; a version may lack one. Raises ValueError if a version is given twice.
        """
        names = [hub, *(conversion.version for conversion in conversions)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{kind} in {group}: the version {twice[0]} is there twice")
        return cls(group, kind, hub, {conversion.version: conversion for conversion in conversions}, schemas or {})

    @property
    def versions(self) -> Iterator[str]:
        """The storage version (the hub), followed by the other versions (the spokes)."""
        yield self.hub
        yield from self.spokes

    def without_annotations(self) -> "Converter":
        """Return a converter that writes no annotations to keep data, so that only the conversion functions keep it."""
        spokes = {name: attrs.evolve(spoke, keeps=False, hub_keeps=False) for name, spoke in self.spokes.items()}
        return attrs.evolve(self, spokes=spokes)

    def convert(self, manifest: Manifest, version: str) -> dict[str, Any]:
        """Convert an object to another version; an object that already has that version is returned.

        Raises ConversionFailed for another kind, an unknown version, or a user's function that fails.
        """
        given = self._version_of(manifest)
        for name in (given, version):
            if name != self.hub and name not in self.spokes:
                known = ", ".join(self.versions)
                raise ConversionFailed(
                    manifest, self._named(version), f"{self.kind} has no version {name}, but {known}"
                )
        if given == version:
            return dict(manifest)
        if given != self.hub:
            manifest = self._between(manifest, self.spokes[given], up=True)
        return dict(manifest) if version == self.hub else self._between(manifest, self.spokes[version], up=False)

    def _version_of(self, manifest: Manifest) -> str:
        api_version = manifest.get("apiVersion")
        group, _, version = str(api_version).rpartition("/")
        if group != self.group or manifest.get("kind") != self.kind:
            raise ConversionFailed(manifest, self._named(self.hub), f"is no {self.kind} of {self.group}")
        return version

    def _named(self, version: str) -> str:
        return f"{self.group}/{version}"

    def _between(self, manifest: Manifest, spoke: Conversion, *, up: bool) -> dict[str, Any]:
        source, target = (spoke.version, self.hub) if up else (self.hub, spoke.version)
        there, back = (spoke.up, spoke.down) if up else (spoke.down, spoke.up)
        puts_back, keeps = (spoke.keeps, spoke.hub_keeps) if up else (spoke.hub_keeps, spoke.keeps)
        given, kept = self._complete(manifest, source), None
        if puts_back:
            given, kept = _without(given, preservation.preservation_annotation(target))
        made = preservation.put_back(
            self._made(given, there, target), preservation.read(kept), self.schemas.get(target)
        )
        lost = preservation.losses(given, self._made(made, back, source), self.schemas.get(source)) if keeps else ()
        return _with(made, preservation.preservation_annotation(source), preservation.written(lost)) if lost else made

    def _made(self, manifest: Manifest, convert: Convert, target: str) -> dict[str, Any]:
        desired = self._named(target)
        try:
            found = convert(deepcopy(dict(manifest)))
        except ConversionFailed:
            raise
        except Exception as error:
            raise ConversionFailed(manifest, desired, str(error) or type(error).__name__) from error
        if not isinstance(found, Mapping):
            raise ConversionFailed(manifest, desired, f"the conversion gives {type(found).__name__}, and no object")
        body = {key: value for key, value in found.items() if key not in ("apiVersion", "kind", "metadata")}
        meta = _metadata(manifest, found, desired)
        return self._complete({"apiVersion": desired, "kind": self.kind, "metadata": meta, **body}, target)

    def _complete(self, manifest: Manifest, version: str) -> dict[str, Any]:
        schema = self.schemas.get(version)
        if schema is None:
            return dict(manifest)
        pruned, _ = prune(schema, dict(manifest))
        complete: dict[str, Any] = apply_defaults(schema, pruned)
        return complete


def _metadata(manifest: Manifest, found: Mapping[str, Any], desired: str) -> dict[str, Any]:
    """Return the metadata of `found`, the result of a user's function that converts `manifest` to the version
    `desired`.

    Raises ConversionFailed if it differs from the metadata of `manifest` in more than labels and annotations.
    """
    before, after = metadata(manifest), found.get("metadata", metadata(manifest))
    if not isinstance(after, Mapping):
        raise ConversionFailed(manifest, desired, "the conversion gives metadata that is no object")
    # The API server refuses or discards any other change (apiextensions-apiserver: conversion/webhook_converter.go,
    # restoreObjectMeta).
    for key in dict.fromkeys((*before, *after)):
        if key not in _FREE and not same_json(before.get(key), after.get(key)):
            raise ConversionFailed(manifest, desired, f"a conversion may not change metadata.{key}")
    for key in _FREE:
        texts = after.get(key)
        if texts is not None and not (isinstance(texts, Mapping) and all(isinstance(v, str) for v in texts.values())):
            raise ConversionFailed(manifest, desired, f"metadata.{key} must be texts")
    return dict(after)


def _without(manifest: Manifest, annotation: str) -> tuple[dict[str, Any], Any]:
    """Return the object without the annotation, and the annotation's value (None if it has no such annotation)."""
    meta = dict(metadata(manifest))
    annotations = meta.get("annotations")
    if not isinstance(annotations, Mapping) or annotation not in annotations:
        return dict(manifest), None
    left = {key: value for key, value in annotations.items() if key != annotation}
    if left:
        meta["annotations"] = left
    else:
        del meta["annotations"]
    return {**manifest, "metadata": meta}, annotations[annotation]


def _with(manifest: Manifest, annotation: str, text: str) -> dict[str, Any]:
    meta = metadata(manifest)
    annotations = {**(meta.get("annotations") or {}), annotation: text}
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > LARGEST_ANNOTATIONS:
        why = f"the annotation {annotation} would keep {len(text.encode())} bytes; all annotations have "
        raise ConversionFailed(manifest, str(manifest["apiVersion"]), f"{why}{LARGEST_ANNOTATIONS} together")
    return {**manifest, "metadata": {**meta, "annotations": annotations}}
