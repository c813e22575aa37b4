"""The next due time of a cron schedule, in UTC: five fields, or one of the `@` names."""

from datetime import datetime, timedelta
from typing import Final

_NAMES: Final = {
    "@annually": "0 0 1 1 *",
    "@yearly": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_RANGES: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_FARTHEST_DAYS: Final = 366 * 8


def next_run(schedule: str, after: datetime) -> datetime:
    """Return the first time after `after` at which `schedule` is due. Raises ValueError if there is none."""
    fields = _NAMES.get(schedule, schedule).split()
    if len(fields) != len(_RANGES):
        raise ValueError(f"not a schedule of five fields: {schedule!r}")
    minutes, hours, days, months, weekdays = (
        _values(field, low, high) for field, (low, high) in zip(fields, _RANGES, strict=True)
    )
    weekdays |= {0} if 7 in weekdays else set()
    either = fields[2] != "*" and fields[4] != "*"
    moment = after.replace(second=0, microsecond=0) + timedelta(minutes=1)
    day = moment.replace(hour=0, minute=0)
    for _ in range(_FARTHEST_DAYS):
        of_month, of_week = day.day in days, day.isoweekday() % 7 in weekdays
        if day.month in months and ((of_month or of_week) if either else (of_month and of_week)):
            for hour in sorted(hours):
                for minute in sorted(minutes):
                    run = day.replace(hour=hour, minute=minute)
                    if run >= moment:
                        return run
        day += timedelta(days=1)
    raise ValueError(f"a schedule that is never due: {schedule!r}")


def _values(field: str, low: int, high: int) -> set[int]:
    """Return the numbers in one field.

    Raises ValueError for all syntax except `*`, numbers, ranges, lists and steps.
    """
    numbers: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        start = low if span == "*" else int(first)
        end = high if span == "*" or (step and not last) else int(last or first)
        if not (low <= start <= end <= high):
            raise ValueError(f"{part!r} is not within {low} to {high}")
        numbers |= set(range(start, end + 1, int(step or 1)))
    return numbers
