"""The passes of one controller over its objects: the core's state machine decides each step, this module executes it.

A pass is one reconcile of an object. It writes missing finalizers, makes at most one call of user code, and writes its
outcome (PH-7). It raises nothing: errors of the API server are in its result, and an exception of user code is an
outcome like any other.
"""

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, Final, assert_never

import attrs
import structlog

from purekube.apimachinery.errors import Conflict, Forbidden, NotFound, OperatorError, Stale, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.controller.decision import SLOW_SECONDS, Decision, Requeue, requeue_for
from purekube.controller.event_series import Once
from purekube.controller.execute import STATUS, OnWrite, write_status
from purekube.controller.informer.outline import is_outline
from purekube.controller.queue.own_writes import ObjectVersion
from purekube.controller.reconcile import ReconcileResult
from purekube.ports import Clock, EventSink, KubeApi, KubernetesEvent, PatchType
from purekube.reconcilers.controllers import (
    AnyController,
    Feature,
    Reconciler,
    Watcher,
    features_of,
    finalizer_of,
    manager_of,
    name_of,
    resource_of,
)
from purekube.reconcilers.desired import UnreadableObject
from purekube.reconcilers.outcome import (
    CallOutcome,
    Consequences,
    Ended,
    Late,
    Raised,
    Returned,
    Unread,
    consequences_of,
    failure_text,
    raised,
)
from purekube.reconcilers.progress import (
    CallController,
    Forget,
    NoOp,
    ObjectProgress,
    PendingEvent,
    ProgressRules,
    SetFinalizers,
    WatcherEvent,
    before_finalizers,
    next_step,
    observed_facts_of,
    progress_of,
    vanished,
)
from purekube.reconcilers.request import Request, Result
from purekube.reconcilers.status import is_ready, status_to_write
from purekube.reconcilers.watching import finalizers_of
from purekube_run.controller.informers import StoredObject, let_others_read
from purekube_run.controller.observer import DECISION, raised_at
from purekube_run.reconcilers.daemons import Daemons
from purekube_run.reconcilers.declared_rights import FIND, ON_WRITE
from purekube_run.reconcilers.pending_events import PendingEvents
from purekube_run.reconcilers.user_calls import CallRaised, CallReturned, CutOff, isolated
from purekube_run.reconcilers.watches import ControllerWatches

_log = structlog.get_logger("operator")

_MOST_STEPS: Final = 6
"""The maximum number of steps of a pass: two finalizers, a read, a call, a finalizer, and one that finds no work."""
_MOST_TRIES: Final = 3
"""The maximum number of attempts to write a status, each with a newer copy of the object."""


def rules_of(controller: AnyController) -> ProgressRules:
    """Return the rules that decide the next step of a pass over an object of `controller`, such as a call of user code.

    For a Watcher (a controller that is notified of changes) they include a second finalizer, which an object has until
    the first call for it has succeeded.
    """
    kept = finalizer_of(controller)
    is_watcher = isinstance(controller, Watcher)
    return ProgressRules(features_of(controller), f"{kept}-begun" if is_watcher else kept, kept, is_watcher)


@attrs.define
class _Pass:
    """The state of one pass over one object.

    `manifest` is the object after the last write. Unless `is_whole` is True, some of its fields are missing.
    """

    key: ObjectRef
    manifest: Manifest
    is_whole: bool
    on_write: OnWrite
    executed: list[tuple[str, ObjectRef]] = attrs.field(factory=list)
    written: list[ObjectVersion] = attrs.field(factory=list)
    decision: Decision = attrs.field(factory=Decision)
    called: bool = False
    came: Consequences | None = None

    def record(self, verb: str, answer: Manifest) -> None:
        """Record a write of the object, and keep the object that the server returned."""
        self.manifest = answer
        version = str(metadata(answer).get("resourceVersion", ""))
        self.executed.append((verb, self.key))
        self.written.append((self.key, version))
        self.on_write((self.key, version))

    def result(self, error: OperatorError | None, requeue: Requeue, *, echo: bool) -> ReconcileResult:
        """Return the result of the pass for the worker pool.

        With `echo`, watch events of the pass's own writes requeue the key. An `error` counts as already reported if it
        is a Conflict, which an Event reports, or if a call of user code raised it, which the status reports.
        """
        is_reported = isinstance(error, Conflict) or (self.came is not None and error is self.came.error)
        return ReconcileResult(
            self.decision,
            tuple(self.written),
            error,
            requeue,
            at_fixed_point=not echo,
            is_reported=is_reported,
            executed=tuple(self.executed),
        )


