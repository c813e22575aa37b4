"""The interpreter of the effects on cluster and job store that the machine for the control plane's jobs returns.

It carries out each effect, such as an apply, by calls of the API server or the store. Every OperatorError of a call
becomes an event. Effects on the control plane are performed elsewhere, since they are repeated in queues until there is
an answer.
"""

from collections.abc import Awaitable, Callable

from purekube.apimachinery import resources as known
from purekube.apimachinery.errors import (
    Conflict,
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Stale,
    Unavailable,
)
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.ports import KubeApi, PatchType
from vworkspace_core.api.labels import CANCEL, FIELD_MANAGER, namespace_is_managed
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.job_store import JobStore
from vworkspace_core.jobs.plan import Inspection
from vworkspace_core.jobs.result import Reason

ClusterEffect = (
    m.PutRecord | m.Inspect | m.ApplyForJob | m.CancelOperation | m.DeleteForJob | m.RotateCredential | m.CloseRecord
)

RotateCredential = Callable[[str], Awaitable[None]]
"""A function that obtains a new credential, stores it, then uses it (PULL-8).

The argument names the request; each request gets only one credential. The function raises OperatorError if it fails.
"""


class JobPerformer:
    """An interpreter of the effects that the machine for the control plane's jobs returns.

    `rotate` renews the operator's credential. It is None if no credential can be stored durably.
    """

    def __init__(self, kube: KubeApi, store: JobStore, rotate: RotateCredential | None = None) -> None:
        self._kube = kube
        self._store = store
        self._rotate = rotate

    async def perform(self, effect: ClusterEffect) -> m.JobEvent:
        """Perform `effect` and return the event of its outcome.

        An OperatorError becomes an event; other exceptions are raised.
        """
        try:
            return await self._perform(effect)
        except Unavailable as error:
            return m.StepFailed(effect.job_id, error.message)
        except OperatorError as error:
            return _refusal(effect, error)

    async def _perform(self, effect: ClusterEffect) -> m.JobEvent:
        match effect:
            case m.PutRecord(job_id, record):
                await self._store.put(record)
                return m.Recorded(job_id)
            case m.CloseRecord(job_id, tombstone):
                await self._store.close(job_id, tombstone)
                return m.RecordClosed(job_id)
            case m.Inspect():
                return m.Inspected(effect.job_id, await self._look(effect))
            case m.ApplyForJob(job_id, ref, manifest, force):
                live = await self._kube.apply(manifest, kind=ref.kind, field_manager=FIELD_MANAGER, force=force)
                return m.Applied(job_id, live)
            case m.CancelOperation(job_id, ref, uid, version):
                # By patch, which touches no field that others hold (REC-8).
                meta = {"uid": uid, "resourceVersion": version, "annotations": {CANCEL: "true"}}
                patch = {"metadata": meta}
                live = await self._kube.patch(ref, patch, patch_type=PatchType.MERGE, field_manager=FIELD_MANAGER)
                return m.Applied(job_id, live)
            case m.DeleteForJob(job_id, ref, uid):
                await self._kube.delete(ref, uid=uid)
                return m.DeleteSent(job_id)
            case m.RotateCredential(job_id, key):
                return await self._rotated(job_id, key)

    async def _look(self, effect: m.Inspect) -> Inspection:
        tombstone = await self._store.tombstone(effect.key)
        if effect.ref is None:
            return Inspection(tombstone=tombstone)
        newest = await self._store.newest(effect.object_key)
        namespace = await self._get(ObjectRef(known.NAMESPACE, None, effect.ref.namespace or ""))
        # Outside the gate the operator may lack the right to read, and must not read.
        live = await self._get(effect.ref) if namespace_is_managed(namespace) else None
        return Inspection(live, namespace, tombstone, newest)

    async def _get(self, ref: ObjectRef) -> Manifest | None:
        try:
            return await self._kube.get(ref)
        except KindMissing:
            raise
        except NotFound:
            return None

    async def _rotated(self, job_id: str, key: str) -> m.JobEvent:
        if self._rotate is None:
            what = "the credential was given from outside: it has no place where a new one could be kept"
            return m.EffectRefused(job_id, Reason.ROTATION_FAILED, what)
        await self._rotate(f"job/{key}")
        return m.Rotated(job_id)


def _refusal(effect: ClusterEffect, error: OperatorError) -> m.JobEvent:
    """Return the job event for `error`, with which the API server or the job store refused to perform `effect`."""
    job_id = effect.job_id
    match effect, error:
        case m.PutRecord(), Invalid():
            return m.RecordRefused(job_id, error.message)
        case ((m.PutRecord() | m.CloseRecord()), _):
            return m.StepFailed(job_id, error.message)
        case m.DeleteForJob(), NotFound():
            return m.DeleteSent(job_id)
        case m.RotateCredential(), _:
            return m.EffectRefused(job_id, Reason.ROTATION_FAILED, error.message)
        case _, KindMissing():
            return m.EffectRefused(job_id, _reason(error), error.message)
        case m.ApplyForJob(), Conflict(conflicts=conflicts):
            return m.Conflicted(job_id, conflicts)
        case ((m.ApplyForJob() | m.CancelOperation() | m.DeleteForJob()), Stale() | NotFound()):
            return m.PreconditionFailed(job_id, error.message)
        case ((m.ApplyForJob() | m.CancelOperation()), Invalid(causes=causes)) if any(
            cause.field == "metadata.uid" for cause in causes
        ):
            # The server's answer if another object has that name (S-09).
            return m.PreconditionFailed(job_id, error.message)
        case _:
            return m.EffectRefused(job_id, _reason(error), error.message)


def _reason(error: OperatorError) -> Reason:
    match error:
        case KindMissing():
            return Reason.KIND_MISSING
        case Invalid():
            return Reason.VALIDATION_FAILED
        case Forbidden(namespace_terminating=True):
            return Reason.NAMESPACE_TERMINATING
        case Forbidden():
            return Reason.FORBIDDEN
        case _:
            return Reason.CLUSTER_REFUSED
