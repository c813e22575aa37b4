"""The warnings about CRDs in a cluster that lack rules or defaults of a box, so that nothing enforces them (PH-6)."""

from collections.abc import Sequence
from typing import Final, Never

import attrs
import structlog

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.boxes.box import Box
from purekube.boxes.definition import not_enforced
from purekube.ports import Clock, KubeApi

_EVERY: Final = 60.0
"""The seconds between two comparisons with the cluster."""

_log = structlog.get_logger("operator")


@attrs.define(eq=False)
class Enforcement:
    """A periodic check that the CRDs in a cluster contain the validation rules and defaults of their boxes.

    Rules or defaults that a CRD lacks are logged once, and again only when the list changes.
    """

    api: KubeApi
    boxes: Sequence[Box]
    _lacking: dict[str, tuple[str, ...]] = attrs.field(factory=dict)

    async def run(self, clock: Clock) -> Never:
        """Call `compare`, which logs what CRDs in the cluster lack, once a minute until the task is cancelled."""
        while True:
            await self.compare()
            await clock.sleep(_EVERY)

    async def compare(self) -> None:
        """Log a warning for each box whose CRD in the cluster lacks rules or defaults, unless it was logged before."""
        for box in self.boxes:
            if not not_enforced(box, {}):
                continue
            try:
                lacking = await self._lacking_of(box)
            except OperatorError:  # the controller of the box reports that its CRDs cannot be read
                continue
            if lacking and lacking != self._lacking.get(box.name):
                remedy = (
                    f"vworkspace-operator box manifests {box.name}.yaml --crds-only | kubectl apply --server-side -f -"
                )
                _log.warning(
                    "the CRD in the cluster lacks rules of the box, which nothing enforces",
                    box=box.name,
                    kind=box.kind.crd_name,
                    lacks=lacking,
                    remedy=remedy,
                )
            self._lacking[box.name] = lacking

    async def _lacking_of(self, box: Box) -> tuple[str, ...]:
        """Return the validation rules and defaults of the box that its CRD in the cluster lacks.

        The result is empty if the CRD does not exist. The CRD is read by a list with a field selector, since the roles
        of boxes permit listing CRDs, but not a get.
        """
        page = await self.api.list(CUSTOM_RESOURCE_DEFINITION, field_selector=f"metadata.name={box.kind.crd_name}")
        return next((not_enforced(box, manifest) for manifest in page.items), ())
