"""The daemons of one controller: a long-running task of user code for each object, while this process leads (PH-7).

Passes start and end daemons. Passes over one object never overlap, so an object has at most one daemon. When the
process stops leading, `Daemons.run` ends the remaining daemons.
"""

import asyncio
from contextvars import Context
from functools import partial
from typing import Any

import anyio
import attrs
import structlog

from purekube.apimachinery.errors import OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.controller.backoff import jitter_of
from purekube.ports import Clock, EventSink, KubernetesEvent
from purekube.reconcilers.controllers import (
    AnyController,
    Controller,
    Feature,
    features_of,
    name_of,
    overrides,
    resource_of,
)
from purekube.reconcilers.desired import UnreadableObject
from purekube.reconcilers.outcome import Ended, failure_text, raised
from purekube.reconcilers.request import delay_of
from purekube.reconcilers.watching import has_new_content
from purekube_run.controller.controller import Work
from purekube_run.reconcilers.user_calls import LEFT_ALONE, CallReturned, guarded

_log = structlog.get_logger("operator")


@attrs.define(eq=False)
class _Daemon:
    """The daemon (long-running task of user code) for one object.

    `manifest` is the object as the daemon got it. `failure` is the last failure that was reported.
    """

    key: ObjectRef
    manifest: Manifest
    task: "asyncio.Task[None]" = attrs.field(init=False)
    ending: bool = False
    failure: str = ""

    @property
    def uid(self) -> str:
        """The uid of the object."""
        return str(metadata(self.manifest).get("uid", ""))

    def cancel(self) -> None:
        """Cancel the task, but never a second time, which would interrupt its cleanup."""
        if not self.ending:
            self.ending = True
            self.task.cancel()

    def is_for(self, manifest: Manifest) -> bool:
        """Report whether the task runs for this object in its present state: same uid, and no change of its content
        since.
        """
        return metadata(manifest).get("uid") == self.uid and not has_new_content(self.manifest, manifest)


@attrs.define(eq=False)
class Daemons:
    """The daemons of one controller: a long-running task of user code for each object of its kind.

    There are none if the controller does not define the method `daemon`.
    """

    controller: AnyController
    clock: Clock
    events: EventSink
    _running: dict[ObjectRef, _Daemon] = attrs.field(factory=dict)
    _closed: bool = False

    def lacks(self, key: ObjectRef) -> bool:
        """Report whether an object has no daemon, not even one that has returned, although the controller defines the
        method.
        """
        return not self._closed and key not in self._running and overrides(self.controller, Controller.daemon)

    async def keep(self, key: ObjectRef, manifest: Manifest) -> None:
        """Start the daemon of an object if it does not run, or restart it if the object has changed.

        A change means a new uid or generation or, for a kind without generations, a change of any field except metadata
        and status.

        Raises Unavailable if the former task does not end.
        """
        if self._closed or not overrides(self.controller, Controller.daemon):
            return
        daemon = self._running.get(key)
        if daemon is None or not daemon.is_for(manifest):
            await self.end(key)
            self._start(_Daemon(key, manifest))

    async def end(self, key: ObjectRef) -> None:
        """Cancel the daemon of an object, if it has one, and wait until the daemon ends.

        Raises Unavailable if the daemon does not end.
        """
        daemon = self._running.get(key)
        if daemon is None:
            return
        daemon.cancel()
        # wait_for would wait without limit for a task that survives its cancellation.
        await asyncio.wait({daemon.task}, timeout=LEFT_ALONE)
        if not daemon.task.done():
            daemon.ending = False  # the next pass cancels it again
            raise Unavailable(f"the daemon of {name_of(self.controller)} is cancelled and goes on")
        del self._running[key]

    async def run(self, work: Work) -> None:
        """Wait until this task is cancelled, because this process no longer leads (holds the Lease of the leader
        election).

        Then end all daemons, and start no more. `work` is not used.
        """
        try:
            await anyio.sleep_forever()
        finally:
            self._closed = True
            for daemon in self._running.values():
                daemon.cancel()
            tasks = {daemon.task for daemon in self._running.values()}
            with anyio.CancelScope(shield=True):
                left = (await asyncio.wait(tasks, timeout=LEFT_ALONE))[1] if tasks else ()
            if left:
                _log.warning("daemons are cancelled and go on", controller=name_of(self.controller), count=len(left))

    def _start(self, daemon: _Daemon) -> None:
        resource = resource_of(self.controller)
        given = daemon.manifest if resource is None else resource.read_leniently(daemon.manifest)
        if isinstance(given, UnreadableObject):
            return  # the call reports it
        # The context of the pass would attribute the daemon's logs and writes to it.
        context, key = Context(), daemon.key
        bind, name = structlog.contextvars.bind_contextvars, name_of(self.controller)
        context.run(bind, controller=name, namespace=key.namespace or "", name=key.name)
        loop = asyncio.get_running_loop()
        daemon.task = loop.create_task(self._run(daemon, given), name=f"daemon {key}", context=context)
        self._running[key] = daemon

    async def _run(self, daemon: _Daemon, given: Any) -> None:
        """Call the daemon of user code until it returns, is cancelled, or raises an error for which there is no retry.

        Retries have an increasing backoff. It starts again from its first delay if the last call ran longer than the
        delay before that call.
        """
        attempt, delay = 0, 0.0
        while True:
            began = self.clock.monotonic()
            outcome = await guarded(partial(self.controller.daemon, given))
            if isinstance(outcome, CallReturned):
                return
            if daemon.ending and isinstance(outcome.error, asyncio.CancelledError):
                return
            attempt = 1 if self.clock.monotonic() - began > delay else attempt + 1
            again = self._delay(daemon, outcome.error, attempt)
            await self._report(daemon, outcome.error, again)
            if again is None:
                return
            delay = again
            await self.clock.sleep(delay)

    def _delay(self, daemon: _Daemon, error: BaseException, attempt: int) -> float | None:
        failure = raised(error)
        if daemon.ending or isinstance(failure, Ended) or Feature.RETRY not in features_of(self.controller):
            return None
        delay = delay_of(self.controller.retry, attempt, jitter_of(daemon.key, attempt))
        return None if delay is None else max(delay, failure.retry_after)

    async def _report(self, daemon: _Daemon, error: BaseException, again: float | None) -> None:
        """Log a failure of a daemon.

        If the failure differs from the daemon's last failure, also log its traceback and emit an Event.
        """
        failure = raised(error)
        text = failure_text(failure)
        is_new, daemon.failure = text != daemon.failure, text
        trace = {"exc_info": error} if is_new and not isinstance(error, OperatorError) else {}
        _log.error("the daemon failed", object=str(daemon.key), error=text, again_in=again, **trace)
        if is_new:
            reason = failure.reason if isinstance(failure, Ended) else "DaemonFailed"
            note = f"{name_of(self.controller)}: {text}"
            await self.events.emit(KubernetesEvent(daemon.key, daemon.uid, "Warning", reason, "Daemon", note))
