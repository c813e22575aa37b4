"""Deletion of an ApplicationInstance (REC-10): first the release, then its source and values, then the finalizer.

Expected flow: unsuspend (Flux would skip the uninstall) → delete the HelmRelease → wait until Flux has uninstalled it →
delete source and values → wait → remove the finalizer. Each step is decided from the observed objects, so the deletion
continues after a restart at any point, and needs no garbage collector.

While the definition of ApplicationInstance itself is being deleted, an uninstall needs an explicit confirmation. Only
objects whose controller reference has the instance's uid are deleted. `--cascade=orphan` leaves everything running.

A namespace that is being deleted removes all its objects, the operator's Role first: there the instance waits for Flux
while that can help, needs only the right to read, and never blocks the namespace.
"""

from datetime import datetime, timedelta

import attrs

from purekube.apimachinery.errors import Forbidden
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.meta import ABANDON, is_abandoned
from purekube.apimachinery.resources import HELM_RELEASE, NAMESPACE
from purekube.controller.decision import Decision, Finalizer, Requeue
from purekube.controller.ownership import controlled, is_orphaning
from purekube.graph.removal import PruneCandidate, next_wave, resuming, teardown_writes
from purekube.ports import KubernetesEvent
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import UNINSTALL, namespace_is_terminating, uninstall_is_confirmed
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.api.remedies import merge_command, missing_right_of, not_installed
from vworkspace_core.instances.conditions import uninstalling
from vworkspace_core.instances.context import Context, InstanceObserved
from vworkspace_core.instances.desired import DOWNSTREAM_KINDS
from vworkspace_core.instances.observed_release import failed_uninstall
from vworkspace_core.instances.ownership import orphaning_patch
from vworkspace_core.instances.status import StatusFields, own_conditions, with_status


def decide_deletion(source: ApplicationInstance, observed: InstanceObserved, context: Context) -> Decision:
    """Return the decision (the writes to make and the time of the next pass) about an instance that is being deleted.

    It takes the next step of deleting the objects that the operator created for `source`. The instance must have the
    operator's finalizer.
    """
    if is_abandoned(source.metadata):
        return _orphan(source, observed, context)
    if is_orphaning(source.metadata):
        return Decision(finalizer=Finalizer.REMOVE, row="REC-10 orphaned by the garbage collector")
    left = tuple(controlled(observed.objects, source.metadata.uid, DOWNSTREAM_KINDS))
    if namespace_is_terminating(observed.namespace):
        return _with_its_namespace(source, left, observed, context)
    if observed.definition_ending and left and not uninstall_is_confirmed(source.metadata):
        return _await_confirmation(source, context)
    # Without Flux nothing can uninstall the release, and a HelmRelease that is gone with its CRD was not uninstalled.
    if HELM_RELEASE in observed.missing_kinds and source.status.helm_release_ref is not None:
        return _flux_missing(source, context)
    if not left:
        return Decision(finalizer=Finalizer.REMOVE, row="REC-10 nothing is left")
    return _take_down(source, left, observed, context)


def _orphan(source: ApplicationInstance, observed: InstanceObserved, context: Context) -> Decision:
    """Return the decision (the writes to make) that orphans the instance's objects.

    It removes their owner references, and then the instance's finalizer. In the other order, the garbage collector
    would delete the HelmRelease, and Flux would uninstall the release.
    """
    downstream = sorted((ref, live) for ref, live in observed.objects.items() if ref.kind in DOWNSTREAM_KINDS)
    patches = [patch for ref, live in downstream if (patch := orphaning_patch(ref, live, source.metadata)) is not None]
    if not patches or namespace_is_terminating(observed.namespace):
        events = (_abandoned(source, observed),)
        return Decision(finalizer=Finalizer.REMOVE, events=events, row="REC-10 abandoned")
    failed = {failure.ref for failure in observed.failures}
    refused = missing_right_of(observed.failures, context.settings.installation)
    refusals = "".join(
        f"; {failure.verb} {failure.ref}: {failure.error.message}; trying again" for failure in observed.failures
    )
    decision = Decision(
        patches=tuple(patch for patch in patches if patch.ref not in failed),
        requeue=Requeue.REFUSED if refused else Requeue.BACKOFF if failed else Requeue.NO,
        only_if_current=True,
    )
    message = f"letting go of {', '.join(str(patch.ref) for patch in patches)}{refusals}"
    return _with_refusal_event(decision, source, Reason.WAITING_FOR_CHILD_RESOURCES, message, context, refused=refused)


