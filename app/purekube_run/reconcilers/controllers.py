"""The controllers that run reconcilers and watchers written in Python, with caches that they share (PH-7).

A watcher is a controller that is notified of changes to objects and writes no status.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from inspect import signature
from typing import Any, Final, TypeAlias, cast

import attrs
import structlog

from purekube.apimachinery.manifest import Kind
from purekube.controller.reconcile_error import standard_words
from purekube.controller.shard import Shard
from purekube.ports import Clock, EventSink, KubeApi
from purekube.reconcilers.controllers import (
    AnyController,
    Feature,
    controller_problems,
    declared_verbs,
    features_of,
    kind_of,
    name_of,
    not_permitted,
    remedy,
    requests_api,
)
from purekube.reconcilers.status import condition_types, status_owner
from purekube_run.controller.controller import ControllerDefinition, For, Queue, StatusManager, Watches
from purekube_run.process.command_line import CommandError
from purekube_run.reconcilers.declared_rights import DeclaredRights
from purekube_run.reconcilers.passes import ControllerPasses, rules_of
from purekube_run.reconcilers.pending_events import PendingEvents
from purekube_run.reconcilers.watches import watches_of

_log = structlog.get_logger("operator")

_PREFIX: Final = "controller-"
_WRITING: Final = 60.0
"""The seconds that a pass may take for its own writes, in addition to its call of the reconciler or watcher."""

ControllerFactory: TypeAlias = Callable[[KubeApi], AnyController]
"""A function that constructs a controller with the given API."""

GivenController: TypeAlias = AnyController | type[AnyController] | ControllerFactory
"""A controller, its class, or a function that returns one."""


def python_reconcilers(
    api: KubeApi,
    clock: Clock,
    controllers: Iterable[GivenController],
    events: EventSink,
    random: Callable[[], float],
    shard: Shard,
) -> tuple[ControllerPasses, ...]:
    """Return the reconcilers that run `controllers` (written in Python), with caches that the controllers share.

    `events` receives the Events of the controllers. Controllers with a field `api` get `api`, limited to the verbs that
    they declare. Only objects in namespaces of `shard` are reconciled. Raises CommandError for controllers that cannot
    run together.
    """
    bound = [bind(controller, api) for controller in controllers]
    refuse_problems(bound)
    return tuple(
        ControllerPasses(
            controller,
            api,
            watches,
            clock,
            events,
            PendingEvents(controller, rules_of(controller), watches.own.store, shard),
        )
        for controller, watches in zip(bound, watches_of(api, clock, random, bound), strict=True)
    )


def controller_of(passes: ControllerPasses) -> ControllerDefinition:
    """Return the definition by which a manager runs the controller whose reconciler is `passes`."""
    python, watches, pending_events = passes.controller, passes.watches, passes.pending_events
    name = f"{_PREFIX}{name_of(python)}"

    async def synced() -> None:
        for runner in watches:
            await runner.wait_for_sync()
        missing = [runner.kind.crd_name for runner in watches if runner.missing]
        _log.info("caches of the controller are settled", controller=name, missing=missing)

    return ControllerDefinition(
        name,
        kind_of(python),
        passes,
        watches.informers,
        For((watches.own,), pending_events.of_itself),
        _writer(python),
        watches=(
            Watches(dict.fromkeys(watches.owned), pending_events.of_owned),
            Watches(dict.fromkeys(watches.read), pending_events.of_read),
        ),
        further=tuple(watches),
        queue=Queue(python.workers, _time_limit(python)),
        resync=python.resync,
        background=(passes.daemons.run,),
        synced=synced,
        on_resync=pending_events.resync,
        on_write=lambda key, written: pending_events.wrote(key, *written),
    )


def _writer(controller: AnyController) -> StatusManager:
    has_conditions = Feature.CONDITIONS in features_of(controller)
    return StatusManager(
        status_owner(controller),
        partial(not_permitted, controller),
        partial(remedy, controller),
        standard_words(kind_of(controller), condition_types(controller)) if has_conditions else None,
        f"controller {name_of(controller)}",
        yields=has_conditions,
    )


def bind(given: GivenController, api: KubeApi) -> AnyController:
    """Return the controller, constructed if `given` is a class or a factory.

    Its `api` is limited to the verbs that it declares. These are known only after the construction, so the limit is
    filled in then. Raises CommandError if the controller cannot be constructed.
    """
    verbs: dict[Kind, frozenset[str]] = {}
    rights = DeclaredRights("a controller", verbs)
    limited = rights.around(api)
    made = _make_controller(given, limited)
    if not hasattr(made, "kind"):
        raise CommandError(f"{_name(given)} is no Reconciler or Watcher, and makes none")
    if requests_api(made):
        made = attrs.evolve(cast("Any", made), api=limited)
    if not tuple(controller_problems([made])):  # any other controller is refused before it is called
        verbs |= declared_verbs(made)
    rights.name = f"the controller {name_of(made)}"
    return made


def _make_controller(given: Any, api: KubeApi) -> AnyController:
    try:
        if isinstance(given, type):
            return cast("AnyController", given(api=api) if requests_api(given) else given())
        if hasattr(given, "kind"):
            return cast("AnyController", given)
        return cast("AnyController", given(api) if signature(given).parameters else given())
    except Exception as error:
        made_by = "; name a function that returns one with what it needs, as module:function"
        advice = made_by if isinstance(given, type) and isinstance(error, TypeError) else ""
        raise CommandError(f"{_name(given)} could not be made: {type(error).__name__}: {error}{advice}") from error


def _name(given: Any) -> str:
    return getattr(given, "__qualname__", type(given).__qualname__)


def refuse_problems(controllers: Sequence[AnyController]) -> None:
    """Raise CommandError if these controllers cannot run together, with every reason why."""
    problems = controller_problems(controllers)
    if problems:
        raise CommandError("\n".join(problems))


def _time_limit(controller: AnyController) -> float:
    """Return the time limit of a pass in seconds. It is infinite if the controller's calls have no time limit."""
    return controller.timeout + _WRITING if Feature.LIMIT in features_of(controller) else float("inf")
