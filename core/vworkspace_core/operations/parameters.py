"""The validation of an Operation by its template, independent of the cluster's state (OPS-2, OPS-3, RUN-6).

It has three users: the reconciler reports problems as Accepted=False/ValidationFailed, and the webhook and the job
agent (which carries out the jobs of the control plane) refuse Operations with problems.
"""

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.problems import Problem, ValidationProblems
from purekube.apimachinery.structuring import structure
from vworkspace_core.api.classes import class_of
from vworkspace_core.api.operation import Operation
from vworkspace_core.operations.builtin import needs_of_engine
from vworkspace_core.operations.templates import PARAMETERS, OperationTemplate, Templates


def template_problems(manifest: Manifest, templates: Templates) -> tuple[Problem, ...]:
    """Return why the Operation `manifest` is invalid by the template for its type and engine; empty if valid (OPS-2).

    `templates` are all templates of the cluster. The result is also empty for other objects and for an unreadable
    Operation.
    """
    if class_of(manifest) is not Operation:
        return ()
    try:
        operation = structure(Operation, manifest)
    except ValidationProblems:
        return ()
    template = templates.find(operation.spec.type, operation.spec.engine)
    return (unknown_template(operation),) if template is None else parameter_problems(operation, template)


def parameter_problems(operation: Operation, template: OperationTemplate) -> tuple[Problem, ...]:
    """Return why the Operation's parameters are invalid by the template's schema; empty if they are valid.

    If there are no problems, the parameters are also validated by the engine's own schema, since a template may require
    less than its engine needs. Absent parameters count as {}.
    """
    from vworkspace_core.operations.schema_violations import violations_of  # the validator is slow to import

    given = {} if operation.spec.parameters is None else operation.spec.parameters
    return template.problems_of(given) or violations_of(needs_of_engine(template), given, PARAMETERS)


def unknown_template(operation: Operation) -> Problem:
    """Return the problem to report if no template exists for the Operation's combination of type and engine."""
    kind, engine = operation.spec.type, operation.spec.engine
    return Problem("spec.engine", f"there is no template for type {kind} and engine {engine}")
