"""What people write: a `Reconciler` or a `Watcher` of one kind, and what is promised to it (PH-7).

Both are plain classes with a few class attributes. They are given objects, never an API: whoever needs one asks for it
by a field `api: KubeApi`, and may then do what `owns` and `reads` say.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Final, Generic

from vworkspace_core.apimachinery.manifest import Kind, ObjectRef
from vworkspace_core.composites.status_writers import StatusWriter, shared_statuses
from vworkspace_core.reconcilers.request import O, Request, Result, S
from vworkspace_core.reconcilers.resource import Resource
from vworkspace_core.reconcilers.retries import EXPONENTIAL, RetryPolicy
from vworkspace_core.reconcilers.watching import Filters, Watch, Watched

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CONDITION: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
STANDARD: Final = ("Ready", "Reconciling", "Stalled")
"""Types of the conditions that are written for a reconciler."""


class Promise(StrEnum):
    """What a controller gets without asking. `plain` switches each off, or all of them."""

    FINALIZER = "finalizer"
    """A finalizer stands on an object before the first call, and goes after a call for the deletion that raised
    nothing. Without it a deletion is told as long as this process sees it, and missed while none runs."""
    SYNC = "sync"
    """An object that was there before this process is told as synced, not as created."""
    FILTER = "filter"
    """Updates that change nothing of what the filters ask for are dropped; a deletion never is."""
    RETRY = "retry"
    """A call that raised is made again, by the retry policy."""
    STATE = "state"
    """The state that a call returned is handed to the next one."""
    ECHO = "echo"
    """The writes of a pass do not wake the object again."""
    CONDITIONS = "conditions"
    """Ready, Reconciling, Stalled and the observed generation are written from the outcome."""
    STATUS = "status"
    """The status that a call returns is written; without it a call that returns one has failed."""
    LIMIT = "limit"
    """A call that takes longer than the time limit is cancelled."""


ALL: Final = frozenset(Promise)


class Controller(ABC, Generic[O]):
    """What reconcilers and watchers have in common.

    `kind` is a `Resource`, or the `Kind` of somebody else's objects, which come as manifests: they get no finalizer and
    no conditions from us. `plain` names the promises that are switched off; True for all, and a kind of somebody
    else's has none to switch on but by `plain = ()`.
    """

    kind: ClassVar[Resource[Any, Any] | Kind]
    name: ClassVar[str] = ""
    """As finalizers, field managers, metrics and logs have it; made of the name of the class where it is empty."""
    plain: ClassVar[bool | Collection[Promise] | None] = None
    retry: ClassVar[RetryPolicy] = EXPONENTIAL
    timeout: ClassVar[float] = 60.0
    """Seconds for one call."""
    watch: ClassVar[Watch] = Watch()
    filters: ClassVar[Filters] = Filters()
    resync: ClassVar[float | None] = None
    """Seconds after which every object is looked at again, spread over a tenth of them; None for never."""
    workers: ClassVar[int] = 8
    """Objects that are worked on at the same time."""
    owns: ClassVar[Sequence[Kind | Watched]] = ()
    """Kinds of which it makes objects, with owner references. A change of one wakes its owner."""
    reads: ClassVar[Sequence[Kind | Watched]] = ()
    """Kinds that it looks at. A change of one wakes the objects that `refers_to` it."""

    def refers_to(self, object: O) -> Iterable[ObjectRef]:
        """Which objects of the kinds in `reads` an object depends on: of its spec, not of other objects."""
        return ()


class Reconciler(Controller[O], Generic[O, S]):
    """Brings what an object asks for about, again and again: `reconcile` is called until it returns."""

    conditions: ClassVar[Sequence[str]] = ()
    """Types of the conditions that it writes itself, by `Result.conditions`."""

    @abstractmethod
    async def reconcile(self, request: Request[O, S]) -> Result[S]:
        """Make the world as the object says; may be called at any time, and must bear being called twice."""


class Watcher(Controller[O]):
    """Is told what happens to objects. It writes no status: what fails is told by Events, logs and metrics.

    Each telling is at least once, in the order in which it happened to the object; changes that come while one is being
    told are told as one.
    """

    async def on_add(self, new: O) -> None:
        """An object is new: none of these calls came to an end for it before."""

    async def on_sync(self, now: O) -> None:
        """An object was there before this process began, or the interval of `resync` is over. It may have changed."""

    async def on_update(self, old: O, new: O) -> None:
        """An object changed; `old` is what was told last, as far as the filters let it through."""

    async def on_delete(self, last: O) -> None:
        """An object is to go, or has gone. The finalizer goes when this returns."""


AnyController = Controller[Any]


# --- what a class says, with its defaults ----------------------------------------------------------------------------


def kind_of(controller: AnyController) -> Kind:
    """The kind that it is for."""
    return controller.kind.kind if isinstance(controller.kind, Resource) else controller.kind


def resource_of(controller: AnyController) -> Resource[Any, Any] | None:
    """The kind with its classes; None for somebody else's."""
    return controller.kind if isinstance(controller.kind, Resource) else None


