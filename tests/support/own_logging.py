"""The logging of one test: whatever it configures ends with it."""

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator

import structlog


@contextlib.contextmanager
def own_logging() -> Iterator[None]:
    """Restore handlers, hooks and structlog's configuration afterwards."""
    configured = structlog.get_config() if structlog.is_configured() else None
    root, hooks = logging.getLogger(), (sys.excepthook, threading.excepthook)
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.captureWarnings(False)
        sys.excepthook, threading.excepthook = hooks
        if configured is None:
            structlog.reset_defaults()
        else:
            structlog.configure(**configured)
