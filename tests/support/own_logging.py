"""The logging of one test: whatever it configures ends with it."""

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def own_logging() -> Iterator[None]:
    """Restore handlers, hooks and structlog's configuration afterwards."""
    configured = _configuration()
    root, hooks = logging.getLogger(), (sys.excepthook, threading.excepthook)
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.captureWarnings(False)
        sys.excepthook, threading.excepthook = hooks
        _configure(configured)


def _configuration() -> dict[str, Any] | None:
    """Return structlog's configuration; None where nothing has configured it, or it is not installed (`test-pure`)."""
    structlog = sys.modules.get("structlog")
    return structlog.get_config() if structlog is not None and structlog.is_configured() else None


def _configure(configuration: dict[str, Any] | None) -> None:
    structlog = sys.modules.get("structlog")
    if structlog is not None:
        structlog.reset_defaults() if configuration is None else structlog.configure(**configuration)
