"""The name and namespace of an object, checked against those of the URL (S-07)."""

from collections.abc import Mapping
from typing import Any

from kubelab.model.definition import ServedKind
from kubelab.model.failure import bad_request
from kubelab.model.requests import WriteRequest

Manifest = Mapping[str, Any]


def placed(definition: ServedKind, manifest: Manifest, write: WriteRequest) -> Manifest:
    """Return a new object with the name and namespace of the request. Raises 400 if it has others."""
    meta = dict(manifest["metadata"])
    if not meta.get("name") and write.generated_name:
        meta["name"] = write.generated_name
    if not definition.kind.namespaced:
        meta.pop("namespace", None)
    elif not meta.get("namespace"):
        meta["namespace"] = write.namespace
    manifest = {**manifest, "metadata": meta}
    check_place(definition, manifest, write)
    return manifest


def check_place(definition: ServedKind, manifest: Manifest, write: WriteRequest) -> None:
    """Raise 400 if the object has another name or namespace than the URL."""
    meta = manifest["metadata"]
    if definition.kind.namespaced and meta.get("namespace", write.namespace) != write.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if write.name and not meta.get("name"):
        text = f"the name of the object ({write.name} based on URL) was undeterminable: name must be provided"
        raise bad_request(text)
    if write.name and meta["name"] != write.name:
        text = f"the name of the object ({meta['name']}) does not match the name on the URL ({write.name})"
        raise bad_request(text)
