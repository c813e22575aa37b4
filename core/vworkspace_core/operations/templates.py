"""Templates: which engine does which action, with which parameters, under which conditions (OPS-2). All data.

A template binds an operation type and an engine to a capability, a JSON Schema of its parameters, an RBAC profile,
preconditions and whether a person has to agree. More are added as data: `Templates.adding` takes mappings as they
come out of YAML.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from vworkspace_core.kinds.labels import CAPABILITIES
from vworkspace_core.kinds.operation import OperationType
from vworkspace_core.kinds.problems import Problem, ValidationProblems
from vworkspace_core.operations.schemas import schema_problems, violations_of

__all__ = ["Template", "Templates", "load_template"]

_TEMPLATE_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "type", "engine", "capability", "parameters"],
    "properties": {
        "name": {"type": "string", "pattern": r"^[a-z][A-Za-z0-9]*\.[a-z][A-Za-z0-9.-]*$", "maxLength": 63},
        "type": {"enum": [kind.value for kind in OperationType]},
        "engine": {"type": "string", "pattern": "^[a-z][A-Za-z0-9]*$", "maxLength": 63},
        "capability": {"enum": list(CAPABILITIES)},
        "parameters": {"type": "object"},
        "rbacProfile": {"type": "string", "maxLength": 63},
        "needsApproval": {"type": "boolean"},
        "needsReadyTarget": {"type": "boolean"},
        "allowForeignBackups": {"type": "boolean"},
    },
}


@attrs.frozen
class Template:
    """One way to do one kind of action.

    `engine` is the name of an engine of the registry. `needs_ready_target` is never set for restores and upgrades,
    which are how a broken application gets well. `allow_foreign_backups` lets a restore take a backup that does not
    carry its target's labels.
    """

    name: str
    type: OperationType
    engine: str
    capability: str
    schema: Mapping[str, Any]
    rbac_profile: str = ""
    needs_approval: bool = False
    needs_ready_target: bool = False
    allow_foreign_backups: bool = False

    def problems_of(self, parameters: Any) -> tuple[Problem, ...]:
        """What is wrong with the parameters of an Operation, with paths from `spec.parameters`."""
        return violations_of(self.schema, parameters, "spec.parameters")


def load_template(data: Any) -> Template:
    """A template from plain data. Raises ValidationProblems with every problem and its path."""
    problems = violations_of(_TEMPLATE_SCHEMA, data, "")
    if problems:
        raise ValidationProblems(problems)
    if found := schema_problems(data["parameters"], "parameters"):
        raise ValidationProblems(found)
    template = Template(
        name=data["name"],
        type=OperationType(data["type"]),
        engine=data["engine"],
        capability=data["capability"],
        schema=data["parameters"],
        rbac_profile=data.get("rbacProfile", data["engine"]),
        needs_approval=data.get("needsApproval", False),
        needs_ready_target=data.get("needsReadyTarget", False),
        allow_foreign_backups=data.get("allowForeignBackups", False),
    )
    if template.needs_ready_target and template.type in (OperationType.RESTORE, OperationType.UPGRADE):
        raise ValidationProblems([Problem("needsReadyTarget", f"is not for type {template.type} (OPS-3)")])
    return template


@attrs.frozen
class Templates:
    """All templates of a cluster, at most one for a type and engine."""

    items: tuple[Template, ...] = ()

    def find(self, kind: str, engine: str) -> Template | None:
        """The template of that type and engine, None for a combination that is unknown."""
        return next((one for one in self.items if one.type == kind and one.engine == engine), None)

    def adding(self, data: Iterable[Any]) -> "Templates":
        """These and those in `data`; one of the same name takes the place of the older.

        Raises ValidationProblems: for one that cannot be read, and for a second one of the same type and engine.
        """
        named = {template.name: template for template in self.items}
        for number, each in enumerate(data):
            template = _loaded(each, number)
            named[template.name] = template
        _refuse_doubles(named.values())
        return Templates(tuple(named.values()))


def _loaded(data: Any, number: int) -> Template:
    try:
        return load_template(data)
    except ValidationProblems as error:
        found = [Problem(f"templates[{number}].{one.path}".rstrip("."), one.message) for one in error.problems]
        raise ValidationProblems(found) from None


def _refuse_doubles(templates: Iterable[Template]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for template in templates:
        first = seen.setdefault((template.type, template.engine), template.name)
        if first != template.name:
            told = f"binds type {template.type} to engine {template.engine}, as {first} does already"
            raise ValidationProblems([Problem(template.name, told)])
