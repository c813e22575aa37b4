"""The changes that applying a manifest would cause in a cluster (SEE-2).

They affect the object in the manifest, and the objects that the operator creates, changes or deletes because of it.

The operator's own code decides, on objects read live. Its applies are sent as dry runs if the user's rights allow, so
that defaults, refusals and conflicts with other field managers are the API server's. Nothing is written.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.errors import Conflict, Forbidden, Invalid, NotFound, Permanent
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, canonical_json, get_path, metadata, ref_of
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import composite_of
from purekube.boxes.rollouts.applied import MANAGER as APPLIED_BOXES_MANAGER
from purekube.composites.observe import observe_live as observe_children
from purekube.controller.appliers import (
    KUBECTL,
    Applier,
    applier_named,
    appliers_of,
    client_side_patch,
    estimated,
    overlaid,
)
from purekube.controller.decision import Apply, Decision
from purekube.controller.managed_fields import other_holders
from purekube.ports import KubeApi, PatchType
from purekube_run.controller.lookups import find
from purekube_run.process.yaml_documents import parse_yaml
from vworkspace_core.api import labels
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.codec import read_application_instance, read_operation
from vworkspace_core.api.installation import PRINTED, Installation
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.clusters.decision import strictest_policy
from vworkspace_core.instances.context import Context, Settings
from vworkspace_core.instances.observe import observe_live
from vworkspace_core.instances.reconcile import deletes_afterwards, reconcile
from vworkspace_core.operations.approvals import Claims
from vworkspace_core.operations.context import OperationContext, observe_operation_live, operations_on
from vworkspace_core.operations.override import release_request
from vworkspace_core.operations.reconcile import reconcile_operation
from vworkspace_core.operations.settings import OperationSettings
from vworkspace_core.overview.checkup import runs_an_agent
from vworkspace_core.overview.tree import present_cluster

Objects: TypeAlias = Mapping[ObjectRef, Manifest]


@attrs.frozen
class ObjectChange:
    """An object before and after a change. Either is None if the object does not exist at that time.

    `refused` says why the API server would refuse the change; it is empty if the server would accept it.
    """

    ref: ObjectRef
    before: Manifest | None
    after: Manifest | None
    refused: str = ""


@attrs.frozen
class Difference:
    """The changes that applying one manifest would cause, and the operator's decision after it.

    `present` is the object as it would be after the apply. `applier` is the field manager as which the manifest was
    applied in a dry run. `note` says why this one was chosen, if the user named none and the object does not show
    exactly one; else it is empty. `is_held` is True if the control plane wrote the object, and the change affects
    fields of the control plane.
    """

    changes: tuple[ObjectChange, ...]
    decision: Decision
    present: Manifest
    applier: Applier
    note: str = ""
    is_held: bool = False
    afterwards: Decision = attrs.field(factory=Decision)
    """The operator's decision after the change has taken effect: deletes of objects that were replaced."""


@attrs.frozen
class DryRun:
    """A client that sends applies to the API server as dry runs, which change nothing."""

    api: KubeApi

    async def change(self, apply: Apply, live: Manifest | None, applier: Applier) -> ObjectChange:
        """Return the change that `apply` would cause to the object `live`, by a dry run as the field manager `applier`.

        `live` is the object as it is now; None if it does not exist. If the user may not apply it, the change is
        estimated.
        """
        ref, guess = apply.ref, estimated(live, apply.manifest, applier)
        try:
            return ObjectChange(ref, live, await self._applied(apply, live, applier))
        # Permanent: the API server answers 500 for a field that the schema lacks (S-15).
        except (Conflict, Invalid, Permanent) as error:
            return ObjectChange(ref, live, guess, error.message)
        except (Forbidden, NotFound):  # no right, or a namespace that does not exist yet
            return ObjectChange(ref, live, guess)

    async def _applied(self, apply: Apply, live: Manifest | None, applier: Applier) -> Manifest:
        if live is None or not applier.is_client_side:
            return await self.api.apply(
                apply.manifest, kind=apply.kind, field_manager=applier.manager, force=apply.force, dry_run=True
            )
        patch = client_side_patch(live, apply.manifest)
        return await self.api.patch(
            apply.ref, patch, patch_type=PatchType.MERGE, field_manager=applier.manager, dry_run=True
        )


