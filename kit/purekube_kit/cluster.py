"""A cluster in a test: methods that act as its users, run controllers in it, and wait for results.

`FakeCluster` is a cluster in memory on virtual time, `RealCluster` any cluster that is reached over HTTP. A test that
uses only this module's methods runs unchanged on both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar, overload

import attrs

from kubelab.downstream.behaviour import DownstreamBehaviour, Ending
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, patch_between, ref_of
from purekube.apimachinery.resources import CORE_EVENT, EVENT, LEASE
from purekube.boxes.schemas import CrdVersions
from purekube.ports import KubeApi, OperatorError, PatchType
from purekube.readiness import State, readiness
from purekube.reconcilers import Object, Resource
from purekube_kit.faults import VERBS, ActiveFault, FaultBoard, FaultScope, Moment, crash, no_answer
from purekube_kit.kinds import KindNames
from purekube_kit.logs import keeping_logs
from purekube_kit.record import Diagnostics, EventSeen, Write, event_seen
from purekube_run.controller.lookups import find
from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.extensions.extension_replica import ExtensionReplica
from purekube_run.simulation.extensions.runnables import Runnable, definition_of, extending_of, resource_of
from purekube_run.simulation.replica import Surroundings

Spec = TypeVar("Spec")
Status = TypeVar("Status")
T = TypeVar("T")
Definition: TypeAlias = Resource[Any, Any] | Manifest
"""A kind to serve: a `Resource` or a CustomResourceDefinition."""
AnyKind: TypeAlias = Resource[Any, Any] | Kind | str
"""A kind of objects: a `Resource`, a `Kind`, or its name, such as `deployments`."""
AnyObject: TypeAlias = Object[Any, Any] | Manifest

SOMEBODY: Final = "kubectl"
"""The field manager of a test's own writes."""
INSTANCE: Final = "test"
"""The name of the process that runs the controllers, and the field manager of its Events."""
UNRECORDED: Final = (EVENT, CORE_EVENT, LEASE)
"""The kinds whose writes are not recorded: Events about controllers' work, and the Leases of leader election."""
_WITHIN: Final = 60.0
_ENDINGS: Final = {"never_ready": Ending.STALL, "fails": Ending.FAIL}
_STREAMS: Final[Mapping[str, Literal["stale", "lost"]]] = {"stale": "stale", "lose_events": "lost"}


class NotReached(AssertionError):
    """The failure of a wait for an expected state. Its text has the object, Events, writes and logs."""


