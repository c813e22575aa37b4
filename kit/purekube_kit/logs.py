"""The logs of controllers during a test: kept for the failure message instead of printed."""

import traceback
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final

import structlog

_MOST: Final = 200
_TOLD: Final = ("warning", "error", "critical", "exception")
_QUIET: Final = ("event", "log_level", "exc_info")


@contextmanager
def keeping_logs(lines: list[str]) -> Iterator[None]:
    """Append logged warnings and errors to `lines` while the block runs, unless logging is configured already."""
    if structlog.is_configured():
        yield
        return

    def keep(logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        if method in _TOLD and len(lines) < _MOST:
            lines.append(_line(event))
        raise structlog.DropEvent

    structlog.configure(processors=[structlog.contextvars.merge_contextvars, keep])
    try:
        yield
    finally:
        structlog.reset_defaults()


def _line(event: MutableMapping[str, Any]) -> str:
    said = " ".join(f"{key}={value}" for key, value in event.items() if key not in _QUIET)
    error = event.get("exc_info")
    trace = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
    return f"{event.get('event')} {said}\n{trace}".rstrip()