_JOB_ANNOTATIONS: Final = (*labels.JOB_ANNOTATIONS, labels.TRACEPARENT)
_JOB_LABELS: Final = (labels.MANAGED_BY, labels.CLUSTER_ID, labels.APPLICATION_INSTANCE)
_OPERATORS: Final = (labels.FIELD_MANAGER, labels.CLI_MANAGER, APPLIED_BOXES_MANAGER)
"""The operator's own field managers, which do not count as appliers of the files that people and GitOps tools keep."""


def applier_and_note(
    ref: ObjectRef, live: Manifest | None, manager: str = "", box: Box | None = None
) -> tuple[Applier, str]:
    """Return the field manager as which to try the apply of an object, and a note if the choice is uncertain.

    It is the field manager `manager` that the user named. If `manager` is empty, it is the one that applied the object
    `live` last, or kubectl if there is none. The field managers of the operator and of `box` do not count. The note
    says why the choice is uncertain; otherwise it is empty.
    """
    if manager:
        return applier_named(manager), ""
    found = appliers_of(live, _OPERATORS if box is None else (*_OPERATORS, box.field_manager))
    if len(found) == 1 or live is None:
        return next(iter(found), KUBECTL), ""
    if found:
        names = " and ".join(each.manager for each in found)
        told = f"applied by {names}; compared as {found[0].manager}, which applied it last"
        return found[0], f"{ref}: {told}. To compare as another: --field-manager NAME"
    told = "nobody but the operator is known to have applied it; compared as kubectl apply --server-side"
    return KUBECTL, (
        f"{ref}: {told} (manager {KUBECTL.manager}), which keeps the fields that the file omits. To compare as another:"
        " --field-manager NAME"
    )


async def difference(
    api: KubeApi, kind: Kind, manifest: Manifest, now: datetime, box: Box | None = None, manager: str = ""
) -> Difference:
    """Return the changes that applying `manifest` would cause. `now` is the time for which the operator decides.

    It is applied as the field manager named `manager`, or without a name as the one that applied the object before.
    With a `box` (an operator that a file declares), `manifest` is an object of the box's kind. Raises the errors of
    `KubeApi.get` and `KubeApi.list`, and ValidationProblems.
    """
    dry_run, ref = DryRun(api), ref_of(manifest, kind)
    live = await find(api, ref)
    applier, note = applier_and_note(ref, live, manager, box)
    wanted = _with_marks(manifest, live) if applier.manager == labels.FIELD_MANAGER else manifest
    # By force, since the user means to apply it. Other holders are reported separately.
    own = await dry_run.change(Apply(kind, wanted, force=True), live, applier)
    desired = _as_stored(own, now)
    if own.refused:
        return Difference((own,), Decision(), desired, applier, note)
    decision, objects, afterwards = await _decided(api, kind, desired, now, box)
    operator = Applier(labels.FIELD_MANAGER if box is None else box.field_manager)
    downstream = [await dry_run.change(apply, objects.get(apply.ref), operator) for apply in decision.applies]
    created = [ObjectChange(create.ref, None, create.manifest) for create in decision.creates]
    patched = [
        ObjectChange(patch.ref, live := objects.get(patch.ref), overlaid(live or {}, patch.patch))
        for patch in decision.patches
    ]
    deleted = [
        ObjectChange(delete.ref, objects.get(delete.ref), None) for delete in (*decision.deletes, *afterwards.deletes)
    ]
    changes = (own, *patched, *downstream, *created, *deleted)
    return Difference(changes, decision, desired, applier, note, _takes_from_control_plane(own, applier), afterwards)


def _with_marks(manifest: Manifest, live: Manifest | None) -> Manifest:
    """Return the manifest of a job with what the operator adds to it: labels, annotations and finalizer, as on `live`.

    Without them, the apply of a job would seem to remove them.
    """
    meta, there = metadata(manifest), metadata(live or {})
    added: dict[str, Any] = {"finalizers": there.get("finalizers")}
    for field, names in (("annotations", _JOB_ANNOTATIONS), ("labels", _JOB_LABELS)):
        marks = {name: text for name, text in (there.get(field) or {}).items() if name in names}
        added[field] = {**(meta.get(field) or {}), **marks}
    return {**manifest, "metadata": {**meta, **{field: value for field, value in added.items() if value}}}


def _takes_from_control_plane(own: ObjectChange, applier: Applier) -> bool:
    if own.before is None or get_path(own.before, "spec") == get_path(own.after, "spec"):
        return False
    return labels.FIELD_MANAGER in other_holders(own.before, applier.manager, "spec")


