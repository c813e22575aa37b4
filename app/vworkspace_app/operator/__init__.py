"""The operator, wired to ports: informers, the instance controller, events. Nothing here names an adapter."""

from vworkspace_app.operator.assembly import Operator, OperatorSettings

__all__ = ["Operator", "OperatorSettings"]
