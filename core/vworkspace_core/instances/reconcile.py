"""The whole decision about an ApplicationInstance (REC-1 to REC-13).

Expected flow
    being deleted → `deletion`; not ours (without the managed-by label, or of another cluster's operator) → nothing; an
    obstacle → Blocked, nothing applied; a placeholder (an instance without a release) → Ready; otherwise the finalizer,
    applies of source, values and HelmRelease if they differ, deletes of objects no longer desired, and the status that
    follows from Flux's reports on exactly this request. If others hold fields of the HelmRelease, its apply is sent as
    a dry run before anything is written.
Guarantees
    Pure: the same input gives the same output, byte for byte. Decided again after its execution, the decision is
    empty. Objects of others are never applied over, fields of others never forced. No object of the
    instance is written for an outdated copy of it.
Assumptions
    `observed` was read no earlier than the last write of this instance (read-your-writes, RUN-3).
"""

from datetime import datetime
from typing import assert_never

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.meta import Condition, ObjectName
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.apimachinery.structuring import read_meta
from purekube.apimachinery.timestamps import time_or_none
from purekube.controller.decision import Apply, Decision, Delete, Finalizer, MergePatch, Requeue
from purekube.controller.drift import needs_apply
from purekube.controller.managed_fields import is_held_by_others, is_own_history
from purekube.controller.ownership import controlled, controller_of
from purekube.controller.queue.event_handlers import PROGRESS_SECONDS
from purekube.graph.removal import PruneCandidate, resuming, teardown_writes
from vworkspace_core.api.application_instance import (
    ApplicationInstance,
    ApplicationInstanceSpec,
    ApplicationInstanceStatus,
    AppRef,
    Mode,
    Release,
    ReleaseOverride,
)
from vworkspace_core.api.chart import AppliedChart, ChartSource, SourceType
from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER, is_managed
from vworkspace_core.api.managed_namespace import claimed_by_another_operator, is_labelled_for
from vworkspace_core.api.own_status import Unreadable, problem_text, read_status
from vworkspace_core.api.reasons import InstanceConditionType as Type
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.api.release_override import effective_override, permitted_override
from vworkspace_core.api.remedies import resume_command
from vworkspace_core.instances import conditions
from vworkspace_core.instances import release_state as flux
from vworkspace_core.instances.blocking_reasons import (
    BlockingReason,
    TransientFailure,
    intent_blocking_reason,
    meaning,
    name_blocking_reason,
    without_chart,
)
from vworkspace_core.instances.context import Context, InstanceObserved
from vworkspace_core.instances.deletion import decide_deletion
from vworkspace_core.instances.desired import DOWNSTREAM_KINDS, DesiredObjects, desired_objects
from vworkspace_core.instances.naming import replaced_account
from vworkspace_core.instances.observed_release import (
    SILENT,
    ReleaseRequest,
    ReleaseTimeouts,
    deployed_chart,
    reconcile_request,
)
from vworkspace_core.instances.ownership import adoption, is_ours
from vworkspace_core.instances.release_state import ClassifiedRelease, ReleaseState
from vworkspace_core.instances.status import StatusFields, endpoints, own_conditions, with_status


def unreadable_instance(manifest: Manifest, error: ValidationProblems) -> Unreadable[ApplicationInstance]:
    """Return what can be read of a malformed instance: its metadata, and its status if that can be read.

    The result also has the problems in `error` as text.
    """
    status = read_status(ApplicationInstanceStatus, manifest) or ApplicationInstanceStatus()
    stub = ApplicationInstance(read_meta(manifest), ApplicationInstanceSpec(AppRef("unreadable")), status)
    return Unreadable(stub, problem_text(error))


def decide_unreadable(
    source: Unreadable[ApplicationInstance], observed: InstanceObserved, context: Context
) -> Decision:
    """Return the decision (the writes to make and the time of the next pass) about a malformed instance (REC-13).

    If the instance is being deleted, its objects are deleted; otherwise its problems are written into its status.
    """
    stub = source.stub
    if stub.metadata.deletion_timestamp is not None:
        return decide_deletion(stub, observed, context) if FINALIZER in stub.metadata.finalizers else Decision()
    if not is_managed(stub.metadata):
        return Decision()
    previous = {condition.type: condition for condition in own_conditions(stub.status)}
    desired = conditions.blocked(Reason.VALIDATION_FAILED, source.problems, previous, stalled=True)
    return with_status(Decision(), stub, desired, StatusFields.of(stub.status), context)


_GOING = Decision(row="being deleted, without our finalizer")
_BEGUN = frozenset({ReleaseState.PENDING, ReleaseState.INSTALLING})
_KEPT_UNUSED = 4
"""The number of an instance's former objects, the newest ones, that are kept until the desired objects are in use."""


