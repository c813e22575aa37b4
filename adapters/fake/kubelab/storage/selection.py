"""The selection of stored records by the selectors of a query."""

from kubelab.model.calls import RequestTarget
from kubelab.model.records import Record
from kubelab.model.resources import ServedResource
from kubelab.storage.listing import ListOptions, Selection
from kubelab.storage.selectors import parse_fields, parse_labels
from purekube.apimachinery.manifest import get_path


def selection_of(target: RequestTarget, options: ListOptions) -> Selection:
    """Return what a list, a watch or a collection's delete selects. Raises ApiFailure 400 for a bad selector."""
    resource = target.resource
    return Selection(
        namespace=target.namespace,
        labels=parse_labels(options.label_selector),
        fields=parse_fields(options.field_selector, lambda path: _selectable(resource, path)),
        read_field=lambda record, path: _field(resource, record, path),
    )


def _selectable(resource: ServedResource, path: str) -> bool:
    return path == "metadata.name" or path in resource.fields or (path == "metadata.namespace" and resource.namespaced)


def _field(resource: ServedResource, record: Record, path: str) -> str:
    if path == "metadata.name":
        return record.key[1]
    if path == "metadata.namespace":
        return record.key[0]
    value = get_path(resource.live(record), *path.split("."))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
