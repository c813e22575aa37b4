"""PH-10: each box has a budget of writes of its own."""

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.ports import KubeApi
from purekube_run.boxes.served_boxes import WriteBudget
from tests.support.run_by import run_by
from tests.support.virtual_time import run


async def write(api: KubeApi, name: str) -> None:
    await api.create(CONFIG_MAP.manifest(name, "default"), kind=CONFIG_MAP, field_manager="test")


def budgets(clock: VirtualClock) -> tuple[KubeApi, KubeApi]:
    """Two boxes, which may write ten times a second each while the other one does, and a hundred times alone."""
    kube, shared = InProcessKube(ApiServer(now=clock.now)), dict[str, float]()
    first, second = (WriteBudget(clock, name, shared, per_second=10, burst=20) for name in ("first", "second"))
    return kube.through(first), kube.through(second)


async def seconds_of_writes(clock: VirtualClock, api: KubeApi, prefix: str, count: int) -> float:
    begun = clock.monotonic()
    for number in range(count):
        await write(api, f"{prefix}-{number}")
    return clock.monotonic() - begun


@run_by(run)
async def test_writes_of_a_box_are_paced_after_a_burst_and_delay_neither_its_reads_nor_other_boxes_PH_10() -> None:
    clock = VirtualClock()
    busy, other = budgets(clock)
    await write(other, "first")
    assert await seconds_of_writes(clock, busy, "burst", 20) < 0.01
    begun = clock.monotonic()
    for number in range(30):
        await write(other, f"other-{number}")
        await write(busy, f"busy-{number}")
    assert 2.9 < clock.monotonic() - begun < 3.1

    paced = clock.monotonic()
    await write(other, "other")
    await busy.get(ObjectRef(CONFIG_MAP, "default", "other"))
    assert clock.monotonic() == paced


@run_by(run)
async def test_a_box_writes_ten_times_as_fast_while_no_other_box_writes_PH_10() -> None:
    clock = VirtualClock()
    busy, other = budgets(clock)
    await write(other, "other")
    await clock.sleep(1.5)
    assert 0.7 < await seconds_of_writes(clock, busy, "alone", 100) < 0.9
    await write(other, "again")
    assert 0.9 < await seconds_of_writes(clock, busy, "shared", 10) < 1.1
