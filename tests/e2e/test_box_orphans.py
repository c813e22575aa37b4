"""PH-3: `kubectl delete --cascade=orphan` leaves every child, however quick the garbage collector is."""

import pytest

from purekube.apimachinery.manifest import ObjectRef, metadata
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.ports import Propagation
from tests.support.box_site import FACES, NS, QUICK, BoxSite
from tests.support.boxes import box_of, config, crd


@pytest.mark.parametrize("face", ["in-process", pytest.param("http", marks=pytest.mark.slow)])
def test_a_child_in_another_namespace_stays_too_PH_3(face: str) -> None:
    """It has no owner reference that could be removed: only the finalizer of the request shows what is to become of it,
    and the garbage collector of this server removes that before the operator has its turn.
    """
    far = config("far", data={"a": "b"}, owner="Label")
    far["template"]["metadata"]["namespace"] = "elsewhere"
    box = box_of(config("near", data={"a": "b"}), far)

    async def story(site: BoxSite) -> None:
        await site.install(crd())
        await site.namespace("elsewhere")
        children = [ObjectRef(CONFIG_MAP, NS, "near"), ObjectRef(CONFIG_MAP, "elsewhere", "far")]
        async with site.with_ready(box, "shop", {"image": "one", "parts": []}) as parent:
            before = [await site.get(child) for child in children]
            await site.admin.delete(parent, propagation=Propagation.ORPHAN)
            await site.until_gone(parent)
            await site.clock.sleep(1)
            after = [await site.get(child) for child in children]
        assert [metadata(one)["uid"] for one in after if one] == [metadata(one)["uid"] for one in before if one]
        assert len([one for one in after if one]) == len(children)

    FACES[face](story, QUICK)
