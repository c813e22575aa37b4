"""The kinds that the compiler of boxes knows: plural, scope and schema, from CRDs and from a built-in table."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, get_path
from purekube.apimachinery.problems import NoPlaces, Places, index, join
from purekube.apimachinery.resources import KNOWN_KINDS
from purekube.cel import ITEM, CelType
from purekube.schema import Schema, SchemaError, compile_schema
from purekube.schema.builtin import UNTYPED, built_in_kinds, built_in_names, built_in_schema
from purekube.schema.celtypes import type_of_schema
from purekube.schema.keywords import mistyped_keywords
from purekube.schema.node import JsonType
from purekube.schema.objectmeta import OBJECT_META, with_type_meta

CRD: Final = "CustomResourceDefinition"
_STORED: Final = ("name", "uid", "generation", "resourceVersion", "creationTimestamp")

_UNKNOWN: Final = with_type_meta(Schema(type=JsonType.OBJECT, preserve_unknown=True, free=True))
"""The schema of objects of which only the metadata is known."""


@attrs.frozen(eq=False)
class KnownKind:
    """A kind with the OpenAPI schema of the whole object, if it is known."""

    kind: Kind
    schema: Schema | None = None

    @property
    def type(self) -> CelType:
        """The CEL type of the kind's objects as the API server stores them."""
        return type_of_schema(stored(_UNKNOWN if self.schema is None else self.schema, self.kind), plain=True)


class CrdProblem(ValueError):
    """The error for a document that is not a usable CRD."""


@attrs.frozen(eq=False)
class CrdVersions:
    """The versions of a CRD in the CRD's own order, and which of them is the storage version."""

    manifest: Manifest
    kinds: Mapping[str, KnownKind]
    storage: str
    has_status: bool
    places: Places = attrs.field(factory=NoPlaces)

    @classmethod
    def of(cls, manifest: Any, places: Places | None = None) -> "CrdVersions":
        """Read the versions from a CRD manifest. Raises CrdProblem if the manifest is not a usable CRD.

        `places` finds the lines of fields in the CRD's file; None if the CRD was not read from a file.
        """
        if not isinstance(manifest, Mapping) or manifest.get("kind") != CRD:
            raise CrdProblem(f"is no {CRD}")
        versions = get_path(manifest, "spec", "versions")
        if not isinstance(versions, list) or not all(isinstance(version, Mapping) for version in versions):
            raise CrdProblem("spec.versions must be a list of versions")
        kinds = {str(version.get("name")): _known(manifest, version) for version in versions}
        stored_as = [version for version in versions if version.get("storage") is True]
        if len(stored_as) != 1:
            raise CrdProblem("exactly one of spec.versions has storage: true")
        has_status = get_path(stored_as[0], "subresources", "status") is not None
        known = NoPlaces() if places is None else places
        return cls(manifest, kinds, str(stored_as[0].get("name")), has_status, known)

    def where(self, *path: str) -> str:
        """Return the file and the line of the field at `path` in the schema of the stored version. Return the CRD's
        name if the CRD was not read from a file.
        """
        names = [version.get("name") for version in self.manifest["spec"]["versions"]]
        at = f"{index('spec.versions', names.index(self.storage))}.schema.openAPIV3Schema"
        for step in path:
            at = f"{at}.items" if step == ITEM else join(f"{at}.properties", step)
        place = self.places.at(at)
        return f"{place.file}:{place.line}" if place.line else self.stored.kind.crd_name

    @property
    def stored(self) -> KnownKind:
        """The storage version, in which the box sees all objects."""
        return self.kinds[self.storage]

    @property
    def served_others(self) -> tuple[KnownKind, ...]:
        """The served versions other than the storage version."""
        served = (each["name"] for each in self.manifest["spec"]["versions"] if each.get("served") is not False)
        return tuple(self.kinds[name] for name in served if name != self.storage)


