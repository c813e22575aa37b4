"""How hard the suite tries, and where what it draws comes from (RUN-10).

`make test` tries the same examples on every machine and in every run, whatever the environment says: fewer than a run
of named tests, of slow ones or of mutants. `make test-long` (`pytest --long`) tries many more, drawn anew from a seed
that it prints, until its time is up. `--hypothesis-seed` plays a seed again.
"""

import itertools
import os
import random
from typing import Any, TypeVar

import attrs
from hypothesis import HealthCheck, settings

T = TypeVar("T")

_ANYWHERE: Any = {
    "deadline": None,
    "database": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}
"""Laws are judged, not the speed of the machine; what a run before this one found changes nothing."""

PROFILES = {
    "brief": settings(derandomize=True, max_examples=8, **_ANYWHERE),
    "same": settings(derandomize=True, max_examples=25, **_ANYWHERE),
    "seeded": settings(max_examples=25, **_ANYWHERE),
    "long": settings(max_examples=1000, **_ANYWHERE),
}


@attrs.define
class Effort:
    """The effort that the command line asks for (`tests/conftest.py`).

    `seed` is None where every run is the same. `brief` is a `make test` that names no tests, unless it is `long`.
    """

    long: bool = False
    brief: bool = False
    seed: int | None = None

    @property
    def profile(self) -> str:
        """The name of the Hypothesis profile."""
        if self.long:
            return "long"
        if self.seed is not None:
            return "seeded"
        return "brief" if self.brief else "same"

    def seed_of(self, part: int) -> int:
        """A seed for one part of a test that is cut into parts."""
        return part if self.seed is None else random.Random(f"{self.seed}/{part}").getrandbits(64)


def long_examples(minutes: float, processors: int) -> int:
    """The examples of each law in a run of so many minutes on so many processors, which reaches every law.

    All 836 laws took 13 seconds of one processor for each of 1000 examples, and attacks follow them.
    """
    return max(200, min(1000, round(4 * minutes * processors)))


EFFORT = Effort()
"""That of this run. It is set before the first test module is imported."""

_NUMBERS = itertools.count()


def effort(share: float) -> int:
    """The number of examples; 1.0 is what a law gets that says nothing."""
    return max(1, round(settings().max_examples * share))


def of_both(sample: T, whole: T) -> T:
    """`sample` in `make test`, `whole` in `make test-long`."""
    return whole if EFFORT.long else sample


def unused_name(prefix: str) -> str:
    """A name that nothing of this run has; on a cluster that outlives the run, nothing of another run either."""
    worker = os.environ.get("TESTS_WORKER", "")
    foreign = f"{random.SystemRandom().getrandbits(24):06x}-" if os.environ.get("E2E_CLUSTER") else ""
    return f"{prefix}-{foreign}{worker}{next(_NUMBERS)}"
