"""The examiner blames no operator for a machine that is busy: its waits last longer there (CONF-1)."""

import os

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube_run.examination.patience import busyness, first_true

HOUR = 3600.0
SHORT = 0.05


class Slow:
    """An effect that shows at the look with the number `at`."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.looks = 0

    async def __call__(self) -> bool:
        self.looks += 1
        return self.looks >= self.at


@pytest.mark.anyio
async def test_what_shows_in_time_is_returned_at_once() -> None:
    slow = Slow(1)

    assert await first_true(slow, HOUR, lambda: 1.0) is True
    assert slow.looks == 1


@pytest.mark.anyio
async def test_a_wait_ends_without_a_result() -> None:
    assert await first_true(Slow(1000), SHORT, lambda: 1.0) is None


@pytest.mark.anyio
async def test_a_busy_machine_gets_more_time() -> None:
    assert await first_true(Slow(5), SHORT, lambda: HOUR / SHORT) is True


@pytest.mark.anyio
async def test_a_machine_that_becomes_busy_during_a_wait_gets_more_time() -> None:
    loads = iter([1.0])

    assert await first_true(Slow(5), 2 * SHORT, lambda: next(loads, HOUR / SHORT)) is True


@pytest.mark.anyio
async def test_a_machine_that_comes_to_rest_during_a_wait_is_not_waited_for() -> None:
    slow = Slow(1000)
    loads = iter([HOUR])

    with anyio.fail_after(HOUR):
        assert await first_true(slow, SHORT, lambda: next(loads, 1.0)) is None
    assert slow.looks < 1000


@pytest.mark.slow
@given(load=st.floats(0, 1e4), processors=st.integers(1, 256))
def test_the_operator_has_the_processor_for_as_long_as_on_a_quiet_machine_within_limits(
    load: float, processors: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
        patch.setattr(os, "cpu_count", lambda: processors)
        times = busyness()

    assert 1.0 <= times <= 5.0
    assert times in (load / processors, 1.0, 5.0)
    assert (times < load / processors) == (load > 5 * processors)


def test_a_system_that_tells_no_load_is_taken_for_a_quiet_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[float, float, float]:
        raise OSError("no load")

    monkeypatch.setattr(os, "getloadavg", none)

    assert busyness() == 1.0