def reconcile(source: ApplicationInstance, observed: InstanceObserved, context: Context) -> Decision:
    """Return the decision about `source`: the writes to make, and the time of the next pass.

    It depends only on the observed objects and the context (settings and time).
    """
    meta = source.metadata
    if meta.deletion_timestamp is not None:
        return decide_deletion(source, observed, context) if FINALIZER in meta.finalizers else _GOING
    if not is_managed(meta) or _belongs_to_another_operator(source, observed, context):
        return Decision(row="not ours")
    if blocking_reason := intent_blocking_reason(source, observed, context.settings):
        return _blocked(Decision(), source, blocking_reason, observed, context)
    if source.spec.mode is Mode.PLACEHOLDER:
        placeholder = conditions.placeholder(_previous(source))
        return with_status(Decision(row="placeholder"), source, placeholder, StatusFields(), context)
    chart, release = source.spec.chart, source.spec.release
    if chart is None or release is None:
        # Admission refuses this first; if it ever lets one through, users see this.
        return _blocked(Decision(), source, without_chart(), observed, context)
    return _managed(source, chart, release, observed, context)


def _belongs_to_another_operator(source: ApplicationInstance, observed: InstanceObserved, context: Context) -> bool:
    """Report whether another cluster's operator may own the instance.

    The answer is False while the HelmRelease has this cluster's label, since each operator labels the objects that it
    applies.
    """
    live = _live_release(source, observed)
    applied_here = live is not None and is_labelled_for(live, context.settings.cluster_id)
    return not applied_here and claimed_by_another_operator(source, context.settings.cluster_id)


def _live_release(source: ApplicationInstance, observed: InstanceObserved) -> Manifest | None:
    """Return the HelmRelease of the instance, or None if it does not exist or belongs to another owner."""
    release = source.spec.release
    ref = None if release is None else ObjectRef(HELM_RELEASE, source.metadata.namespace, release.name)
    live = observed.objects.get(ref) if ref is not None else None
    return live if live is not None and is_ours(live, source) else None


def _previous(source: ApplicationInstance) -> dict[str, Condition]:
    return {condition.type: condition for condition in own_conditions(source.status)}


def _blocked(
    decision: Decision,
    source: ApplicationInstance,
    blocking_reason: BlockingReason,
    observed: InstanceObserved,
    context: Context,
) -> Decision:
    previous = _previous(source)
    desired = conditions.blocked(
        blocking_reason.reason, blocking_reason.message, previous, stalled=blocking_reason.stalled
    )
    held = attrs.evolve(decision, requeue=blocking_reason.requeue, row=f"blocked {blocking_reason.reason}")
    return with_status(held, source, desired, _present_fields(source, observed), context)


def _present_fields(source: ApplicationInstance, observed: InstanceObserved) -> StatusFields:
    """Return the instance's present status fields, with the deployed chart updated from the HelmRelease.

    The function serves for a blocked instance, whose release Flux may still change.
    """
    fields, live = StatusFields.of(source.status), _live_release(source, observed)
    return fields if live is None else attrs.evolve(fields, deployed_chart=deployed_chart(live))


def _managed(
    source: ApplicationInstance, chart: ChartSource, release: Release, observed: InstanceObserved, context: Context
) -> Decision:
    settings = context.settings
    override = effective_override(source, observed.override, observed.withdrawn)
    in_force, refused = permitted_override(source, override, settings.policy)
    desired = desired_objects(source, in_force, observed.objects, settings)
    live_release = observed.objects.get(desired.release)
    # Before any apply, since server-side apply takes over a foreign object silently if no field conflicts.
    if blocking_reason := name_blocking_reason(source, desired, observed):
        return _blocked(Decision(), source, blocking_reason, observed, context)
    release_status = _release_status(desired, chart, live_release, observed, context)
    if release_status.state is ReleaseState.SUSPENDED and not source.spec.suspend:
        release_status = _suspended_by_hand(release_status, desired, observed)
    if observed.failures:
        return _after_failure(source, desired, release_status, observed, context)
    pending = tuple(apply for apply in desired.applies if _is_pending(apply, observed))
    if any(apply.kind != HELM_RELEASE or _spec_differs(apply, live_release) for apply in pending):
        release_status = _requested(release_status, source)
    request = SILENT if pending else reconcile_request(desired.retry, live_release, context.now)
    in_use = release_status.state is ReleaseState.READY
    guarded = FINALIZER not in source.metadata.finalizers  # the finalizer's patch carries the resourceVersion
    previous = _previous(source)
    prunes = _prunes(source, desired, observed, in_use=in_use)
    # What is left to a later pass is the status alone: a retry and prunes follow the applies in this pass.
    is_first_word = (
        release_status.state in _BEGUN and Type.READY not in previous and not desired.retry and not prunes.deletes
    )
    # Former objects go in a later pass: until Flux has seen the pending applies, its release may still read them.
    removal = Decision() if pending else prunes
    decision = Decision(
        finalizer=Finalizer.ADD if guarded else None,
        dry_runs=(*_dry_runs(pending, live_release), *_confirming(removal.deletes, desired, observed)),
        patches=(*_adoptions(source, desired, observed), *removal.patches, *request.patches),
        applies=pending,
        deletes=removal.deletes,
        events=replaced_account(source, release, settings),
        requeue=Requeue.at_latest(release_status.requeue_after).no_later_than(request.wait),
        only_if_current=not guarded,
        status_may_wait=_status_delay(live_release, context.now) if is_first_word else 0.0,
        row=release_status.state.row,
    )
    desired_conditions = conditions.from_release(release_status, previous, override_refused=refused)
    fields = _fields(source, chart, desired, override, in_force)
    fields = attrs.evolve(fields, deployed_chart=deployed_chart(live_release))
    return with_status(decision, source, desired_conditions, fields, context)


