"""The release override that helm Operations ask of their target (REC-9): one writer, no flapping.

A running one asks. Once the target has taken it up, its own status holds it: deleting the Operation afterwards
changes nothing. One that failed, was cancelled or is about to be is withdrawn; what was in force before it comes
back, as long as that Operation still exists.
"""

from collections.abc import Iterable

from vworkspace_core.kinds.application_instance import ApplicationInstance, ReleaseOverride
from vworkspace_core.kinds.labels import cancellation_requested
from vworkspace_core.kinds.operation import Engine, Operation, Phase
from vworkspace_core.operations.conflicts import order_of
from vworkspace_core.operations.engines.helm import REPLACED, SPEC_HASH
from vworkspace_core.operations.identity import parameters
from vworkspace_core.reconcile.override import spec_hash

__all__ = ["release_request"]


def release_request(
    target: ApplicationInstance, operations: Iterable[Operation]
) -> tuple[ReleaseOverride | None, frozenset[str]]:
    """What to put into `Observed.override` and `Observed.withdrawn` of the target's reconcile.

    `operations` are those on this target that the operator acts on, of any engine.
    """
    of_helm = [one for one in operations if one.spec.engine is Engine.HELM and one.status.started_at is not None]
    withdrawn = frozenset(one.metadata.uid for one in of_helm if _is_withdrawn(one))
    asking = [one for one in of_helm if one.status.phase is Phase.RUNNING and one.metadata.uid not in withdrawn]
    wanted = spec_hash(target.spec)
    asking = [one for one in asking if _hash_of(one) == wanted]
    if asking:
        return _override(min(asking, key=order_of)), withdrawn
    return _before(target, of_helm, withdrawn), withdrawn


def _is_withdrawn(operation: Operation) -> bool:
    if operation.status.phase in (Phase.FAILED, Phase.CANCELLED):
        return True
    meta = operation.metadata
    leaving = meta.deletion_timestamp is not None or cancellation_requested(meta)
    return operation.status.phase is Phase.RUNNING and leaving


def _before(
    target: ApplicationInstance, operations: list[Operation], withdrawn: frozenset[str]
) -> ReleaseOverride | None:
    """The override that the one now withdrawn had replaced, if the spec is still the one it was asked against."""
    by_uid = {one.metadata.uid: one for one in operations}
    current = target.status.release_override
    uid = current.uid if current is not None else ""
    while uid in withdrawn:
        uid = str((by_uid[uid].status.outputs or {}).get(REPLACED, ""))
    earlier = by_uid.get(uid)
    if current is None or earlier is None or uid == current.uid or earlier.status.phase is not Phase.SUCCEEDED:
        return None
    return _override(earlier) if _hash_of(earlier) == spec_hash(target.spec) else None


def _hash_of(operation: Operation) -> str:
    return str((operation.status.outputs or {}).get(SPEC_HASH, ""))


def _override(operation: Operation) -> ReleaseOverride:
    given = parameters(operation)
    return ReleaseOverride(
        operation=operation.metadata.name,
        uid=operation.metadata.uid,
        version=given.get("targetVersion"),
        values_patch=given.get("valuesPatch"),
        spec_hash=_hash_of(operation),
    )
