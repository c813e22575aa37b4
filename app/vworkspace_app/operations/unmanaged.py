"""Events about objects of the operator's kinds that it ignores, because they lack its managed-by label (RES-5)."""

import attrs
import structlog

from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.controller.event_series import Once
from purekube.ports import EventSink
from vworkspace_core.api.own_status import unmanaged

_log = structlog.get_logger("operator")


@attrs.frozen
class UnmanagedReports:
    """The reporter of objects that the operator ignores, because they lack its managed-by label.

    It reports each object once, by a Kubernetes Event.
    """

    events: EventSink
    _reported: Once = attrs.field(factory=Once)

    async def report(self, key: ObjectRef, manifest: Manifest) -> None:
        """Emit an Event which says that the operator ignores the object, unless one was emitted before.

        Nothing is emitted if the object has the operator's managed-by label, or is being deleted.
        """
        event = unmanaged(key, manifest)
        if event is not None and self._reported.first(str(key), event.regarding_uid):
            _log.info("left alone: not labelled for this operator", object=str(key), why=event.note)
            await self.events.emit(event)
