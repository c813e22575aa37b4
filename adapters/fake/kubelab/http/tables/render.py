"""The Tables that `kubectl get` shows, rendered by the server from printer columns."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from kubelab.http.tables.builtin_columns import BUILTIN_TABLES
from kubelab.http.tables.jsonpath import find
from kubelab.model.records import encode
from kubelab.model.resources import PrinterColumn, ServedResource
from purekube.apimachinery.durations import age

_NAME: Final = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": (
        "Name must be unique within a namespace. Is required when creating resources, although some resources may "
        "allow a client to request the generation of an appropriate name automatically. Name is primarily intended "
        "for creation idempotence and configuration definition. Cannot be updated. More info: "
        "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
    ),
    "priority": 0,
}
_AGE: Final = (PrinterColumn("Age", "date", ".metadata.creationTimestamp"),)
_CREATED: Final = (PrinterColumn("Created At", "string", ".metadata.creationTimestamp"),)


def table_columns(resource: ServedResource) -> list[dict[str, Any]]:
    """Return the `columnDefinitions` of a Table of the resource's objects."""
    own = BUILTIN_TABLES.get(resource.storage)
    definitions = [_definition(column) for column in (own.columns if own else _columns(resource))]
    return [_NAME, *definitions] if own is None or own.named else definitions


def table(
    resource: ServedResource,
    manifests: Iterable[Mapping[str, Any]],
    metadata: Mapping[str, Any],
    include: str,
    now: datetime,
) -> dict[str, Any]:
    """Return the Table (`meta.k8s.io/v1`) in which `kubectl get` shows `manifests`, one row for each.

    `metadata` is the metadata of the list of these objects. `include` says what a row contains in addition to its
    cells: the object's metadata ("Metadata"), the whole object ("Object") or nothing ("None"). `now` is the time from
    which the ages of objects are computed.
    """
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(metadata),
        "columnDefinitions": table_columns(resource),
        "rows": [_row(resource, manifest, include, now) for manifest in manifests],
    }


def partial(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a PartialObjectMetadata, which has the metadata of the object `manifest` and nothing else of it."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": manifest["metadata"]}


def _row(resource: ServedResource, manifest: Mapping[str, Any], include: str, now: datetime) -> dict[str, Any]:
    own = BUILTIN_TABLES.get(resource.storage)
    cells = own.cells(manifest, now) if own else [_cell(column, manifest, now) for column in _columns(resource)]
    named = own is None or own.named
    row: dict[str, Any] = {"cells": [manifest["metadata"]["name"], *cells] if named else cells}
    if include == "Metadata":
        row["object"] = partial(manifest)
    elif include == "Object":
        row["object"] = manifest
    return row


def _columns(resource: ServedResource) -> tuple[PrinterColumn, ...]:
    if resource.columns:
        return resource.columns
    # apiextensions: tableconvertor shows the age, apiserver: registry/rest/table.go, the default of built-in kinds, the
    # creation time.
    return _AGE if resource.custom else _CREATED


def _definition(column: PrinterColumn) -> dict[str, Any]:
    # apiextensions: registry/customresource/tableconvertor/tableconvertor.go, New.
    described = column.description or f"Custom resource definition column (in JSONPath format): {column.path}"
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": described,
        "priority": column.priority,
    }


def _cell(column: PrinterColumn, manifest: Mapping[str, Any], now: datetime) -> Any:
    """Return the value that an object has in a column of the table, or None if it has no value of the column's type."""
    matches = find(column.path, manifest)
    # apiextensions: tableconvertor.go, ConvertToTable shows only the first match of a path.
    value = matches[0] if matches else None
    match column.type:
        case _ if value is None:
            return None
        case "string":
            return _text(value)
        case "date":
            return age(value, now) if isinstance(value, str) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "integer":
            # apiextensions: tableconvertor.go, cellForJSONValue cuts a fraction off, and shows nothing for a value of
            # another type.
            return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "number":
            return value if isinstance(value, int | float) and not isinstance(value, bool) else None
        case _:
            return None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return encode(value).decode()
