"""The machine that a process runs on, as far as the process depends on it: clocks, randomness, name."""

import random as random_source
import secrets
import socket
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

import anyio
import attrs

from purekube.ports import Clock


def machine_seconds() -> float:
    """Return seconds that also pass while the machine is suspended, if the system can (Linux); never backwards."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class SystemClock:
    """`Clock` of the machine it runs on."""

    def now(self) -> datetime:
        """Return the wall time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Suspend for `seconds`."""
        await anyio.sleep(seconds)


class SystemEntropy:
    """`Entropy` of the machine it runs on."""

    def text(self, length: int, alphabet: str) -> str:
        """Return `length` random characters of `alphabet`."""
        return "".join(secrets.choice(alphabet) for _ in range(length))


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
