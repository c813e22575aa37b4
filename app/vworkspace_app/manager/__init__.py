"""The whole operator: the class `Manager`, and `production_manager`, which creates a Manager with real adapters.

`Manager` uses only ports, which are interfaces such as `KubeApi` and `Clock`.
"""

from typing import TYPE_CHECKING

from purekube.lazy_door import lazy_door

if TYPE_CHECKING:
    from purekube_run.controller.manager import Election
    from vworkspace_app.manager.agent import AgentOptions
    from vworkspace_app.manager.manager import Manager
    from vworkspace_app.manager.production import production_manager
    from vworkspace_app.manager.settings import OperatorSettings

__all__ = [
    "AgentOptions",
    "Election",
    "Manager",
    "OperatorSettings",
    "production_manager",
]

__getattr__, __dir__ = lazy_door(__name__)
