"""The laws (required properties) of the operator's writes, and of the state at the end of a run (SIM-4).

At the end, the state is compared with that of a new simulated cluster. The laws of instances, jobs and Operations are
in modules of their own.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from kubelab.model.records import Record
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.errors import Stale
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.resources import EVENT, HELM_RELEASE, LEASE, NAMESPACE, OCI_REPOSITORY
from purekube.controller.shard import shard_of
from purekube.ports import KubeRequest, KubeVerb
from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.laws import Unsettled, condition_text, place_of
from vworkspace_app.simulation.checks import OperatorChecks, leaks
from vworkspace_app.simulation.cluster_laws import ClusterLaws
from vworkspace_app.simulation.instance_laws import BY_US, InstanceLaws, JobLaws
from vworkspace_app.simulation.operation_laws import OperationLaws
from vworkspace_app.simulation.operator_world import OWN_NAMESPACE, SimulatedWorld
from vworkspace_app.simulation.outcome_laws import OutcomeLaws
from vworkspace_app.simulation.override_laws import OverrideLaws
from vworkspace_app.simulation.release_laws import ReleaseLaws
from vworkspace_app.simulation.report_laws import ReportLaws
from vworkspace_app.simulation.run_laws import RunLaws
from vworkspace_app.simulation.settled_laws import SETTLED, differences, is_abandoned, is_ready, is_wanted, unsettled
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.credentials.secret import secret_ref

_OURS: Final = (APPLICATION_INSTANCE, OPERATION)
_CREDENTIALS: Final = secret_ref(OWN_NAMESPACE)


class WriteLaws:
    """The checks of the laws (required properties) of the operator's writes in a simulated run.

    An example is that no object is deleted while an instance uses it.
    """

    def __init__(self, laws: OperatorChecks, instances: InstanceLaws) -> None:
        self._laws = laws
        self._instances = instances
        self._world = laws.operator_world
        self._world.on_write.append(self._wrote)

    def _wrote(self, write: ObservedWrite) -> None:
        request = write.request
        shard = self._laws.shards[write.replica]
        if write.error is None and shard.count > 1 and request.kind in _OURS and request.subresource == "status":
            owns = shard_of(request.namespace or "", shard.count) == shard.index
            self._laws.check("RUN-13", "one shard acts on an object", request.ref, owns, f"shard {shard} wrote it")
        if request.verb is KubeVerb.DELETE:
            self._check_delete(write)
        elif request.kind in _OURS and (request.subresource == "status" or request.verb is KubeVerb.PATCH):
            version = get_path(request.body, "metadata", "resourceVersion")
            told = "the request has no resourceVersion"
            self._laws.check("REC-6", "a write names its version", request.ref, bool(version), told)

    def _check_delete(self, write: ObservedWrite) -> None:
        """Check that no object is deleted while an existing instance uses it."""
        request = write.request
        owner = self._instances.owner_of(str(get_path(request.body, "preconditions", "uid") or ""))
        if write.error is None and owner:
            self._laws.check(
                "REC-10", "what is abandoned stays", request.ref, not self._is_abandoned(request, owner), ""
            )
            used = self._is_used(request, owner)
            told = f"the instance {owner} lives and uses it"
            self._laws.check("REC-10", "nothing in use is deleted", request.ref, not used, told)
            held = [live for live in self._left(HELM_RELEASE, owner, request) if get_path(live, "spec", "suspend")]
            resumed = request.kind != HELM_RELEASE or not held
            told = "Flux does not uninstall what is suspended"
            self._laws.check("REC-10", "a release is resumed before it goes", request.ref, resumed, told)

    def _is_abandoned(self, request: KubeRequest, owner: str) -> bool:
        instances = self._world.server.store.scan(place_of(APPLICATION_INSTANCE), request.namespace)
        return any(each.uid == owner and is_abandoned(each.shared()) for each in instances)

    def _is_used(self, request: KubeRequest, owner: str) -> bool:
        """Report whether the instance with the uid `owner` still uses the object that a request deletes.

        An instance that is not being deleted uses its HelmRelease, and the source that the HelmRelease names.
        """
        store = self._world.server.store
        instances = store.scan(place_of(APPLICATION_INSTANCE), request.namespace)
        if not any(each.uid == owner and not each.deleting for each in instances):
            return False
        if request.kind == HELM_RELEASE:
            return True
        own = [live for live in self._left(HELM_RELEASE, owner, request) if not metadata(live).get("deletionTimestamp")]
        path = ("chartRef",) if request.kind == OCI_REPOSITORY else ("chart", "spec", "sourceRef")
        named = {str(get_path(live, "spec", *path, "name")) for live in own}
        former = {str(metadata(live)["name"]) for live in self._left(request.kind, owner, request)} - named
        kept = not own or named & self._instances.used[owner] or former - {request.name}
        told = f"Flux has not confirmed {', '.join(named)}, and no other source is left to return to"
        self._laws.check("REC-14", "an older source waits for the new one", request.ref, bool(kept), told)
        return request.name in named

    def _left(self, kind: Kind, owner: str, request: KubeRequest) -> list[Manifest]:
        """Return the objects of a kind that the instance with the uid `owner` has in the namespace of a request."""
        found = self._world.server.store.scan(place_of(kind), request.namespace)
        return [each.shared() for each in found if each.labels.get(labels.INSTANCE_UID) == owner]


_PROMPT: Final = 120.0
"""The seconds within which a change must have had its effect if nothing else happens.

