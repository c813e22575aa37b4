"""The controllers of composites: boxes, and pure reconcilers (PH-6, PH-7)."""

from collections.abc import Iterable, Iterator

from purekube.composites.composite import Composite, status_writer
from purekube.composites.status_writers import StatusWriter, shared_statuses
from purekube.ports import Clock, KubeApi
from purekube_run.composites.caches import external_informers, informers_of
from purekube_run.composites.controller import CompositeReconciler
from purekube_run.controller.informers import Informers
from purekube_run.controller.runner import ManagerOptions
from purekube_run.process.errors import CommandError


def composite_reconcilers(
    api: KubeApi, clock: Clock, composites: Iterable[Composite], options: ManagerOptions, shared: Informers
) -> Iterator[CompositeReconciler]:
    """Yield a reconciler with caches for each composite; `shared` watch definitions and namespaces.

    Raises CommandError if two would write the statuses of one kind.
    """
    composites = tuple(composites)
    refuse_shared_kinds(composites)
    for composite in composites:
        informers = Informers(informers_of(api, clock, options.random, composite, options.namespaces))
        externals = Informers(external_informers(api, clock, options.random, composite, options.namespaces))
        yield CompositeReconciler(composite, api, clock, informers, externals, shared, options.random)


def refuse_shared_kinds(composites: Iterable[Composite], others: Iterable[StatusWriter] = ()) -> None:
    """Raise CommandError if two controllers would write the statuses of one kind; `others` are further writers."""
    if refusals := list(shared_statuses((*map(status_writer, composites), *others))):
        raise CommandError("\n".join(refusals))