class ClusterUnderTest(ABC):
    """A cluster as tests use it, in memory or real.

    Objects of a `Resource` are returned as `Object`s, all others as manifests. A parameter `what` is any state of the
    object, which identifies it, or its kind; with a kind, `name` and `namespace` say which object it is.
    """

    def __init__(self, namespace: str, usual: DownstreamBehaviour) -> None:
        """`usual` is the behaviour of simulated workloads without faults."""
        self.namespace = namespace
        """The namespace of objects for which no namespace is given."""
        self._names = KindNames()
        self._runnables: list[Runnable] = []
        self.writes: list[Write] = []
        """Every write of a controller that reached the API server, without Events and Leases, oldest first."""
        self.timeline: list[str] = []
        """The lines of a log of everything that happened in the cluster, with times."""
        self.log: list[str] = []
        """The log lines of controllers with the level warning or above."""
        self._logs = keeping_logs(self.log)
        self._board = FaultBoard(self._set_behaviour, usual)
        self._replica: ExtensionReplica | None = None

    # --- what every cluster does in its own way ----------------------------------------------------------------------

    @abstractmethod
    def _do(self, call: Callable[[KubeApi], Coroutine[Any, Any, T]]) -> T:
        """Run an asynchronous call on the administrator's client, and return its result."""

    @abstractmethod
    def _wait(self, holds: Callable[[], bool], within: float) -> bool:
        """Let time pass until `holds` is true, for at most `within` seconds. Return whether `holds` became true."""

    @abstractmethod
    def _start(self) -> None:
        """Start the process that runs all controllers, and let it begin its work."""

    @abstractmethod
    def _stop(self) -> None:
        """Kill the process that runs the controllers, if such a process runs."""

    @abstractmethod
    def _have_namespace(self, name: str) -> None:
        """Create a namespace if it is missing."""

    @abstractmethod
    def _set_behaviour(self, behaviour: DownstreamBehaviour) -> None:
        """Change the behaviour of simulated workloads."""

    @property
    @abstractmethod
    def seconds(self) -> float:
        """The seconds since the cluster was started, real or virtual."""

    # --- kinds and controllers ---------------------------------------------------------------------------------------

    def serve(self, *definitions: Definition) -> None:
        """Serve kinds: install their CustomResourceDefinitions if they are missing."""
        for definition in definitions:
            if isinstance(definition, Resource):
                self._names.add_resource(definition)
            self._define(definition.crd() if isinstance(definition, Resource) else definition)

    def _define(self, definition: Manifest) -> None:
        versions = CrdVersions.of(definition)
        for known in (versions.stored, *versions.kinds.values()):
            self._names.add(known.kind)
        self._install(definition)

    @abstractmethod
    def _install(self, definition: Manifest) -> None:
        """Create a CRD if it is missing, and wait until the API server serves its kind."""

    def run(self, *controllers: Runnable) -> None:
        """Run controllers in one process with the controllers of earlier calls. The process is started again for this.

        CRDs that the controllers define are installed.
        """
        for controller in controllers:
            if (resource := resource_of(controller)) is not None:
                self.serve(resource)
            elif (definition := definition_of(controller)) is not None:
                self._define(definition)
        self._stop()
        self._runnables += controllers
        self._start()

    def restart(self) -> None:
        """Kill the process that runs the controllers in the middle of its work, and start it again."""
        self._say("the process is killed, and starts again")
        self._stop()
        self._start()

    def _new_replica(self, world: Surroundings, user: str) -> ExtensionReplica:
        """Return a process with all controllers of the test, whose requests meet the injected faults."""
        replica = ExtensionReplica(world, INSTANCE, extending_of(self._runnables, INSTANCE), user=user)
        replica.schedule, replica.streams = self._board.fault_of, self._board
        return replica

    def _recorded(self, write: ObservedWrite, at: float, *, changed: bool = True) -> Write | None:
        """Add a write of the controllers to `writes`, and return it; None if such writes are not recorded."""
        if write.request.kind in UNRECORDED:
            return None
        error = "" if write.error is None else str(write.error)
        self.writes.append(Write(at, write.request.action, write.request.ref, error, changed))
        return self.writes[-1]

    # --- what people do ----------------------------------------------------------------------------------------------

    @overload
    def create(
        self,
        what: Resource[Spec, Status],
        name: str,
        /,
        *,
        namespace: str = "",
        labels: Mapping[str, str] = ...,
        annotations: Mapping[str, str] = ...,
        **spec: Any,
    ) -> Object[Spec, Status]: ...

    @overload
    def create(self, what: Object[Spec, Status], /) -> Object[Spec, Status]: ...

    @overload
    def create(self, what: Manifest, /) -> Manifest: ...

    def create(
        self,
        what: Any,
        name: str = "",
        /,
        *,
        namespace: str = "",
        labels: Mapping[str, str] = {},
        annotations: Mapping[str, str] = {},
        **spec: Any,
    ) -> Any:
        """Create an object as a user would, and return the created object.

        `what` is a manifest, an `Object`, or a `Resource`; for a Resource, `name` names the object and `spec` are the
        fields of its spec. Fields that are called `namespace`, `labels` or `annotations` need an Object, such as
        `SHOP.new("corner", ShopSpec(…))`. If the namespace does not exist, it is created first. Raises the
        OperatorErrors of `KubeApi.create`, such as Invalid with all causes.
        """
        if isinstance(what, Resource):
            self._names.add_resource(what)
            meta = {"labels": dict(labels), "annotations": dict(annotations)}
            what = what.new(name, what.spec(**spec), namespace=namespace, **meta)
        manifest = self._placed(self._manifest(what))
        kind = self._kind_of(manifest)
        if kind.namespaced:
            self._have_namespace(str(metadata(manifest)["namespace"]))
        made = self._do(lambda api: api.create(manifest, kind=kind, field_manager=SOMEBODY))
        self._created(made, kind)
        self._say(f"somebody creates {ref_of(made, kind)}")
        return self._as_given(kind, made)

    def _created(self, made: Manifest, kind: Kind) -> None:  # noqa: B027 (a cluster in memory ends with the test)
        """Record an object that the test has created. By default there is nothing to record."""

    @overload
    def change(
        self, what: Object[Spec, Status], patch: Mapping[str, Any] | None = None, /, **spec: Any
    ) -> Object[Spec, Status]: ...

    @overload
    def change(self, what: Manifest, patch: Mapping[str, Any] | None = None, /, **spec: Any) -> Manifest: ...

    def change(self, what: Any, patch: Mapping[str, Any] | None = None, /, **spec: Any) -> Any:
        """Change the live object as a user would, by a merge patch or by fields of its spec. Return the new object.

        `what` is an earlier state of the object, which identifies it.
        """
        ref = self.ref(what)
        body: dict[str, Any] = dict(patch or {})
        if spec:
            body["spec"] = {**body.get("spec", {}), **self._spec_patch(what, spec)}
        made = self._do(lambda api: api.patch(ref, body, patch_type=PatchType.MERGE, field_manager=SOMEBODY))
        self._say(f"somebody changes {ref}")
        return self._as_given(ref.kind, made)

    def _spec_patch(self, what: AnyObject, spec: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(what, Object):
            return dict(spec)
        resource, now = self._names.resource(what.kind), self.get(what)
        assert resource is not None
        return patch_between(resource.spec_json(now.spec), resource.spec_json(attrs.evolve(now.spec, **spec)))

    @overload
    def delete(self, what: AnyObject) -> None: ...

    @overload
    def delete(self, what: AnyKind, name: str, *, namespace: str = "") -> None: ...

    def delete(self, what: Any, name: str = "", *, namespace: str = "") -> None:
        """Delete an object as a user would. Raises NotFound if it does not exist."""
        ref = self.ref(what, name, namespace=namespace)
        self._do(lambda api: api.delete(ref))
        self._say(f"somebody deletes {ref}")

    @overload
    def get(self, what: Resource[Spec, Status], name: str, *, namespace: str = "") -> Object[Spec, Status]: ...

    @overload
    def get(self, what: Object[Spec, Status]) -> Object[Spec, Status]: ...

    @overload
    def get(self, what: Kind | str, name: str, *, namespace: str = "") -> Manifest: ...

    @overload
    def get(self, what: Manifest) -> Manifest: ...

    def get(self, what: Any, name: str = "", *, namespace: str = "") -> Any:
        """Return the live object. Raises NotFound if the object does not exist."""
        ref = self.ref(what, name, namespace=namespace)
        return self._as_given(ref.kind, self._do(lambda api: api.get(ref)))

    def exists(self, what: Any, name: str = "", *, namespace: str = "") -> bool:
        """Report whether an object exists in the cluster."""
        return self._live(self.ref(what, name, namespace=namespace)) is not None

    @overload
    def list(self, what: Resource[Spec, Status], *, namespace: str = "") -> Sequence[Object[Spec, Status]]: ...

    @overload
    def list(self, what: Kind | str, *, namespace: str = "") -> Sequence[Manifest]: ...

    def list(self, what: Any, *, namespace: str = "") -> Any:
        """Return every object of the kind `what`: as `Object`s for a `Resource`, else as manifests.

        If the kind is namespaced, only the objects in `namespace` are returned, by default in `self.namespace`.
        """
        kind = self.kind(what)
        where = (namespace or self.namespace) if kind.namespaced else None
        return [self._as_given(kind, item) for item in self._do(lambda api: api.list(kind, namespace=where)).items]

    # --- time --------------------------------------------------------------------------------------------------------

    def after(self, seconds: float) -> None:
        """Let `seconds` pass, in which controllers continue to work."""
        self._wait(lambda: False, seconds)

    @overload
    def until(
        self,
        what: Object[Spec, Status],
        holds: str | Callable[[Object[Spec, Status]], bool] = "Ready",
        *,
        within: float = _WITHIN,
    ) -> Object[Spec, Status]: ...

    @overload
    def until(
        self, what: Manifest, holds: str | Callable[[Manifest], bool] = "Ready", *, within: float = _WITHIN
    ) -> Manifest: ...

    def until(self, what: Any, holds: Any = "Ready", *, within: float = _WITHIN) -> Any:
        """Let time pass until `holds` is true for the object, and return the live object.

        `what` is an earlier state of the object, which identifies it. `holds` is a function or the name of a condition.
        A condition counts if it is True and was set for the current generation. For a kind without a `Ready` condition,
        `Ready` means what `kubectl rollout status` and Flux wait for. Raises NotReached after `within` seconds; its
        text shows the object, Events, writes and logs.
        """
        ref = self.ref(what)

        def is_so() -> bool:
            live = self._live(ref)
            if live is None:
                return False
            return has_condition(live, holds) if isinstance(holds, str) else holds(self._as_given(ref.kind, live))

        if not self._wait(is_so, within):
            desired = holds if isinstance(holds, str) else getattr(holds, "__name__", "as it should be")
            raise NotReached(str(self.diagnostics(ref, f"{ref} is not {desired} within {within:g} s")))
        return self.get(what)

    def until_gone(self, what: Any, name: str = "", *, namespace: str = "", within: float = _WITHIN) -> None:
        """Let time pass until an object is gone. Raises NotReached after `within` seconds."""
        ref = self.ref(what, name, namespace=namespace)
        if not self._wait(lambda: self._live(ref) is None, within):
            raise NotReached(str(self.diagnostics(ref, f"{ref} is not gone within {within:g} s")))

    # --- faults ------------------------------------------------------------------------------------------------------

    def fault(
        self,
        of: str = "",
        *,
        verb: str = "",
        never_ready: bool = False,
        fails: bool = False,
        refuse: OperatorError | None = None,
        unanswered: Moment | None = None,
        kill: Moment | None = None,
        stale: bool = False,
        lose_events: bool = False,
        times: int | None = None,
    ) -> ActiveFault:
        """Inject a fault. It ends with `heal()` of the fault or of the cluster, or when its `with` block is left.

        `of` is a kind (`deployments`) or one object (`deployments/shop`); empty means all objects. Give exactly one of
        these faults:

        * `never_ready`: the pods of a workload never become ready; `fails`: they fail;
        * `refuse`: requests of controllers fail with this error;
        * `unanswered`: requests of controllers get no response; `kill`: a request ends the controllers' process. The
          given moment says whether that is before or after the request has its effect;
        * `stale`: watches of controllers deliver events about the objects only after the fault is healed;
        * `lose_events`: events about the objects are lost until it is healed; then controllers have to list again.

        For `refuse`, `unanswered` and `kill`, `verb` selects the requests (`apply`, `apply status`, `write`), and
        `times` is how many of them are affected: by default one for `kill`, all for the others.
        """
        kinds = {
            "never_ready": never_ready,
            "fails": fails,
            "refuse": refuse is not None,
            "unanswered": unanswered is not None,
            "kill": kill is not None,
            "stale": stale,
            "lose_events": lose_events,
        }
        chosen = [name for name, kind in kinds.items() if kind]
        if len(chosen) != 1:
            raise ValueError(f"a fault is exactly one of {', '.join(kinds)}, not {' and '.join(chosen) or 'none'}")
        if verb and verb not in VERBS:
            raise ValueError(f"verb is one of {', '.join(sorted(VERBS))}, not {verb!r}")
        plural, _, name = of.partition("/")
        about = FaultScope(self.kind(plural) if plural else None, name, verb or ("write" if kill or unanswered else ""))
        often = 1 if kill and times is None else times
        fault = ActiveFault(about, f"{chosen[0]} of {of or 'everything'}", left=often, heal_by=self._heal_one)
        self._say(f"from now on: {fault.told}")
        self._put_in_force(_effect(fault, refuse, unanswered or kill, chosen[0]))
        return fault

    def heal(self) -> None:
        """End all faults that the test has injected by `fault`."""
        self._board.clear()

    def _put_in_force(self, fault: ActiveFault) -> None:
        """Let `fault` begin to have its effect."""
        self._board.add(fault)

    def _heal_one(self, fault: ActiveFault) -> None:
        """End one fault, as the fault's method `heal()` does."""
        self._board.remove(fault)

    # --- what there is to see ----------------------------------------------------------------------------------------

    @property
    def events(self) -> Sequence[EventSeen]:
        """All Events that controllers wrote in the test's namespace, oldest first."""
        where = self.namespace
        return [event_seen(item) for item in self._do(lambda api: api.list(EVENT, namespace=where)).items]

    def diagnostics(self, ref: ObjectRef, what: str) -> Diagnostics:
        """Return the information about an object that a failed test shows. `what` describes the failure."""
        try:
            events = self.events
        except OperatorError:
            events = ()
        return Diagnostics(what, self._live(ref), self._not_ready(ref), events, self.writes, self.timeline, self.log)

    def _not_ready(self, ref: ObjectRef) -> Sequence[str]:
        """Return a line for each workload in the object's namespace that is not ready, with the reason.

        Such a workload is the usual cause of a failed test.
        """
        found = []
        for name in ("deployments", "statefulsets", "daemonsets", "jobs"):
            for live in self.list(name, namespace=ref.namespace or ""):
                state = readiness(live)
                if state.state is not State.READY:
                    found.append(f"{ref_of(live, self.kind(name))}: {state.message or state.reason}")
        return found

    # --- names -------------------------------------------------------------------------------------------------------

    def kind(self, what: AnyKind) -> Kind:
        """Return the kind for a `Resource`, a `Kind` or a name. Raises ValueError for the name of an unknown kind."""
        if isinstance(what, Resource):
            self._names.add_resource(what)
            return what.kind
        return what if isinstance(what, Kind) else self._names.of(what)

    def ref(self, what: Any, name: str = "", *, namespace: str = "") -> ObjectRef:
        """Return the reference of an object, given as the object itself, or as a kind and a name.

        If a namespaced object has no namespace, `self.namespace` is used. Raises ValueError for a kind without a name.
        """
        if isinstance(what, Object):
            return ObjectRef(what.kind, what.ref.namespace or self._place(what.kind), what.metadata.name)
        if isinstance(what, Mapping):
            return ref_of(self._placed(what), self._kind_of(what))
        kind = self.kind(what)
        if not name:
            raise ValueError(f"which {kind.kind}? Give its name")
        return ObjectRef(kind, namespace or self._place(kind), name)

    def _place(self, kind: Kind) -> str | None:
        return self.namespace if kind.namespaced else None

    def _kind_of(self, manifest: Manifest) -> Kind:
        return self._names.of_manifest(str(manifest.get("apiVersion")), str(manifest.get("kind")))

    def _placed(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the namespace `self.namespace` if its kind is namespaced and it names no namespace.

        Any other manifest is returned unchanged.
        """
        meta = metadata(manifest)
        if meta.get("namespace") or not self._kind_of(manifest).namespaced:
            return manifest
        return {**manifest, "metadata": {**meta, "namespace": self.namespace}}

    def _manifest(self, what: AnyObject) -> Manifest:
        if not isinstance(what, Object):
            return what
        resource = self._names.resource(what.kind)
        if resource is None:
            raise ValueError(f"{what.kind.crd_name} is not served here: give its resource to the cluster, or run it")
        return {key: value for key, value in resource.manifest(what).items() if key != "status"}

    def _as_given(self, kind: Kind, live: Manifest) -> Any:
        resource = self._names.resource(kind)
        return live if resource is None else resource.read(live)

    def _live(self, ref: ObjectRef) -> Manifest | None:
        return self._do(lambda api: find(api, ref))

    def _say(self, what: str) -> None:
        self.timeline.append(f"{self.seconds:8.1f} s  {what}")


def has_condition(live: Manifest, name: str) -> bool:
    """Report whether an object has the condition `name` with status True for its current generation.

    For `Ready` on an object without this condition, report whether the object is ready by the rules of its kind.
    """
    condition = condition_of(live, name)
    if not condition and name == "Ready":
        return readiness(live).is_ready and not _waits_for_status(live)
    observed, generation = condition.get("observedGeneration"), get_path(live, "metadata", "generation")
    return condition.get("status") == "True" and observed in (None, generation)


def _waits_for_status(live: Manifest) -> bool:
    """Report whether an object is a custom resource without a status, which probably no controller has seen yet."""
    group = str(live.get("apiVersion", "")).rpartition("/")[0]
    return "." in group and not group.endswith(".k8s.io") and not live.get("status")


def _effect(fault: ActiveFault, refuse: OperatorError | None, moment: Moment | None, chosen: str) -> ActiveFault:
    match chosen:
        case "never_ready" | "fails":
            fault.pods = _ENDINGS[chosen]
        case "stale" | "lose_events":
            fault.stream = _STREAMS[chosen]
        case _:
            fault.error = crash if chosen == "kill" else no_answer if refuse is None else _same(refuse)
            fault.moment = moment or "before"
    return fault


def _same(error: OperatorError) -> Callable[[], BaseException]:
    return lambda: error
