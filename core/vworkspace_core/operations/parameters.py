"""What can be wrong with an Operation by its template, whatever else is in the cluster (OPS-2, OPS-3, RUN-6).

The reconciler says it as Accepted=False/ValidationFailed, the webhook and the agent refuse it: all ask here.
"""

from vworkspace_core.api.codec import class_of, structure
from vworkspace_core.api.operation import Operation
from vworkspace_core.apimachinery.manifest import Manifest
from vworkspace_core.apimachinery.problems import Problem, ValidationProblems
from vworkspace_core.operations.builtin import needs_of_engine
from vworkspace_core.operations.schemas import violations_of
from vworkspace_core.operations.templates import PARAMETERS, Template, Templates


def template_problems(manifest: Manifest, templates: Templates) -> tuple[Problem, ...]:
    """What its template says to a readable Operation (OPS-2); nothing of anything else."""
    if class_of(manifest) is not Operation:
        return ()
    try:
        operation = structure(Operation, manifest)
    except ValidationProblems:
        return ()
    template = templates.find(operation.spec.type, operation.spec.engine)
    return (unknown_template(operation),) if template is None else parameter_problems(operation, template)


def parameter_problems(operation: Operation, template: Template) -> tuple[Problem, ...]:
    """Problems of the parameters by the template's schema, and by what its engine reads; absent ones are none given.

    A template that asks for less than its engine needs refuses nothing at its start: each Operation is told.
    """
    given = {} if operation.spec.parameters is None else operation.spec.parameters
    return template.problems_of(given) or violations_of(needs_of_engine(template), given, PARAMETERS)


def unknown_template(operation: Operation) -> Problem:
    """That nothing is known of this combination of type and engine."""
    kind, engine = operation.spec.type, operation.spec.engine
    return Problem("spec.engine", f"there is no template for type {kind} and engine {engine}")