def _await_confirmation(source: ApplicationInstance, context: Context) -> Decision:
    """Return the decision that waits for an annotation while the CRD of ApplicationInstance is being deleted.

    Deleting the CRD deletes every instance, which may not be intended: each instance needs its own annotation before
    its application is uninstalled.
    """
    annotate = _annotating(source)
    message = (
        f"the CustomResourceDefinition {APPLICATION_INSTANCE.crd_name} is being deleted, and every instance with it; "
        f"the application runs on until somebody decides. To uninstall it: {annotate} {UNINSTALL}=true. "
        f"To let it run on without the operator: {annotate} {ABANDON}=true"
    )
    return _with_refusal_event(Decision(), source, Reason.AWAITING_CONFIRMATION, message, context)


def _with_its_namespace(
    source: ApplicationInstance,
    left: tuple[tuple[ObjectRef, Manifest], ...],
    observed: InstanceObserved,
    context: Context,
) -> Decision:
    """Return the decision (the writes to make) about an instance in a namespace that is being deleted.

    It waits a limited time for Flux to uninstall the release. The namespace's deletion removes all other objects.
    `left` has the objects that the instance still controls.
    """
    releases = tuple((ref, live) for ref, live in left if ref.kind == HELM_RELEASE)
    if not releases:
        return Decision(finalizer=Finalizer.REMOVE, row="REC-10 goes with its namespace")
    seconds = (_orphan_at(source, context) - context.now).total_seconds()
    if seconds <= 0:
        events = tuple(_namespace_event(source, ref, observed.namespace, context) for ref, _ in releases)
        return Decision(finalizer=Finalizer.REMOVE, events=events, row="REC-10 release left behind")
    # The namespace controller deletes what the operator may not: a missing right needs no retry.
    others = tuple(failure for failure in observed.failures if not isinstance(failure.error, Forbidden))
    decision = _take_down(source, left, attrs.evolve(observed, failures=others), context)
    if refused := {failure.ref for failure in observed.failures} - {failure.ref for failure in others}:
        patches = tuple(patch for patch in decision.patches if patch.ref not in refused)
        deletes = tuple(delete for delete in decision.deletes if delete.ref not in refused)
        decision = attrs.evolve(decision, patches=patches, deletes=deletes)
    return attrs.evolve(decision, requeue=attrs.evolve(decision.requeue, after=seconds))


def _orphan_at(source: ApplicationInstance, context: Context) -> datetime:
    asked = datetime.fromisoformat(source.metadata.deletion_timestamp or context.now.isoformat())
    return asked + timedelta(seconds=context.settings.namespace_end_seconds)


def _namespace_event(
    source: ApplicationInstance, release: ObjectRef, namespace: Manifest | None, context: Context
) -> KubernetesEvent:
    """Return the Event about a HelmRelease that Flux did not uninstall in time.

    The Event regards the Namespace, since no Event can be created inside a namespace that is being deleted.
    """
    meta = source.metadata
    waited = context.settings.namespace_end_seconds
    return KubernetesEvent(
        regarding=ObjectRef(NAMESPACE, None, meta.namespace),
        regarding_uid=str(get_path(namespace, "metadata", "uid") or ""),
        type="Warning",
        reason="ReleaseLeftBehind",
        action="Finalize",
        note=f"ApplicationInstance {meta.name} waited {waited:g} seconds and lets go: {release} has not been "
        "uninstalled by Flux, and its finalizer may keep the namespace. Start Flux, or let go of the release with: "
        + merge_command(release, {"metadata": {"finalizers": None}}),
    )


