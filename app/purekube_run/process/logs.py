"""Log lines without secrets: text on a terminal, JSON elsewhere (RUN-5, RES-7).

Messages of libraries (uvicorn, httpx2, asyncio), Python warnings, and tracebacks that end the process are logged in the
same format as ours. JSON has the keys of controller-runtime (`ts`, `level`, `msg`), so that existing log pipelines can
read it.
"""

import logging
import math
import os
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, TextIO, cast

import attrs
import structlog
from structlog.typing import EventDict, Processor

from purekube.apimachinery.secret_material import redact, texts_of
from purekube_run.process.command_line import FORMATS, LEVELS
from purekube_run.process.terminal import SecretMask, shows_colours

_LONGEST: Final = 32_768
"""The maximum number of characters of a string in a log line. Longer ones are cut before redaction (RUN-11)."""

_FIRST: Final = ("timestamp", "level", "event", "controller", "namespace", "name", "reconcile_id")
# controller-runtime logs by zap, whose keys in production are ts, level and msg (pkg/log/zap/zap.go, go.uber.org/zap
# NewProductionEncoderConfig).
_KEYS: Final = {"timestamp": "ts", "event": "msg"}
"""The keys of structlog for which controller-runtime has another name, with that name."""
_MANY_LINES: Final = "exception"
_FLOOD_SECONDS: Final = 10.0
"""The seconds within which a repeated warning of a library is logged only once."""
_QUIET: Final = ("httpx2", "httpcore2", "httpcore", "uvicorn", "asyncio", "lightkube")
"""The libraries of which only warnings are logged. Other messages do not concern users, or may show HTTP headers."""


@attrs.define
class Logs:
    """The fields that every log line of the process has, and the secrets that are masked in every line.

    Any thread may add fields, and secrets to mask.
    """

    secrets: SecretMask = attrs.field(factory=SecretMask)
    once: bool = False
    """True if the common fields are logged only once, as on a terminal, where all lines are of one process."""
    _fields: Mapping[str, str] = attrs.field(factory=dict)

    def always(self, **fields: str) -> None:
        """Add these fields to every line from now on.

        If `self.once` is set, log the fields in a single line instead.
        """
        self._fields = {**self._fields, **fields}
        if self.once and fields:
            structlog.get_logger("process").info("about this process", **fields)

    def _add(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        return event if self.once else {**self._fields, **event}

    def _redact(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        # Important fields come first.
        ordered = {**{name: event[name] for name in _FIRST if name in event}, **event}
        texts = texts_of(ordered)
        if texts is None or any(len(text) > _LONGEST for text in texts):
            ordered = {name: _plain(value) for name, value in ordered.items()}
        shown: EventDict = self.secrets.mask(redact(ordered))
        return shown


def _plain(value: Any) -> Any:
    """Return the value converted to JSON data, in which secrets can be found. Other objects become `str(value)`."""
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
    """Configure logging to standard error, and return the object by which the process changes its log lines later.

    By this object the process adds further fields, and registers secrets, which are then masked in every line. Each
    line of JSON has the `fields`; as text they are logged once, in a line of their own. The format `auto` means text on
    a terminal and JSON otherwise. Raises ValueError for a level not in `LEVELS` or a format not in `FORMATS`.
    """
    if level.lower() not in LEVELS:
        raise ValueError(f"unknown log level {level!r}: use one of {', '.join(LEVELS)}")
    if form not in FORMATS:
        raise ValueError(f"unknown log format {form!r}: use one of {', '.join(FORMATS)}")
    number = logging.getLevelNamesMapping()[level.upper()]
    logs = Logs(once=not _is_json(form))
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
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", _BestEffort(sys.stderr))),
        # A module that has logged before this call would keep the former configuration otherwise (structlog.configure).
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.clear_contextvars()
    _take_over_libraries(number, shared, renderer)
    _take_over_defects()
    logs.always(**fields)
    return logs


@attrs.frozen(eq=False)
class _BestEffort:
    """A text stream that discards what it cannot write, for example to a full disk: an error of logging must not end
    the work that is logged.
    """

    _file: TextIO

    def write(self, text: str) -> None:
        """Write a string, if that is possible."""
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        """Flush the stream, if that is possible."""
        with suppress(OSError):
            self._file.flush()


def _is_json(form: str) -> bool:
    return form == "json" or (form == "auto" and not sys.stderr.isatty())


def _renderer(form: str) -> Processor:
    if _is_json(form):
        to_json = structlog.processors.JSONRenderer()
        return lambda logger, method, event: to_json(logger, method, _as_controller_runtime(event))
    # Tracebacks are plain text: the renderer's own would show the values of local variables.
    shown = structlog.dev.ConsoleRenderer(
        colors=shows_colours(sys.stderr, os.environ), exception_formatter=structlog.dev.plain_traceback, pad_event_to=0
    )
    return lambda logger, method, event: shown(logger, method, _printable(event))


def _as_controller_runtime(event: EventDict) -> EventDict:
    return {_KEYS.get(name, name): value for name, value in event.items()}


def _printable(event: EventDict) -> EventDict:
    """Return the log event with control sequences escaped, so that logged strings cannot fake lines of the log."""
    return {name: _plain_lines(value) if name == _MANY_LINES else _one_line(value) for name, value in event.items()}


def _one_line(value: Any) -> Any:
    match value:
        case str():
            return value if value.isprintable() else "".join(map(_visible, value))
        case Mapping():
            return {_one_line(key): _one_line(item) for key, item in value.items()}
        case list():
            return [_one_line(item) for item in value]
        case _:
            return value


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _plain_lines(text: Any) -> str:
    """Return the lines of a traceback, each with a prefix that marks it as part of the traceback."""
    return "\n".join(f"  | {_one_line(line)}" for line in str(text).split("\n"))


class _NoFlood(logging.Filter):
    """A filter that passes a warning of a library only once in ten seconds, if its format string is the same."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Report whether the record is logged: a warning is not, if one of the same format string was logged within the
        last ten seconds. Every record below the level WARNING is logged.
        """
        if record.levelno < logging.WARNING:
            return True  # lower levels are shown only on request
        kind, now = f"{record.name} {str(record.msg)[:200]}", time.monotonic()
        since, left_out = self._said.get(kind, (-math.inf, 0))
        if now - since < _FLOOD_SECONDS:
            self._said[kind] = since, left_out + 1
            return False
        if len(self._said) > 256:
            self._said.clear()
        self._said[kind] = now, 0
        if left_out:
            record.msg, record.args = f"{record.getMessage()} (and {left_out} times more since then)", ()
        return True


def _take_over_libraries(level: int, shared: list[Processor], renderer: Processor) -> None:
    """Send the log records of libraries (`logging`) and Python warnings to this process's structured log."""
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
    handler.addFilter(_NoFlood())
    logging.captureWarnings(True)


def _take_over_defects() -> None:
    """Write uncaught exceptions to this process's log, so that secrets in their tracebacks are masked."""
    log = structlog.get_logger("process")

    def log_defect(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
        else:
            log.critical("a defect ends the process", exc_info=(kind, error, trace))

    def log_thread_defect(args: threading.ExceptHookArgs) -> None:
        error = args.exc_value or args.exc_type()
        log.error("a defect ended a thread", exc_info=(args.exc_type, error, args.exc_traceback))

    sys.excepthook = log_defect
    threading.excepthook = log_thread_defect
