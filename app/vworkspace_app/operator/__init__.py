"""The operator, wired to ports: informers, the instance controller, events, agent. Nothing here names an adapter."""

from vworkspace_app.operator.assembly import Operator, at_once
from vworkspace_app.operator.local import LocalOperator
from vworkspace_app.operator.process import PullOperator
from vworkspace_app.operator.settings import OperatorSettings

__all__ = ["LocalOperator", "Operator", "OperatorSettings", "PullOperator", "at_once"]
