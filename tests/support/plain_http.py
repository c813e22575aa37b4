"""Plain HTTP to the embedded API server and to a kube-apiserver, for what no port can say (RUN-8, RUN-9)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from kubelab.server import ApiServer
from tests.support.cluster_choice import real_server
from tests.support.patience import PATIENCE
from tests.support.server_thread import Wire, served, wall_clock, wired, wired_to


@contextmanager
def _embedded() -> Iterator[Wire]:
    with served(ApiServer(now=wall_clock), gc_delay=None) as url, wired(url) as wire:
        yield wire


@contextmanager
def _real() -> Iterator[Wire]:
    with wired_to(real_server()) as wire:
        yield wire


WIRES: Final[list[Any]] = [pytest.param(_embedded, id="http"), pytest.param(_real, id="kube-apiserver")]
"""Ways to a server without controllers, as its administrator."""


def until(holds: Callable[[], bool]) -> None:
    """Wait for what controllers within a server do by and by."""
    limit = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.05)
