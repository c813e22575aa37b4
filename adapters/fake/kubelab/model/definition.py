"""The definition of one served version of one kind, from which the API server serves the kind.

Definitions are immutable values. `definitions_of_crd` makes those of custom resources, `kubelab.builtin` those of
built-in kinds.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from functools import lru_cache
from typing import Any, Final

import attrs
import msgspec

from kubelab.model.conversion import Conversions, KindVersions, conversion_webhook
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Kind, Manifest, canonical_json
from purekube.schema.compile import compile_schema
from purekube.schema.node import Schema, SchemaError, SchemaProblem
from purekube.schema.objectmeta import with_type_meta


class Generation(Enum):
    """The rules for when a write increments an object's `metadata.generation`. Each kind has one of them (S-72)."""

    NEVER = auto()
    """Objects of the kind have no `metadata.generation`."""
    SPEC = auto()
    """Every change of `spec` increments `metadata.generation`."""
    CONTENT = auto()
    """Every change outside `metadata` increments `metadata.generation`, as for custom resources."""


class NameRule(Enum):
    """The rules for the text of `metadata.name`, such as a DNS subdomain. Each kind has one of them."""

    SUBDOMAIN = auto()
    """The name is a DNS subdomain: lower case, dots, at most 253 characters."""
    LABEL = auto()
    """The name is a DNS label: lower case, no dots, at most 63 characters."""
    SERVICE = auto()
    """The name is a DNS label that begins with a letter."""
    SEGMENT = auto()
    """The name is any text that can be a segment of a URL path (RBAC)."""


@attrs.frozen(eq=False)
class Behaviour:
    """The functions and settings in which one built-in kind differs from others. The defaults are those of most kinds.

    `read` completes a decoded body before ownership is tracked: it moves `stringData` into `data`, for example.
    `on_create` and `on_update` set fields that the server decides, such as labels of a Job, after ownership is tracked.
    `check`, `check_update` and `check_status` are the rules that no schema expresses, for creates, updates and updates
    of the status. Without `check_update` an update has the rules of a create. `skeleton` has the fields that exist even
    in an empty object of the kind; no manager becomes the owner of such a struct itself (S-22). With `orphans`, a
    DELETE without a propagation policy orphans the dependents. With `unconditional_update` a PUT needs no
    resourceVersion. `grace` returns the seconds that an object has left after a first DELETE that asks for the given
    seconds; without it the kind has no graceful deletion. `warnings` are about a valid object; its second argument is
    the object before an update, None for a create.
    """

    skeleton: Manifest = attrs.field(factory=dict)
    generation: Generation = Generation.NEVER
    unconditional_update: bool = True
    orphans: bool = False
    name_rule: NameRule = NameRule.SUBDOMAIN
    read: Callable[[Manifest], Manifest] = lambda manifest: manifest
    on_create: Callable[[Manifest], Manifest] = lambda manifest: manifest
    on_update: Callable[[Manifest, Manifest], Manifest] = lambda new, old: new
    check: Callable[[Manifest], Iterable[StatusCause]] = lambda manifest: ()
    check_update: Callable[[Manifest, Manifest], Iterable[StatusCause]] | None = None
    check_status: Callable[[Manifest, Manifest], Iterable[StatusCause]] = lambda new, old: ()
    grace: Callable[[Manifest, int | None], int] | None = None
    warnings: Callable[[Manifest, Manifest | None], list[str]] | None = None


CUSTOM: Final = Behaviour(generation=Generation.CONTENT, unconditional_update=False)
"""The behaviour of custom resources.

A PUT needs a resourceVersion, and each change outside metadata increments the generation (S-72, S-74).
"""


@attrs.frozen
class ScalePaths:
    """The dotted paths, such as `spec.replicas`, of the fields that the scale subresource of a kind shows."""

    spec_replicas: str
    status_replicas: str
    label_selector: str = ""


