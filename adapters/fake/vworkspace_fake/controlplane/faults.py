"""Faults on order: errors before or after the effect, latency, lost answers, strange bodies (PULL-11, RUN-10)."""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

import attrs

from vworkspace_fake.controlplane.refusals import ApiRefusal, Dropped

T = TypeVar("T")


class AgentCall(StrEnum):
    """The endpoints of the agent API."""

    FETCH = "fetch"
    ACK = "ack"
    STATUS = "status"
    RESULT = "result"
    EVENTS = "events"
    REGISTER = "register"
    ROTATE = "rotate"


class When(StrEnum):
    """Whether the request has its effect before the fault shows."""

    BEFORE = "before"
    AFTER = "after"


@attrs.frozen
class ScriptedFault:
    """One fault, for the next `times` requests to `call` (any call when None).

    With `status` 0 there is no answer at all, unless `latency` (seconds before anything happens) is the
    whole fault: then `status` is None. `body` and `content_type` make an answer of any status strange.
    """

    call: AgentCall | None = None
    status: int | None = 500
    when: When = When.BEFORE
    times: int = 1
    latency: float = 0.0
    retry_after: float | None = None
    body: bytes | None = None
    content_type: str | None = None

    def before(self) -> None:
        """Fail before the effect, when this fault does."""
        if self.when is When.BEFORE:
            self._strike()

    def after(self) -> None:
        """Fail after the effect, when this fault does."""
        if self.when is When.AFTER:
            self._strike()

    def wrap(self, effect: Callable[[], T]) -> T:
        """Run `effect` under this fault."""
        self.before()
        result = effect()
        self.after()
        return result

    def _strike(self) -> None:
        if self.status is None:
            return
        if self.status == 0:
            raise Dropped
        raise ApiRefusal(
            self.status,
            f"injected fault {self.status}",
            retry_after=self.retry_after,
            body=self.body,
            content_type=self.content_type,
        )


NO_FAULT = ScriptedFault(status=None)


@attrs.define
class Faults:
    """Owner of the faults still to come, first ordered first served."""

    _pending: list[ScriptedFault] = attrs.field(factory=list, init=False)
    _outage: ScriptedFault | None = attrs.field(default=None, init=False)

    def inject(self, fault: ScriptedFault) -> None:
        """Have `fault` on the next requests it is for."""
        self._pending.append(fault)

    def outage(self, fault: ScriptedFault | None) -> None:
        """Have `fault` on every request until called with None."""
        self._outage = fault

    def take(self, call: AgentCall) -> ScriptedFault:
        """The fault for this request; one that does nothing when there is none."""
        if self._outage is not None:
            return self._outage
        for at, fault in enumerate(self._pending):
            if fault.call in (None, call):
                left = attrs.evolve(fault, times=fault.times - 1)
                self._pending[at : at + 1] = [left] if left.times > 0 else []
                return fault
        return NO_FAULT
