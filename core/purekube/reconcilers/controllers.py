"""The controllers that users write, a `Reconciler` or a `Watcher` of one kind, and their rights (PH-7, RUN-7)."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from enum import StrEnum
from typing import Any, ClassVar, Final, Generic

from purekube.apimachinery import resources as known
from purekube.apimachinery.conditions import READY, RECONCILING, STALLED
from purekube.apimachinery.errors import Right
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import Access
from purekube.composites.rights import role_applied
from purekube.composites.status_writers import StatusWriter, shared_statuses
from purekube.reconcilers.request import EXPONENTIAL, O, Request, Result, RetryPolicy, S, is_interval
from purekube.reconcilers.resource import Resource
from purekube.reconcilers.watching import Filters, Watch, Watched

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CONDITION: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
STANDARD: Final = (READY, RECONCILING, STALLED)
"""The types of the conditions that the framework writes for each reconciler."""


class Feature(StrEnum):
    """The features that a controller has by default, such as a finalizer, retries after errors, and conditions in the
    status.

    The controller's attribute `plain` switches some or all of them off.
    """

    FINALIZER = "finalizer"
    """A finalizer is set on an object before the first call, and removed once a call for its deletion has left
    nothing to do. Without it, a deletion is reported only if this process sees it happen.
    """
    SYNC = "sync"
    """An object that existed before this process started is reported as synced (`Cause.SYNCED`), not as created."""
    FILTER = "filter"
    """An update is dropped if it changes no part of the object that the attribute `filters` selects.

    A deletion is never dropped.
    """
    RETRY = "retry"
    """A call that raised an error is repeated after the delay that the retry policy gives."""
    STATE = "state"
    """The state that a call returned is passed to the next one."""
    ECHO = "echo"
    """The watch events of a pass's own writes do not requeue the object."""
    CONDITIONS = "conditions"
    """Ready, Reconciling, Stalled and the observed generation are written, by the outcome of a call."""
    STATUS = "status"
    """The status that a call returns is written; without this feature, a call that returns one counts as failed."""
    LIMIT = "limit"
    """A call that takes longer than the time limit is cancelled."""


ALL: Final = frozenset(Feature)


