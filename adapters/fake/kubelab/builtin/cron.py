"""The validation of CronJob schedules as in kube-apiserver (W-39): robfig/cron v3's standard syntax and error messages.

A schedule is five fields, `@daily` and its like, or `@every 1h30m`. A time zone belongs into `timeZone`; `TZ=` in a
schedule is accepted only where the stored object has it already.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final
from zoneinfo import ZoneInfo, available_timezones

from purekube.apimachinery.errors import StatusCause
from purekube.schema.causes import invalid_value, quoted

DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""The schedules that have a name, with the five fields that the name means."""
_MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: Final[tuple[tuple[int, int, Mapping[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: at for at, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: at for at, name in enumerate(_DAYS)}),
)
"""The smallest value, the largest value and the names of each field, from the minute to the day of the week."""
_DURATION: Final = re.compile(r"[+-]?(?:(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|0)", re.ASCII)
_OTHER_UNIT: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)([^\d.]*)", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_LARGEST: Final = 2**63 - 1
_NO_ZONE: Final = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
_BOTH: Final = "cannot use both timeZone field and TZ or CRON_TZ in schedule"


class MalformedSchedule(ValueError):
    """The error of a schedule or time zone that robfig/cron refuses, with robfig/cron's message."""


def schedule_causes(spec: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> Iterator[StatusCause]:
    """Yield the problems of `schedule` and `timeZone` in a CronJob's spec.

    `before` is the stored spec for an update, and None for a new CronJob.
    """
    schedule, zone = str(spec["schedule"]), spec.get("timeZone")
    try:
        _parse(schedule)
    except MalformedSchedule as error:
        yield invalid_value("spec.schedule", schedule, str(error))
    # kubernetes: apis/batch/validation/validation.go looks for the two letters anywhere; no valid schedule has them
    # otherwise.
    has_zone, had_zone = "TZ" in schedule, before is not None and "TZ" in str(before.get("schedule"))
    if has_zone and not had_zone:
        yield invalid_value("spec.schedule", schedule, _NO_ZONE)
    elif has_zone and zone is not None:
        yield invalid_value("spec.schedule", schedule, _BOTH)
    if isinstance(zone, str) and (before is None or before.get("timeZone") != zone):
        yield from (invalid_value("spec.timeZone", zone, text) for text in _zone_problems(zone))


def _zone_problems(zone: str) -> Iterator[str]:
    if not zone:
        yield "timeZone must be nil or non-empty string"
        return
    if zone.lower() == "local":
        yield "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
    if zone != "Local" and not _is_zone(zone):
        yield f"unknown time zone {zone}"


@cache
def _has_zones() -> bool:
    """Report whether this machine has a time zone database. Without such a database every zone name is accepted."""
    return bool(available_timezones())


def _is_zone(name: str) -> bool:
    if not _has_zones():
        return True
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        return False
    return True


def _parse(schedule: str) -> None:
    """Raise MalformedSchedule if the schedule cannot be parsed."""
    text = schedule
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, space, rest = text.partition("=")[2].partition(" ")
        if not space:
            # robfig/cron panics on a zone without a schedule after it; kube-apiserver reports the panic in these words.
            raise MalformedSchedule("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        if zone and not _is_zone(zone):
            raise MalformedSchedule(f"provided bad location {zone}: unknown time zone {zone}")
        text = rest.strip()
    if text.startswith("@"):
        _parse_descriptor(text)
        return
    selected_numbers(text)


def selected_numbers(schedule: str) -> list[set[int]]:
    """Return the numbers that each of the five fields of a schedule selects, from the minute to the day of the week.

    Raises MalformedSchedule.
    """
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise MalformedSchedule(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    # robfig/cron v3.0.1: parser.go, getField splits by strings.FieldsFunc, which leaves out empty parts, so `1,,2` and
    # `,` are accepted.
    return [
        {number for expression in filter(None, field.split(",")) for number in _range(expression, *limits)}
        for field, limits in zip(fields, _FIELDS, strict=True)
    ]


def _parse_descriptor(text: str) -> None:
    if not text.startswith("@every "):
        if text not in DESCRIPTORS:
            raise MalformedSchedule(f"unrecognized descriptor: {text}")
        return
    duration = text.removeprefix("@every ")
    if _DURATION.fullmatch(duration):
        return
    problem = f"invalid duration {quoted(duration)}"
    if match := _OTHER_UNIT.match(duration):
        unit = match.group(1)
        problem = f"unknown unit {quoted(unit)}" if unit else "missing unit"
        problem += f" in duration {quoted(duration)}"
    raise MalformedSchedule(f"failed to parse duration {text}: time: {problem}")


def _range(expression: str, least: int, most: int, names: Mapping[str, int]) -> range:
    """Return the numbers that a part of a schedule's field selects, such as `*`, `5`, `mon-fri` or `10-50/20`.

    Raises MalformedSchedule.
    """
    bounds, *steps = expression.split("/")
    low, *highs = bounds.split("-")
    if low in ("*", "?"):
        first, last = least, most
    else:
        first = last = _number(low, names)
        if len(highs) > 1:
            raise MalformedSchedule(f"too many hyphens: {expression}")
        last = _number(highs[0], names) if highs else first
    step = 1
    if len(steps) > 1:
        raise MalformedSchedule(f"too many slashes: {expression}")
    if steps:
        step = _number(steps[0], {})
        # robfig/cron v3.0.1: parser.go, getRange: `N/step` means from N to the maximum.
        last = most if not highs else last
    if first < least:
        raise MalformedSchedule(f"beginning of range ({first}) below minimum ({least}): {expression}")
    if last > most:
        raise MalformedSchedule(f"end of range ({last}) above maximum ({most}): {expression}")
    if first > last:
        raise MalformedSchedule(f"beginning of range ({first}) beyond end of range ({last}): {expression}")
    if step == 0:
        raise MalformedSchedule(f"step of range should be a positive number: {expression}")
    return range(first, last + 1, step)


def _number(text: str, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    problem = "" if _INTEGER.fullmatch(text) else "invalid syntax"
    if not problem and abs(int(text)) > _LARGEST:
        problem = "value out of range"
    if problem:
        raise MalformedSchedule(f"failed to parse int from {text}: strconv.Atoi: parsing {quoted(text)}: {problem}")
    if int(text) < 0:
        raise MalformedSchedule(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
