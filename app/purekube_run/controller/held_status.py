"""Status fields that another field manager holds: reported once on the object, and never taken as our own.

The operator forces no ownership, so the status itself cannot report this. Foreign conditions stay out of decisions,
which would otherwise repeat them as ours whenever they keep a condition. An object whose status another controller
writes is left alone: the two would undo each other's writes (RES-4).
"""

import attrs
import structlog

from purekube.apimachinery.errors import Conflict, OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.composites.status_writers import other_writer, refusal
from purekube.controller.managed_fields import StatusOwner
from purekube.controller.reconcile import ReconcileResult
from purekube.ports import EventSink, KubeApi, KubernetesEvent
from vworkspace_core.api.own_status import OWN_STATUS

_log = structlog.get_logger("operator")


@attrs.define
class HeldStatuses:
    """The status conflicts reported so far, by object. `title` is the controller's name for people."""

    api: KubeApi
    events: EventSink
    owner: StatusOwner = OWN_STATUS
    title: str = "operator"
    _told: dict[ObjectRef, str] = attrs.field(factory=dict)

    async def heard(self, key: ObjectRef, result: ReconcileResult) -> None:
        """Report a status that was refused, once for each holder; forget it when one was written."""
        if not isinstance(result.error, Conflict):
            if result.error is None:
                self._told.pop(key, None)
            return
        try:
            live = await self.api.get(key)
        except OperatorError:
            return  # the write is tried again, and reported then
        await self._tell(key, live, str(self.owner.holder(live) or result.error.message))

    async def is_anothers(self, key: ObjectRef, manifest: Manifest) -> bool:
        """Return whether another controller writes this status, and report that once.

        A deletion is never left to another.
        """
        other = other_writer(self.owner, manifest)
        if not other or "deletionTimestamp" in metadata(manifest):
            return False
        try:
            live = await self.api.get(key)  # the command names an entry of managedFields, which caches do not keep all
        except OperatorError:
            return True
        if not (other := other_writer(self.owner, live)):
            return False
        await self._tell(key, live, refusal(self.title, other, self.owner.hand_over(live)))
        return True

    async def _tell(self, key: ObjectRef, live: Manifest, note: str) -> None:
        if self._told.get(key) == note:
            return
        self._told[key] = note
        _log.error("the status is another's", object=str(key), why=note)
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
