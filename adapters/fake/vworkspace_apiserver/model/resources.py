"""A served resource: one version of one kind, with what discovery, storage and tables need to know of it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from vworkspace_apiserver.model.definition import Definition, definitions_of_crd
from vworkspace_apiserver.model.records import GroupResource, Record, decode, encode
from vworkspace_core.apimachinery.manifest import Kind

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

Conversion = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Turns an object of one version of a kind into one of another."""


def unchanged(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The conversion between a version and itself."""
    return manifest


@attrs.frozen
class Column:
    """One printer column beside the name. `path` is a JSONPath like `.spec.size`; `type` an OpenAPI type or `date`."""

    name: str
    type: str
    path: str
    format: str = ""
    description: str = ""
    priority: int = 0


@attrs.frozen(eq=False)
class Resource:
    """One served version of a kind.

    `definition` is what the pipeline validates and merges by. `storage` is the table its objects live in,
    which all versions share; `to_stored` and `to_served` convert between the stored version and this one, and
    are `unchanged` where they are the same. `returns_deleted` tells kinds whose DELETE answers the object
    instead of a Status.
    """

    definition: Definition
    storage: GroupResource
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    columns: tuple[Column, ...] = ()
    fields: tuple[str, ...] = ()
    to_stored: Conversion = unchanged
    to_served: Conversion = unchanged
    returns_deleted: bool = False

    @property
    def core_kind(self) -> Kind:
        """The kind as the core names it."""
        return self.definition.kind

    @property
    def group(self) -> str:
        """API group, empty for the core group."""
        return self.definition.kind.group

    @property
    def version(self) -> str:
        """Version within the group."""
        return self.definition.kind.version

    @property
    def plural(self) -> str:
        """Path segment."""
        return self.definition.kind.plural

    @property
    def kind(self) -> str:
        """`kind` of the objects."""
        return self.definition.kind.kind

    @property
    def namespaced(self) -> bool:
        """Whether the objects live in namespaces."""
        return self.definition.kind.namespaced

    @property
    def custom(self) -> bool:
        """Whether a CRD defines the resource."""
        return not self.definition.built_in

    @property
    def list_kind(self) -> str:
        """`kind` of lists."""
        return self.definition.list_kind or f"{self.kind}List"

    @property
    def api_version(self) -> str:
        """`group/version`, or the bare version for the core group."""
        return self.definition.api_version

    @property
    def type_meta(self) -> dict[str, str]:
        """Kind and apiVersion of the objects."""
        return {"kind": self.kind, "apiVersion": self.api_version}

    def render(self, raw: bytes) -> bytes:
        """Stored bytes as bytes of this version."""
        return raw if self.to_served is unchanged else encode(self.to_served(decode(raw)))

    def live(self, record: Record) -> Mapping[str, Any]:
        """A private copy of a stored object in this version."""
        return self.to_served(record.object())


def resource_of(definition: Definition, **more: Any) -> Resource:
    """The resource that serves a definition; `more` are further fields of `Resource`."""
    kind = definition.kind
    return Resource(
        definition=definition,
        storage=more.pop("storage", (kind.group, kind.plural)),
        subresources=(*definition.subresources, *more.pop("subresources", ())),
        columns=tuple(_column(column) for column in definition.columns),
        fields=definition.selectable_fields,
        **more,
    )


def resources_of_crd(crd: Mapping[str, Any]) -> tuple[Resource, ...]:
    """Every served version of a CustomResourceDefinition, all kept in its storage version. Raises SchemaError."""
    spec = crd["spec"]
    stored = next(version["name"] for version in spec["versions"] if version["storage"])
    api_version = f"{spec['group']}/{stored}"
    return tuple(_resource_in(definition, api_version) for definition in definitions_of_crd(crd))


def _resource_in(definition: Definition, stored: str) -> Resource:
    if definition.api_version == stored:
        return resource_of(definition)
    return resource_of(definition, to_stored=_renamed(stored), to_served=_renamed(definition.api_version))


def _renamed(api_version: str) -> Conversion:
    """The `None` conversion strategy of CRDs: only the apiVersion changes."""
    return lambda manifest: {**manifest, "apiVersion": api_version}


def _column(declared: Mapping[str, Any]) -> Column:
    return Column(
        name=declared["name"],
        type=declared["type"],
        path=declared["jsonPath"],
        format=declared.get("format", ""),
        description=declared.get("description", ""),
        priority=declared.get("priority", 0),
    )
