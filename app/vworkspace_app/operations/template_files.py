"""Templates of Operations from YAML files, one per document, in addition to the built-in ones (OPS-2).

A template defines how an engine, such as Velero, carries out one type of Operation.
"""

from collections.abc import Sequence
from typing import Any

from purekube.apimachinery.problems import Problem, ValidationProblems
from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import read_values
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.templates import OperationTemplate, Templates, load_template


def read_templates(paths: Sequence[str]) -> Templates:
    """Return the built-in templates and the templates in the files.

    A template replaces an earlier one of the same name. Raises CommandError with file, line, path and problem: for a
    document that is not a template, an unknown engine, or a second template of the same type and engine.
    """
    templates = builtin_templates()
    for path in paths:
        for place, document in read_values(path):
            try:
                templates = templates.with_template(_loaded(document))
            except ValidationProblems as error:
                message = "; ".join(map(str, error.problems))
                raise CommandError(f"{place}: not a template: {message}") from error
    return templates


def _loaded(document: Any) -> OperationTemplate:
    template = load_template(document)
    if template.engine not in ENGINES:
        known = ", ".join(ENGINES)
        raise ValidationProblems([Problem("engine", f"there is no engine {template.engine}; those are {known}")])
    return template
