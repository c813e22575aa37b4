"""A value that changes at run time, with its subscribers."""

from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

T = TypeVar("T")
_log = structlog.get_logger("operator")


class Live(Generic[T]):
    """The current value. Its owner sets it; readers take `current` each time they need it, or subscribe."""

    def __init__(self, first: T) -> None:
        self._current = first
        self._handlers: list[Callable[[T], None]] = []

    def __repr__(self) -> str:
        return f"Live({self._current!r})"

    @property
    def current(self) -> T:
        """The value now."""
        return self._current

    def subscribe(self, handler: Callable[[T], None]) -> None:
        """Call `handler` with every new value from now on, synchronously.

        One that raises does not affect the others.
        """
        self._handlers.append(handler)

    def set(self, value: T) -> bool:
        """Replace the value; return whether it changed."""
        if value == self._current:
            return False
        self._current = value
        for handler in self._handlers:
            try:
                handler(value)
            except Exception as error:
                # Only the type: the value may be a credential, and the error may quote it.
                _log.error("a listener failed on a new value", kind=type(value).__name__, error=type(error).__name__)
        return True
