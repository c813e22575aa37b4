"""Durations as Go writes them: `1h30m`, `1.5s`, `100ms`."""

import re
from datetime import timedelta
from typing import Final

__all__ = ["parse_duration"]

_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE: Final = re.compile(r"[+-]?(?:(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|0)")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> timedelta | None:
    """The duration, None when `text` is none."""
    if not _WHOLE.fullmatch(text):
        return None
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    return timedelta(seconds=-seconds if text.startswith("-") else seconds)
