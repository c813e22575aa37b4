"""Runs a coroutine under virtual time: an hour of waiting takes no time and is the same every time."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

from kubelab.clock import virtual_loop

T = TypeVar("T")


def run(main: Callable[[], Awaitable[T]]) -> T:
    """The result of `main`, run on a loop of its own."""
    options: dict[str, Any] = {"loop_factory": virtual_loop()}
    return anyio.run(main, backend_options=options)
