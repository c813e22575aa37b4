"""The wake-up of informers whose kind was missing, once the kind's CRD is established (REC-12, RUN-1)."""

from collections.abc import Callable, Iterable
from functools import lru_cache

import msgspec

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.manifest import Kind, Manifest, get_path, metadata
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.controller.informer.store import ObjectStore
from purekube_run.controller.informer import InformerRunner


def slim_definition(manifest: Manifest) -> Manifest:
    """Return a CustomResourceDefinition reduced to the fields that the operator reads. Large schemas are left out."""
    meta = metadata(manifest)
    identity = {key: meta[key] for key in ("name", "uid", "resourceVersion") if key in meta}
    versions = [
        {"name": get_path(version, "name"), "served": get_path(version, "served")}
        for version in get_path(manifest, "spec", "versions") or ()
    ]
    spec = {
        "group": get_path(manifest, "spec", "group"),
        "names": get_path(manifest, "spec", "names"),
        "versions": versions,
    }
    status = {"conditions": get_path(manifest, "status", "conditions") or []}
    return {
        "apiVersion": manifest.get("apiVersion"),
        "kind": manifest.get("kind"),
        "metadata": identity,
        "spec": spec,
        "status": status,
    }


def wake_when_served(runners: Callable[[], Iterable[InformerRunner]]) -> Callable[[CacheChange], None]:
    """Return a handler for changes of CRDs, which wakes the informers of a kind when the kind's CRD becomes
    established.

    `runners` returns all informers that exist when the handler is called.
    """

    def handle(change: CacheChange) -> None:
        if change.type is not ChangeType.DELETED and is_established(change.object):
            for runner in runners():
                if runner.kind.crd_name == change.ref.name:
                    runner.wake()

    return handle


def is_established(definition: Manifest) -> bool:
    """Report whether a CRD has the condition Established, so that the API server serves its kind."""
    return condition_of(definition, "Established").get("status") == "True"


def is_served(kind: Kind, definitions: ObjectStore) -> bool:
    """Report whether the cached CRD of a kind is established, so that the API server serves the kind.

    The kind's informer may notice this a moment later (REC-12).
    """
    definition = definitions.raw(None, kind.crd_name)
    return definition is not None and _is_established(definition)


def refuse_late(missing: Iterable[Kind], definitions: ObjectStore) -> None:
    """Raise Unavailable if a kind in `missing`, which a read did not find, is served by its established CRD.

    One of several API servers serves the kind a moment later. No change follows that would start another pass.
    """
    for kind in sorted(missing):
        if is_served(kind, definitions) and _has_version(definitions.get(None, kind.crd_name), kind.version):
            raise Unavailable(f"{kind.crd_name} is installed, but not served yet")


def _has_version(definition: Manifest | None, version: str) -> bool:
    versions = get_path(definition, "spec", "versions") or ()
    return any(get_path(each, "name") == version and get_path(each, "served") is True for each in versions)


@lru_cache(maxsize=256)
def _is_established(definition: bytes) -> bool:
    """Report whether the CRD in the JSON `definition` is established.

    Results are cached, since every pass asks for several CRDs.
    """
    return is_established(msgspec.json.decode(definition))
