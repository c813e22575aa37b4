"""Operation templates: which engine carries out which Operation type, with which parameters (OPS-2).

For one type and one engine, a template names the capability (such as `backup`) that annotations of the target must
declare, a JSON Schema of the parameters, and an RBAC profile. It also says whether the target must be ready, and
whether a person has to approve. Templates are data: `Templates.adding` adds more of them from mappings as YAML parsers
return them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.problems import Problem, ValidationProblems
from vworkspace_core.api.labels import CAPABILITIES
from vworkspace_core.api.operation import OperationType

PARAMETERS: Final = "spec.parameters"
"""The path of the parameters in an Operation, for messages."""

_TEMPLATE_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "type", "engine", "capability", "parameters"],
    "properties": {
        "name": {
            "type": "string",
            "pattern": r"^[a-z][A-Za-z0-9]*\.[a-z][A-Za-z0-9.-]*$",
            "maxLength": 63,
            "examples": ["backup.velero"],
        },
        "type": {"enum": [kind.value for kind in OperationType]},
        "engine": {"type": "string", "pattern": "^[a-z][A-Za-z0-9]*$", "maxLength": 63, "examples": ["velero"]},
        "capability": {"enum": list(CAPABILITIES)},
        "parameters": {"type": "object"},
        "rbacProfile": {"type": "string", "maxLength": 63},
        "needsApproval": {"type": "boolean"},
        "needsReadyTarget": {"type": "boolean"},
        "allowForeignBackups": {"type": "boolean"},
        "allowUnrestrictedHooks": {"type": "boolean"},
    },
}


@attrs.frozen
class OperationTemplate:
    """The definition of how one type of Operation is carried out by one engine.

    `engine` is the name of a registered engine. `capability`, such as `backup`, is what an annotation of the target
    must declare for this engine. `schema` is the JSON Schema of the parameters. With `needs_approval` a person must
    approve each Operation. With `needs_ready_target` an Operation starts only while its target is ready; this is never
    set for restores and upgrades, which repair a broken application. `allow_foreign_backups` lets a restore use a
    backup that lacks its target's labels. `allow_unrestricted_hooks` lets a chart's hook run with whatever rights its
    pods have; such a template always needs an approval. `rbac_profile` is a name that the operator does not evaluate.
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
    allow_unrestricted_hooks: bool = False

    def problems_of(self, parameters: Any) -> tuple[Problem, ...]:
        """Return why `parameters` are invalid by the template's schema; empty if they are valid.

        Paths in the problems begin at `spec.parameters`.
        """
        from vworkspace_core.operations.schema_violations import violations_of  # the validator is slow to import

        return violations_of(self.schema, parameters, PARAMETERS)


def load_template(data: Any) -> OperationTemplate:
    """Return the template in `data`, a JSON-like mapping with keys such as `engine` and `parameters`.

    Raises ValidationProblems with every problem and its path.
    """
    from vworkspace_core.operations.schema_violations import (  # the validator is slow to import
        schema_problems,
        violations_of,
    )

    problems = violations_of(_TEMPLATE_SCHEMA, data, "")
    if problems:
        raise ValidationProblems(problems)
    if problems := schema_problems(data["parameters"], "parameters"):
        raise ValidationProblems(problems)
    unrestricted = data.get("allowUnrestrictedHooks", False)
    template = OperationTemplate(
        name=data["name"],
        type=OperationType(data["type"]),
        engine=data["engine"],
        capability=data["capability"],
        schema=data["parameters"],
        rbac_profile=data.get("rbacProfile", data["engine"]),
        needs_approval=data.get("needsApproval", unrestricted),
        needs_ready_target=data.get("needsReadyTarget", False),
        allow_foreign_backups=data.get("allowForeignBackups", False),
        allow_unrestricted_hooks=unrestricted,
    )
    if unrestricted and not template.needs_approval:
        raise ValidationProblems([Problem("needsApproval", "must not be false where allowUnrestrictedHooks is true")])
    if template.needs_ready_target and template.type in (OperationType.RESTORE, OperationType.UPGRADE):
        raise ValidationProblems(
            [
                Problem(
                    "needsReadyTarget", f"is not for type {template.type}: they are how a broken application gets well"
                )
            ]
        )
    return template


@attrs.frozen
class Templates:
    """All templates of a cluster, at most one for each combination of type and engine."""

    items: tuple[OperationTemplate, ...] = ()

    def find(self, kind: str, engine: str) -> OperationTemplate | None:
        """Return the template for Operations of the type `kind` with `engine`, or None if there is no such template."""
        return next((template for template in self.items if template.type == kind and template.engine == engine), None)

    def with_template(self, template: OperationTemplate) -> "Templates":
        """Return a copy with the template added.

        It replaces a template of the same name. Raises ValidationProblems if another template has the same type and
        engine.
        """
        others = tuple(item for item in self.items if item.name != template.name)
        double = next(
            (other for other in others if (other.type, other.engine) == (template.type, template.engine)), None
        )
        if double is not None:
            message = f"binds type {template.type} to engine {template.engine}, as {double.name} does already"
            raise ValidationProblems([Problem("name", message)])
        if len(others) == len(self.items):
            return Templates((*self.items, template))
        return Templates(tuple(template if item.name == template.name else item for item in self.items))

    def adding(self, data: Iterable[Any]) -> "Templates":
        """Return a copy with the templates in `data` added, each as `with_template` adds it.

        `data` has one JSON-like mapping for each template. Raises ValidationProblems with paths such as
        `templates[0].name`.
        """
        templates = self
        for number, each in enumerate(data):
            try:
                templates = templates.with_template(load_template(each))
            except ValidationProblems as error:
                problems = [
                    attrs.evolve(problem, path=f"templates[{number}].{problem.path}".removesuffix("."))
                    for problem in error.problems
                ]
                raise ValidationProblems(problems) from None
        return templates
