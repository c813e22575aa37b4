"""The controllers that users add: boxes, pure reconcilers, controllers in Python; alone in a process or with others.

A box is an operator that is defined in YAML; a pure reconciler computes the children of an object by a pure function.
The code that runs them is imported only by a process that has some: without it a process needs 7 MB less.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING

import attrs

from purekube.ports import Clock, EventSink, KubeApi
from purekube_run.controller.controller import ControllerDefinition
from purekube_run.controller.informers import Informers
from purekube_run.controller.manager import ControllerManager, elected_at_once
from purekube_run.controller.runner import ManagerOptions

if TYPE_CHECKING:
    from purekube.composites.composite import Composite
    from purekube_run.composites.controller import CompositeReconciler
    from purekube_run.reconcilers.controllers import GivenController
    from purekube_run.reconcilers.passes import ControllerPasses


@attrs.frozen
class Extensions:
    """The reconcilers of everything that users add to an operator: composites, and controllers in Python.

    Composites are kinds whose objects have children: boxes (operators defined in YAML), and pure reconcilers.
    """

    composites: "tuple[CompositeReconciler, ...]" = ()
    python: "tuple[ControllerPasses, ...]" = ()

    @classmethod
    def of(
        cls,
        api: KubeApi,
        clock: Clock,
        events: EventSink,
        options: ManagerOptions,
        shared: Informers,
        composites: "Sequence[Composite]",
        controllers: "Sequence[GivenController]",
    ) -> "Extensions":
        """Construct the reconcilers and caches of `composites` and `controllers`, which all use the client `api`.

        Composites are kinds whose objects have children. `events` receives the Events of controllers in Python.
        `options` has, for example, the namespaces in which composites act. `shared` are informers of CRDs, and of
        Namespaces if composites read Namespaces. Raises CommandError for controllers that cannot run together.
        """
        if not composites and not controllers:
            return cls()
        from purekube_run.composites.controller import composite_reconcilers
        from purekube_run.reconcilers.controllers import python_reconcilers

        return cls(
            tuple(composite_reconcilers(api, clock, composites, options, shared)),
            python_reconcilers(api, clock, controllers, events, options.random, options.shard),
        )

    def controllers(self, events: EventSink, options: ManagerOptions) -> Iterator[ControllerDefinition]:
        """Yield the definition of each controller, from which a manager runs it.

        `events` receives the Events of composites, which are kinds whose objects have children. `options` has the
        number of workers, and the source of random strings for the Secrets that composites create.
        """
        for reconciler in self.composites:
            yield reconciler.controller(events, workers=options.workers, entropy=options.entropy)
        if self.python:
            from purekube_run.reconcilers.controllers import controller_of

            yield from map(controller_of, self.python)

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Return the context that opens the lifespans of controllers in Python and closes them at its end.

        A lifespan is code of a controller that runs at the start and at the end of the process. The controllers must
        run within the context.
        """
        if not self.python:
            return nullcontext()
        from purekube_run.reconcilers.lifespans import open_lifespans

        return open_lifespans(passes.controller for passes in self.python)


class ExtensionManager(ControllerManager):
    """A manager of a process that runs only extensions, without the operator's own controllers.

    Extensions are controllers that users add. Construct it in the event loop that runs it. If `namespaces` is True,
    Namespaces are watched from the start: then composites (kinds whose objects have children) that read Namespaces can
    be loaded later. Raises CommandError for controllers that cannot run together.
    """

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        events: EventSink,
        options: ManagerOptions,
        *,
        composites: "Sequence[Composite]" = (),
        controllers: "Sequence[GivenController]" = (),
        namespaces: bool = False,
    ) -> None:
        from purekube_run.composites.caches import shared_informers

        namespaces = namespaces or any(composite.namespaces or composite.asks_namespaces for composite in composites)
        shared = Informers(shared_informers(api, clock, options.random, namespaces=namespaces))
        self.extensions = Extensions.of(api, clock, events, options, shared, composites, controllers)
        super().__init__(api, clock, self.extensions.controllers(events, options), events, shared, options)

    async def run(self, elected: Callable[[], Awaitable[None]] = elected_at_once) -> None:
        """Run the controllers until cancelled, within the lifespans of controllers in Python.

        A lifespan is code of a controller that runs at the start and at the end of the process. With leader election,
        `elected` returns once this process may write. Raises CommandError if a lifespan cannot start.
        """
        async with self.extensions.lifespan():
            await super().run(elected)
