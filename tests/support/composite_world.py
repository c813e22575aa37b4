"""A composite at work without an event loop and without the app: API server, simulated workloads, a clock."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from kubelab.downstream import DownstreamSimulator
from kubelab.entropy import SeededEntropy
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.composites.composite import Composite
from purekube.composites.observe import observe_live
from purekube.controller.reconcile import ReconcileResult, run_pass
from purekube.ports import PatchType
from tests.support.simulation import START, EventLog

NS = "team"
_MOST_PASSES = 300


class CompositeWorld:
    """One composite with one object of its kind. `statuses` are those that were written, in order."""

    def __init__(
        self,
        composite: Composite,
        crd: Manifest,
        spec: Mapping[str, Any],
        wrap: Callable[[Any], Any] = lambda api: api,
    ) -> None:
        self.now = START
        self.composite = composite
        self.server = ApiServer(now=lambda: self.now, collects=True)
        self.admin = InProcessKube(self.server)
        self.api = wrap(self.admin)
        self.workloads = DownstreamSimulator(self.admin, names=("workloads", "job"))
        self.statuses: list[Manifest] = []
        self.make(crd, CUSTOM_RESOURCE_DEFINITION)
        self.make(NAMESPACE.manifest(NS), NAMESPACE)
        self.ref = ref_of(
            self.make({**composite.kind.manifest("shop", NS), "spec": spec}, composite.kind), composite.kind
        )

    def make(self, manifest: Manifest, kind: Kind) -> Manifest:
        """Somebody creates an object."""
        return run_sync(self.admin.create(manifest, kind=kind, field_manager="kubectl"))

    def edit(self, patch: Mapping[str, Any]) -> None:
        """Somebody changes the object of the composite's kind."""
        run_sync(self.admin.patch(self.ref, patch, patch_type=PatchType.MERGE, field_manager="kubectl"))

    def delete(self) -> None:
        """Somebody deletes the object of the composite's kind."""
        run_sync(self.admin.delete(self.ref))

    def get(self, ref: ObjectRef) -> Manifest | None:
        """An object; None where there is none."""
        try:
            return run_sync(self.admin.get(ref))
        except NotFound:
            return None

    def children(self) -> dict[ObjectRef, Manifest]:
        """Everything of the kinds that it makes."""
        return {
            ref_of(item, kind): item
            for kind in self.composite.child_kinds
            for item in run_sync(self.admin.list(kind, namespace=NS)).items
        }

    def reconcile(self) -> ReconcileResult | None:
        """One pass; None where the object is gone."""
        manifest = self.get(self.ref)
        if manifest is None:
            return None
        reconciler = self.composite.pass_rules(lambda: self.now, SeededEntropy(0))
        parent = self.composite.read(manifest)
        observed = run_sync(observe_live(self.api, self.composite, parent))
        result = run_sync(run_pass(reconciler, parent, observed, self.api, EventLog()))
        if result.status is not None:
            self.statuses.append(result.status)
        return result

    def settle(self) -> int:
        """Let everything go on until nothing does; how many writes it made."""
        writes = 0
        for _ in range(_MOST_PASSES):
            result = self.reconcile()
            version = self.server.store.version
            self.workloads.tick(self.now)
            made = 0 if result is None else result.writes
            writes += made
            if made or version != self.server.store.version:
                continue
            due = self.workloads.next_work()
            asked = None if result is None else result.requeue.after
            waits = [due] if due is not None else []
            waits += [self.now + timedelta(seconds=asked)] if asked is not None else []
            if not waits:
                return writes
            self.now = max(self.now, min(waits))
            self.workloads.tick(self.now)
        raise AssertionError("it does not come to rest")

    def condition(self, kind: str = "Ready") -> Mapping[str, Any]:
        """A condition of the object; empty where it has none."""
        return condition_of(self.get(self.ref), kind)


def condition_of(manifest: Manifest | None, kind: str) -> Mapping[str, Any]:
    """A condition; empty where there is none."""
    conditions = get_path(manifest, "status", "conditions") or ()
    return next((condition for condition in conditions if condition["type"] == kind), {})
