"""Day-2 operations: `reconcile_operation(operation, observed, context) -> Decision` (OPS-1 to OPS-12).

For the imports of an engine's module, and for templates, see `docs/extending.md`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from vworkspace_core.operations.builtin import builtin_templates
    from vworkspace_core.operations.contract import (
        Engine,
        EngineContext,
        EngineObject,
        EngineRefusal,
        EngineStatus,
        Objects,
        Progress,
        Row,
        always,
        by_type,
        is_backup,
        phase_row,
        row_of,
    )
    from vworkspace_core.operations.engines import ENGINES
    from vworkspace_core.operations.identity import engine_manifest, own_object, parameters_of
    from vworkspace_core.operations.templates import Template, Templates, load_template

__all__ = [
    "ENGINES",
    "Engine",
    "EngineContext",
    "EngineObject",
    "EngineRefusal",
    "EngineStatus",
    "Objects",
    "Progress",
    "Row",
    "Template",
    "Templates",
    "always",
    "builtin_templates",
    "by_type",
    "engine_manifest",
    "is_backup",
    "load_template",
    "own_object",
    "parameters_of",
    "phase_row",
    "row_of",
]

_MODULES: Final = {
    "ENGINES": "vworkspace_core.operations.engines",
    "Engine": "vworkspace_core.operations.contract",
    "EngineContext": "vworkspace_core.operations.contract",
    "EngineObject": "vworkspace_core.operations.contract",
    "EngineRefusal": "vworkspace_core.operations.contract",
    "EngineStatus": "vworkspace_core.operations.contract",
    "Objects": "vworkspace_core.operations.contract",
    "Progress": "vworkspace_core.operations.contract",
    "Row": "vworkspace_core.operations.contract",
    "Template": "vworkspace_core.operations.templates",
    "Templates": "vworkspace_core.operations.templates",
    "always": "vworkspace_core.operations.contract",
    "builtin_templates": "vworkspace_core.operations.builtin",
    "by_type": "vworkspace_core.operations.contract",
    "engine_manifest": "vworkspace_core.operations.identity",
    "is_backup": "vworkspace_core.operations.contract",
    "load_template": "vworkspace_core.operations.templates",
    "own_object": "vworkspace_core.operations.identity",
    "parameters_of": "vworkspace_core.operations.identity",
    "phase_row": "vworkspace_core.operations.contract",
    "row_of": "vworkspace_core.operations.contract",
}
"""The module of each name, loaded on first use, since most programs need few."""


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
