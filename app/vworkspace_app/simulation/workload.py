"""The simulated users, who act with kubectl, with a GitOps tool, and by jobs of the control plane.

A script lists their actions and the faults of a run.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import ObjectRef, get_path, ref_of
from purekube.apimachinery.meta import ABANDON
from purekube.apimachinery.resources import HELM_RELEASE, NAMESPACE, SECRET
from purekube_run.simulation.laws import HOLD, NOTE
from purekube_run.simulation.script import Act
from vworkspace_app.simulation.acts import Do
from vworkspace_app.simulation.cluster_requests import ClusterActs
from vworkspace_app.simulation.operator_world import (
    BROKEN,
    CHART,
    CLUSTER_ID,
    GUESTS,
    NAMESPACES,
    PASSWORD,
    SimulatedWorld,
    furnish,
    open_namespace,
)
from vworkspace_app.simulation.workload_requests import TAKEN, JobRequests, OperationRequests, engines_of
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION

GITOPS: Final = "gitops-tool"
"""The field manager of a GitOps tool."""
_BY_HELPERS: Final = 10_000
"""The number of the first retry that users request once faults have ended: no earlier retry has such a number."""
_TAKE_OVER: Final = "kubectl label secrets "
_OF_JOBS: Final = (
    *(Do.JOB, Do.JOBS, Do.DELETE_JOB, Do.REPLAY, Do.FORGED_JOB, Do.STRAY_JOB, Do.OUTSIDE_JOB),
    Do.WITHDRAWN_JOB,
)
_OF_CLUSTER: Final = (Do.FORBID, Do.PERMIT, Do.ROTATE, Do.DELETE_CLUSTER)
_OF_OPERATIONS: Final = (
    *(Do.OPERATION_JOB, Do.BACKUP, Do.OPERATE, Do.APPROVED),
    *(Do.CONFLICT, Do.APPROVE, Do.CANCEL, Do.DELETE_OPERATION, Do.LATE_APPROVAL, Do.FAILING_UPGRADE),
    *(Do.FORGED_APPROVAL, Do.MISFIT, Do.DELETE_RUN),
)


def space_of(name: str) -> str:
    """Return the namespace of the instance `name`. The name's prefix and number determine the namespace."""
    kind, _, number = name.rpartition("-")
    return GUESTS if kind == "guest" else NAMESPACES[int(number) % len(NAMESPACES)]


def ref_of_instance(name: str) -> ObjectRef:
    """Return the reference to the instance with this name."""
    return ObjectRef(APPLICATION_INSTANCE, space_of(name), name)


def instance(name: str, version: str, number: int = 0) -> dict[str, Any]:
    """Return the manifest of an ApplicationInstance with the chart version `version`.

    `number` becomes one of its values. With an even number in its name it has an OCI chart, with an odd number a chart
    from an HTTP repository.
    """
    space = space_of(name)
    capabilities = {f"{labels.CAPABILITY_PREFIX}{key}": engine for key, engine in engines_of(name).items()}
    is_oci = int(name.rpartition("-")[2]) % 2 == 0
    source = {"sourceType": "oci", "url": "oci://r.example.test/charts"}
    chart = source if is_oci else {"sourceType": "helm", "url": "https://charts.example.test"}
    meta = {
        "labels": {labels.MANAGED_BY: labels.MANAGED_BY_VALUE, labels.CLUSTER_ID: CLUSTER_ID},
        "annotations": capabilities,
    }
    spec = {
        "appRef": {"catalogId": CHART},
        "chart": {**chart, "name": CHART, "version": version},
        "release": {"name": name, "namespace": space},
        "values": {"source": "inline", "inline": {"note": PASSWORD, "number": number}},
    }
    return APPLICATION_INSTANCE.manifest(name, space, meta, spec=spec)