This is far less than the interval of resyncs.
"""
_UNSEEN: Final = 20.0
"""The seconds for which watches are cut off while a HelmRelease is deleted; a leader keeps its Lease for that long."""
_CLOSES: Final = 2
"""The remainder, after division by three, of the seeds in whose runs a namespace is closed at rest."""
_COMPARED: Final = 10
"""One in ten seeds is compared with a new simulated cluster, since each comparison costs another run."""


class OperatorLaws(OperatorChecks):
    """The checks of all laws (required properties) in a simulated run of the operator.

    These are the common laws, and the laws of instances, jobs, Operations, writes and secrets.
    """

    own = (LEASE, CLUSTER)
    settles = SETTLED

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        jobs = JobLaws(self)
        instances = InstanceLaws(self, jobs)
        OperationLaws(self, jobs)
        RunLaws(self)
        ReleaseLaws(self)
        self._overrides = OverrideLaws(self)
        OutcomeLaws(self)
        WriteLaws(self, instances)
        ClusterLaws(self)
        self._reports = ReportLaws(self)
        self.observe(EVENT, self._event)
        for kind in _OURS:
            self.observe(kind, self._unmanaged)
        world.on_decision.append(self._logged)

    def _event(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is not None:
            self.check("RES-7", "no secret in an Event", ref, not leaks(after.raw), "a secret")

    def _unmanaged(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is not None and labels.MANAGED_BY not in after.labels:
            is_left = BY_US not in after.raw
            self.check("RES-5", "what is not managed is left alone", ref, is_left, "the operator has written it")

    def _logged(self, ref: str, line: str) -> None:
        self.check("RES-7", "no secret in a log", ref, not leaks(line.encode()), "a secret")

    def breaks_silence(self, write: ObservedWrite) -> bool:
        """Report whether a write breaks the law (required property) that nothing is written at rest.

        After a restore of etcd, a write that is refused as stale does not: until then, a cache may have shown a later
        version of the object than there is now. Nor does the renewal of a token that ends.
        """
        is_behind = isinstance(write.error, Stale) and self.world.was_restored
        is_renewal = write.request.ref == _CREDENTIALS and self.operator_world.control.token_lifetime is not None
        return not (is_behind or is_renewal) and super().breaks_silence(write)

    def unsettled(self) -> Iterator[Unsettled]:
        """Yield each object for which a law (required property) that needs some time does not hold yet."""
        yield from unsettled(self.operator_world)
        yield from self._overrides.unsettled()

    def compare(self) -> None:
        """Check that edits and deletions at rest are acted on at once, and that the state at the end depends on the
        last intents alone.
        """
        self._check_promptness()
        if not self.broken:
            self._compare()

    def _check_promptness(self) -> None:
        """Edit each Ready instance, and delete the HelmReleases of some while no watch shows it. Two minutes later, all
        must be Ready again; otherwise an event was lost, for which only the next resync would make up.

        In a third of the runs, one namespace is closed first, and opened later. Its instances are not edited.
        """
        world = self.operator_world
        wanted = [ref_of(live, APPLICATION_INSTANCE) for live in world.objects(APPLICATION_INSTANCE) if is_wanted(live)]
        spaces = sorted({str(ref.namespace) for ref in wanted}) if world.seed % 3 == _CLOSES else []
        closed = spaces[world.seed % len(spaces)] if spaces else ""
        edited = [ref for ref in wanted if ref.namespace != closed]
        began = world.loop.now()
        for ref in edited:
            world.change(ref, {"spec": {"values": {"inline": {"number": 1_000_000}}}})
        self._gate(closed, None)
        world.run(_PROMPT)
        self._check_ready("REC-1", "an edit at rest is acted on at once", edited)
        shut = [ref for ref in wanted if ref.namespace == closed]
        self._check_gate("REC-1", "a closed namespace is noticed at once", shut, is_open=False)
        if not self.broken:
            self._reports.check(edited, began)
        if not self.broken:
            for replica in world.replicas:
                replica.link.partition(_UNSEEN)
            for ref in edited[::2]:
                world.delete(ObjectRef(HELM_RELEASE, ref.namespace, ref.name))
            self._gate(closed, labels.NAMESPACE_GATE_VALUE)
            world.run(_UNSEEN)
            world.server.streams.end()
            world.server.store.compact()
            world.run(_PROMPT)
            self._check_ready("REC-1", "a deletion that no watch shows is acted on at once", edited)
            self._check_gate("REC-1", "a namespace that becomes managed is noticed at once", shut, is_open=True)

    def _gate(self, namespace: str, value: str | None) -> None:
        if namespace:
            ref = ObjectRef(NAMESPACE, None, namespace)
            self.operator_world.change(ref, {"metadata": {"labels": {labels.NAMESPACE_GATE: value}}}, "admin")

    def _check_gate(self, clause: str, law: str, refs: list[ObjectRef], *, is_open: bool) -> None:
        for ref in refs:
            live = self.world.get(ref) or {}
            blocked = condition_of(live, "Blocked")
            holds = blocked.get("status") != "True" if is_open else blocked.get("reason") == "NamespaceNotGated"
            self.check(clause, law, ref, holds, condition_text(live))

    def _check_ready(self, clause: str, law: str, refs: list[ObjectRef]) -> None:
        for ref in refs:
            live = self.world.get(ref)
            release = self.world.get(ObjectRef(HELM_RELEASE, ref.namespace, ref.name))
            holds = live is not None and is_ready(live) and release is not None
            self.check(clause, law, ref, holds, condition_text(live or {}))

    def _compare(self) -> None:
        """Check that the state is that of a new simulated cluster to which users applied only their final wishes.

        Only runs whose seed is a multiple of ten are checked.
        """
        if self.world.seed % _COMPARED:
            return
        first = next(differences(self.operator_world), None)
        ref, told = (first.object, first.told) if first else ("", "")
        self.check("SIM-4", "state of history is state of intents", ref, first is None, told)

    def finish(self) -> None:
        """Check that no report to the control plane contains a secret."""
        for job in self.operator_world.control.jobs:
            sent = msgspec.json.encode([job.statuses, job.result])
            self.check("RES-7", "no secret in a report", job.id, not leaks(sent), "a secret")
