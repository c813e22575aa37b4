"""The day-2 Operations of an application, such as backup, restore and upgrade, as pure decisions (OPS-1 to OPS-12).

The entry point is `operations.reconcile`: `reconcile_operation(operation, observed, context) -> Decision`. An engine is
the adapter that carries out an Operation, such as Velero or Job. This package exports what an engine of your own and
templates need: see `docs/extending.md`.
"""

from typing import TYPE_CHECKING

from purekube.lazy_door import lazy_door

if TYPE_CHECKING:
    from vworkspace_core.operations.builtin import builtin_templates
    from vworkspace_core.operations.contract import (
        Engine,
        EngineContext,
        EngineController,
        EngineObject,
        EngineRefusal,
        EngineStatus,
        EngineTemplate,
        Objects,
        Progress,
        Row,
        always,
        by_type,
        is_backup,
        phase_row,
        readiness_by_phase,
        row_of,
    )
    from vworkspace_core.operations.engines import ENGINES
    from vworkspace_core.operations.identity import engine_manifest, own_object, parameters_of
    from vworkspace_core.operations.parameter_schemas import NAME, record, with_description
    from vworkspace_core.operations.templates import OperationTemplate, Templates, load_template

__all__ = [
    "ENGINES",
    "NAME",
    "Engine",
    "EngineContext",
    "EngineController",
    "EngineObject",
    "EngineRefusal",
    "EngineStatus",
    "EngineTemplate",
    "Objects",
    "OperationTemplate",
    "Progress",
    "Row",
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
    "readiness_by_phase",
    "record",
    "row_of",
    "with_description",
]

__getattr__, __dir__ = lazy_door(__name__)
