"""The built-in templates of Operations as the mappings that a YAML file would have."""

from collections.abc import Mapping
from typing import Any, Final

from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.templates import OperationTemplate


def template_data(template: OperationTemplate) -> Mapping[str, Any]:
    """Return a template in the form that `load_template` reads."""
    return {
        "name": template.name,
        "type": template.type.value,
        "engine": template.engine,
        "capability": template.capability,
        **({"needsApproval": True} if template.needs_approval else {}),
        **({"needsReadyTarget": True} if template.needs_ready_target else {}),
        "parameters": template.schema,
    }


BUILTIN_TEMPLATES: Final = tuple(map(template_data, builtin_templates().items))
