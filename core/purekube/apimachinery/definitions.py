"""CustomResourceDefinitions, built from a kind, its schemas and its columns in `kubectl get` (RES-6)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, get_path, text_or_empty

BOX_DOMAIN: Final = "box.vworkspace.io"
BOX_NAME: Final = f"{BOX_DOMAIN}/name"
"""The label on a CRD and on every child object that names its box (an operator written as a YAML file)."""
OPERATOR_BOX: Final = Kind(BOX_DOMAIN, "v1alpha1", "OperatorBox", "operatorboxes", namespaced=False)
"""The kind that declares a box (an operator written in YAML), either as a file or as an object in the cluster."""
PIN: Final = f"{BOX_DOMAIN}/revision"
"""The annotation by which a user pins a parent (object of a box's kind) to one revision of the box."""
BROUGHT_TO: Final = f"{BOX_DOMAIN}/brought-to"
"""The annotation of a parent (object of a box's kind) that records which revision of the box the parent has.

It also records since when the parent has that revision.
"""
CONTROLLER_DOMAIN: Final = "controller.vworkspace.io"
CONTROLLER_NAME: Final = f"{CONTROLLER_DOMAIN}/name"
"""The label on a CRD and on every child object that names the controller to which the object belongs."""


@attrs.frozen
class Column:
    """One column of `kubectl get`. With a `priority` above 0 it shows only with `-o wide`."""

    name: str
    json_path: str
    type: str = "string"
    priority: int = 0

    def manifest(self) -> dict[str, Any]:
        """Return the column as JSON, in the form of an item of a CRD's `additionalPrinterColumns`."""
        column = {"name": self.name, "type": self.type, "jsonPath": self.json_path}
        return {**column, "priority": self.priority} if self.priority else column


_STEP: Final = re.compile(r"""\.(\w+)(?:\[\?\(@\.type=="(\w+)"\)\])?""")


def text_at(manifest: Manifest, json_path: str) -> str:
    """Return the text that `kubectl get` shows for an object in the column with this JSON path.

    The text is empty if the object has no such field. Only paths of fields, and of fields of one condition, are
    supported, because our columns have no others.
    """
    value: Any = manifest
    for field, condition_type in _STEP.findall(json_path):
        value = get_path(value, field)
        if condition_type:
            listed = value if isinstance(value, list) else ()
            value = next((each for each in listed if get_path(each, "type") == condition_type), None)
    return text_or_empty(value)


def condition_path(condition_type: str, field: str) -> str:
    """Return the JSON path of `field` in the status condition of type `condition_type`."""
    return f'.status.conditions[?(@.type=="{condition_type}")].{field}'


AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")


@attrs.frozen
class Definition:
    """The content of a CustomResourceDefinition with one version.

    `spec` and `status` are OpenAPI schemas. `rules` is merged into the root schema: it holds the
    `x-kubernetes-validations` of the whole object, if any.
    """

    kind: Kind
    description: str
    spec: Mapping[str, Any]
    status: Mapping[str, Any]
    columns: Sequence[Column] = ()
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    rules: Mapping[str, Any] = attrs.field(factory=dict)

    def manifest(self) -> dict[str, Any]:
        """Return the CustomResourceDefinition as a manifest."""
        return crd_manifest(self.kind, [self.version()], short_names=self.short_names, categories=self.categories)

    def version(self) -> dict[str, Any]:
        """Return the only item of the CRD's `spec.versions`, for a version that is served and stored."""
        return {
            "name": self.kind.version,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "additionalPrinterColumns": [column.manifest() for column in self.columns],
            "schema": {"openAPIV3Schema": self.schema()},
        }

    def schema(self) -> dict[str, Any]:
        """Return the OpenAPI schema of the whole object: metadata, spec and status."""
        return {
            "type": "object",
            "description": self.description,
            "required": ["spec"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                # The API server knows its fields, and refuses a schema that says more (apiextensions validation.go).
                "metadata": {"type": "object"},
                "spec": self.spec,
                "status": self.status,
            },
            **self.rules,
        }


def crd_manifest(
    kind: Kind,
    versions: Sequence[Mapping[str, Any]],
    *,
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind with these items of `spec.versions`."""
    names = {"kind": kind.kind, "listKind": f"{kind.kind}List", "plural": kind.plural, "singular": kind.kind.lower()}
    lists = {"categories": list(categories), "shortNames": list(short_names)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {**names, **{name: given for name, given in lists.items() if given}},
            "versions": list(versions),
        },
    }
