"""PH-10: each box has a budget of writes of its own."""

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.ports import KubeApi
from purekube_run.boxes.served_boxes import WriteBudget
from tests.support.virtual_time import run


async def write(api: KubeApi, name: str) -> None:
    await api.create(CONFIG_MAP.manifest(name, "default"), kind=CONFIG_MAP, field_manager="test")


def test_writes_of_a_box_are_paced_after_a_burst_and_delay_neither_its_reads_nor_other_boxes_PH_10() -> None:
    async def main() -> None:
        clock = VirtualClock()
        kube = InProcessKube(ApiServer(now=clock.now))
        busy, other = (kube.through(WriteBudget(clock, per_second=10, burst=20)) for _ in range(2))
        begun = clock.monotonic()
        for number in range(20):
            await write(busy, f"busy-{number}")
        assert clock.monotonic() < begun + 0.01
        for number in range(20, 50):
            await write(busy, f"busy-{number}")
        paced = clock.monotonic()
        assert 2.9 < paced - begun < 3.1

        await write(other, "other")
        await busy.get(ObjectRef(CONFIG_MAP, "default", "other"))
        assert clock.monotonic() == paced

    run(main)
