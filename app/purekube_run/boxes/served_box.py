"""A box whose parents are reconciled by this process, and the caches for which it still waits (PH-10)."""

from collections.abc import Iterator

import attrs

from purekube.apimachinery.manifest import Kind
from purekube.boxes.members import ParentReadings
from purekube.boxes.revisions import Assignments
from purekube_run.boxes.trial import Judge
from purekube_run.composites.controller import CompositeReconciler
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.runner import Runner


@attrs.define(eq=False)
class ServedBox:
    """A box whose parents (the objects of its kind) this process reconciles, with the state of their controller.

    `revisions` are the names of the box's revisions that the controller runs. `assignments` determine which revision
    reconciles each parent. `judge` tries new revisions by dry runs.
    """

    revisions: tuple[str, ...]
    reconciler: CompositeReconciler
    assignments: Assignments
    judge: Judge
    since: float
    """The monotonic time at which its caches began to be filled."""
    runner: Runner | None = None
    readings: ParentReadings = attrs.field(factory=ParentReadings, repr=False)

    @property
    def kind(self) -> Kind:
        """The kind of the box's parents."""
        return self.reconciler.composite.kind

    @property
    def obstacle(self) -> str:
        """The reason why the parents are not reconciled yet, or "" once every cache of the controller has synced."""
        if any(informer.missing for informer in self.reconciler.parents):
            return f"the API server does not serve {self.kind.crd_name} yet"
        late = next(self._late, None)
        return "" if late is None else f"its caches of {late.kind.crd_name.rstrip('.')} are being filled"

    def filling(self, now: float) -> float | None:
        """Return for how many seconds the caches have been syncing, or None if all have synced.

        `now` is the present monotonic time in seconds.
        """
        return None if next(self._late, None) is None else now - self.since

    @property
    def _late(self) -> Iterator[InformerRunner]:
        caches = (self.reconciler.informers, self.reconciler.externals, self.reconciler.shared)
        return (each for informers in caches for each in informers if not each.has_synced)