@attrs.define
class SimulatedWorkload:
    """The simulated users of a simulated cluster with the operator, who carry out the actions in a run's script."""

    world: SimulatedWorld
    done: int = 0
    """The number of actions that the API server did not refuse."""
    jobs: JobRequests = attrs.field(init=False)
    operations: OperationRequests = attrs.field(init=False)
    cluster: ClusterActs = attrs.field(init=False)
    _retried: set[str] = attrs.field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        furnish(self.world)
        self.jobs = JobRequests(self.world, instance, space_of)
        self.operations = OperationRequests(self.world)
        self.cluster = ClusterActs(self.world)

    def perform(self, act: Act) -> None:
        """Carry out an action of a user. It has no effect if the API server refuses the request."""
        try:
            self._perform(act)
        except OperatorError as error:
            self.world.note("people", f"{act.do} {act.name}: {type(error).__name__}")
            return
        self.done += 1
        self.world.note("people", f"{act.do} {act.name} {act.number}")

    def help_out(self) -> None:
        """Carry out the actions that only users can take, once faults have ended.

        They retry stalled instances, cancel what would not end, remove their finalizers from deleted objects, let the
        GitOps tool give up its fields of HelmReleases, and let instances take over Helm releases. The control plane
        offers a job that has expired, and after a restore of etcd also open jobs again.
        """
        self.cluster.replace_lost_credential()
        self.jobs.offer_again()
        self.jobs.offer_expired()
        self.operations.stop_endless()
        for name, uid in self._stalled():
            if uid not in self._retried:
                self._retried.add(uid)
                self.perform(Act(self.world.seconds, Do.RETRY, name, _BY_HELPERS + len(self._retried)))
        for release in self.world.objects(HELM_RELEASE):
            if any(entry["manager"] == GITOPS for entry in release["metadata"].get("managedFields") or ()):
                self.perform(Act(self.world.seconds, Do.LET_GO, release["metadata"]["name"]))
        for kind in (APPLICATION_INSTANCE, OPERATION):
            for live in self.world.objects(kind):
                if live["metadata"].get("deletionTimestamp") and HOLD in live["metadata"]["finalizers"]:
                    self._hold(ref_of(live, kind))
        for live in self.world.objects(APPLICATION_INSTANCE):
            blocked = condition_of(live, "Blocked")
            if (blocked.get("status"), blocked.get("reason")) == ("True", "NameTaken"):
                self._take_over(live["metadata"], str(blocked.get("message")))

    def _take_over(self, meta: Mapping[str, Any], told: str) -> None:
        """Let an instance take over a Helm release that exists already, as a user does after a restore by Velero
        (REC-4).

        The condition Blocked (NameTaken) of the instance has a message, the last argument, with a command that labels
        the Secrets in which Helm keeps the release. `meta` is the metadata of the instance.
        """
        words = [word for word in told.partition(_TAKE_OVER)[2].split()[4:] if "=" in word]
        for secret in self.world.objects(SECRET) if words else ():
            found = secret["metadata"].get("labels") or {}
            is_there = secret["metadata"]["namespace"] == meta["namespace"] and found.get("name") == meta["name"]
            if is_there and found.get("owner") == "helm":
                ref = ObjectRef(SECRET, meta["namespace"], secret["metadata"]["name"])
                self.world.change(ref, {"metadata": {"labels": dict(word.split("=", 1) for word in words)}})

    def _stalled(self) -> Iterator[tuple[str, str]]:
        """Yield name and uid of each stalled instance that a retry can fix (REC-14)."""
        for live in self.world.objects(APPLICATION_INSTANCE):
            conditions = {each["type"]: each["status"] for each in get_path(live, "status", "conditions") or ()}
            if conditions.get("Stalled") == "True" and get_path(live, "spec", "chart", "version") != BROKEN:
                yield live["metadata"]["name"], live["metadata"]["uid"]

    def counts(self) -> Mapping[str, int]:
        """Return the numbers of requested jobs and Operations, under the keys `jobs` and `Operations`."""
        asked = sum(len(refs) for refs in self.operations.asked.values())
        return {"jobs": sum(1 for _ in self.world.control.jobs), "Operations": asked}

    def _perform(self, act: Act) -> None:
        do = Do(act.do)
        if do in _OF_JOBS:
            self.jobs.ask(act)
        elif do in _OF_OPERATIONS:
            self._operate(do, act)
        elif do in _OF_CLUSTER:
            self.cluster.ask(act, ref_of_instance(act.name))
        elif do in (Do.OPEN, Do.CLOSE, Do.END):
            self._change_namespace(do, ObjectRef(NAMESPACE, None, space_of(act.name)))
        elif do is Do.TAKEN:
            self._create_taken(f"{TAKEN}-{act.number}")
        elif (patch := _patch(do, act.number)) is not None:
            self.world.change(ref_of_instance(act.name), patch)
        else:
            self._handle(do, act)

    def _handle(self, do: Do, act: Act) -> None:
        """Carry out an action of a user that creates, deletes or changes an instance or its HelmRelease."""
        ref, world = ref_of_instance(act.name), self.world
        release = ObjectRef(HELM_RELEASE, space_of(act.name), act.name)
        match do:
            case Do.CREATE:
                world.create(_held(instance(act.name, "1.0.0", act.number)), APPLICATION_INSTANCE)
            case Do.HOLD:
                self._hold(ref)
            case Do.DELETE:
                world.delete(ref)
            case Do.ABANDON:
                if (live := world.get(ref)) is not None and not live["metadata"].get("deletionTimestamp"):
                    world.change(ref, {"metadata": {"annotations": {ABANDON: "true"}}})
                    world.delete(ref)
            case Do.DELETE_CHILD:
                world.delete(release)
            case Do.ANNOTATE_CHILD:
                world.change(release, {"metadata": {"annotations": {NOTE: str(act.number)}}})
            case Do.GITOPS:
                self._apply(ref, {"spec": {"values": {"inline": {"gitops": act.number}}}})
            case Do.GITOPS_CHILD:
                self._apply(release, {"spec": {"values": {"number": 1000 + act.number}}})
            case Do.LET_GO:
                if world.get(release) is not None:  # an apply would create it
                    self._apply(release, {})
            case _:
                raise AssertionError(f"nobody carries out {do}")

    def _create_taken(self, name: str) -> None:
        """Create a HelmRelease that is not the operator's, then an instance that wants a release of its name (REC-4).

        It is suspended, so that nothing but the operator could change it.
        """
        space = space_of(name)
        spec = {"interval": "1h", "suspend": True, "chartRef": {"kind": "OCIRepository", "name": "of-others"}}
        self.world.create(HELM_RELEASE.manifest(name, space, spec=spec), HELM_RELEASE)
        self.world.create(instance(name, "1.0.0"), APPLICATION_INSTANCE)

    def _operate(self, do: Do, act: Act) -> None:
        operations, space = self.operations, space_of(act.name)
        match do:
            case Do.OPERATION_JOB:
                self.jobs.ask_for(operations.manifest(act, space))
            case Do.BACKUP:
                operations.create(act, space, of=f"backup.{engines_of(act.name)['backup']}")
            case Do.APPROVED | Do.LATE_APPROVAL:
                operations.create_approved(act, space, late=do is Do.LATE_APPROVAL)
            case Do.FORGED_APPROVAL:
                operations.create_forged(act, space)
            case Do.MISFIT:
                operations.create_misfit(act, space)
            case Do.FAILING_UPGRADE:
                operations.create(act, space, of="upgrade.helm")
            case Do.CONFLICT:
                for capability in ("migration", "backup"):
                    operations.create(act, space, of=f"{capability}.{engines_of(act.name)[capability]}")
            case Do.APPROVE:
                operations.approve(act)
            case Do.CANCEL:
                operations.cancel(act)
            case Do.DELETE_OPERATION | Do.DELETE_RUN:
                operations.delete(act)
            case _:
                operations.create(act, space)

    def _change_namespace(self, do: Do, ref: ObjectRef) -> None:
        match do:
            case Do.OPEN:
                open_namespace(self.world, ref.name)
            case Do.CLOSE:
                self.world.change(ref, {"metadata": {"labels": {labels.NAMESPACE_GATE: None}}}, "admin")
            case _:
                self.world.delete(ref)

    def _hold(self, ref: ObjectRef) -> None:
        """Set a finalizer of the users' own on an object, or remove it."""
        finalizers = get_path(self.world.get(ref), "metadata", "finalizers") or []
        others, self.world.letting_go = [name for name in finalizers if name != HOLD], ref
        try:
            self.world.change(ref, {"metadata": {"finalizers": others if HOLD in finalizers else [*others, HOLD]}})
        finally:
            self.world.letting_go = None

    def _apply(self, ref: ObjectRef, fields: Mapping[str, Any]) -> None:
        """Apply fields of an object as a GitOps tool does.

        The tool forces conflicts, and so becomes the owner of the fields.
        """
        self.world.apply(ref.kind.manifest(ref.name, ref.namespace, **fields), ref.kind, GITOPS)


