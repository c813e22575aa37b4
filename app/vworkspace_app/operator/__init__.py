"""The operator, wired to ports: informers, the instance controller, events, agent. Nothing here names an adapter."""

from vworkspace_app.operator.assembly import Operator, OperatorSettings, at_once
from vworkspace_app.operator.process import PullOperator

__all__ = ["Operator", "OperatorSettings", "PullOperator", "at_once"]
