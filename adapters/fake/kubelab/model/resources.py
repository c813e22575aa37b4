"""A served resource: one version of one kind, with the data that discovery, storage and tables need."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from kubelab.model.conversion import Conversions, for_each
from kubelab.model.definition import ServedKind, definitions_of_crd
from kubelab.model.records import GroupResource, Record, decode, encode
from purekube.apimachinery.manifest import Kind

CREATED: Final[Mapping[str, Mapping[str, str]]] = {
    "binding": {"group": "", "version": "v1", "kind": "Binding"},
    "eviction": {"group": "policy", "version": "v1", "kind": "Eviction"},
    "token": {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"},
}
"""The subresources that are only created, with the kind of their bodies."""
ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

Conversion = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""A function that converts an object between two versions of a kind."""


def unchanged(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `manifest` itself. This is the conversion between two versions that are the same."""
    return manifest


@attrs.frozen
class PrinterColumn:
    """A column that `kubectl get` shows. `path` is a JSONPath like `.spec.size`, `type` an OpenAPI type or `date`."""

    name: str
    type: str
    path: str
    format: str = ""
    description: str = ""
    priority: int = 0


@attrs.frozen(eq=False)
class ServedResource:
    """One served version of a kind.

    `definition` has the schema by which writes are validated and merged. `storage` is the key of the kind's objects in
    the store, the same for all versions. `to_stored` and `to_served` convert between the stored version and this one;
    they are `unchanged` if the two are the same. `returns_deleted` is true for kinds whose DELETE answers with the
    object instead of a Status.
    """

    definition: ServedKind
    storage: GroupResource
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    columns: tuple[PrinterColumn, ...] = ()
    fields: tuple[str, ...] = ()
    to_stored: Conversion = unchanged
    to_served: Conversion = unchanged
    returns_deleted: bool = False

    @property
    def core_kind(self) -> Kind:
        """The `Kind` by which clients name this version of the kind in calls of a `KubeApi`."""
        return self.definition.kind

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.definition.kind.group

    @property
    def version(self) -> str:
        """The version within the API group, such as `v1`."""
        return self.definition.kind.version

    @property
    def plural(self) -> str:
        """The plural name, a segment of URL paths."""
        return self.definition.kind.plural

    @property
    def kind(self) -> str:
        """The field `kind` of the objects."""
        return self.definition.kind.kind

    @property
    def namespaced(self) -> bool:
        """True if each object belongs to a namespace."""
        return self.definition.kind.namespaced

    @property
    def custom(self) -> bool:
        """True if a CRD defines the resource."""
        return not self.definition.built_in

    @property
    def list_kind(self) -> str:
        """The field `kind` of a list of the objects."""
        return self.definition.list_kind or f"{self.kind}List"

    @property
    def api_version(self) -> str:
        """The field `apiVersion` of the objects: `group/version`, or only the version for the core group."""
        return self.definition.api_version

    @property
    def type_meta(self) -> dict[str, str]:
        """The `kind` and the `apiVersion` of the objects."""
        return {"kind": self.kind, "apiVersion": self.api_version}

    @property
    def converts(self) -> bool:
        """True if objects may be stored in another version.

        Reading such an object may raise ApiFailure or ConversionNeeded.
        """
        return self.definition.versions is not None

    def require(self, records: Iterable[Record]) -> None:
        """Check that all of `records` can be shown in this version without calling a webhook.

        Otherwise raise one ConversionNeeded for all records that a webhook still has to convert to this version.
        """
        if self.converts:
            for_each(records, self.render)

    def render(self, record: Record) -> bytes:
        """Return a stored object as JSON bytes, converted to this version."""
        return record.raw if self.to_served is unchanged else encode(self.to_served(decode(record.raw)))

    def as_stored(self) -> "ServedResource":
        """Return a copy of this resource that shows each object in the version in which it is stored.

        It is for callers that read only metadata, so that no webhook has to convert the objects for them.
        """
        return attrs.evolve(self, to_stored=unchanged, to_served=unchanged) if self.converts else self

    def live(self, record: Record) -> Mapping[str, Any]:
        """Return a stored object, converted to this version. Readers share it, so they must not change it."""
        return self.to_served(record.shared())


def resource_of(definition: ServedKind, **more: Any) -> ServedResource:
    """Return the resource that serves the version of a kind in `definition`.

    `more` are further fields of `ServedResource`. By default the objects are stored in this version.
    """
    kind = definition.kind
    return ServedResource(
        definition=definition,
        storage=more.pop("storage", (kind.group, kind.plural)),
        subresources=(*definition.subresources, *more.pop("subresources", ())),
        columns=tuple(_column(column) for column in definition.columns),
        fields=definition.selectable_fields,
        **more,
    )


def resources_of_crd(crd: Mapping[str, Any], conversions: Conversions) -> tuple[ServedResource, ...]:
    """Return one resource for each served version of a CRD. `conversions` converts objects between the versions.

    Raises SchemaError if a schema of the CRD is invalid.
    """
    return tuple(map(_resource_in, definitions_of_crd(crd, conversions)))


def _resource_in(definition: ServedKind) -> ServedResource:
    versions = definition.versions
    if versions is None:
        return resource_of(definition)
    return resource_of(
        definition, to_stored=versions.written, to_served=lambda stored: versions.read(stored, definition.api_version)
    )


def _column(declared: Mapping[str, Any]) -> PrinterColumn:
    return PrinterColumn(
        name=declared["name"],
        type=declared["type"],
        path=declared["jsonPath"],
        format=declared.get("format", ""),
        description=declared.get("description", ""),
        priority=declared.get("priority", 0),
    )
