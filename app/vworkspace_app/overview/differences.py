"""The changes that applying a manifest would cause in a cluster (SEE-2).

They affect that object and the objects that the operator creates, changes or deletes because of it.

The operator's own code decides, on objects read live. Its applies are sent as dry runs if the user's rights allow, so
that defaults, refusals and conflicts with other field managers are the API server's. Nothing is written.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias

import attrs

from purekube.apimachinery.errors import Conflict, Forbidden, Invalid, NotFound, Permanent
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import composite_of
from purekube.composites.observe import observe_live as observe_children
from purekube.controller.decision import Apply, Decision
from purekube.controller.managed_fields import other_holders
from purekube.ports import KubeApi
from purekube_run.controller.lookups import find
from purekube_run.process.yaml_documents import parse_yaml
from vworkspace_core.api.codec import read_application_instance, read_operation
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.labels import CLI_MANAGER, CLUSTER_ID, FIELD_MANAGER
from vworkspace_core.instances.context import Context, Settings
from vworkspace_core.instances.observe import observe_live
from vworkspace_core.instances.reconcile import deletes_afterwards, reconcile
from vworkspace_core.operations.approvals.claims import Claims
from vworkspace_core.operations.context import OperationContext, observe_operation_live
from vworkspace_core.operations.override import release_request
from vworkspace_core.operations.reconcile import reconcile_operation
from vworkspace_core.operations.settings import OperationSettings

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

    `present` is the object as it would be after the apply. `is_held` is True if the control plane wrote the object, and
    the change affects fields of the control plane.
    """

    changes: tuple[ObjectChange, ...]
    decision: Decision
    present: Manifest
    is_held: bool = False
    afterwards: Decision = attrs.field(factory=Decision)
    """The operator's decision after the change has taken effect: deletes of objects that were replaced."""


@attrs.frozen
class DryRun:
    """A client that sends applies to the API server as dry runs, which change nothing."""

    api: KubeApi

    async def change(self, apply: Apply, live: Manifest | None, manager: str) -> ObjectChange:
        """Return the change that the server-side apply `apply` would cause.

        If the user may not apply, the change is estimated. `live` is the object now, `manager` the field manager.
        """
        try:
            after = await self.api.apply(
                apply.manifest, kind=apply.kind, field_manager=manager, force=apply.force, dry_run=True
            )
        # Permanent: the API server answers 500 for a field that the schema lacks (S-15).
        except (Conflict, Invalid, Permanent) as error:
            return ObjectChange(apply.ref, live, overlaid(live or {}, apply.manifest), error.message)
        except (Forbidden, NotFound):  # no right, or a namespace that does not exist yet
            return ObjectChange(apply.ref, live, overlaid(live or {}, apply.manifest))
        return ObjectChange(apply.ref, live, after)


async def difference(api: KubeApi, kind: Kind, manifest: Manifest, now: datetime, box: Box | None = None) -> Difference:
    """Return the changes that applying `manifest` would cause. `now` is the time for which the operator decides.

    With a `box` (an operator that a file declares), `manifest` is an object of the box's kind. Raises the errors of
    `KubeApi.get` and `KubeApi.list`, and ValidationProblems.
    """
    dry_run, ref = DryRun(api), ref_of(manifest, kind)
    # By force, since the user means to apply it. Other holders are reported separately.
    own = await dry_run.change(Apply(kind, manifest, force=True), await find(api, ref), CLI_MANAGER)
    desired = _as_stored(own, now)
    if own.refused:
        return Difference((own,), Decision(), desired)
    decision, objects, afterwards = await _decided(api, kind, desired, now, box)
    manager = FIELD_MANAGER if box is None else box.field_manager
    downstream = [await dry_run.change(apply, objects.get(apply.ref), manager) for apply in decision.applies]
    created = [ObjectChange(create.ref, None, create.manifest) for create in decision.creates]
    patched = [
        ObjectChange(patch.ref, live := objects.get(patch.ref), overlaid(live or {}, patch.patch))
        for patch in decision.patches
    ]
    deleted = [
        ObjectChange(delete.ref, objects.get(delete.ref), None) for delete in (*decision.deletes, *afterwards.deletes)
    ]
    changes = (own, *patched, *downstream, *created, *deleted)
    return Difference(changes, decision, desired, _takes_from_control_plane(own), afterwards)


def _takes_from_control_plane(own: ObjectChange) -> bool:
    if own.before is None or get_path(own.before, "spec") == get_path(own.after, "spec"):
        return False
    return FIELD_MANAGER in other_holders(own.before, CLI_MANAGER, "spec")


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
    page = await api.list(OPERATION, namespace=source.metadata.namespace)
    mine = [
        read_operation(each)
        for each in page.items
        if get_path(each, "spec", "targetRef", "name") == source.metadata.name
    ]
    override, withdrawn = release_request(source, mine)
    observed = attrs.evolve(await observe_live(api, source, override), withdrawn=withdrawn)
    context = Context(Settings(cluster_id=await _cluster_id(api, manifest)), now)
    decision = reconcile(source, observed, context)
    return decision, observed.objects, Decision(deletes=deletes_afterwards(source, observed, context, decision))


async def _of_operation(api: KubeApi, manifest: Manifest, now: datetime) -> tuple[Decision, Objects, Decision]:
    """Return the Operation's decision with the creates of the next pass, the objects that it read, and an empty
    decision.

    The operator creates engine objects in the pass after the one that records the intent (OPS-1).
    """
    cluster_id = await _cluster_id(api, manifest)
    # A user who compares need not read the secret that checks claims: it counts as not configured.
    context = OperationContext(OperationSettings(cluster_id), now, Claims(None, cluster_id), parse_yaml=parse_yaml)
    source = read_operation(manifest)
    observed = await observe_operation_live(api, source, context)
    decision = reconcile_operation(source, observed, context)
    if decision.status is None or decision.creates or not get_path(decision.status, "status", "engineRef"):
        return decision, observed.objects, Decision()
    started = read_operation({**manifest, "status": decision.status["status"]})
    again = reconcile_operation(started, observed, context)
    return attrs.evolve(decision, creates=again.creates), observed.objects, Decision()


async def _cluster_id(api: KubeApi, manifest: Manifest) -> str:
    """Return the cluster's id: from the only Cluster object, or if there is not exactly one, from the label of
    `manifest`.
    """
    try:
        clusters = (await api.list(CLUSTER)).items
    except (Forbidden, NotFound):
        clusters = ()
    place = (clusters[0], "spec", "clusterId") if len(clusters) == 1 else (manifest, "metadata", "labels", CLUSTER_ID)
    return str(get_path(*place) or "")


def overlaid(live: Any, desired: Any) -> Any:
    """Return an estimate of the result of a server-side apply of `desired` on `live`: maps merged, lists replaced."""
    if not isinstance(live, Mapping) or not isinstance(desired, Mapping):
        return desired
    merged = {key: overlaid(live[key], desired[key]) if key in desired else live[key] for key in live}
    return {**merged, **{key: value for key, value in desired.items() if key not in live}}
