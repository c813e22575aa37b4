"""What can be wrong with an Operation by its template, whatever else is in the cluster (OPS-2, OPS-3, RUN-6).

The reconciler says it as Accepted=False/ValidationFailed, the webhook refuses it: both ask here.
"""

from vworkspace_core.kinds.operation import Operation
from vworkspace_core.kinds.problems import Problem
from vworkspace_core.operations.templates import Template

__all__ = ["parameter_problems", "unknown_template"]


def parameter_problems(operation: Operation, template: Template) -> tuple[Problem, ...]:
    """Problems of the parameters by the template's schema; absent parameters count as none given."""
    given = operation.spec.parameters
    return template.problems_of({} if given is None else given)


def unknown_template(operation: Operation) -> Problem:
    """That nothing is known of this combination of type and engine."""
    kind, engine = operation.spec.type, operation.spec.engine
    return Problem("spec.engine", f"there is no template for type {kind} and engine {engine}")
