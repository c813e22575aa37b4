"""The whole operator, wired to ports: `Manager` names no adapter, `production_manager` gives it those of production."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

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

_MODULES: Final = {
    "AgentOptions": "vworkspace_app.manager.agent",
    "Election": "purekube_run.controller.manager",
    "Manager": "vworkspace_app.manager.manager",
    "OperatorSettings": "vworkspace_app.manager.settings",
    "production_manager": "vworkspace_app.manager.production",
}
"""The module of each name. It is loaded on first use of the name, so that settings are read without the adapters."""


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