def _take_down(
    source: ApplicationInstance,
    left: tuple[tuple[ObjectRef, Manifest], ...],
    observed: InstanceObserved,
    context: Context,
) -> Decision:
    """Return the decision (the writes to make) that deletes the HelmRelease and then the objects that it reads.

    Those objects are deleted once the HelmRelease is gone. `left` has the objects that the instance still controls.
    """
    failed = {failure.ref for failure in observed.failures}
    refused = missing_right_of(observed.failures, context.settings.installation)
    step = next_wave(PruneCandidate(ref, live, wave=int(ref.kind == HELM_RELEASE)) for ref, live in left)
    doomed = tuple(prune_candidate.ref for prune_candidate in step if not prune_candidate.is_going)
    if failed:
        refusals = "; ".join(f"{failure.verb} {failure.ref}: {failure.error.message}" for failure in observed.failures)
        reason, message = Reason.UNINSTALLING, f"{refusals}; trying again"
    elif doomed:
        reason, message = Reason.UNINSTALLING, "deleting " + ", ".join(map(str, doomed))
    else:
        children = ", ".join(_since(ref, live) for ref, live in left)
        reason, message = Reason.WAITING_FOR_CHILD_RESOURCES, f"waiting for {children}{_cure(source, left)}"
    decision = attrs.evolve(
        teardown_writes(step, failed, resuming),
        requeue=Requeue.REFUSED if refused else Requeue.BACKOFF if failed else Requeue.NO,
        only_if_current=True,
    )
    return _with_refusal_event(decision, source, reason, message, context, refused=refused)


def _since(ref: ObjectRef, live: Manifest) -> str:
    asked = metadata(live).get("deletionTimestamp")
    if not asked:
        return str(ref)
    failure = failed_uninstall(live)
    return f"{ref} (deleted at {asked}, not gone yet{f'; Flux says {failure}' if failure else ''})"


def _cure(source: ApplicationInstance, left: tuple[tuple[ObjectRef, Manifest], ...]) -> str:
    """Return text to append to a message: the remedy for an uninstall in which Flux failed.

    `left` has the objects that the instance still controls. Return "" if none of them reports a failed uninstall.
    """
    if not any(failed_uninstall(live) for _, live in left):
        return ""
    return (
        ". Flux tries again by itself; fix what it names, or leave the workload as it is and let go of it with: "
        f"{_annotating(source)} {ABANDON}=true"
    )


def _annotating(source: ApplicationInstance) -> str:
    meta = source.metadata
    return f"kubectl annotate {APPLICATION_INSTANCE.crd_name} {meta.name} -n {meta.namespace}"


def _flux_missing(source: ApplicationInstance, context: Context) -> Decision:
    message = (
        f"the release cannot be uninstalled: {not_installed([HELM_RELEASE.crd_name])}. To let it go and leave the "
        f"workload behind: {_annotating(source)} {ABANDON}=true"
    )
    return _with_refusal_event(Decision(), source, Reason.WAITING_FOR_CHILD_RESOURCES, message, context)


def _with_refusal_event(
    decision: Decision, source: ApplicationInstance, reason: str, message: str, context: Context, *, refused: str = ""
) -> Decision:
    previous = {condition_of.type: condition_of for condition_of in own_conditions(source.status)}
    desired = uninstalling(reason, message, previous, refused=refused)
    decided = attrs.evolve(decision, row=f"REC-10 {reason}")
    return with_status(decided, source, desired, StatusFields.of(source.status), context)


def _abandoned(source: ApplicationInstance, observed: InstanceObserved) -> KubernetesEvent:
    meta = source.metadata
    if HELM_RELEASE in observed.missing_kinds:
        message = (
            "the finalizer goes without an uninstall: Flux is not installed, and what it deployed is left to itself"
        )
    elif namespace_is_terminating(observed.namespace):
        message = "the finalizer goes; the namespace is being deleted, and what is in it with it"
    else:
        message = _remaining_release(source, observed)
    return KubernetesEvent(
        regarding=ObjectRef(APPLICATION_INSTANCE, meta.namespace, meta.name),
        regarding_uid=meta.uid,
        type="Warning",
        reason="Abandoned",
        action="Finalize",
        note=f"{ABANDON} is set: {message}",
    )


def _remaining_release(source: ApplicationInstance, observed: InstanceObserved) -> str:
    """Return a sentence, for a message, that says what is left of the release after its objects lost their owner.

    Another client may have deleted the HelmRelease before.
    """
    release = source.spec.release
    ref = None if release is None else ObjectRef(HELM_RELEASE, source.metadata.namespace, release.name)
    live = None if ref is None else observed.objects.get(ref)
    if live is None:
        return "the finalizer goes; no HelmRelease of it is left"
    if metadata(live).get("deletionTimestamp"):
        return f"the finalizer goes; {ref} was being deleted already, and Flux has been told to leave what it runs"
    return f"the finalizer goes without an uninstall: what is deployed stays, and nobody owns {ref} any more"
