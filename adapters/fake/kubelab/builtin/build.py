"""The construction of a built-in kind's definition."""

from typing import Any, Final

from kubelab.model.behaviour import Behaviour
from kubelab.model.definition import ScalePaths, ServedKind
from purekube.schema.builtin.document import BuiltIn
from purekube.schema.builtin.openapi import MICRO_TIME, STRING, TIME
from purekube.schema.compile import Compiled, compile_schema
from purekube.schema.objectmeta import OBJECT_META_OPENAPI, with_type_meta

_KNOWN: Final[Compiled] = {}
"""Compiled schemas shared among built-in kinds: the pod template, most of a workload's schema, is the same in all."""

REPLICAS = ScalePaths("spec.replicas", "status.replicas", "status.selector")


def built_in(
    built: BuiltIn,
    behaviour: Behaviour,
    *,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    scale: ScalePaths | None = None,
    served: frozenset[str] = frozenset(),
    selectable_fields: tuple[str, ...] = (),
) -> ServedKind:
    """Return the definition of a built-in kind. A kind whose schema has `status` gets a status subresource."""
    kind, openapi = built.kind, built.openapi
    fields = openapi.get("properties", {})
    document = {
        **openapi,
        "properties": {"apiVersion": STRING, "kind": STRING, "metadata": OBJECT_META_OPENAPI, **_published(fields)},
    }
    return ServedKind(
        kind=kind,
        schema=with_type_meta(compile_schema({**openapi, "type": "object"}, _KNOWN)),
        openapi=document,
        served_versions=served or frozenset((kind.api_version,)),
        status_subresource="status" in fields,
        scale=scale,
        behaviour=behaviour,
        singular=kind.kind.lower(),
        list_kind=kind.kind + "List",
        short_names=short_names,
        categories=categories,
        selectable_fields=selectable_fields,
    )


def _published(document: Any) -> Any:
    """Return a schema as kube-apiserver publishes it: a MicroTime has the format `date-time`, too."""
    if not isinstance(document, dict):
        return document
    members = {key: _published(value) for key, value in document.items()}
    return {**members, "format": TIME["format"]} if members.get("format") == MICRO_TIME["format"] else members
