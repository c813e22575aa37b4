"""The built-in Operation templates, which come with the engines (Velero, Job and others) (OPS-2)."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from vworkspace_core.api.operation import OperationType
from vworkspace_core.operations.contract import EngineTemplate
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.templates import OperationTemplate, Templates


def template_name(of: OperationType, engine: str) -> str:
    """Return the name of the built-in template of an engine for the Operation type `of`, such as `runCommand.job`."""
    return f"{of[0].lower()}{of[1:]}.{engine}"


def _template(engine: str, template: EngineTemplate) -> OperationTemplate:
    return OperationTemplate(
        name=template_name(template.type, engine),
        type=template.type,
        engine=engine,
        capability=template.type.lower(),
        schema=template.schema,
        rbac_profile=engine,
        needs_approval=template.needs_approval,
        needs_ready_target=template.needs_ready_target,
    )


@cache
def builtin_templates() -> Templates:
    """Return the built-in templates of all engines.

    Unlike templates from files, they are not validated at start, since that takes memory and time. A test validates
    them.
    """
    return Templates(
        tuple(_template(engine.name, template) for engine in ENGINES.values() for template in engine.templates)
    )


def needs_of_engine(template: OperationTemplate) -> Mapping[str, Any]:
    """Return the JSON Schema that the engine of `template` requires of parameters, even if `template` requires less.

    It is the schema of the engine's built-in template, with unknown keys allowed. It is empty for an engine without
    built-in templates.
    """
    restores = template.type is not OperationType.BACKUP
    own = [item for item in builtin_templates().items if item.engine == template.engine]
    candidates = [item for item in own if len(own) == 1 or (item.type is not OperationType.BACKUP) == restores]
    if not candidates:
        return {}
    return {
        key: rule for key, rule in candidates[0].schema.items() if key not in ("additionalProperties", "minProperties")
    }
