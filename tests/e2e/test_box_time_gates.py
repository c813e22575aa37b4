"""A gate of time opens at its moment in a box that runs: by the work queue, long before the next resync (PH-4)."""

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP
from tests.support.box_site import NS, QUICK, BoxSite, in_process
from tests.support.boxes import box_of, config
from tests.support.run_by import run_by

LATER = ObjectRef(CONFIG_MAP, NS, "later")


@run_by(in_process, QUICK)
async def test_a_gate_of_time_opens_by_itself_and_not_before(site: BoxSite) -> None:
    phase = {"name": "two", "when": [{"after": "10m"}], "resources": [config("later")]}
    box = box_of(config("now"), phases=[phase])
    await site.install(box.crd)
    async with site.running(box, resync=86_400.0):
        shop = await site.create(box.kind, "shop", spec={"image": "i", "parts": []})
        assert "10m have passed" in await site.until_reason(shop, "WaitingForGate")
        await site.clock.sleep(598.0)
        assert await site.get(LATER) is None
        await site.clock.sleep(2.5)
        assert await site.get(LATER) is not None
        await site.until_ready(shop)
