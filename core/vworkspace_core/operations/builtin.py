"""The templates that come with the engines (OPS-2), as the data that `load_template` takes."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from vworkspace_core.api.operation import OperationType
from vworkspace_core.operations.contract import EngineTemplate
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.templates import OperationTemplate, Templates


def template_name(of: OperationType, engine: str) -> str:
    """Return the name of the built-in template of an engine for an Operation type, such as `runCommand.job`."""
    return f"{of[0].lower()}{of[1:]}.{engine}"


def _data(engine: str, template: EngineTemplate) -> Mapping[str, Any]:
    """Return an engine's template as a mapping, in the form that `load_template` reads and a YAML file has."""
    return {
        "name": template_name(template.type, engine),
        "type": template.type.value,
        "engine": engine,
        "capability": template.type.lower(),
        **({"needsApproval": True} if template.needs_approval else {}),
        **({"needsReadyTarget": True} if template.needs_ready_target else {}),
        "parameters": template.schema,
    }


BUILTIN_TEMPLATES: Final = tuple(
    _data(engine.name, template) for engine in ENGINES.values() for template in engine.templates
)
"""The templates of all engines, each as a mapping for `load_template`."""


@cache
def builtin_templates() -> Templates:
    """Return the built-in templates. They are loaded only once, because checking their schemas takes a while."""
    return Templates().adding(BUILTIN_TEMPLATES)


def needs_of_engine(template: OperationTemplate) -> Mapping[str, Any]:
    """Return a schema of the parameters without which the engine of `template` cannot run.

    The schema is that of the engine's built-in template, with unknown keys allowed. It applies even if `template`
    itself requires less. It is empty for an engine added in code.
    """
    restores = template.type is not OperationType.BACKUP
    own = [item for item in builtin_templates().items if item.engine == template.engine]
    candidates = [item for item in own if len(own) == 1 or (item.type is not OperationType.BACKUP) == restores]
    if not candidates:
        return {}
    return {
        key: rule for key, rule in candidates[0].schema.items() if key not in ("additionalProperties", "minProperties")
    }
