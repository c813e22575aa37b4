"""The rules for a Job's status: a Job ends only after all its parts have ended, and its end is final."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from purekube.apimachinery.errors import StatusCause
from purekube.schema.causes import invalid_value, required
from purekube.schema.structure import equal

Manifest = Mapping[str, Any]

_AFTER: Final = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
"""The conditions that end a Job, each with the condition that must precede it."""
_TIME: Final = "status.completionTime"


def check_job_status(new: Manifest, old: Manifest) -> list[StatusCause]:
    """Return everything that is wrong with the new status."""
    now, before = new.get("status") or {}, old.get("status") or {}
    said, was = _true(now), _true(before)
    return [*_completion(now, before, said), *_conditions(said, was), *_activity(now, said)]


def _true(status: Manifest) -> set[str]:
    return {condition["type"] for condition in status.get("conditions") or () if condition.get("status") == "True"}


def _completion(now: Manifest, before: Manifest, said: set[str]) -> Iterator[StatusCause]:
    time, old = now.get("completionTime"), before.get("completionTime")
    if "Complete" in said and not time:
        yield required(_TIME, "completionTime is required for Complete jobs")
    elif "Complete" not in said and time:
        yield invalid_value(_TIME, time, "cannot set completionTime when there is no Complete=True condition")
    elif old and time and not equal(time, old):
        yield invalid_value(_TIME, time, "field is immutable")


def _conditions(said: set[str], was: set[str]) -> Iterator[StatusCause]:
    for end, first in _AFTER.items():
        if end in said and first not in said:
            yield _of_conditions(f"cannot set {end}=True condition without the {first}=true condition")
    for lost in sorted(was - said):
        if lost in _AFTER:
            yield _of_conditions(f"cannot disable the terminal {lost}=True condition")
        elif lost in _AFTER.values():
            yield _of_conditions(f"cannot disable the {lost}=True condition")


def _of_conditions(why: str) -> StatusCause:
    return StatusCause("status.conditions", f"Invalid value: {why}", "FieldValueInvalid")


def _activity(now: Manifest, said: set[str]) -> Iterator[StatusCause]:
    active = now.get("active") or 0
    if active > 0 and said & _AFTER.keys():
        yield invalid_value("status.active", active, "active>0 is invalid for finished job")