def _status_delay(live_release: Manifest | None, now: datetime) -> float:
    """Return the seconds for which a new instance's first status may wait: until its release is between one and two
    seconds old, since times of objects are whole seconds.
    """
    created = time_or_none(get_path(live_release, "metadata", "creationTimestamp"))
    age = 0.0 if created is None else (now - created).total_seconds()
    return min(PROGRESS_SECONDS, max(0.0, 1.0 + PROGRESS_SECONDS - age))


def _release_status(
    desired: DesiredObjects,
    chart: ChartSource,
    live_release: Manifest | None,
    observed: InstanceObserved,
    context: Context,
) -> ClassifiedRelease:
    settings = context.settings
    return flux.classify(
        live_release,
        observed.objects.get(desired.source),
        observed.objects.get(desired.chart),
        ReleaseRequest(desired.version, chart.source_type is SourceType.OCI, desired.retry),
        context.now,
        ReleaseTimeouts(settings.source_grace_seconds, settings.source_wait_seconds, settings.stuck_ready_seconds),
    )


def _suspended_by_hand(
    release_status: ClassifiedRelease, desired: DesiredObjects, observed: InstanceObserved
) -> ClassifiedRelease:
    """Return `release_status` with the command that resumes the release added to its message.

    It is called if a person suspended the HelmRelease, its source or its HelmChart although the instance is not
    suspended.
    """
    objects = observed.objects
    if get_path(objects.get(desired.release), "spec", "suspend") is True:
        suspended = desired.release
    else:
        suspended = desired.source if flux.suspended_origin(objects.get(desired.source)) else desired.chart
    command = resume_command(suspended)
    return attrs.evolve(release_status, message=f"{release_status.message}. To fix: {command}")


def _is_pending(apply: Apply, observed: InstanceObserved) -> bool:
    live = observed.objects.get(apply.ref)
    if live is not None and metadata(live).get("deletionTimestamp"):
        return False  # being deleted by another client: it is created again once it is gone
    return needs_apply(apply.manifest, live, encoded=apply.encoded)


def _dry_runs(pending: tuple[Apply, ...], live_release: Manifest | None) -> tuple[Apply, ...]:
    """Return the HelmRelease's apply among `pending`, to be sent as a dry run before any of the others is sent (REC-3).

    `live_release` shows whether the apply can conflict. If it cannot, or if it is the only apply, the result is empty.
    """
    if len(pending) < 2:
        return ()
    return tuple(apply for apply in pending if apply.kind == HELM_RELEASE and _is_held(apply, live_release))


def _confirming(deletes: tuple[Delete, ...], desired: DesiredObjects, observed: InstanceObserved) -> tuple[Apply, ...]:
    """Return the HelmRelease's apply, to be sent as a dry run, if one of `deletes` is newer than the desired source.

    The instance has then returned to an earlier source, and a cached HelmRelease may be from before the newer one,
    which Flux still reads (REC-10). The server refuses the dry run as Stale if so.
    """
    earlier = _created(observed.objects.get(desired.source))
    if all(_created(observed.objects[delete.ref]) <= earlier for delete in deletes):
        return ()
    return tuple(apply for apply in desired.applies if apply.kind == HELM_RELEASE)


def _created(live: Manifest | None) -> str:
    return str(metadata(live or {}).get("creationTimestamp", ""))


def _is_held(apply: Apply, live: Manifest | None) -> bool:
    return is_held_by_others(apply.manifest, live, FIELD_MANAGER)


def _spec_differs(apply: Apply, live: Manifest | None) -> bool:
    return live is None or needs_apply({"spec": apply.manifest["spec"]}, live)