def _known(manifest: Manifest, version: Mapping[str, Any]) -> KnownKind:
    group, names = get_path(manifest, "spec", "group"), get_path(manifest, "spec", "names")
    kind, plural = get_path(names, "kind"), get_path(names, "plural")
    name = version.get("name")
    if not all(isinstance(text, str) and text for text in (group, kind, plural, name)):
        raise CrdProblem("spec.group, spec.names.kind, spec.names.plural and the names of versions must be texts")
    namespaced = get_path(manifest, "spec", "scope") != "Cluster"
    return KnownKind(Kind(str(group), str(name), str(kind), str(plural), namespaced), _schema(version, str(name)))


def _schema(version: Mapping[str, Any], name: str) -> Schema | None:
    openapi = get_path(version, "schema", "openAPIV3Schema")
    if openapi is None:
        return None
    if not isinstance(openapi, Mapping):
        raise CrdProblem(f"version {name}: openAPIV3Schema must be an object")
    if wrong := next(mistyped_keywords(openapi, "openAPIV3Schema"), None):
        raise CrdProblem(f"version {name}: {wrong}")
    try:
        return with_type_meta(compile_schema(openapi))
    except SchemaError as error:
        told = "; ".join(map(str, error.problems[:5]))
        raise CrdProblem(f"version {name}: {told}") from error
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise CrdProblem(f"version {name}: the schema cannot be read") from error


class Schemas:
    """All kinds that the box's compiler knows, with their schemas. A schema is compiled when it is first used."""

    def __init__(self, crds: Iterable[CrdVersions] = (), declared: Iterable[Kind] = ()) -> None:
        self._found: dict[tuple[str, str], KnownKind | None] = {
            (known.kind.api_version, known.kind.kind): known for crd in crds for known in crd.kinds.values()
        }
        for kind in declared:
            self._found.setdefault((kind.api_version, kind.kind), KnownKind(kind))

    def find(self, api_version: str, kind: str) -> KnownKind | None:
        """Return the kind with its schema; None if `api_version` and `kind` name no known kind."""
        key = (api_version, kind)
        if key not in self._found:
            built_in = built_in_names(api_version, kind)
            schema = built_in_schema(api_version, kind)
            self._found[key] = _NAMED.get(key) if built_in is None else KnownKind(built_in, schema)
        return self._found[key]

    def similar(self, kind: str) -> tuple[str, ...]:
        """Return the apiVersions that have a kind with this name."""
        found = [key for key, known in self._found.items() if known is not None]
        return tuple(sorted({version for version, name in (*found, *built_in_kinds(), *UNTYPED) if name == kind}))

    def names(self) -> tuple[str, ...]:
        """Return the names of all kinds that the compiler knows, such as `Deployment`, sorted."""
        return tuple(
            sorted(
                {name for (_, name), known in self._found.items() if known is not None}
                | {name for _, name in (*built_in_kinds(), *UNTYPED)}
            )
        )


_NAMED: Final = {(kind.api_version, kind.kind): KnownKind(kind) for kind in KNOWN_KINDS}
"""Kinds of other controllers, such as those of Flux, whose plural and scope are known, but whose schema is not."""


def stored(schema: Schema, kind: Kind) -> Schema:
    """Return `schema`, the schema of the objects of `kind`, for objects as the API server returns them.

    The metadata fields that the server fills in, such as the uid, are required; so is the namespace for a namespaced
    kind.
    """
    metadata = schema.properties.get("metadata", OBJECT_META)
    fields = {name: attrs.evolve(field, nullable=False) for name, field in metadata.properties.items()}
    required = (*_STORED, "namespace") if kind.namespaced else _STORED
    metadata = attrs.evolve(metadata, properties=fields, required=required, nullable=False)
    named = (*schema.required, "apiVersion", "kind", "metadata")
    return attrs.evolve(schema, properties={**schema.properties, "metadata": metadata}, required=named)


def plural_of(kind: str) -> str:
    """Return the plural that kubectl would guess (`UnsafeGuessKindToResource` of apimachinery)."""
    name = kind.lower()
    if name.endswith("s"):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
