"""A status that somebody else holds a part of (D24): told once on the object, and not taken for ours.

Nothing is forced against others, so the status cannot say it itself. What they wrote stays out of decisions: it would
be repeated as ours wherever a condition is kept as it was.
"""

import attrs

from vworkspace_core.api.own_status import OWN_STATUS
from vworkspace_core.apimachinery.errors import Conflict, OperatorError
from vworkspace_core.apimachinery.manifest import ObjectRef, metadata
from vworkspace_core.controller.managed_fields import StatusOwner
from vworkspace_core.controller.reconcile import ReconcileResult
from vworkspace_core.ports import EventSink, KubeApi, KubernetesEvent


@attrs.define
class HeldStatuses:
    """Who has been told of which holder."""

    api: KubeApi
    events: EventSink
    owner: StatusOwner = OWN_STATUS
    _told: dict[ObjectRef, str] = attrs.field(factory=dict)

    async def heard(self, key: ObjectRef, result: ReconcileResult) -> None:
        """Tell of a status that was refused, once for each holder; forget it when one was written."""
        if not isinstance(result.error, Conflict):
            if result.error is None:
                self._told.pop(key, None)
            return
        try:
            live = await self.api.get(key)
        except OperatorError:
            return  # it is tried again, and told then
        note = str(self.owner.holder(live) or result.error.message)
        if self._told.get(key) == note:
            return
        self._told[key] = note
        await self.events.emit(
            KubernetesEvent(
                regarding=key,
                regarding_uid=str(metadata(live).get("uid", "")),
                type="Warning",
                reason="StatusHeld",
                action="Reconcile",
                note=note,
            )
        )
