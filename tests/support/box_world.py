"""A box at work without an event loop and without anything of the app: API server, simulated workloads, a clock."""

from collections.abc import Callable, Mapping
from typing import Any

from purekube.boxes.box import Box
from purekube.boxes.decision.decide import composite_of
from tests.support.composite_world import CompositeWorld


class PureWorld(CompositeWorld):
    """One box with one object of its kind."""

    def __init__(self, box: Box, spec: Mapping[str, Any], wrap: Callable[[Any], Any] = lambda api: api) -> None:
        super().__init__(composite_of(box), box.crd, spec, wrap)
        self.box = box