def _held(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of an instance. One in five gets a finalizer of its user, except guests, whose deletion must
    complete.
    """
    kind, _, number = manifest["metadata"]["name"].rpartition("-")
    held = {"finalizers": [HOLD]} if kind != "guest" and int(number) % 5 == 1 else {}
    return {**manifest, "metadata": {**manifest["metadata"], **held}}


def _patch(do: Do, number: int) -> dict[str, Any] | None:
    """Return the patch by which a user carries out an action on an instance, or None if the action needs no patch."""
    match do:
        case Do.UPGRADE:
            return {"spec": {"chart": {"version": f"1.{number}.0"}}}
        case Do.BREAK:
            return {"spec": {"chart": {"version": BROKEN}}}
        case Do.ROLL_BACK:
            return {"spec": {"chart": {"version": "1.0.0"}}}
        case Do.VALUES:
            return {"spec": {"values": {"inline": {"number": number}}}}
        case Do.SUSPEND | Do.RESUME:
            return {"spec": {"suspend": do is Do.SUSPEND}}
        case Do.RETRY:
            return {"metadata": {"annotations": {labels.RETRY: f"again-{number}"}}}
        case Do.ANNOTATE:
            return {"metadata": {"annotations": {NOTE: str(number)}}}
        case _:
            return None
