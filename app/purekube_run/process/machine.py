"""The properties of the machine on which a process depends: clocks, random sources, host name."""

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
    """Return monotonic seconds that also advance while the machine is suspended, where the system supports
    it (Linux).
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class SystemClock:
    """The `Clock` of the machine on which this process runs."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the seconds since an arbitrary fixed moment, on a clock that never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        await anyio.sleep(seconds)


class SystemEntropy:
    """The source of random text for secrets (`Entropy`) of the machine on which this process runs."""

    def text(self, length: int, alphabet: str) -> str:
        """Return `length` random characters of `alphabet`."""
        return "".join(secrets.choice(alphabet) for _ in range(length))


@attrs.frozen
class Machine:
    """The clocks and random sources of the machine on which a process runs; a simulation has machines of its own.

    `monotonic` also advances while the machine is suspended. `random` returns numbers in [0, 1). `unique` returns a
    string that no other process has.
    """

    clock: Clock = attrs.field(factory=SystemClock)
    monotonic: Callable[[], float] = machine_seconds
    random: Callable[[], float] = random_source.random
    host: str = attrs.field(factory=socket.gethostname)
    unique: Callable[[], str] = lambda: str(uuid.uuid4())