@attrs.define(eq=False)
class ControllerPasses:
    """The reconciler of one controller in Python: it calls user code, and writes finalizers and statuses.

    `api` has the rights for these writes; it is not limited to the verbs that the controller declares.
    """

    controller: AnyController
    api: KubeApi
    watches: ControllerWatches
    clock: Clock
    events: EventSink
    pending_events: PendingEvents
    rules: ProgressRules = attrs.field(init=False)
    daemons: Daemons = attrs.field(init=False)
    _failing: Once = attrs.field(factory=Once)

    def __attrs_post_init__(self) -> None:
        self.rules = self.pending_events.rules
        self.daemons = Daemons(self.controller, self.clock, self.events)

    async def reconcile(self, key: ObjectRef, stored: StoredObject | None, on_write: OnWrite) -> ReconcileResult:
        """Run one pass over the object `key`.

        `stored` is the cached object, or None if the cache does not have it. `on_write` is called for each write.
        Errors of the API server and of user code are in the result, never raised.
        """
        ON_WRITE.set(on_write)
        FIND.set(self.watches.find_owned)
        self.pending_events.begin(key)
        if stored is None or key in self.pending_events.vanished:
            try:
                await self.daemons.end(key)
            except Unavailable as error:
                return ReconcileResult(error=error, requeue=requeue_for(error), is_reported=True)
        if key in self.pending_events.vanished:
            return await self._tell_vanished(key, self.pending_events.vanished[key], is_cached=stored is not None)
        if stored is None:
            # A large object that only a live read did not find: its deletion is reported when its DELETED event comes.
            if self.watches.own.store.raw(key.namespace, key.name) is None:
                self.pending_events.forget(key)
            return ReconcileResult()
        work = _Pass(key, stored.manifest, self.controller.watch.is_whole, on_write)
        return await self._carried_out(work, self._advance(work))

    async def _carried_out(self, work: _Pass, steps: Awaitable[None]) -> ReconcileResult:
        """Await the `steps` of a pass, and return its result, of which an OperatorError of the steps becomes a part."""
        echo = Feature.ECHO not in self.rules.features
        try:
            await steps
        except NotFound:
            return work.result(None, Requeue.NO, echo=echo)  # the object is gone: its DELETED event is on the way
        except OperatorError as error:
            return work.result(error, _requeue_of_stopped(work, error), echo=echo)
        came = work.came
        error_of, requeue = (None, Requeue.NO) if came is None else (came.error, came.requeue)
        return work.result(error_of, requeue, echo=echo)

    async def _advance(self, work: _Pass) -> None:
        for _ in range(_MOST_STEPS):
            seen = observed_facts_of(work.manifest, is_ready=is_ready(work.manifest))
            progress = self.pending_events.lives[work.key] = progress_of(
                self.pending_events.lives.get(work.key, ObjectProgress()), seen
            )
            step = next_step(self.rules, progress, self.pending_events.wake(work.key), seen)
            DECISION.set(step)
            if seen.deleting:
                await self.daemons.end(work.key)
            match step:
                case SetFinalizers():
                    self.pending_events.lives[work.key] = before_finalizers(self.rules, progress, step)
                    await self._set_finalizers(work, step)
                    if step.last:
                        return
                case CallController():
                    if work.called:
                        return
                    if work.is_whole:
                        if not step.deleting:
                            await self.daemons.keep(work.key, work.manifest)
                        await self._call(work, progress, step)
                    else:
                        work.manifest, work.is_whole = await self.api.get(work.key), True
                case NoOp() | Forget():
                    if not seen.deleting and self.daemons.lacks(work.key):
                        await self._keep_daemon(work)  # the object was out of the cache for a while
                    if not work.called:
                        self.pending_events.take(work.key)
                    return
                case _:
                    assert_never(step)

    async def _keep_daemon(self, work: _Pass) -> None:
        if not work.is_whole:
            work.manifest, work.is_whole = await self.api.get(work.key), True
        if metadata(work.manifest).get("deletionTimestamp") is None:
            await self.daemons.keep(work.key, work.manifest)

    async def _set_finalizers(self, work: _Pass, step: SetFinalizers) -> None:
        """Write the object's finalizers by a patch with its resourceVersion, so that no concurrent change is lost."""
        answer = await self._patch_finalizers(work.key, work.manifest, step.finalizers)
        work.record("remove finalizer" if step.last else "add finalizer", answer)

    async def _patch_finalizers(self, key: ObjectRef, manifest: Manifest, finalizers: Sequence[str]) -> Manifest:
        version = metadata(manifest).get("resourceVersion")
        patch = {"metadata": {"resourceVersion": version, "finalizers": list(finalizers)}}
        return await self.api.patch(key, patch, patch_type=PatchType.MERGE, field_manager=manager_of(self.controller))

    async def _unselected(self, key: ObjectRef, last: Manifest) -> Manifest | None:
        """Return an object that vanished from the cache only because its selectors no longer match, read live.

        Return None if it was deleted. `last` is the object as it was in the cache, perhaps only a part of it.
        """
        watch = self.controller.watch
        if not (watch.label_selector or watch.field_selector):
            return None
        # A list, since the roles of controllers have no `get` for this.
        page = await self.api.list(key.kind, namespace=key.namespace, field_selector=f"metadata.name={key.name}")
        return next((live for live in page.items if metadata(live).get("uid") == metadata(last).get("uid")), None)

    async def _release(self, key: ObjectRef, last: Manifest) -> None:
        """Remove the controller's finalizers from an object that is no longer selected: its deletion would not be seen,
        and would wait forever.
        """
        live = await self._unselected(key, last) if self.rules.has_finalizer else None
        present = () if live is None else finalizers_of(live)
        left = [name for name in present if name not in (self.rules.begun, self.rules.kept)]
        if live is not None and len(left) < len(present):
            await self._patch_finalizers(key, live, left)

    # --- calls -------------------------------------------------------------------------------------------------------

    async def _call(self, work: _Pass, progress: ObjectProgress, call: CallController) -> None:
        work.called = True
        wake = self.pending_events.take(work.key)
        is_through = False
        try:
            outcome = await self._outcome(work.manifest, progress, call, wake)
            is_through = isinstance(outcome, Returned) or not self.rules.tells_changes
        finally:
            if not is_through:
                self.pending_events.give_back(work.key, wake)
        work.came = self._follow(work.key, progress, call, outcome)
        # Stalled only once the status says so: after a failed write the next pass calls again, and writes it.
        self.pending_events.lives[work.key] = attrs.evolve(work.came.progress, stalled=False)
        try:
            await self._write_status(work, work.came, outcome)
        except OperatorError:
            # The call counts, and the next one may have no reason to return the same Events.
            await self._emit_events(work.key, work.manifest, outcome)
            raise
        self.pending_events.lives[work.key] = work.came.progress
        await self._emit_events(work.key, work.manifest, outcome)

    def _follow(
        self, key: ObjectRef, progress: ObjectProgress, call: CallController, outcome: CallOutcome
    ) -> Consequences:
        came = consequences_of(self.rules, progress, call, outcome, retry=self.controller.retry, key=key)
        self.pending_events.lives[key] = came.progress
        return came

    async def _outcome(
        self, manifest: Manifest, progress: ObjectProgress, call: CallController, wake: PendingEvent
    ) -> CallOutcome:
        given = self._read(manifest)
        if isinstance(given, UnreadableObject):
            hint = "; it goes once it fits, or once the finalizer is taken off by hand" if call.deleting else ""
            return Unread(given.problems + hint)
        limit = self.controller.timeout if Feature.LIMIT in self.rules.features else None
        await let_others_read()
        match await isolated(partial(self._told, given, progress, call, wake), limit=limit):
            case CallReturned(result):
                return self._checked(result)
            case CallRaised(error):
                return self._raised(error)
            case CutOff(seconds):
                return Late(seconds)

    def _read(self, manifest: Manifest) -> Any:
        resource = resource_of(self.controller)
        return manifest if resource is None else resource.read_leniently(manifest)

    async def _told(self, given: Any, progress: ObjectProgress, call: CallController, wake: PendingEvent) -> object:
        match self.controller:
            case Reconciler() as reconciler:
                state = progress.state if Feature.STATE in self.rules.features else None
                return await reconciler.reconcile(
                    Request(given, call.cause, call.deleting, call.settled, state, progress.attempts, wake.by)
                )
            case Watcher() as watcher:
                await self._tell(watcher, given, call, wake)
                return Result()
            case _:
                raise TypeError(f"{type(self.controller).__name__} is neither a Reconciler nor a Watcher")

    async def _tell(self, watcher: "Watcher[Any]", given: Any, call: CallController, wake: PendingEvent) -> None:
        match call.watcher_event:
            case WatcherEvent.ADD:
                await watcher.on_add(given)
            case WatcherEvent.UPDATE:
                # The outline of a large object would show what was left out as absent, or as a default.
                old = None if wake.old is None or is_outline(wake.old) else self._read(wake.old)
                if old is None or isinstance(old, UnreadableObject):
                    await watcher.on_sync(given)
                else:
                    await watcher.on_update(old, given)
            case WatcherEvent.SYNC:
                await watcher.on_sync(given)
            case WatcherEvent.DELETE:
                await watcher.on_delete(given)
            case _:
                assert_never(call.watcher_event)

    def _checked(self, result: object) -> CallOutcome:
        """Return the outcome of a call of user code that returned `result`: `Raised`, with the reason, if `result` is
        invalid.
        """
        name = type(self.controller).__name__
        if not isinstance(result, Result):
            return Raised(f"{name} returned {type(result).__name__}, not a Result")
        resource = resource_of(self.controller)
        desired = None if resource is None else resource.status
        if result.status is not None and (desired is None or not isinstance(result.status, desired)):
            what = "somebody else's status is not written" if desired is None else f"it must be a {desired.__name__}"
            return Raised(f"{name} returned a {type(result.status).__name__} as status: {what}")
        if result.status is not None and Feature.STATUS not in self.rules.features:
            return Raised(f"{name} returned a status, and says `plain` of Feature.STATUS: return a Result without one")
        if resource is not None and result.status is not None and (why := resource.status_problem(result.status)):
            return Raised(f"{name} returned a status that is no JSON: {why}")
        if result.conditions and Feature.CONDITIONS not in self.rules.features:
            what = "somebody else's status is not written" if desired is None else "it says `plain` of them"
            return Raised(f"{name} returned conditions: {what}; return a Result without one")
        declared = self.controller.conditions if isinstance(self.controller, Reconciler) else ()
        strange = sorted({condition.type for condition in result.conditions} - set(declared))
        if strange:
            return Raised(f"{name} returned the conditions {', '.join(strange)}, which `conditions` does not name")
        return Returned(result)

    def _raised(self, error: BaseException) -> Raised | Ended:
        """Return the outcome for an exception of user code. Its traceback is logged once for each line that raises."""
        outcome = raised(error)
        if isinstance(outcome, Raised) and not isinstance(error, OperatorError):
            what = f"{type(error).__name__} {raised_at(error)}"
            if self._failing.first(name_of(self.controller), what):
                _log.error("the controller failed", controller=name_of(self.controller), exc_info=error, error=what)
        return outcome

    async def _tell_vanished(self, key: ObjectRef, last: Manifest, *, is_cached: bool) -> ReconcileResult:
        """Call the user's cleanup for an object that disappeared before its cleanup, or is no longer selected.

        `last` is the last known state of the object; an object that still exists is read live, since the cache may have
        only a part of it. The key is then requeued, since a new object of that name may exist; `is_cached` says that
        the cache has one.
        """
        try:
            live = await self.watches.own.read(key)
            unselected = await self._unselected(key, last) if live is None else None
        except OperatorError as unread:
            return ReconcileResult(error=unread, requeue=requeue_for(unread).no_later_than(SLOW_SECONDS))
        if live is not None and metadata(live).get("uid") == metadata(last).get("uid"):
            # It is not deleted: its kind was not served for a while, which empties the cache.
            if is_cached:
                self.pending_events.vanished.pop(key, None)
            return ReconcileResult(requeue=Requeue.at_latest(0.0 if is_cached else SLOW_SECONDS))
        progress = self.pending_events.lives.get(key, ObjectProgress())
        call = vanished(progress, observed_facts_of(last))
        came = None
        if call is not None:
            outcome = await self._outcome(unselected or last, progress, call, PendingEvent())
            came = self._follow(key, progress, call, outcome)
            await self._emit_events(key, last, outcome, in_status=False)
        if came is not None and not came.progress.cleaned and not came.progress.stalled and came.requeue != Requeue.NO:
            return ReconcileResult(error=came.error, requeue=came.requeue, is_reported=True)
        if came is None or came.progress.cleaned:
            try:
                await self._release(key, last)
            except NotFound:
                pass  # it was deleted
            except OperatorError as unreleased:
                return ReconcileResult(error=unreleased)
        self.pending_events.vanished.pop(key, None)
        self.pending_events.lives.pop(key, None)
        error = None if came is None else came.error
        return ReconcileResult(error=error, requeue=Requeue.at_latest(0.0), is_reported=True)

    # --- reporting ------------------------------------------------------------------------------------------

    async def _write_status(self, work: _Pass, came: Consequences, outcome: CallOutcome) -> None:
        """Write the status that follows from the `outcome` of a call of user code.

        If the object was changed meanwhile, read it and try again with the newest version, so that the outcome is not
        lost.
        """
        generation = int(metadata(work.manifest).get("generation") or 0)
        result = outcome.result if isinstance(outcome, Returned) else None
        for last in (*(False,) * (_MOST_TRIES - 1), True):
            change = status_to_write(
                self.controller, work.manifest, came.conditions, result, generation, self.clock.now()
            )
            if change is None or change.status is None:
                return
            DECISION.set(change)
            try:
                answer = await write_status(self.api, work.key.kind, change.status, manager_of(self.controller))
            except Stale:
                live = await self.api.get(work.key)
                if last or metadata(live).get("uid") != metadata(work.manifest).get("uid"):
                    raise
                work.manifest = live
            else:
                work.decision = change
                work.record(STATUS, answer)
                for event in change.events:
                    await self.events.emit(event)
                return

    async def _emit_events(
        self, key: ObjectRef, manifest: Manifest, outcome: CallOutcome, *, in_status: bool = True
    ) -> None:
        """Emit the Events that user code returned, or an Event for the failure of user code, unless the status reports
        that (`in_status`).
        """
        uid = str(metadata(manifest).get("uid", ""))
        for event in outcome.result.events if isinstance(outcome, Returned) else ():
            severity = "Warning" if event.warning else "Normal"
            await self.events.emit(KubernetesEvent(key, uid, severity, event.reason, "Reconcile", event.note))
        if not in_status or Feature.CONDITIONS not in self.rules.features:
            await self._tell_failure(key, uid, outcome)

    async def _tell_failure(self, key: ObjectRef, uid: str, outcome: CallOutcome) -> None:
        """Emit an Event if a call of user code failed.

        The same failure emits no further Event until a call has succeeded.
        """
        text = failure_text(outcome)
        if not text:
            self._failing.forget(str(key))
        elif self._failing.first(str(key), text):
            reason = outcome.reason if isinstance(outcome, Ended) else "CallFailed"
            note = f"{name_of(self.controller)}: {text}"
            await self.events.emit(KubernetesEvent(key, uid, "Warning", reason, "Reconcile", note))


def _requeue_of_stopped(work: _Pass, error: OperatorError) -> Requeue:
    """Return when to requeue after a request of the pass itself (not of user code) failed with `error`.

    The key is requeued within a minute even for an error that a retry may not cure.
    """
    asked = None if work.came is None else work.came.requeue.after
    if isinstance(error, Conflict):
        return Requeue.at_latest(asked).no_later_than(SLOW_SECONDS)
    requeue = requeue_for(error).no_later_than(asked)
    if isinstance(error, Unavailable) or (isinstance(error, Forbidden) and error.right is not None):
        return requeue
    return requeue.no_later_than(SLOW_SECONDS)
