"""The picture of docs/boxes-cluster.md shows what the commands print about a roll-out that stops (PH-10).

`python -m tests.docs.test_rollout_picture` draws it again.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from purekube.apimachinery.definitions import OPERATOR_BOX as BOX
from purekube.apimachinery.manifest import ObjectRef
from purekube.boxes.rollouts.applied_definition import applied_box_definition
from tests.docs.test_simulation import wrapped
from tests.e2e.day.picture import IMAGES, drawn, words
from tests.support.box_site import QUICK, BoxSite, in_process
from tests.support.boxes import box_of, config, crd
from vworkspace_app.commands.box.rollout import Action, RolloutRequest, carried_out

PICTURE: Final = IMAGES / "rollout.svg"
SHOP: Final = box_of(config("settings")).kind
COUNT: Final = 5


def definition(theme: str, **more: Any) -> dict[str, Any]:
    """A box whose child is ready while its theme is known."""
    known = ["${settings.data.theme in ['light', 'dark']}"]
    child = config("settings", "${self.metadata.name}", data={"theme": theme}, readyWhen=known, **more)
    rollout = {"maxUnavailable": 1, "pace": "linear(1)", "progressDeadline": "30s"}
    return {"crd": {"spec": crd()["spec"]}, "resources": [child], "rollout": rollout}


def told() -> list[str]:
    """What somebody sees who changes a box, so that its second object never becomes Ready, and takes that back."""
    lines: list[str] = []

    async def command(site: BoxSite, action: Action) -> bool:
        text, status = await carried_out(site.admin, RolloutRequest(action, "shops"))
        lines.extend((f"$ vworkspace-operator box rollout {action} shops", *text.splitlines(), ""))
        return status == 0

    async def until(site: BoxSite, reason: str) -> None:
        await site.until_reason(ObjectRef(BOX, None, "shops"), reason, "RolledOut")

    async def story(site: BoxSite) -> None:
        await site.install(applied_box_definition())
        async with site.serving():
            await site.apply_box("shops", definition("light"))
            await until(site, "Complete")
            for name in ("amber", "birch", "cedar", "dune", "elm")[:COUNT]:
                await site.clock.sleep(1)
                await site.until_ready(await site.create(SHOP, name, spec={"image": "r/x:1", "parts": []}))
            await site.apply_box("shops", definition("${self.metadata.name == 'birch' ? 'sepia' : 'dark'}"))
            lines.append("$ kubectl apply --server-side -f shops.yaml")
            lines.extend(("operatorbox.box.vworkspace.io/shops serverside-applied", ""))
            await until(site, "Stopped")
            await command(site, "status")
            await command(site, "undo")
            await until(site, "Complete")
            await command(site, "history")
            await command(site, "status")

    in_process(story, QUICK)
    return lines[:-1]


def picture() -> str:
    return drawn("vworkspace-operator box rollout", "rollout", _lines())


def _lines() -> Iterator[str]:
    return (part for line in told() for part in wrapped(line))


@pytest.mark.slow
def test_the_picture_shows_what_the_commands_print_PH_10() -> None:
    assert words(picture()) == words(PICTURE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
