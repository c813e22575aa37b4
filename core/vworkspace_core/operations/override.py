"""The release override: the chart version or values patch that Operations of the engine `helm` request (REC-9).

A running Operation requests an override of its target's release. Once the target has applied it, the target's status
records it and the override before it: deleting the Operation afterwards changes nothing. The request of an Operation
that failed, was cancelled or is being cancelled is withdrawn, and the target returns to the override before it. Only
the target's reconcile writes the HelmRelease, so that its fields do not flap.
"""

from collections.abc import Container, Iterable

from purekube.apimachinery.meta import is_abandoned
from purekube.controller.ownership import is_orphaning
from vworkspace_core.api.application_instance import ApplicationInstance, ReleaseOverride
from vworkspace_core.api.labels import cancellation_requested
from vworkspace_core.api.operation import EngineName, Operation, Phase
from vworkspace_core.api.release_override import is_overtaken
from vworkspace_core.operations.conflicts import order_of
from vworkspace_core.operations.engines.helm import SPEC_HASH
from vworkspace_core.operations.identity import parameters_of


def release_request(
    target: ApplicationInstance, operations: Iterable[Operation], orphaning: Container[str] = ()
) -> tuple[ReleaseOverride | None, frozenset[str]]:
    """Return the release override that a running Operation requests for `target`, and the withdrawn Operations.

    An override changes the chart version or the values; it is None if no Operation requests one. Withdrawn Operations,
    whose overrides no longer count, are given by their uids. `operations` are all Operations on the target for which
    the operator is responsible, with any engine. `orphaning` has the uids of those that are known to be deleted with
    `--cascade=orphan`.
    """
    of_helm = [
        operation
        for operation in operations
        if operation.spec.engine is EngineName.HELM and operation.status.started_at is not None
    ]
    withdrawn = frozenset(operation.metadata.uid for operation in of_helm if _is_withdrawn(operation, orphaning))
    running = [
        operation
        for operation in of_helm
        if operation.status.phase is Phase.RUNNING and operation.metadata.uid not in withdrawn
    ]
    asking = [operation for operation in sorted(running, key=order_of) if not _is_overtaken(operation, target)]
    return (_override(asking[0]) if asking else None), withdrawn


def _is_withdrawn(operation: Operation, orphaning: Container[str]) -> bool:
    if operation.status.phase in (Phase.FAILED, Phase.CANCELLED):
        return True
    meta = operation.metadata
    is_kept = is_abandoned(meta) or is_orphaning(meta) or meta.uid in orphaning
    leaving = meta.deletion_timestamp is not None and not is_kept
    return operation.status.phase is Phase.RUNNING and (leaving or cancellation_requested(meta))


def _is_overtaken(operation: Operation, target: ApplicationInstance) -> bool:
    asked = _override(operation)
    return is_overtaken(target.spec, asked.spec_hash, asked.version, asked.values_patch)


def _override(operation: Operation) -> ReleaseOverride:
    """Return the override (change of the release) that this one Operation requests."""
    parameters = parameters_of(operation)
    return ReleaseOverride(
        operation=operation.metadata.name,
        uid=operation.metadata.uid,
        version=parameters.get("targetVersion"),
        values_patch=parameters.get("valuesPatch"),
        spec_hash=str((operation.status.outputs or {}).get(SPEC_HASH, "")),
    )