def name_of(controller: AnyController) -> str:
    """`Shops` is shops, `ShopAudit` shop-audit."""
    return controller.name or _HUMP.sub("-", type(controller).__name__).lower()


def promises_of(controller: AnyController) -> frozenset[Promise]:
    """What is kept for it. Nothing is told as synced where no finalizer can tell it."""
    plain = controller.plain
    if plain is None:
        foreign = {Promise.FINALIZER, Promise.SYNC, Promise.CONDITIONS, Promise.STATUS}
        kept = ALL if resource_of(controller) is not None else ALL - foreign
    elif isinstance(plain, bool):
        kept = frozenset() if plain else ALL
    else:
        kept = ALL - frozenset(plain)
    if isinstance(controller, Watcher):
        kept -= {Promise.CONDITIONS, Promise.STATUS, Promise.STATE}
    if resource_of(controller) is None:
        kept -= {Promise.CONDITIONS, Promise.STATUS}  # what somebody else's status looks like is not ours to say
    return kept if Promise.FINALIZER in kept else kept - {Promise.SYNC}


def status_writer_of(controller: AnyController) -> StatusWriter | None:
    """Return what writes statuses of the kind; None for a controller that writes neither conditions nor fields."""
    resource, promises = resource_of(controller), promises_of(controller)
    fields = resource.status_fields if resource is not None and Promise.STATUS in promises else ()
    writes = Promise.CONDITIONS in promises or bool(fields)
    return StatusWriter(kind_of(controller), f"controller {name_of(controller)}") if writes else None


def manager_of(controller: AnyController) -> str:
    """The field manager of its writes: one for each controller (D8)."""
    return f"vworkspace-controller.{name_of(controller)}"


def finalizer_of(controller: AnyController) -> str:
    """Keeps an object until the controller has cleaned up: in the group of its kind, where that is ours to use."""
    group = kind_of(controller).group if resource_of(controller) is not None else "controller.vworkspace.io"
    return f"{group}/{name_of(controller)}"


def watched_of(given: Iterable[Kind | Watched]) -> tuple[Watched, ...]:
    """Other kinds, each with a choice of its objects."""
    return tuple(one if isinstance(one, Watched) else Watched(one) for one in given)


# --- what is wrong with some -----------------------------------------------------------------------------------------


def controller_problems(controllers: Iterable[AnyController]) -> tuple[str, ...]:
    """Why these cannot run together; each says what to do. Empty where they can."""
    controllers = tuple(controllers)
    return (*(said for one in controllers for said in _problems(one)), *_clashes(controllers))


def _problems(controller: AnyController) -> Iterator[str]:
    where = type(controller).__name__
    if not isinstance(getattr(controller, "kind", None), Resource | Kind):
        yield f"{where}: says no kind: write `kind = …`, with what `resource(…)` made, or a Kind"
        return
    if _NAME.fullmatch(name_of(controller)) is None:
        yield f"{where}: the name {name_of(controller)!r} must be such as shop-audit, 40 letters at most"
    if not isinstance(controller.timeout, int | float) or controller.timeout <= 0:
        yield f"{where}: timeout must be seconds, more than 0, not {controller.timeout!r}"
    if controller.resync is not None and controller.resync <= 0:
        yield f"{where}: resync must be seconds, more than 0, or None, not {controller.resync!r}"
    if controller.workers < 1:
        yield f"{where}: workers must be 1 or more, not {controller.workers!r}"
    if not isinstance(controller.plain, bool | None) and not set(controller.plain) <= ALL:
        yield f"{where}: plain names {', '.join(sorted(set(controller.plain) - ALL))}: give {', '.join(sorted(ALL))}"
    if controller.reads and type(controller).refers_to is Controller.refers_to:
        yield f"{where}: reads other kinds, and nothing says which object reads which: write `refers_to(self, object)`"
    yield from _of_conditions(where, controller)


def _of_conditions(where: str, controller: AnyController) -> Iterator[str]:
    if not isinstance(controller, Reconciler):
        return
    for name in controller.conditions:
        if name in STANDARD or _CONDITION.fullmatch(name) is None:
            yield f"{where}: the condition {name!r} must be in CamelCase and none of {', '.join(STANDARD)}"


def _clashes(controllers: Sequence[AnyController]) -> Iterator[str]:
    sound = [one for one in controllers if not any(_problems(one))]
    names: dict[str, str] = {}
    for one in sound:
        where = type(one).__name__
        if (other := names.setdefault(name_of(one), where)) != where or _twice(one, sound):
            yield f"{where}: is called {name_of(one)}, as {other} is: write another `name`"
    for said in shared_statuses(writer for one in sound if (writer := status_writer_of(one)) is not None):
        yield f"{said}, or let one say `plain = {{Promise.CONDITIONS, Promise.STATUS}}` and return no status"


def _twice(controller: AnyController, among: Sequence[AnyController]) -> bool:
    """Whether another one of the same class has its name; told once."""
    alike = [one for one in among if type(one) is type(controller) and name_of(one) == name_of(controller)]
    return len(alike) > 1 and alike[0] is not controller