def _as_stored(own: ObjectChange, now: datetime) -> Manifest:
    """Return the object as the API server would store it after the apply.

    Without a dry run, placeholders are used for the metadata that the server sets.
    """
    after = own.after or {}
    if metadata(after).get("uid"):
        return after
    stored = {"uid": "00000000-0000-0000-0000-000000000000", "generation": 1, "resourceVersion": "1"}
    stored["creationTimestamp"] = now.isoformat()
    return {**after, "metadata": {**stored, **metadata(after)}}


async def _decided(
    api: KubeApi, kind: Kind, manifest: Manifest, now: datetime, box: Box | None
) -> tuple[Decision, Objects, Decision]:
    if box is not None:
        return await _of_box(api, box, manifest, now)
    return await (_of_instance if kind == APPLICATION_INSTANCE else _of_operation)(api, manifest, now)


async def _of_box(api: KubeApi, box: Box, manifest: Manifest, now: datetime) -> tuple[Decision, Objects, Decision]:
    """Return the box's decision, the objects that it read, and the deletes that wait until other objects are ready.

    Objects that are created later, because they wait for others, are not in the decision. `status --box` shows them.
    """
    composite = composite_of(box)
    parent = composite.read(manifest)
    observed = await observe_children(api, composite, parent)
    decision = composite.decide(parent, observed, now)
    at_once = {delete.ref for delete in decision.deletes}
    later = composite.deletes_afterwards(parent, observed, now, at_once)
    return decision, observed.objects, Decision(deletes=later)


async def _of_instance(api: KubeApi, manifest: Manifest, now: datetime) -> tuple[Decision, Objects, Decision]:
    source = read_application_instance(manifest)
    cluster_id, installation, policy = await _of_cluster(api, manifest)
    page = await api.list(OPERATION, namespace=source.metadata.namespace)
    mine = operations_on(ref_of(manifest, APPLICATION_INSTANCE), page.items, cluster_id)
    override, withdrawn = release_request(source, mine)
    observed = attrs.evolve(await observe_live(api, source, override), withdrawn=withdrawn)
    context = Context(Settings(cluster_id=cluster_id, installation=installation, policy=policy), now)
    decision = reconcile(source, observed, context)
    return decision, observed.objects, Decision(deletes=deletes_afterwards(source, observed, context, decision))


async def _of_operation(api: KubeApi, manifest: Manifest, now: datetime) -> tuple[Decision, Objects, Decision]:
    """Return the Operation's decision with the creates of the next pass, the objects that it read, and an empty
    decision.

    The operator creates engine objects in the pass after the one that records the intent (OPS-1).
    """
    cluster_id, installation, _ = await _of_cluster(api, manifest)
    settings = OperationSettings(cluster_id, installation=installation)
    # A user who compares need not read the secret that checks claims: it counts as not configured.
    context = OperationContext(settings, now, Claims(None, cluster_id), parse_yaml=parse_yaml)
    source = read_operation(manifest)
    observed = await observe_operation_live(api, source, context)
    decision = reconcile_operation(source, observed, context)
    if decision.status is None or decision.creates or not get_path(decision.status, "status", "engineRef"):
        return decision, observed.objects, Decision()
    started = read_operation({**manifest, "status": decision.status["status"]})
    again = reconcile_operation(started, observed, context)
    return attrs.evolve(decision, creates=again.creates), observed.objects, Decision()


async def _of_cluster(api: KubeApi, manifest: Manifest) -> tuple[str, Installation, Policy]:
    """Return the cluster's id, how the operator was installed, and the policy of all Cluster objects with this id, as
    far as a user can read them.

    The first two are of the Cluster object to which the operator writes. If it is not known, the id is that of the
    label of `manifest`.
    """
    try:
        clusters = (await api.list(CLUSTER)).items
    except (Forbidden, NotFound):
        clusters = ()
    cluster = present_cluster(clusters)
    if cluster is None:
        cluster_id, installation = get_path(manifest, "metadata", "labels", labels.CLUSTER_ID), PRINTED
    else:
        cluster_id = get_path(cluster, "spec", "clusterId")
        installation = Installation(agent=runs_an_agent(None, cluster, is_alive=True))
    cluster_id = str(cluster_id or "")
    return cluster_id, installation, strictest_policy(Policy(), map(canonical_json, clusters), cluster_id)
