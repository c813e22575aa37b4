"""Kubernetes Events of the operator, written in the background (RUN-5).

A reconcile never waits for an Event: `emit` puts it into a bounded buffer; what does not fit, or is refused, is
counted and told in one log line.
"""

from itertools import count
from typing import Any

import anyio
import structlog

from vworkspace_core.errors import OperatorError
from vworkspace_core.kinds.labels import FIELD_MANAGER, bounded_name
from vworkspace_core.known import EVENT
from vworkspace_core.manifest import content_hash
from vworkspace_core.ports import Clock, KubeApi, KubernetesEvent

__all__ = ["BackgroundEvents", "event_manifest"]

_log = structlog.get_logger("events")

_BUFFER = 1000
_LONGEST_NOTE = 1024
_LAST_SECONDS = 2.0
_CONTROLLER = "vworkspace.io/operator"


def event_manifest(event: KubernetesEvent, *, instance: str, serial: int, when: str) -> dict[str, Any]:
    """The `events.k8s.io/v1` object. `when` is RFC 3339 with microseconds; `serial` keeps equal events apart.

    Events of cluster-scoped objects live in `default`; a note holds 1,024 characters (facts, section 6).
    """
    ref = event.regarding
    unique = content_hash([instance, when, serial, event.reason, event.note])
    regarding = {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, "name": ref.name}
    if ref.namespace:
        regarding["namespace"] = ref.namespace
    if event.regarding_uid:
        regarding["uid"] = event.regarding_uid
    manifest = EVENT.manifest(f"{bounded_name(ref.name, 220)}.{unique}", ref.namespace or "default")
    return {
        **manifest,
        "eventTime": when,
        "reportingController": _CONTROLLER,
        "reportingInstance": instance,
        "action": event.action,
        "reason": event.reason,
        "regarding": regarding,
        "note": event.note[:_LONGEST_NOTE],
        "type": event.type,
    }


class BackgroundEvents:
    """`EventSink` that writes through `api` while `run` runs. `instance` names this process in every Event."""

    def __init__(self, api: KubeApi, clock: Clock, *, instance: str) -> None:
        self._api = api
        self._clock = clock
        self._instance = bounded_name(instance, 128)
        self._serial = count()
        self._send, self._receive = anyio.create_memory_object_stream[dict[str, Any]](_BUFFER)
        self.dropped = 0

    async def emit(self, event: KubernetesEvent) -> None:
        """Take one event; never waits, never raises."""
        when = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        manifest = event_manifest(event, instance=self._instance, serial=next(self._serial), when=when)
        try:
            self._send.send_nowait(manifest)
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._drop(manifest, "the buffer is full")

    async def run(self) -> None:
        """Write events until cancelled, then for a moment what is left: the last ones often say the most."""
        with self._send, self._receive:
            try:
                async for manifest in self._receive:
                    await self._write(manifest)
            finally:
                with anyio.move_on_after(_LAST_SECONDS, shield=True):
                    await self._write_rest()

    async def _write_rest(self) -> None:
        while self._receive.statistics().current_buffer_used:
            await self._write(self._receive.receive_nowait())

    async def _write(self, manifest: dict[str, Any]) -> None:
        try:
            await self._api.create(manifest, kind=EVENT, field_manager=FIELD_MANAGER)
        except OperatorError as error:
            self._drop(manifest, error.message)
        except Exception as error:
            # A defect; with its traceback it can be mended, and an Event is not worth the process.
            _log.error("writing an event failed unexpectedly", exc_info=error)
            self._drop(manifest, type(error).__name__)

    def _drop(self, manifest: dict[str, Any], why: str) -> None:
        self.dropped += 1
        _log.warning("event dropped", reason=manifest["reason"], why=why, dropped=self.dropped)
