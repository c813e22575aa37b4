"""Checks of the bodies that the agent posts, as strict as the specification of the wire format (PULL-1).

The agent is the operator in a cluster. It posts progress and results of jobs, and events.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

BATCH_LIMIT: Final = 100
"""The most events in one request of an agent (PULL-6)."""

_OUTCOMES: Final = ("succeeded", "failed", "noop", "conflict")
_RESOURCE_REF: Final = ("apiVersion", "kind", "namespace", "name", "uid")
_APPLIED_REF: Final = {"apiVersion": str, "kind": str, "namespace": str, "name": str, "uid": str, "generation": int}


def check_status(body: Any) -> list[str]:
    """Return the problems of `body`, an agent's report of a job's progress, each with its path.

    The list is empty if `body` is valid.
    """
    if not isinstance(body, Mapping):
        return ["the body must be an object"]
    problems = [*_texts(body, "phase", "message"), *_time(body)]
    return [*problems, *_conditions(body.get("conditions"))]


def check_result(body: Any) -> list[str]:
    """Return the problems of `body`, an agent's report of a job's result, each with its path.

    The list is empty if `body` is valid.
    """
    if not isinstance(body, Mapping):
        return ["the body must be an object"]
    problems = list(_time(body))
    outcome, error = body.get("outcome"), body.get("error")
    if outcome not in _OUTCOMES:
        problems.append(f"outcome: must be one of {', '.join(_OUTCOMES)}, not {outcome!r}")
    if error is not None and not isinstance(error, str):
        problems.append("error: must be a string")
    if outcome in ("failed", "conflict") and not error:
        problems.append(f"error: is required with outcome {outcome}")
    if outcome == "succeeded" and error:
        problems.append("error: must be absent with outcome succeeded")
    if not isinstance(body.get("pageUrl", ""), str):
        problems.append("pageUrl: must be a string")
    return [*problems, *_applied_ref(body.get("appliedRef"))]


def check_event(event: Any) -> list[str]:
    """Return the problems of one event that an agent sends, each with its path.

    The list is empty if `event` is valid.
    """
    if not isinstance(event, Mapping):
        return ["must be an object"]
    problems = [*_texts(event, "kind", "eventKey"), *_time(event), *_resource_ref(event.get("resourceRef"))]
    return [*problems, *_conditions(event.get("conditions"))]


def _texts(body: Mapping[str, Any], *names: str) -> Iterator[str]:
    for name in names:
        if not isinstance(body.get(name), str) or (not body[name] and name != "message"):
            yield f"{name}: must be a string"


def _time(body: Mapping[str, Any]) -> Iterator[str]:
    text = body.get("timestamp")
    try:
        if not isinstance(text, str) or datetime.fromisoformat(text).tzinfo is None:
            yield "timestamp: must be an RFC 3339 time"
    except ValueError:
        yield "timestamp: must be an RFC 3339 time"


def _conditions(value: Any) -> Iterator[str]:
    if not isinstance(value, list):
        yield "conditions: must be a list"
        return
    for at, condition in enumerate(value):
        yield from _condition(condition, f"conditions[{at}]")


def _condition(condition: Any, path: str) -> Iterator[str]:
    if not isinstance(condition, Mapping):
        yield f"{path}: must be an object"
        return
    yield from (f"{path}.{problem}" for problem in _texts(condition, "type", "reason"))
    if condition.get("status") not in ("True", "False", "Unknown"):
        yield f"{path}.status: must be True, False or Unknown"


def _resource_ref(value: Any) -> Iterator[str]:
    """Yield the problems of an event's `resourceRef`.

    The namespace may be empty for cluster-scoped objects, and the uid for a Cluster that does not exist.
    """
    if not isinstance(value, Mapping):
        yield "resourceRef: must be an object"
        return
    for name in _RESOURCE_REF:
        text = value.get(name)
        if not isinstance(text, str) or (not text and name not in ("namespace", "uid")):
            yield f"resourceRef.{name}: must be a string"


def _applied_ref(value: Any) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, Mapping):
        yield "appliedRef: must be an object"
        return
    for name, desired in _APPLIED_REF.items():
        if not isinstance(value.get(name), desired):
            yield f"appliedRef.{name}: must be {'an integer' if desired is int else 'a string'}"
