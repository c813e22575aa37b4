"""Writes that put an object: find the live one, let the pipeline decide, store what it says."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from vworkspace_core.ports import PatchType
from vworkspace_fake.apiserver import pipeline
from vworkspace_fake.apiserver.calls import Caller, Target, WriteOptions
from vworkspace_fake.apiserver.deleting import timestamp
from vworkspace_fake.apiserver.failure import already_exists, not_found
from vworkspace_fake.apiserver.identity import Identities
from vworkspace_fake.apiserver.namespaces import Namespaces, finalized
from vworkspace_fake.apiserver.options import check_write, manager_of
from vworkspace_fake.apiserver.records import Record, decode, encode
from vworkspace_fake.apiserver.replies import Reply
from vworkspace_fake.apiserver.requests import Outcome, Write
from vworkspace_fake.apiserver.scale import scale_of
from vworkspace_fake.apiserver.store import Store

__all__ = ["Writer"]


class Writer:
    """Create, update, patch and apply on the store. Every method may raise ApiFailure."""

    def __init__(
        self, store: Store, namespaces: Namespaces, identities: Identities, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._namespaces = namespaces
        self._identities = identities
        self._now = now

    def create(self, target: Target, body: Any, options: WriteOptions, caller: Caller) -> Reply:
        """POST (W-35, W-36)."""
        check_write(options, "CreateOptions")
        self._namespaces.admit(target)
        write = self._write(target, options, caller, uid=self._identities.uid(), name=self._generated(body))
        outcome = pipeline.create(target.resource.definition, body, write)
        name = outcome.object["metadata"]["name"]
        key = (target.namespace or "", name)
        if self._store.get(target.resource.storage, key) is not None:
            raise already_exists(target.resource.group, target.resource.plural, name)
        return self._commit(target, None, outcome, options)

    def update(self, target: Target, body: Any, options: WriteOptions, caller: Caller) -> Reply:
        """PUT on an object or a subresource (S-47, S-74)."""
        check_write(options, "UpdateOptions")
        record, live = self._live(target)
        if target.subresource == "finalize":
            return self._commit(target, record, finalized(live, body), options)
        write = self._write(target, options, caller)
        return self._commit(target, record, pipeline.update(target.resource.definition, live, body, write), options)

    def patch(self, target: Target, patch: Any, patch_type: PatchType, options: WriteOptions, caller: Caller) -> Reply:
        """JSON, merge or strategic merge patch."""
        check_write(options, "PatchOptions")
        record, live = self._live(target)
        write = self._write(target, options, caller)
        outcome = pipeline.patch(target.resource.definition, live, patch, patch_type, write)
        return self._commit(target, record, outcome, options)

    def apply(self, target: Target, body: Any, options: WriteOptions, caller: Caller) -> Reply:
        """Server-side apply; creates what is not there, except through a subresource (S-01, S-12)."""
        check_write(options, "PatchOptions", apply=True)
        record = self._store.get(target.resource.storage, target.key)
        if record is None and target.subresource:
            raise not_found(target.resource.group, target.resource.plural, target.name)
        if record is None:
            self._namespaces.admit(target)
        write = self._write(target, options, caller, uid="" if record else self._identities.uid())
        live = None if record is None else target.resource.live(record)
        outcome = pipeline.apply(target.resource.definition, live, body, write)
        return self._commit(target, record, outcome, options)

    def _commit(self, target: Target, before: Record | None, outcome: Outcome, options: WriteOptions) -> Reply:
        raw = self._store_outcome(target, before, outcome, options)
        if target.subresource == "scale":
            raw = encode(scale_of(target.resource.definition, decode(raw)))
        return Reply(201 if outcome.created else 200, raw, outcome.warnings)

    def _store_outcome(self, target: Target, before: Record | None, outcome: Outcome, options: WriteOptions) -> bytes:
        """Store what the pipeline says, unless nothing changed; the object as it is then."""
        resource = target.resource
        if before is not None and not outcome.changed:
            return resource.render(before.raw)
        if options.dry_run:
            return encode(outcome.object)
        if before is not None and before.deleting and _unheld(outcome.object):
            self._store.remove(resource.storage, before.key)
            return encode(outcome.object)
        return resource.render(self._store.put(resource.storage, resource.to_stored(outcome.object)).raw)

    def _live(self, target: Target) -> tuple[Record, Mapping[str, Any]]:
        record = self._store.get(target.resource.storage, target.key)
        if record is None:
            raise not_found(target.resource.group, target.resource.plural, target.name)
        return record, target.resource.live(record)

    def _write(self, target: Target, options: WriteOptions, caller: Caller, *, uid: str = "", name: str = "") -> Write:
        return Write(
            manager=manager_of(options, caller),
            now=timestamp(self._now()),
            name=target.name,
            namespace=target.namespace or "",
            subresource=target.subresource,
            force=options.force,
            field_validation=options.field_validation,
            uid=uid,
            generated_name=name,
        )

    def _generated(self, body: Any) -> str:
        meta = body.get("metadata") if isinstance(body, Mapping) else None
        prefix = meta.get("generateName") if isinstance(meta, Mapping) else None
        return self._identities.name(prefix) if isinstance(prefix, str) and prefix else ""


def _unheld(manifest: Mapping[str, Any]) -> bool:
    """Whether nothing keeps a terminating object any longer: no finalizers, of a namespace none in its spec."""
    spec = manifest.get("spec") if manifest["kind"] == "Namespace" else None
    return not manifest["metadata"].get("finalizers") and not (spec and spec.get("finalizers"))
