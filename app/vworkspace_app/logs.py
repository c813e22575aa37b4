"""Log lines: for people on a terminal, JSON elsewhere; no secret leaves with them (RUN-5, RES-7).

Lines of libraries (uvicorn, httpx2, asyncio), warnings and defects that end the process go the same way as ours.
"""

import logging
import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

import attrs
import structlog
from structlog.typing import EventDict, Processor

from vworkspace_app.hiding import Hidden
from vworkspace_core.kinds.secrets import redact

__all__ = ["FORMATS", "LEVELS", "Logs", "configure"]

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("auto", "json", "text")

_LONGEST: Final = 32_768
"""Characters of a text in a line: what is cut off is not searched for secrets either (RUN-11)."""

_FIRST: Final = ("timestamp", "level", "event", "controller", "namespace", "name", "reconcile_id")
_QUIET: Final = ("httpx2", "httpcore2", "httpcore", "uvicorn", "asyncio", "lightkube")
"""Libraries whose chatter is not for our users; the transport's own would even show headers."""


@attrs.define
class Logs:
    """What every line says, and what none may show. Both may grow while the process runs, from any thread."""

    hidden: Hidden = attrs.field(factory=Hidden)
    _fields: Mapping[str, str] = attrs.field(factory=dict)

    def always(self, **fields: str) -> None:
        """Say these in every line from now on."""
        self._fields = {**self._fields, **fields}

    def _add(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        return {**self._fields, **event}

    def _redact(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        # What is looked for first stands first.
        ordered = {**{name: event[name] for name in _FIRST if name in event}, **event}
        shown: EventDict = self.hidden.mask(redact({name: _plain(value) for name, value in ordered.items()}))
        return shown


def _plain(value: Any) -> Any:
    """JSON of anything, so that redaction sees all of it: an object is its text."""
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return str(value[:_LONGEST])
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
        case bytes():
            return f"{len(value)} bytes"
        case _:
            return str(value)[:_LONGEST]


def configure(*, level: str = "info", form: str = "auto", **fields: str) -> Logs:
    """Send log lines to standard error, each with `fields`. `auto` is text on a terminal, JSON elsewhere.

    Raises ValueError for a level not in `LEVELS` or a format not in `FORMATS`.
    """
    if level.lower() not in LEVELS:
        raise ValueError(f"unknown log level {level!r}: use one of {', '.join(LEVELS)}")
    if form not in FORMATS:
        raise ValueError(f"unknown log format {form!r}: use one of {', '.join(FORMATS)}")
    number = logging.getLevelNamesMapping()[level.upper()]
    logs = Logs()
    logs.always(**fields)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        logs._add,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        logs._redact,
    ]
    renderer = _renderer(form)
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.clear_contextvars()
    _take_over_libraries(number, shared, renderer)
    _take_over_defects()
    return logs


def _renderer(form: str) -> Processor:
    if form == "json" or (form == "auto" and not sys.stderr.isatty()):
        return structlog.processors.JSONRenderer()
    # Tracebacks come as text: the renderer's own would show the values of local variables.
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)


def _take_over_libraries(level: int, shared: list[Processor], renderer: Processor) -> None:
    """Lines of the standard library's loggers, and warnings, in our form."""
    name: Processor = structlog.stdlib.add_logger_name
    drop: Processor = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[name, *shared], processors=[drop, renderer], keep_exc_info=False
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for library in _QUIET:
        logging.getLogger(library).setLevel(max(level, logging.WARNING))
    logging.captureWarnings(True)


def _take_over_defects() -> None:
    """A traceback that ends the process or a thread is a line like any other, redacted."""
    log = structlog.get_logger("process")

    def told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
        else:
            log.critical("a defect ends the process", exc_info=(kind, error, trace))

    def told_of_thread(args: threading.ExceptHookArgs) -> None:
        error = args.exc_value or args.exc_type()
        log.error("a defect ended a thread", exc_info=(args.exc_type, error, args.exc_traceback))

    sys.excepthook = told
    threading.excepthook = told_of_thread
