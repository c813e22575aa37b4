"""The CEL library of times: methods such as `getHours` that return parts of timestamps and durations."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from purekube.apimachinery.durations import NANOS
from purekube.cel.limits import EvaluationError, of_type
from purekube.cel.moments import zone_of
from purekube.cel.signatures import Function, function
from purekube.cel.values import Duration, Timestamp

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _moment(value: Any, zone: Any = "UTC") -> datetime:
    moment = _EPOCH + timedelta(seconds=of_type(Timestamp, value).nanos // NANOS)
    try:
        return moment.astimezone(zone_of(of_type(str, zone)))
    except OverflowError as error:
        raise EvaluationError("timestamp overflow") from error


def _part(of_moment: Callable[[datetime], int], nanos: int = 0) -> Callable[..., int]:
    """Return a function that returns a part of a timestamp, such as the hours.

    If `nanos` (the length of a unit) is not 0, the function also accepts a duration. For a duration it returns the
    number of whole units.
    """

    def run(value: Any, *zone: Any) -> int:
        if isinstance(value, Duration) and nanos and not zone:
            whole = abs(value.nanos) // nanos
            return whole if value.nanos >= 0 else -whole
        return of_moment(_moment(value, *zone))

    return run


def _milliseconds(value: Any, *zone: Any) -> int:
    if isinstance(value, Duration) and not zone:
        return _part(lambda moment: 0, 1_000_000)(value)
    _moment(value, *zone)
    return int(value.nanos % NANOS // 1_000_000)


_CALENDAR: Final[dict[str, Callable[[datetime], int]]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
}


def _functions() -> tuple[Function, ...]:
    parts = {name: _part(run) for name, run in _CALENDAR.items()}
    clock = {
        "getHours": _part(lambda moment: moment.hour, 3_600 * NANOS),
        "getMinutes": _part(lambda moment: moment.minute, 60 * NANOS),
        "getSeconds": _part(lambda moment: moment.second, NANOS),
        "getMilliseconds": _milliseconds,
    }
    zoned = [function(f"timestamp.{name}(string) -> int", run) for name, run in {**parts, **clock}.items()]
    plain = [function(f"timestamp.{name}() -> int", run) for name, run in parts.items()]
    both = [function([f"timestamp.{name}() -> int", f"duration.{name}() -> int"], run) for name, run in clock.items()]
    return (*plain, *both, *zoned)


FUNCTIONS: Final = _functions()
