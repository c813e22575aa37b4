"""The reconciler of `bench/reconciled_shops.py` with kopf, as its documentation teaches.

Handlers for creation, change, restart and deletion, kopf's own finalizer and bookkeeping; one condition, Ready. A
restart writes nothing if the status is up to date.

    kopf run --standalone --all-namespaces bench/kopf_shops.py
"""

import hashlib
from typing import Any

import kopf

GROUP = "shops.example.com"


def put(uid: str, title: str, shelves: int) -> str:
    """Imitate the service: its answer depends on what it is sent."""
    return hashlib.sha256(f"{uid}/{title}/{shelves}".encode()).hexdigest()[:16]


@kopf.on.create(GROUP, "v1", "shops")
@kopf.on.update(GROUP, "v1", "shops", field="spec")
@kopf.on.resume(GROUP, "v1", "shops")
async def reconcile(
    uid: str, spec: kopf.Spec, meta: kopf.Meta, status: kopf.Status, patch: kopf.Patch, **_: Any
) -> None:
    fields = {"remoteId": put(uid, spec["title"], spec["shelves"]), "shelves": spec["shelves"]}
    generation = meta["generation"]
    if all(status.get(name) == value for name, value in fields.items()) and status["observedGeneration"] == generation:
        return
    ready = {"type": "Ready", "status": "True", "reason": "Succeeded", "message": "", "observedGeneration": generation}
    conditions = [{**ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    patch.status.update({**fields, "observedGeneration": generation, "conditions": conditions})


@kopf.on.delete(GROUP, "v1", "shops")
async def remove(**_: Any) -> None:
    """Delete the shop from the service."""
