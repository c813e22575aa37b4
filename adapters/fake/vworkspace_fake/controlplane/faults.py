"""Faults injected into the embedded control plane: errors, latency, lost answers, malformed bodies (PULL-11, RUN-10).

An error occurs before or after the request has its effect.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

import attrs

from vworkspace_fake.controlplane.refusals import ApiRefusal, Dropped


class AgentCall(StrEnum):
    """The endpoints of the control plane's API for agents, such as the fetch of jobs and the report of a result.

    An agent is the operator in a cluster.
    """

    FETCH = "fetch"
    ACK = "ack"
    STATUS = "status"
    RESULT = "result"
    EVENTS = "events"
    REGISTER = "register"
    ROTATE = "rotate"


class When(StrEnum):
    """The time at which an injected fault occurs: before or after the request has its effect."""

    BEFORE = "before"
    AFTER = "after"


@attrs.frozen
class ScriptedFault:
    """A fault for the next `times` requests to the endpoint `call`, or to any endpoint if `call` is None.

    `status` is the HTTP status of the error; 0 means that the request gets no answer, None that it succeeds. `when`
    says whether the error occurs before or after the request has its effect. `latency` delays the effect by that many
    seconds. `body` and `content_type` replace those of the error's answer.
    """

    call: AgentCall | None = None
    status: int | None = 500
    when: When = When.BEFORE
    times: int = 1
    latency: float = 0.0
    retry_after: float | None = None
    body: bytes | None = None
    content_type: str | None = None

    @contextmanager
    def around(self) -> Iterator[None]:
        """Raise the fault's error before or after the block, in which a request has its effect."""
        if self.when is When.BEFORE:
            self._strike()
        yield
        if self.when is When.AFTER:
            self._strike()

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
    """The faults that are still to occur, in the order in which they were injected.

    An outage has one fault, which applies to every request until the outage ends. Injected faults wait until then.
    """

    _pending: list[ScriptedFault] = attrs.field(factory=list, init=False)
    _outage: ScriptedFault | None = attrs.field(default=None, init=False)

    @property
    def are_over(self) -> bool:
        """True if no fault is still to occur."""
        return self._outage is None and not self._pending

    def inject(self, fault: ScriptedFault) -> None:
        """Add a fault, which applies to the next requests to its endpoint."""
        self._pending.append(fault)

    def outage(self, fault: ScriptedFault | None) -> None:
        """Apply `fault` to every request from now on. None ends the outage."""
        self._outage = fault

    def take(self, call: AgentCall) -> ScriptedFault:
        """Return the fault to apply to a request to the endpoint `call`, and count the fault as used.

        `NO_FAULT` means that none applies.
        """
        if self._outage is not None:
            return self._outage
        for at, fault in enumerate(self._pending):
            if fault.call in (None, call):
                left = attrs.evolve(fault, times=fault.times - 1)
                self._pending[at : at + 1] = [left] if left.times > 0 else []
                return fault
        return NO_FAULT
