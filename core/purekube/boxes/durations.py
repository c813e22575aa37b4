"""Durations of a box's file in seconds: `90s`, `1h30m`."""

from purekube.cel.durations import parse_duration


def seconds_of(text: str) -> float:
    """Return the seconds of a duration, whose form was checked before."""
    duration = parse_duration(text)
    return duration.nanos / 1e9 if duration is not None else 60.0
