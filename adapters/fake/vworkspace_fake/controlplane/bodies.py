"""Checks of the bodies that the agent posts, as strict as the specification of the wire format (PULL-1).

The agent is the operator in a cluster. It posts progress and results of jobs, and events. Each check returns the
problems of a body, with their paths; the list is empty if the body is valid.
"""

from typing import Any, Final

from purekube.schema.builtin.schema_parts import STRING, TIME, OpenApi, choice, each, items, obj
from purekube.schema.compile import compile_schema
from purekube.schema.node import Schema
from purekube.schema.violations import validate

BATCH_LIMIT: Final = 100
"""The most events in one request of an agent (PULL-6)."""

_TEXT: Final[OpenApi] = {"type": "string", "minLength": 1}
_CONDITION: Final = obj(
    "reason! status! type!", **each(_TEXT, "type reason"), status=choice("True", "False", "Unknown")
)
_REPORT: Final[dict[str, OpenApi]] = {"timestamp": TIME, "conditions": items(_CONDITION)}
_STATUS: Final = compile_schema(obj("conditions! message! phase! timestamp!", phase=_TEXT, **_REPORT))
_OUTCOMES: Final = ("succeeded", "failed", "noop", "conflict")
_APPLIED: Final = "apiVersion! kind! namespace! name! uid!"
_RESULT: Final = compile_schema(
    obj(
        "outcome! timestamp!:time pageUrl",
        outcome=choice(*_OUTCOMES),
        error={**STRING, "nullable": True},
        appliedRef={**obj(f"{_APPLIED} generation!:int64"), "nullable": True},
    )
)
# The namespace may be empty for cluster-scoped objects, and the uid for a Cluster that does not exist.
_RESOURCE: Final = obj(_APPLIED, **each(_TEXT, "apiVersion kind name"))
_EVENT: Final = compile_schema(
    obj(
        "conditions! eventKey! kind! resourceRef! timestamp!",
        **each(_TEXT, "kind eventKey"),
        resourceRef=_RESOURCE,
        **_REPORT,
    )
)


def check_status(body: Any) -> list[str]:
    """Return the problems of `body`, an agent's report of a job's progress."""
    return _problems(_STATUS, body)


def check_result(body: Any) -> list[str]:
    """Return the problems of `body`, an agent's report of a job's result."""
    problems = _problems(_RESULT, body)
    if problems:
        return problems
    outcome, error = body["outcome"], body.get("error")
    if outcome in ("failed", "conflict") and not error:
        return [f"error: is required with outcome {outcome}"]
    return ["error: must be absent with outcome succeeded"] if outcome == "succeeded" and error else []


def check_event(event: Any) -> list[str]:
    """Return the problems of one event that an agent sends."""
    return _problems(_EVENT, event)


def _problems(schema: Schema, body: Any) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in validate(schema, body)]
