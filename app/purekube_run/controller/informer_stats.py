"""The statistics of an informer (RUN-1): numbers for metrics and probes, and log lines when its state changes."""

from collections import Counter
from collections.abc import Callable
from typing import Final, assert_never

import attrs
import structlog

from purekube.apimachinery.errors import Right, refused_right
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.secret_material import shown
from purekube.controller.event_series import Once
from purekube.controller.health import InformerVitals
from purekube.controller.informer.changes import CacheChange
from purekube.controller.informer.messages import (
    InformerCommand,
    InformerEvent,
    InformerPhase,
    InformerState,
    OpenStream,
    ReadPage,
    RelistCause,
    Wait,
    is_answer,
)
from purekube.controller.informer.store import ObjectStore

_PAGE_SECONDS: Final = 120.0
"""The maximum seconds for reading a page: several times the silence after which the HTTP client gives up."""


@attrs.define
class Heartbeat:
    """The data from which health checks tell whether an informer is stuck.

    `moved_at` is the time of its last event, and `answered_at` that of the API server's last answer, in seconds of the
    monotonic clock; both are `began` at first. `patience` is for how many seconds its current activity (a list, a watch
    or a wait) may last without an event.
    """

    began: float
    moved_at: float = attrs.field(init=False)
    answered_at: float = attrs.field(init=False)
    patience: float = attrs.field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self.moved_at = self.answered_at = self.began

    def moved(self, event: InformerEvent, now: float) -> None:
        """Record that the informer received `event` at the monotonic time `now`, so that it does not count as stuck."""
        self.moved_at = now
        if is_answer(event):
            self.answered_at = now

    def begin(self, command: InformerCommand) -> None:
        """Record that the informer starts `command`, such as a list, which determines how long it may be silent."""
        match command:
            case ReadPage():
                self.patience = _PAGE_SECONDS
            case OpenStream(quiet_limit=seconds) | Wait(seconds):
                self.patience = seconds
            case _:
                assert_never(command)


def by_its_roles(right: Right) -> str:
    """Return a sentence on how to obtain a missing right: an administrator must grant it.

    This is the default remedy, for processes that have no shell command to print the roles that they need.
    """
    who = right.user or "the account that it runs as"
    return f"an administrator of the cluster gives it to {who}, by the roles that it was installed with"


_log = structlog.get_logger("informer")


@attrs.frozen
class InformerStats:
    """The state of one informer at one moment, and its counts since it was started (RUN-1).

    `contact_age` is the number of seconds since the API server was last heard, and infinite before the first contact.
    `relists` counts the lists after the first by their causes, `troubles` the failed lists and watches. `last_trouble`
    is the last error. `objects` and `bytes` are the size of the cache.
    """

    kind: Kind
    namespace: str | None
    phase: InformerPhase
    has_synced: bool
    contact_age: float
    relists: dict[str, int]
    troubles: int
    last_trouble: str
    handler_failures: int
    objects: int
    bytes: int


@attrs.define
class InformerCounters:
    """The counters of an informer since its start: relists, failed lists and watches, and failed handlers.

    The methods that record something also log it.
    """

    kind: Kind
    namespace: str | None
    remedy: Callable[[Right], str]
    """A function that returns the instruction for granting a missing right."""
    relists: Counter[str] = attrs.field(factory=Counter)
    troubles: int = 0
    last_trouble: str = ""
    handler_failures: int = 0
    trouble_reason: str = attrs.field(default="", init=False)
    _handler_faults: Once = attrs.field(factory=Once, init=False)

    @property
    def current(self) -> str:
        """The error of the informer's last list or watch, without secrets, or "" if lists and watches succeed now."""
        return shown(self.trouble_reason)

    def relist(self, cause: RelistCause) -> None:
        """Count the start of a relist, and log it with its cause.

        The level is `info`, but `debug` if the cause is only that the watch delivered nothing for too long.
        """
        self.relists[cause.value] += 1
        log = _log.debug if cause is RelistCause.QUIET else _log.info
        log("listing again", kind=self.kind.kind, cause=cause.value)

    def trouble(self, reason: str, failures: int, *, absent: bool = False) -> None:
        """Record and log that a list or watch failed for the `failures`-th consecutive time.

        The same `reason` is logged as a warning or error only once until the list or watch succeeds. With `absent` the
        reason is that the kind is not served, which is not an error: it is logged at the level `debug`.
        """
        right = refused_right(reason)
        self.troubles += 1
        is_new = reason != self.trouble_reason
        self.last_trouble = self.trouble_reason = reason
        fields = {"kind": self.kind.kind, "reason": reason, "failures": failures}
        if absent or not is_new:
            _log.debug("list or watch failed", **fields)
        elif right is not None:
            _log.error(
                "objects cannot be seen: a right is missing", right=str(right), remedy=self.remedy(right), **fields
            )
        else:
            _log.warning("list or watch failed", **fields)

    def renewed(self, reason: str) -> None:
        """Log that a watch is opened again, for a `reason` that is not an error."""
        _log.debug("the watch begins again", kind=self.kind.kind, reason=reason)

    def defect(self, reason: str, error: Exception) -> None:
        """Log an exception other than an OperatorError, which a `KubeApi` must not raise: it is a defect.

        Its traceback is logged only once until lists and watches succeed again.
        """
        if reason != self.trouble_reason:
            _log.error("the KubeApi port raised a foreign error", kind=self.kind.kind, exc_info=error)

    def recovered(self) -> None:
        """Log that lists and watches succeed again, if they had failed."""
        if self.trouble_reason:
            self.trouble_reason = ""
            _log.info("informer works again", kind=self.kind.kind)

    def handler_failed(self, change: CacheChange, error: Exception) -> None:
        """Count and log that a handler raised `error` for `change`.

        The same error is logged only once for each object.
        """
        self.handler_failures += 1
        if self._handler_faults.first(str(change.ref), repr(error)):
            _log.error("a handler of changes failed", kind=self.kind.kind, object=str(change.ref), exc_info=error)

    def stats(self, state: InformerState, store: ObjectStore, now: float) -> InformerStats:
        """Return the informer's present statistics: the size of its `store`, and counts of relists and failures.

        `state` is the state of its state machine. `now` is the present monotonic time in seconds.
        """
        return InformerStats(
            kind=self.kind,
            namespace=self.namespace,
            phase=state.phase,
            has_synced=state.has_synced,
            contact_age=now - state.heard_at,
            relists=dict(self.relists),
            troubles=self.troubles,
            last_trouble=self.last_trouble,
            handler_failures=self.handler_failures,
            objects=len(store),
            bytes=store.bytes,
        )

    def vitals(self, state: InformerState, heartbeat: Heartbeat, now: float) -> InformerVitals:
        """Return the informer's state for health checks: whether it has synced, and the age of its last answer.

        `state` is the state of its state machine, `heartbeat` has the times of its last events. `now` is the present
        monotonic time in seconds.
        """
        name = f"{self.kind.kind} in {self.namespace}" if self.namespace else self.kind.kind
        return InformerVitals(
            name=name,
            has_synced=state.has_synced,
            answered_ago=max(0.0, now - heartbeat.answered_at),
            heard_ago=max(0.0, now - max(state.heard_at, heartbeat.began)),
            moved_ago=max(0.0, now - heartbeat.moved_at),
            patience=heartbeat.patience,
            trouble=self.current,
        )