@attrs.frozen(eq=False)
class ServedKind:
    """One kind in one served version, with all that the API server needs to serve it.

    `openapi` is the schema as it was declared (what OpenAPI v3 and `kubectl explain` show), `schema` its compiled form.
    `served_versions` are the apiVersions in which the kind is served, `columns` the `additionalPrinterColumns`,
    `selectable_fields` the field selectors beyond name and namespace (`spec.node`). `behaviour` has the rules that are
    special to a built-in kind, and `versions` converts between the versions of a custom kind.
    """

    kind: Kind
    schema: Schema = attrs.field(repr=False)
    openapi: Mapping[str, Any] = attrs.field(repr=False)
    served_versions: frozenset[str]
    status_subresource: bool = False
    scale: ScalePaths | None = None
    behaviour: Behaviour = attrs.field(default=CUSTOM, repr=False)
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Mapping[str, Any], ...] = ()
    selectable_fields: tuple[str, ...] = ()
    storage: bool = True
    deprecated: bool = False
    versions: KindVersions | None = attrs.field(default=None, repr=False)
    """All versions of a CRD that declares several; None for any other kind."""

    @property
    def api_version(self) -> str:
        """The field `apiVersion` of the objects: `group/version`, or only the version for the core group."""
        return self.kind.api_version

    @property
    def built_in(self) -> bool:
        """True if the kind is built into kube-apiserver: such kinds take strategic merge patches (S-11)."""
        return self.behaviour is not CUSTOM

    @property
    def subresources(self) -> tuple[str, ...]:
        """The names of the subresources that the kind has in this version, such as `status` and `scale`."""
        return ("status",) * self.status_subresource + ("scale",) * (self.scale is not None)

    def schema_of(self, api_version: str) -> Schema:
        """Return the compiled schema of the served version `api_version`."""
        return self.schema if self.versions is None else self.versions.schemas[api_version]

    def in_version(self, manifest: Mapping[str, Any], api_version: str) -> Mapping[str, Any]:
        """Return `manifest` converted to another served version.

        Raises ApiFailure if the conversion fails, ConversionNeeded if a webhook has to be called first, and
        UntypedError if the result has fields that are unknown in that version.
        """
        return manifest if self.versions is None else self.versions.typed(manifest, api_version)

    def empty(self) -> dict[str, Any]:
        """Return an empty object of the kind: apiVersion, kind, and the structs in `Behaviour.skeleton`.

        The fields that a create adds to this empty object belong to the manager that created the object.
        """
        return {"apiVersion": self.api_version, "kind": self.kind.kind, **self.behaviour.skeleton}


def definitions_of_crd(crd: Mapping[str, Any], conversions: Conversions | None = None) -> tuple[ServedKind, ...]:
    """Return one definition for each served version of a CRD.

    `conversions` converts objects between the versions; without it, every object must stay in its version. Raises
    SchemaError with the problems of all versions.
    """
    spec = crd["spec"]
    schemas = _schemas(spec)
    served = [version for version in spec["versions"] if version.get("served")]
    names = frozenset(f"{spec['group']}/{version['name']}" for version in served)
    versions = None
    if len(schemas) > 1 and conversions is not None:
        stored = next(version["name"] for version in spec["versions"] if version["storage"])
        versions = KindVersions(schemas, f"{spec['group']}/{stored}", conversion_webhook(spec), conversions)
    return tuple(_of_version(spec, version, names, schemas, versions) for version in served)


def _schemas(spec: Mapping[str, Any]) -> dict[str, Schema]:
    """Return the schemas of all versions by apiVersion. Raises SchemaError with the problems of all versions."""
    schemas: dict[str, Schema] = {}
    problems: list[SchemaProblem] = []
    for index, version in enumerate(spec["versions"]):
        try:
            openapi = version["schema"]["openAPIV3Schema"]
            schemas[f"{spec['group']}/{version['name']}"] = _compiled(canonical_json(openapi))
        except SchemaError as error:
            prefix = f"spec.versions[{index}].schema.openAPIV3Schema"
            problems += [SchemaProblem(_below(prefix, problem.path), problem.message) for problem in error.problems]
    if problems:
        raise SchemaError(problems)
    return schemas


def _below(prefix: str, path: str) -> str:
    return f"{prefix}.{path}" if path else prefix


def _of_version(
    spec: Mapping[str, Any],
    version: Mapping[str, Any],
    served: frozenset[str],
    schemas: Mapping[str, Schema],
    versions: KindVersions | None,
) -> ServedKind:
    names = spec["names"]
    openapi = version["schema"]["openAPIV3Schema"]
    subresources = version.get("subresources") or {}
    kind = Kind(spec["group"], version["name"], names["kind"], names["plural"], spec.get("scope") == "Namespaced")
    return ServedKind(
        kind=kind,
        schema=schemas[kind.api_version],
        openapi=openapi,
        served_versions=served,
        status_subresource="status" in subresources,
        scale=_scale(subresources.get("scale")),
        # apiextensions: apis/apiextensions/v1/defaults.go, SetDefaults_CustomResourceDefinitionSpec.
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or names["kind"] + "List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        columns=tuple(version.get("additionalPrinterColumns") or ()),
        selectable_fields=tuple(field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()),
        storage=bool(version.get("storage")),
        deprecated=bool(version.get("deprecated")),
        versions=versions,
    )


@lru_cache(maxsize=64)
def _compiled(openapi: bytes) -> Schema:
    """Return the compiled schema of the JSON text `openapi`.

    Results are cached, because a test run makes hundreds of servers with the same CRDs.
    """
    return with_type_meta(compile_schema(msgspec.json.decode(openapi)))


def _scale(declared: Mapping[str, Any] | None) -> ScalePaths | None:
    if declared is None:
        return None
    return ScalePaths(
        declared["specReplicasPath"].lstrip("."),
        declared["statusReplicasPath"].lstrip("."),
        (declared.get("labelSelectorPath") or "").lstrip("."),
    )
