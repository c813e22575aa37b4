"""Log lines: for people on a terminal, JSON elsewhere; secrets redacted on the way out (RUN-5)."""

import logging
import sys
from typing import Any

import structlog
from structlog.typing import EventDict, Processor

from vworkspace_core.kinds.secrets import redact

__all__ = ["LEVELS", "configure"]

LEVELS = ("debug", "info", "warning", "error")


def _redacted(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return {key: redact(value) if isinstance(value, str | dict | list) else value for key, value in event.items()}


def configure(*, level: str = "info", json: bool | None = None, **context: str) -> None:
    """Send log lines to standard error. `json=None` chooses by whether standard error is a terminal.

    `context` (cluster_id, operator_version, …) is in every line. Raises ValueError for a level not in `LEVELS`.
    """
    if level.lower() not in LEVELS:
        raise ValueError(f"unknown log level {level!r}: use one of {', '.join(LEVELS)}")
    number = logging.getLevelNamesMapping()[level.upper()]
    as_json = not sys.stderr.isatty() if json is None else json
    renderer: Processor = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _redacted,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(**context)
