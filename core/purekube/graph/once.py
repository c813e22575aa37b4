"""Creation at most once in the owner's life (OPS-1).

Protocol
    The intent is in the owner's status before the create; the object carries a finalizer until its uid is there too.
    So a crash at any moment never creates it twice, and an object that finishes and is removed meanwhile leaves a
    record.
"""

from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.controller.decision import MergePatch

UNRECORDED: Final = "vworkspace.io/unrecorded"
"""The finalizer of an object from its creation until its uid is in the status of its owner."""


@attrs.frozen
class CreateRecord:
    """The owner's record of one such object: an intent while `uid` is empty, done once it is set."""

    node: str
    name: str
    namespace: str = ""
    item: str = ""
    uid: str = ""


def locked(manifest: Manifest) -> dict[str, Any]:
    """Return the manifest with the finalizer that keeps the object until its uid is recorded."""
    meta = metadata(manifest)
    return {**manifest, "metadata": {**meta, "finalizers": [*(meta.get("finalizers") or ()), UNRECORDED]}}


def is_locked(live: Manifest) -> bool:
    """Report whether the object carries the finalizer `UNRECORDED`."""
    finalizers = metadata(live).get("finalizers")
    return isinstance(finalizers, list) and UNRECORDED in finalizers


def unlocked_finalizers(live: Manifest) -> list[str]:
    """Return the object's finalizers without `UNRECORDED`."""
    return [name for name in metadata(live).get("finalizers") or () if name != UNRECORDED]


def unlocking(ref: ObjectRef, live: Manifest) -> MergePatch:
    """Return the patch that removes the finalizer `UNRECORDED`: from then on the object may be deleted."""
    meta = {"resourceVersion": metadata(live)["resourceVersion"], "finalizers": unlocked_finalizers(live)}
    return MergePatch(ref, {"metadata": meta})