class Controller(ABC, Generic[O]):
    """The common base of reconcilers and watchers.

    `kind` is a `Resource`, or the `Kind` of objects that another project defines. Objects of such a `Kind` are passed
    as manifests. They get a finalizer only if `plain = ()` switches it on, and never conditions or a status. `plain`
    names the features to switch off; True switches off all of them.
    """

    kind: ClassVar[Resource[Any, Any] | Kind]
    name: ClassVar[str] = ""
    """The name in finalizers, field managers, metrics and logs; if empty, it is derived from the class name."""
    plain: ClassVar[bool | Collection[Feature] | None] = None
    retry: ClassVar[RetryPolicy] = EXPONENTIAL
    timeout: ClassVar[float] = 60.0
    """The time limit of one call, in seconds."""
    watch: ClassVar[Watch] = Watch()
    filters: ClassVar[Filters] = Filters()
    resync: ClassVar[float | None] = None
    """The interval in seconds at which all objects are reconciled again, spread over a tenth of it; None for never."""
    workers: ClassVar[int] = 8
    """The number of objects that are reconciled at the same time."""
    owns: ClassVar[Sequence[Kind | Watched]] = ()
    """Kinds whose objects the controller creates, with owner references.

    A change of such an object causes a reconcile of its owner.
    """
    reads: ClassVar[Sequence[Kind | Watched]] = ()
    """Kinds that the controller reads. A change of an object of such a kind causes a reconcile of two groups of
    objects: those whose `refers_to` returns it, and those that `wakes` returns for it.
    """

    def refers_to(self, object: O) -> Iterable[ObjectRef]:
        """Return the objects of the kinds in `reads` on which `object` depends: a change of one of them causes a
        reconcile of `object`. The result must follow from the object's spec alone, not from other objects.
        """
        return ()

    def wakes(self, object: Manifest) -> Iterable[ObjectRef]:
        """Return the objects of the controller's kind to reconcile when `object`, of a kind in `reads`, has changed.

        The method is called with the object before the change and again with the object after it; for a deletion, with
        its last state. `object` holds only the fields that its `Watched` keeps, by default the metadata. The result
        must follow from `object` alone. References to missing objects are ignored. If the method raises, no object is
        reconciled.
        """
        return ()

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Return a context that is open while the process runs, for example to open clients before the controller is
        first called, and to close them at the end.

        Override this method with an `asynccontextmanager` that yields once. The process ends if the part before the
        `yield` raises or takes longer than `timeout`. The part after the `yield` is cancelled after ten seconds.
        """
        return nullcontext()

    async def daemon(self, object: O) -> None:
        """Run as long as an object exists, in a task of its own, while this process leads.

        The task starts before the controller is first called (`reconcile` or a watcher's method) for the object. It is
        cancelled, and its end awaited, before the controller is called for the object's deletion, and when the object
        is no longer watched. A changed spec restarts the task. If the task raises, it is restarted as `retry` says. If
        it returns or raises `Terminal`, it is restarted only when the spec changes or another process leads.
        """


class Reconciler(Controller[O], Generic[O, S]):
    """A controller that makes the cluster match an object. `reconcile` is called again until it succeeds."""

    conditions: ClassVar[Sequence[str]] = ()
    """Types of the conditions that the reconciler sets itself, by `Result.conditions`."""

    @abstractmethod
    async def reconcile(self, request: Request[O, S]) -> Result[S]:
        """Make the cluster match the object, and return the result. This may be called at any time and repeatedly."""


class Watcher(Controller[O]):
    """A controller that is notified of changes to objects. It writes no status; its failures become Events.

    Each notification is delivered at least once, in the order of the changes to the object. Changes that arrive while
    an earlier notification is handled are combined into one.
    """

    async def on_add(self, new: O) -> None:
        """Handle a new object, about which no notification has succeeded before."""

    async def on_sync(self, now: O) -> None:
        """Handle an object that existed before this process started, whose `resync` is due, or whose state before a
        change is not in memory because the object is large. The object may have changed.
        """

    async def on_update(self, old: O, new: O) -> None:
        """Handle a changed object. `old` is the last state that was passed to this watcher."""

    async def on_delete(self, last: O) -> None:
        """Handle an object that is being deleted or is gone. The object's finalizer is removed after this method
        returns.
        """


AnyController = Controller[Any]


# --- the declarations of a class, with their defaults ---------------------------------------------------------------


def kind_of(controller: AnyController) -> Kind:
    """Return the kind of the controller's objects."""
    return controller.kind.kind if isinstance(controller.kind, Resource) else controller.kind


def resource_of(controller: AnyController) -> Resource[Any, Any] | None:
    """Return the controller's kind with its attrs classes; None for a kind that another project defines."""
    return controller.kind if isinstance(controller.kind, Resource) else None


def name_of(controller: AnyController) -> str:
    """Return the controller's name, by default from its class: `Shops` is named shops, and `ShopAudit` shop-audit."""
    return controller.name or _HUMP.sub("-", type(controller).__name__).lower()


def features_of(controller: AnyController) -> frozenset[Feature]:
    """Return the features of a controller: the default ones that its attribute `plain` does not switch off.

    Features that do not apply to the controller are left out, such as conditions for a watcher. Without FINALIZER there
    is no SYNC (the report of objects from before the process's start as synced), because only the finalizer tells
    objects that the controller already handled from new objects.
    """
    plain = controller.plain
    if plain is None:
        kept = ALL if resource_of(controller) is not None else ALL - {Feature.FINALIZER}
    elif isinstance(plain, bool):
        kept = frozenset() if plain else ALL
    else:
        kept = ALL - frozenset(plain)
    if isinstance(controller, Watcher):
        kept -= {Feature.CONDITIONS, Feature.STATUS, Feature.STATE}
    if resource_of(controller) is None:
        kept -= {Feature.CONDITIONS, Feature.STATUS}  # the form of a status that others define is not ours to know
    return kept if Feature.FINALIZER in kept else kept - {Feature.SYNC}


def status_writer_of(controller: AnyController) -> StatusWriter | None:
    """Return the kind whose statuses the controller writes, and the controller's name in messages, as a `StatusWriter`.

    Return None if the controller writes no statuses.
    """
    resource, features = resource_of(controller), features_of(controller)
    fields = resource.status_fields if resource is not None and Feature.STATUS in features else ()
    writes = Feature.CONDITIONS in features or bool(fields)
    return StatusWriter(kind_of(controller), f"controller {name_of(controller)}") if writes else None


def overrides(controller: AnyController, method: Callable[..., object]) -> bool:
    """Report whether the controller's class overrides a method of `Controller`."""
    return getattr(type(controller), method.__name__) is not method


def manager_of(controller: AnyController) -> str:
    """Return the field manager under which the controller writes; each controller has a different one."""
    return f"vworkspace-controller.{name_of(controller)}"


def finalizer_of(controller: AnyController) -> str:
    """Return the finalizer that keeps an object until the controller has cleaned up.

    The finalizer's domain is the kind's group if the kind is a `Resource` of the user.
    """
    group = kind_of(controller).group if resource_of(controller) is not None else "controller.vworkspace.io"
    return f"{group}/{name_of(controller)}"


def watched_of(given: Iterable[Kind | Watched]) -> tuple[Watched, ...]:
    """Return `given` with each plain `Kind` replaced by a `Watched` that keeps only metadata."""
    return tuple(one if isinstance(one, Watched) else Watched(one) for one in given)


def reference_problem(ref: ObjectRef, kinds: Iterable[Kind]) -> str:
    """Return why no object of `kinds` can be the one that `ref` names, as text for the author of `refers_to` or
    `wakes`; "" if one can be.
    """
    known = {kind.crd_name: kind for kind in kinds}
    said = f"it returned a {ref.kind.kind} of {ref.kind.api_version}"
    if ref.kind.crd_name not in known:
        return f"{said}, and no {' or '.join(f'{kind.kind} of {kind.api_version}' for kind in known.values())}"
    return f"{said} without a namespace" if ref.kind.namespaced and not ref.namespace else ""


# --- mistakes in declarations ----------------------------------------------------------------------------------------


def controller_problems(controllers: Iterable[AnyController]) -> tuple[str, ...]:
    """Return the reasons why these controllers cannot run together, each with its remedy; empty if they can."""
    controllers = tuple(controllers)
    return (*(problem for controller in controllers for problem in _problems(controller)), *_clashes(controllers))


def _problems(controller: AnyController) -> Iterator[str]:
    where = type(controller).__name__
    if not isinstance(getattr(controller, "kind", None), Resource | Kind):
        yield f"{where}: says no kind: write `kind = …`, with what `resource(…)` made, or a Kind"
        return
    if _NAME.fullmatch(name_of(controller)) is None:
        yield f"{where}: the name {name_of(controller)!r} must be such as shop-audit, 40 letters at most"
    if not is_interval(controller.timeout) and controller.timeout != math.inf:
        yield f"{where}: timeout must be seconds, more than 0, not {controller.timeout!r}"
    if controller.resync is not None and not is_interval(controller.resync):
        yield f"{where}: resync must be seconds, more than 0, or None, not {controller.resync!r}"
    if not isinstance(controller.workers, int) or controller.workers < 1:
        yield f"{where}: workers must be 1 or more, not {controller.workers!r}"
    if not isinstance(controller.plain, bool | None) and not set(controller.plain) <= ALL:
        yield f"{where}: plain names {', '.join(sorted(set(controller.plain) - ALL))}: give {', '.join(sorted(ALL))}"
    strange = [*_strange_kinds("owns", controller.owns), *_strange_kinds("reads", controller.reads)]
    yield from (f"{where}: {text}" for text in strange)
    if not strange:
        yield from _of_reads(where, controller)
    yield from _of_conditions(where, controller)


def _strange_kinds(name: str, given: Any) -> Iterator[str]:
    """Yield a message for each value of the attribute `name`, `owns` or `reads`, that is no kind."""
    example = 'such as Kind("apps", "v1", "Deployment", "deployments")'
    if isinstance(given, str) or not isinstance(given, Collection):
        yield f"{name} must be a list of kinds, {example}, not {given!r}"
        return
    for one in given:
        if isinstance(one, Resource):
            yield f"{name} must name kinds: give {one.kind.kind.upper()}.kind, not the Resource"
        elif not isinstance(one.kind if isinstance(one, Watched) else one, Kind):
            yield f"{name} must name kinds, {example}, not {one!r}"


def _of_reads(where: str, controller: AnyController) -> Iterator[str]:
    refers, woken = overrides(controller, Controller.refers_to), overrides(controller, Controller.wakes)
    if controller.reads and not (refers or woken):
        yield (
            f"{where}: reads other kinds, and nothing says which object reads which: write `refers_to(self, object)`,"
            " or `wakes(self, object)`"
        )
    if woken and not controller.reads:
        yield f"{where}: `wakes` is asked only about objects of `reads`, which names no kind"


def _of_conditions(where: str, controller: AnyController) -> Iterator[str]:
    if not isinstance(controller, Reconciler):
        return
    for name in controller.conditions:
        if name in STANDARD or _CONDITION.fullmatch(name) is None:
            yield f"{where}: the condition {name!r} must be in CamelCase and none of {', '.join(STANDARD)}"


def _clashes(controllers: Sequence[AnyController]) -> Iterator[str]:
    sound = [controller for controller in controllers if not any(_problems(controller))]
    names: dict[str, str] = {}
    for controller in sound:
        name, where = name_of(controller), type(controller).__name__
        if name in names:
            yield f"{where}: is called {name}, as {names[name]} is: write another `name`"
        names.setdefault(name, where)
    for shared_status in shared_statuses(
        writer for controller in sound if (writer := status_writer_of(controller)) is not None
    ):
        yield f"{shared_status}, or let one say `plain = {{Feature.CONDITIONS, Feature.STATUS}}` and return no status"


_FOLLOWED: Final = ("list", "watch")
_READ: Final = frozenset(("get", "list", "watch"))
_MADE: Final = _READ | {"create", "update", "patch", "delete"}


def declared_verbs(controller: AnyController) -> Mapping[Kind, frozenset[str]]:
    """Return the verbs, by kind, that a controller may use through its attribute `api`."""
    verbs = {kind_of(controller): _READ}
    verbs |= {one.kind: _READ for one in watched_of(controller.reads)}
    return verbs | {one.kind: _MADE for one in watched_of(controller.owns)}


def requests_api(controller: AnyController | type[AnyController]) -> bool:
    """Report whether the controller declares an attribute `api` to receive a `KubeApi`."""
    cls = controller if isinstance(controller, type) else type(controller)
    return any(field.name == "api" for field in getattr(cls, "__attrs_attrs__", ()))


def controller_access(controllers: Iterable[AnyController]) -> tuple[Access, ...]:
    """Return the rights that these controllers need in one process, except rights on the process's Lease."""
    everywhere = [Access(known.CUSTOM_RESOURCE_DEFINITION, _FOLLOWED), Access(known.EVENT, ("create", "patch"))]
    for controller in controllers:
        everywhere += _of_passes(controller)
        for kind, verbs in declared_verbs(controller).items() if requests_api(controller) else ():
            everywhere.append(Access(kind, tuple(sorted(verbs))))
        everywhere += (Access(one.kind, _FOLLOWED) for one in watched_of((*controller.owns, *controller.reads)))
    return tuple(everywhere)


def _of_passes(controller: AnyController) -> Iterator[Access]:
    """Yield the rights on the controller's kind: to watch, to write finalizers and status, and to read objects live."""
    kind, features = kind_of(controller), features_of(controller)
    yield Access(kind, _FOLLOWED)
    if not controller.watch.is_whole:
        yield Access(kind, ("get",))
    if Feature.FINALIZER in features:
        yield Access(kind, ("patch",))
    if isinstance(controller, Reconciler) and resource_of(controller) is not None:
        yield Access(kind, ("get",))
        yield Access(kind, ("patch",), "status")
    if controller.owns:
        yield Access(kind, ("update",), "finalizers")


ROLES: Final = "vworkspace-operator controllers rbac"
"""The command that prints the roles of controllers."""


def not_permitted(controller: AnyController, right: Right) -> str:
    """Return a message about a right that the controller lacks, with the command that grants the right."""
    return f"the controller {name_of(controller)} may not {right}. To fix: {remedy(controller, right)}"


def remedy(controller: AnyController, right: Right) -> str:
    """Return the shell command that prints and applies the controller's role, which grants a missing right."""
    return role_applied(f"{ROLES} {name_of(controller)}", right, f"vworkspace-controller-{name_of(controller)}")