def _requested(release_status: ClassifiedRelease, source: ApplicationInstance) -> ClassifiedRelease:
    """Return the release state to report while applies are pending.

    `release_status` is the state that Flux reports, which does not include the new request yet.
    """
    if release_status.state is ReleaseState.SUSPENDED or source.spec.suspend:
        state = ReleaseState.SUSPENDED
    elif release_status.state is ReleaseState.PENDING:
        state = ReleaseState.PENDING
    else:
        state = ReleaseState.UPGRADING if release_status.released_before else ReleaseState.INSTALLING
    return ClassifiedRelease(state, flux.WAITING, released_before=release_status.released_before)


def _after_failure(
    source: ApplicationInstance,
    desired: DesiredObjects,
    release_status: ClassifiedRelease,
    observed: InstanceObserved,
    context: Context,
) -> Decision:
    """Return the decision (the writes to make) after the API server refused a write of the instance's objects.

    Nothing more is applied in this pass, except to objects that conflict only with the operator's own earlier writes
    (REC-6).
    """
    own = {failure.ref for failure in observed.failures if is_own_history(failure, FIELD_MANAGER)}
    forced = tuple(attrs.evolve(apply, force=True) for apply in desired.applies if apply.ref in own)
    others = [failure for failure in observed.failures if failure.ref not in own]
    if not others:
        return Decision(applies=forced, requeue=Requeue.NO, only_if_current=True, row="own history")
    installation = context.settings.installation
    meant = meaning(others[0], released_before=release_status.released_before, installation=installation)
    match meant:
        case BlockingReason():
            return _blocked(Decision(applies=forced, only_if_current=True), source, meant, observed, context)
        case TransientFailure():
            wanted = conditions.unsettled(meant.reason, meant.message, _previous(source))
            row = f"refused write {meant.reason}"
            decision = Decision(applies=forced, requeue=meant.requeue, only_if_current=True, row=row)
            return with_status(decision, source, wanted, _present_fields(source, observed), context)
        case _:
            assert_never(meant)


def _adoptions(
    source: ApplicationInstance, desired: DesiredObjects, observed: InstanceObserved
) -> tuple[MergePatch, ...]:
    """Return patches that adopt objects which an earlier instance of the same name left and this instance does not
    desire. Once adopted, they are deleted like the instance's own undesired objects.
    """
    wanted = desired.refs
    if observed.objects.keys() <= wanted:
        return ()
    left = sorted(ref for ref in observed.objects if ref not in wanted and ref.kind in DOWNSTREAM_KINDS)
    return tuple(
        adoption(ref, live, source)
        for ref in left
        if controller_of(live := observed.objects[ref]) is None
        and is_ours(live, source)
        and not get_path(live, "metadata", "deletionTimestamp")
    )


def _prunes(
    source: ApplicationInstance, desired: DesiredObjects, observed: InstanceObserved, *, in_use: bool
) -> Decision:
    """Return the removal of objects that the instance controls but no longer desires (REC-14, PH-3).

    Until the objects that replace them are in use (`in_use`), a few are kept, so that the instance can return to them.
    """
    if not (unwanted := _unwanted(source, desired, observed)):
        return Decision()
    by_age = sorted(unwanted, key=lambda ref: (_created(unwanted[ref]), ref))
    oldest = by_age if in_use else by_age[:-_KEPT_UNUSED]
    return teardown_writes([PruneCandidate(ref, unwanted[ref]) for ref in sorted(oldest)], (), resuming)


def _unwanted(
    source: ApplicationInstance, desired: DesiredObjects, observed: InstanceObserved
) -> dict[ObjectRef, Manifest]:
    if observed.objects.keys() <= desired.refs:
        return {}
    owned = controlled(observed.objects, source.metadata.uid, DOWNSTREAM_KINDS)
    return {ref: live for ref, live in owned if ref not in desired.refs}


def deletes_afterwards(
    source: ApplicationInstance, observed: InstanceObserved, context: Context, decision: Decision
) -> tuple[Delete, ...]:
    """Return the deletes of objects that the instance no longer desires, such as its former Flux source (REC-14).

    They may be sent only when Flux uses the objects that `decision` applies, since the release may read the former
    objects until then. The result is empty if `decision` applies nothing: it then has the deletes itself.
    """
    if not decision.applies:
        return ()
    override = effective_override(source, observed.override, observed.withdrawn)
    in_force, _ = permitted_override(source, override, context.settings.policy)
    desired = desired_objects(source, in_force, observed.objects, context.settings)
    return _prunes(source, desired, observed, in_use=True).deletes


def _fields(
    source: ApplicationInstance,
    chart: ChartSource,
    desired: DesiredObjects,
    override: ReleaseOverride | None,
    in_force: ReleaseOverride | None,
) -> StatusFields:
    return StatusFields(
        helm_release_ref=ObjectName(desired.release.name, desired.release.namespace or ""),
        last_applied_chart=AppliedChart(chart.source_type, chart.url, chart.name, desired.version),
        endpoints=endpoints(source, in_force),
        release_override=override,
    )
