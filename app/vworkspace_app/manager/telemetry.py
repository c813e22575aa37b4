"""Who watches the operator and its agent at work. The operator itself knows no metrics and no probes (RUN-5)."""

from typing import Protocol

from vworkspace_app.controller.observer import LoggingObserver, ReconcileObserver
from vworkspace_app.jobs.agent import Agent
from vworkspace_app.manager.operator import Operator


class Telemetry(Protocol):
    """Told once who is there, before anything runs."""

    def observer(self, controller: str) -> ReconcileObserver:
        """Who is told of the reconciles of a controller."""
        ...

    def attach(self, operator: Operator, agent: Agent | None) -> None:
        """Look at these from now on; subscribe to what is of interest. `agent` is None where there is none."""
        ...


class NoTelemetry:
    """Nobody watches; the log is written all the same."""

    def observer(self, controller: str) -> ReconcileObserver:
        """The log."""
        return LoggingObserver()

    def attach(self, operator: Operator, agent: Agent | None) -> None:
        """Nothing."""
