"""What is created at most once in its owner's life (OPS-1, L20).

Protocol
    The intent stands in the owner's status before the create; the object carries a finalizer until its uid stands
    there too. So nothing is made twice whenever the process dies, and what finishes and is removed meanwhile leaves a
    trace.
"""

from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, metadata
from vworkspace_core.controller.decision import MergePatch

UNRECORDED: Final = "vworkspace.io/unrecorded"
"""Finalizer of an object from its creation until its uid stands in the status of its owner."""


@attrs.frozen
class CreateRecord:
    """What the owner's status says of one such object: an intent while `uid` is empty, done once it is not."""

    node: str
    name: str
    namespace: str = ""
    item: str = ""
    uid: str = ""


def locked(manifest: Manifest) -> dict[str, Any]:
    """With the finalizer that keeps it until its uid is recorded."""
    meta = metadata(manifest)
    return {**manifest, "metadata": {**meta, "finalizers": [*(meta.get("finalizers") or ()), UNRECORDED]}}


def is_locked(live: Manifest) -> bool:
    """Whether it carries that finalizer."""
    finalizers = metadata(live).get("finalizers")
    return isinstance(finalizers, list) and UNRECORDED in finalizers


def unlocked_finalizers(live: Manifest) -> list[str]:
    """Its finalizers but for that one."""
    return [name for name in metadata(live).get("finalizers") or () if name != UNRECORDED]


def unlocking(ref: ObjectRef, live: Manifest) -> MergePatch:
    """Let go of the object: from then on it may be removed."""
    meta = {"resourceVersion": metadata(live)["resourceVersion"], "finalizers": unlocked_finalizers(live)}
    return MergePatch(ref, {"metadata": meta})
