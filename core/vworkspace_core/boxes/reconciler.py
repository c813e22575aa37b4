"""How a pass over one object of a box's kind reads it, decides, and as whom it writes (PH-6)."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Final

from vworkspace_core.apimachinery.manifest import Manifest
from vworkspace_core.boxes.box import Box
from vworkspace_core.boxes.box_object import BoxObject, condition_types, read_object
from vworkspace_core.boxes.decide import BoxContext, decide
from vworkspace_core.boxes.labels import finalizer
from vworkspace_core.boxes.nodes import drains_of, graph_of
from vworkspace_core.controller.decision import Decision, Snapshot
from vworkspace_core.controller.execute import PassRules
from vworkspace_core.controller.managed_fields import StatusOwner
from vworkspace_core.ports import Entropy

_MOST_ROUNDS: Final = 16


@lru_cache(maxsize=256)
def status_owner(box: Box) -> StatusOwner:
    """Whose the statuses of the box's kind are."""
    return StatusOwner(box.field_manager, {box.kind: frozenset(condition_types(box))})


def read_box_object(box: Box, manifest: Manifest) -> BoxObject:
    """An object of the box's kind, without conditions of ours of which somebody else wrote a part."""
    return read_object(box, status_owner(box).without_foreign_conditions(manifest))


def reconciler_of(box: Box, now: Callable[[], datetime], entropy: Entropy) -> PassRules[BoxObject, Snapshot]:
    """The whole of it. What is ready at once lets the next wave begin: a pass has as many rounds as there are waves."""

    def decided(parent: BoxObject, observed: Snapshot) -> Decision:
        return decide(box, parent, observed, BoxContext(now()))

    waves = max(graph_of(box).depth, drains_of(box).depth)
    return PassRules(
        box.kind,
        lambda manifest: read_box_object(box, manifest),
        decided,
        box.field_manager,
        finalizer(box),
        idempotent=True,
        rounds=min(waves + 3, _MOST_ROUNDS),
        looks_up=True,
        entropy=entropy,
    )
