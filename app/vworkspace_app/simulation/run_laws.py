"""The laws (required properties) of the start and the end of an Operation's run (OPS-1, OPS-3, OPS-5, OPS-9, OPS-11).

A run is what an engine, such as Velero, does for an Operation.
"""

from typing import Final

from kubelab.model.records import ObjectKey, Record
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.resources import NAMESPACE
from purekube.controller.ownership import UNRECORDED
from purekube_run.simulation.laws import place_of
from vworkspace_app.simulation.checks import OperatorChecks
from vworkspace_app.simulation.instance_laws import BY_US
from vworkspace_app.simulation.operation_laws import EXCLUDING, end_of
from vworkspace_app.simulation.settled_laws import TERMINAL, is_abandoned
from vworkspace_app.simulation.workload_requests import MISFIT
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.operations.engines import engine_kinds

_DECIDED: Final = 90.0
"""The most seconds between the reads on which a pass decides and its last write: a request may be answered late."""
_OF_READY_TARGETS: Final = frozenset({"Migration", "RunCommand", "Runbook"})
"""The types of Operations that start only on a target that is Ready (OPS-3)."""


class RunLaws:
    """The checks of the laws (required properties) of the start and the end of runs in a simulated run."""

    def __init__(self, laws: OperatorChecks) -> None:
        self._laws = laws
        self._check = laws.check
        self._store = laws.world.server.store
        self._lives: dict[str, Manifest] = {}
        """The Operations that exist, by uid."""
        self._objects: dict[str, Record] = {}
        """The engines' objects that exist, by uid."""
        self._was_ready: dict[ObjectKey, float] = {}
        """The time until which each instance was Ready, if it is not Ready any more."""
        self._was_active: dict[ObjectKey, float] = {}
        """The time until which each instance was not suspended."""
        self._was_open: dict[str, float] = {}
        """The time until which each namespace was managed."""
        laws.observe(OPERATION, self._operation)
        laws.observe(APPLICATION_INSTANCE, self._target)
        laws.observe(NAMESPACE, self._namespace)
        for kind in engine_kinds():
            laws.observe(kind, self._engine_object)

    @property
    def _is_restored(self) -> bool:
        return self._laws.is_just_restored(self._laws.world.seconds)

    def _is_recent(self, until: float | None) -> bool:
        """Report whether a pass that writes now may have read what was so until the time `until`; None means never."""
        return until is not None and self._laws.world.seconds - until <= _DECIDED

    # --- what a start depends on -------------------------------------------------------------------------------------

    def _target(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if before is None:
            return
        if _may_run(before.shared()):
            self._was_ready[before.key] = self._laws.world.seconds
        if get_path(before.shared(), "spec", "suspend") is not True:
            self._was_active[before.key] = self._laws.world.seconds

    def _namespace(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if before is not None and _is_gated(before):
            self._was_open[ref.name] = self._laws.world.seconds

    # --- Operations --------------------------------------------------------------------------------------------------

    def _operation(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        was_held, is_held = (each is not None and labels.FINALIZER in each.finalizers for each in (before, after))
        if before is not None and was_held and not is_held:
            self._check_end(ref, before)
        if after is None:
            self._lives.pop("" if before is None else before.uid, None)
            return
        was, live = self._lives.get(after.uid), after.shared()
        self._lives[after.uid] = live
        if _phase(live) == "Running" and _phase(was) != "Running" and not self._is_restored:
            self._check_start(ref, live)

    def _check_start(self, ref: ObjectRef, live: Manifest) -> None:
        """Check that the preconditions of an Operation that begins to run held when its pass read them."""
        fits = not ref.name.startswith(MISFIT)
        self._check("OPS-3", "what may not start stays as it is", ref, fits, "it runs")
        space = self._store.get(place_of(NAMESPACE), ("", str(ref.namespace)))
        is_open = (space is not None and _is_gated(space)) or self._is_recent(self._was_open.get(str(ref.namespace)))
        self._check("OPS-3", "a run starts in a managed namespace", ref, is_open, f"{ref.namespace} is not managed")
        key = (str(ref.namespace), str(get_path(live, "spec", "targetRef", "name")))
        target = self._store.get(place_of(APPLICATION_INSTANCE), key)
        if live["spec"]["type"] in _OF_READY_TARGETS:
            is_ready = (target is not None and _may_run(target.shared())) or self._is_recent(self._was_ready.get(key))
            self._check("OPS-3", "a run waits until its target is Ready", ref, is_ready, f"{key[1]} is not Ready")
        if live["spec"]["engine"] == "helm":
            suspended = target is not None and get_path(target.shared(), "spec", "suspend") is True
            holds = not suspended or self._is_recent(self._was_active.get(key))
            self._check("OPS-9", "nothing suspended is upgraded", ref, holds, f"{key[1]} is suspended")
        ahead = [str(ref_of(other, OPERATION)) for other in self._lives.values() if _is_ahead(other, live)]
        told = f"{', '.join(ahead)} came first"
        self._check("OPS-5", "the earliest of those that conflict runs first", ref, not ahead, told)

    def _check_end(self, ref: ObjectRef, before: Record) -> None:
        """Check that nothing runs on for an Operation which loses the operator's finalizer while it runs.

        In a namespace that is being deleted, the engine's object goes with the namespace.
        """
        live = before.shared()
        space = self._store.get(place_of(NAMESPACE), ("", str(ref.namespace)))
        is_going = space is None or space.deleting
        if _phase(live) != "Running" or is_abandoned(live) or is_going or self._is_restored:
            return
        own = (each for each in self._objects.values() if each.labels.get(labels.OPERATION_UID) == before.uid)
        left = [each.key for each in own if not each.deleting and not end_of(each.shared())]
        self._check("OPS-11", "a run ends with its Operation", ref, not left, f"{left} runs on")

    # --- engines' objects --------------------------------------------------------------------------------------------

    def _engine_object(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is None:
            self._objects.pop("" if before is None else before.uid, None)
            return
        self._objects[after.uid] = after
        live = self._lives.get(after.labels.get(labels.OPERATION_UID, ""))
        if live is None or self._is_restored:
            return
        if before is None and BY_US in after.raw:
            self._check_birth(ref, live, after)
        elif before is not None and UNRECORDED in before.finalizers and UNRECORDED not in after.finalizers:
            self._check_unlocked(ref, live, after)

    def _check_birth(self, ref: ObjectRef, live: Manifest, after: Record) -> None:
        """Check that a new engine object is the one that the status of its Operation announces.

        The Operation must have the operator's finalizer, and the object must be locked.
        """
        named = get_path(live, "status", "engineRef", "name")
        is_intended = _phase(live) == "Running" and named == ref.name
        self._check("OPS-1", "the intent precedes the engine object", ref, is_intended, f"the status names {named}")
        is_held = labels.FINALIZER in (metadata(live).get("finalizers") or ())
        self._check("RES-5", "the finalizer precedes the engine object", ref, is_held, "its Operation has none")
        is_locked = UNRECORDED in after.finalizers
        self._check("OPS-1", "an engine object is locked until it is recorded", ref, is_locked, "it is not locked")

    def _check_unlocked(self, ref: ObjectRef, live: Manifest, after: Record) -> None:
        """Check that an engine object is unlocked only when its uid is recorded, or when its Operation has ended."""
        is_over = _phase(live) in TERMINAL or bool(metadata(live).get("deletionTimestamp"))
        is_recorded = get_path(live, "status", "engineRef", "uid") == after.uid
        holds = is_over or is_recorded or self._laws.world.was_restored
        self._check("OPS-1", "an engine object is locked until it is recorded", ref, holds, "its uid is not recorded")


def _phase(live: Manifest | None) -> str:
    return str(get_path(live, "status", "phase") or "")


def _is_gated(space: Record) -> bool:
    return space.labels.get(labels.NAMESPACE_GATE) == labels.NAMESPACE_GATE_VALUE


def _may_run(live: Manifest) -> bool:
    """Report whether an Operation that needs a Ready target may start on this instance.

    A suspended instance may be Ready at an older generation.
    """
    ready, generation = condition_of(live, "Ready"), live["metadata"]["generation"]
    is_suspended = condition_of(live, "Suspended").get("status") == "True"
    is_current = ready.get("observedGeneration") == generation
    return ready.get("status") == "True" and (is_current or is_suspended)


def _is_ahead(other: Manifest, live: Manifest) -> bool:
    """Report whether `other`, an older Operation, waits only for those with which it conflicts, such as `live`."""
    meta, blocked = metadata(other), condition_of(other, "Blocked")
    if meta["namespace"] != metadata(live)["namespace"] or other["spec"]["targetRef"] != live["spec"]["targetRef"]:
        return False
    if frozenset((other["spec"]["type"], live["spec"]["type"])) not in EXCLUDING or _phase(other) != "Pending":
        return False
    if meta.get("deletionTimestamp") or labels.CANCEL in (meta.get("annotations") or {}):
        return False
    is_current = get_path(other, "status", "observedGeneration") == meta["generation"]
    waits = (blocked.get("status"), blocked.get("reason")) == ("True", "ConflictingOperation")
    return is_current and waits and _order_of(other) < _order_of(live)


def _order_of(live: Manifest) -> tuple[str, str]:
    return str(metadata(live)["creationTimestamp"]), str(metadata(live)["uid"])
