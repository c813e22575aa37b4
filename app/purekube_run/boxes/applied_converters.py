"""The conversion of objects of applied boxes' kinds from one version to another, for the conversion webhook (PH-10).

Applied boxes are operators that users define by OperatorBox objects. Every replica answers the webhook, whether it
leads or not, so definitions are read from the API server.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.definitions import BOX_NAME
from purekube.apimachinery.manifest import content_hash, get_path, metadata
from purekube.boxes.rollouts.revisions import CONTROLLER_REVISION, crd_name_of, read_revisions
from purekube.boxes.webhooks.kind_webhooks import converter_of
from purekube.ports import Clock, KubeApi
from purekube.versions import Converter
from purekube_run.boxes.applied_load import load_definition
from purekube_run.controller.lookups import all_of

_SECONDS: Final = 1.0
"""The seconds for which definitions from the API server are cached."""


@attrs.define(eq=False)
class AppliedConverters:
    """The converters of all applied boxes (operators defined by OperatorBox objects).

    There is one for the newest stored definition of each box; it converts objects of the box's kind between versions. A
    box's definition is stored as a ControllerRevision in `namespace` before its CRD is applied. So every version that
    the API server can ask for is in a stored definition.
    """

    api: KubeApi
    clock: Clock
    namespace: str
    _definitions: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    """The newest accepted definition of each box, by the box's name."""
    _until: float = float("-inf")
    """The monotonic time until which `_definitions` are used without reading them again."""
    _compiled: dict[str, Converter | None] = attrs.field(factory=dict)
    """The converter of each compiled definition, by the definition's hash; None if it has no versions to convert."""

    async def of_group(self, group: str) -> Sequence[Converter]:
        """Return the converters of the boxes whose kinds are in the API group `group`.

        A converter converts objects of one kind between its versions. A box with only one version has none. Raises the
        OperatorErrors of `KubeApi.list` and `KubeApi.get`.
        """
        if self.clock.monotonic() >= self._until:
            await self._refresh()
        found = [
            await self._converter(name, definition)
            for name, definition in self._definitions.items()
            if crd_name_of(definition).partition(".")[2] == group
        ]
        return [each for each in found if each is not None]

    async def _refresh(self) -> None:
        """Read the definitions, and keep the converters of those whose CRD is part of the definition.

        An installed CRD that a definition names may have changed: a converter of its former schemas drops new fields.
        """
        self._definitions = await self._newest()
        self._until = self.clock.monotonic() + _SECONDS
        whole = {content_hash(each) for each in self._definitions.values() if get_path(each, "crd", "spec") is not None}
        self._compiled = {digest: each for digest, each in self._compiled.items() if digest in whole}

    async def _newest(self) -> Mapping[str, Mapping[str, Any]]:
        stored = await all_of(self.api, CONTROLLER_REVISION, namespace=self.namespace, selector=BOX_NAME)
        boxes = {metadata(each)["name"]: str(metadata(each)["labels"][BOX_NAME]) for each in stored}
        return {boxes[revision.name]: revision.definition for revision in read_revisions(stored)}

    async def _converter(self, name: str, definition: Mapping[str, Any]) -> Converter | None:
        """Return the converter of the box `name`; None if it has no versions to convert, or does not compile."""
        digest = content_hash(definition)
        if digest not in self._compiled:
            box = (await load_definition(self.api, name, definition)).box
            if box is None:
                return None  # a CRD that it names is missing, and may come
            self._compiled[digest] = converter_of(box)
        return self._compiled[digest]
