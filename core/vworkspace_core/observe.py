"""Reading the snapshot a decision needs, live, through the `KubeApi` port.

The operator reads it from its caches instead; this is for what must not be judged by a cache (taking an instance
down), and for simulations that have none.
"""

import attrs

from vworkspace_core.errors import KindMissing, NotFound
from vworkspace_core.kinds.application_instance import ApplicationInstance
from vworkspace_core.kinds.labels import INSTANCE_UID, bounded_name
from vworkspace_core.known import NAMESPACE
from vworkspace_core.manifest import Kind, Manifest, ObjectRef, ref_of
from vworkspace_core.ports import KubeApi
from vworkspace_core.reconcile.decision import Observed
from vworkspace_core.reconcile.desired import DOWNSTREAM_KINDS, watched_refs

__all__ = ["observe_live"]


@attrs.define
class _Reading:
    """What was found so far."""

    api: KubeApi
    objects: dict[ObjectRef, Manifest]
    missing: set[Kind]

    async def get(self, ref: ObjectRef) -> Manifest | None:
        """The object, None when it does not exist."""
        try:
            return await self.api.get(ref)
        except KindMissing:
            self.missing.add(ref.kind)
        except NotFound:
            pass
        return None

    async def note(self, ref: ObjectRef) -> None:
        """Read one object by name."""
        live = await self.get(ref)
        if live is not None:
            self.objects[ref] = live

    async def note_labelled(self, kind: Kind, namespace: str, selector: str) -> None:
        """Read everything of a kind that carries our labels; an instance owns a handful."""
        try:
            page = await self.api.list(kind, namespace=namespace, label_selector=selector)
        except KindMissing:
            self.missing.add(kind)
            return
        self.objects |= {ref_of(manifest, kind): manifest for manifest in page.items}


async def observe_live(api: KubeApi, source: ApplicationInstance) -> Observed:
    """Everything a decision about `source` looks at. Raises what `KubeApi.get` and `list` raise."""
    meta = source.metadata
    reading = _Reading(api, {}, set())
    namespace = await reading.get(ObjectRef(NAMESPACE, None, meta.namespace))
    selector = f"{INSTANCE_UID}={bounded_name(meta.uid)}"
    for kind in DOWNSTREAM_KINDS:
        await reading.note_labelled(kind, meta.namespace, selector)
    for ref in watched_refs(source):
        if ref not in reading.objects:
            await reading.note(ref)
    return Observed(namespace, reading.objects, frozenset(reading.missing))
