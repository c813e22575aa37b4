"""The machine that a process runs on: clocks, randomness, name.

`run` uses the real one. A simulation gives each replica its own, so that a run is a function of its seed (SIM-3).
"""

import random as random_source
import socket
import uuid
from collections.abc import Callable

import attrs

from purekube.ports import Clock
from purekube_run.process.clock import SystemClock, machine_seconds


@attrs.frozen
class Machine:
    """One machine. `monotonic` also counts while the machine sleeps; `random` gives numbers in [0, 1).

    `unique` returns a text that no other process has.
    """

    clock: Clock = attrs.field(factory=SystemClock)
    monotonic: Callable[[], float] = machine_seconds
    random: Callable[[], float] = random_source.random
    host: str = attrs.field(factory=socket.gethostname)
    unique: Callable[[], str] = lambda: str(uuid.uuid4())
