"""The parts of objects that are compared between simulated clusters: all except uids, times, addresses and secrets."""

import re
from collections.abc import Mapping
from typing import Any, Final

from purekube.apimachinery.manifest import Manifest, canonical_json, metadata
from purekube.apimachinery.meta import APPLIED_HASH

_UID: Final = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ALLOCATED: Final = ("clusterIP", "clusterIPs", "ports", "volumeName")
"""The fields of a spec that the API server and controllers fill in."""
_STATUS_ASIDE: Final = ("apiVersion", "kind", "metadata", "spec", "status", "data")


_ROLL: Final = re.compile(rb'(/roll-hash":")[0-9a-f]+')
"""The annotation with a hash of Secret versions, which triggers rollouts and differs between simulated clusters."""


def stable_parts_of(live: Manifest) -> bytes:
    """Return the parts of an object that must be equal in two simulated clusters, as JSON for a comparison.

    Uids, times, allocated addresses and the contents of Secrets are left out.
    """
    return _ROLL.sub(rb"\1", _UID.sub(b"uid", canonical_json(_plain(live))))


def _plain(live: Manifest) -> Mapping[str, Any]:
    meta = metadata(live)
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key != APPLIED_HASH}
    spec = live.get("spec")
    kept = {key: value for key, value in spec.items() if key not in _ALLOCATED} if isinstance(spec, Mapping) else None
    further = {key: value for key, value in live.items() if key not in _STATUS_ASIDE}
    body = {} if live.get("kind") == "Secret" else {"data": live.get("data"), **further}
    return {"labels": meta.get("labels"), "annotations": annotations, "spec": kept, **body}
