"""PH-2: with `onImmutable: Recreate` an object is deleted for a fixed field that changes, and for nothing else."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.apimachinery.resources import CONFIG_MAP, SECRET
from tests.support.box_site import FACES, NS, QUICK, BoxSite
from tests.support.boxes import box_of, crd

SPEC: dict[str, Any] = {"image": "one", "parts": []}
on_every_face = pytest.mark.parametrize("face", ["in-process", pytest.param("http", marks=pytest.mark.slow)])


def again(kind: str, **fields: Any) -> dict[str, Any]:
    template = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "${self.metadata.name}"}, **fields}
    return {"id": "child", "template": template, "onImmutable": "Recreate"}


async def uid_of(site: BoxSite, ref: ObjectRef) -> str:
    live = await site.get(ref)
    return "" if live is None else str(metadata(live)["uid"])


@on_every_face
def test_a_name_with_the_word_in_it_costs_no_object_its_life_PH_2(face: str) -> None:
    labelled: Manifest = again("ConfigMap", data={"a": "b"})
    labelled["template"]["metadata"]["labels"] = {"image": "${self.spec.image}"}
    box = box_of(labelled)

    async def story(site: BoxSite) -> None:
        await site.install(crd())
        async with site.with_ready(box, "immutable", SPEC) as parent:
            before = await uid_of(site, child := ObjectRef(CONFIG_MAP, NS, "immutable"))
            await site.edit(parent, {"spec": {"image": "immutable "}})
            await site.until_reason(parent, "ResourceFailed", "Stalled")
            assert await uid_of(site, child) == before != ""

    FACES[face](story, QUICK)


@on_every_face
def test_a_Secret_that_is_fixed_is_made_again_PH_2(face: str) -> None:
    box = box_of(again("Secret", immutable=True, stringData={"image": "${self.spec.image}"}))

    async def story(site: BoxSite) -> None:
        await site.install(crd())
        async with site.with_ready(box, "shop", SPEC) as parent:
            before = await uid_of(site, child := ObjectRef(SECRET, NS, "shop"))
            await site.edit(parent, {"spec": {"image": "two"}})

            async def is_another() -> bool:
                return await uid_of(site, child) not in ("", before)

            await site.until(is_another)
            await site.until_ready(parent)

    FACES[face](story, QUICK)
