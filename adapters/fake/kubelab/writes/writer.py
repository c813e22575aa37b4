"""Writes of objects: a write is prepared (what is to be stored is computed), and then stored.

Preparing reads the stored object and runs the pure functions of `kubelab.writes.pipeline`. Between the two steps a
handler can call admission webhooks.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import attrs

from kubelab.admission.admission_request import AdmissionAttributes
from kubelab.admission.limit_ranges import LimitRanges
from kubelab.admission.pods import PODS, PodAdmission
from kubelab.admission.quotas import QUOTAS, QuotaAdmission
from kubelab.admission.webhooks import denial, patch_of
from kubelab.entropy import Identities
from kubelab.lifecycle import registry
from kubelab.lifecycle.namespaces import Namespaces, finalized
from kubelab.model.calls import Caller, Reply, RequestTarget, RequestVerb, WriteOptions, WriteOutcome, WriteRequest
from kubelab.model.definition import ServedKind
from kubelab.model.failure import already_exists, not_found
from kubelab.model.records import Record, decode, encode
from kubelab.model.scale import scale_of
from kubelab.storage.store import Store
from kubelab.writes import pipeline
from kubelab.writes.finalize import finalize_create, finalize_update
from kubelab.writes.patches import json_patch
from kubelab.writes.write_options import check_write, manager_of
from purekube.apimachinery.manifest import Kind, Manifest, get_path
from purekube.apimachinery.timestamps import format_time
from purekube.ports import PatchType
from purekube.schema.pruning import apply_defaults
from purekube.schema.structure import equal


@attrs.frozen
class WriteCall:
    """A write that creates or changes an object: POST, PUT or PATCH.

    Without a `patch_type` a PATCH is a server-side apply. With `defers` an invalid object is refused only by
    `Prepared.check`, after mutating webhooks have been called.
    """

    verb: RequestVerb
    target: RequestTarget
    body: Any
    options: WriteOptions
    caller: Caller
    patch_type: PatchType | None = None
    defers: bool = False

    @property
    def applies(self) -> bool:
        """True if this is a server-side apply: a PATCH without a `patch_type`."""
        return self.verb is RequestVerb.PATCH and self.patch_type is None


@attrs.frozen
class Prepared:
    """A write that is complete but not stored yet: the object to store is in `outcome`.

    `before` is the record of the live object, or None for a create. `write` is the request without its body.
    """

    call: WriteCall
    before: Record | None
    outcome: WriteOutcome
    write: WriteRequest

    def check(self) -> None:
        """Raise the ApiFailure that was deferred if the object of this write is invalid.

        If the object is valid, nothing happens.
        """
        if self.outcome.refusal is not None:
            raise self.outcome.refusal

    def request(self) -> AdmissionAttributes:
        """Return the write in the form that admission webhooks receive."""
        target = self.call.target
        return AdmissionAttributes(
            operation="CREATE" if self.outcome.created else "UPDATE",
            target=target,
            name=self.outcome.object["metadata"]["name"],
            caller=self.call.caller,
            object=self.outcome.object,
            old_object=None if self.before is None else target.resource.live(self.before),
            dry_run=self.call.options.dry_run,
        )


class ObjectWriter:
    """The part of the in-memory API server that prepares and stores writes. Every method may raise ApiFailure."""

    def __init__(
        self,
        store: Store,
        namespaces: Namespaces,
        identities: Identities,
        now: Callable[[], datetime],
        pods: PodAdmission,
    ) -> None:
        self._store = store
        self._namespaces = namespaces
        self._identities = identities
        self._now = now
        self._pods = pods
        self._limits = LimitRanges(store)
        self._quotas = QuotaAdmission(store)

    def prepare(self, call: WriteCall) -> Prepared:
        """Determine what the write `call` has to store, and return this as a prepared write. `commit` stores it."""
        if call.verb is RequestVerb.CREATE:
            return self._create(call)
        if call.applies:
            return self._apply(call)
        return self._update(call) if call.verb is RequestVerb.UPDATE else self._patch(call)

    def is_current(self, prepared: Prepared) -> bool:
        """Report whether the stored object is unchanged since the write `prepared` was made.

        For a create: whether the object still does not exist.
        """
        target = prepared.call.target
        key = (target.namespace or "", prepared.outcome.object["metadata"]["name"])
        return self._store.get(target.resource.storage, key) is prepared.before

    def mutated(self, prepared: Prepared, patch: Any, version: str = "") -> Prepared:
        """Return the prepared write after applying a webhook's JSON patch to its object.

        The patch is for the object in `version`; empty means the version of the request. The patched object gets its
        defaults and is validated again.
        """
        definition, write = prepared.call.target.resource.definition, prepared.write
        patched = _patched(definition, prepared.outcome.object, patch, version)
        manifest = apply_defaults(definition.schema, patched)
        if prepared.before is None:
            outcome = finalize_create(definition, manifest, write, prepared.outcome.warnings)
        else:
            live = prepared.call.target.resource.live(prepared.before)
            outcome = finalize_update(definition, live, manifest, write, prepared.outcome.warnings)
        return attrs.evolve(prepared, outcome=outcome)

    def commit(self, prepared: Prepared) -> Reply:
        """Store the object of a prepared write, and return the answer with the stored object."""
        target, outcome = prepared.call.target, prepared.outcome
        self._charge(prepared)
        raw = self._store_outcome(target, prepared.before, outcome, prepared.call.options)
        # A Scale is a view: what is stored is the object, and the answer is made from it.
        if target.subresource == "scale":
            raw = encode(scale_of(target.resource.definition, decode(raw)))
        return Reply(201 if outcome.created else 200, raw, outcome.warnings)

    def _charge(self, prepared: Prepared) -> None:
        call, outcome = prepared.call, prepared.outcome
        if not outcome.changed or call.target.subresource or not self._store.count(QUOTAS):
            return
        before = None if prepared.before is None else call.target.resource.live(prepared.before)
        where, dry_run = call.target.resource.storage, call.options.dry_run
        self._quotas.charge(where, outcome.object, before, dry_run=dry_run)

    def _create(self, call: WriteCall) -> Prepared:
        """Prepare a create (POST) of an object (W-35, W-36)."""
        target = call.target
        check_write(call.options, "CreateOptions")
        self._admit(attrs.evolve(target, name=_name_in(call.body)))
        write = self._write(call, uid=self._identities.uid(), name=self._generated(call.body))
        outcome = self._created(call, write)
        name = outcome.object["metadata"]["name"]
        there = self._store.get(target.resource.storage, (target.namespace or "", name))
        # The body is decoded and validated before the storage finds that the name is taken: an invalid object is 422
        # even then.
        if there is not None:
            raise already_exists(target.resource.group, target.resource.plural, name, is_going=there.deleting)
        return Prepared(call, None, outcome, write)

    def _created(self, call: WriteCall, write: WriteRequest) -> WriteOutcome:
        """Return the outcome of a POST, which is not stored yet.

        The outcome for a CRD is cached, because a process creates the same CRDs on many servers.
        """
        resource = call.target.resource
        if resource.storage != registry.DEFINITIONS or call.defers or call.target.subresource:
            return pipeline.create(resource.definition, call.body, write)
        outcome = _created_before(resource.definition, encode(call.body), attrs.evolve(write, uid="-"))
        metadata = {**outcome.object["metadata"], "uid": write.uid}
        return attrs.evolve(outcome, object={**outcome.object, "metadata": metadata})

    def _update(self, call: WriteCall) -> Prepared:
        """Prepare a PUT of an object or a subresource (S-47, S-74)."""
        check_write(call.options, "UpdateOptions")
        record, live = self._live(call.target)
        write = self._write(call, record)
        if call.target.subresource == "finalize":
            return Prepared(call, record, finalized(live, call.body), write)
        return Prepared(call, record, pipeline.update(call.target.resource.definition, live, call.body, write), write)

    def _patch(self, call: WriteCall) -> Prepared:
        """Prepare a JSON, merge or strategic merge patch."""
        check_write(call.options, "PatchOptions")
        assert call.patch_type is not None, "a PATCH without a type is an apply"
        record, live = self._live(call.target)
        write = self._write(call, record)
        outcome = pipeline.patch(call.target.resource.definition, live, call.body, call.patch_type, write)
        return Prepared(call, record, outcome, write)

    def _apply(self, call: WriteCall) -> Prepared:
        """Prepare a server-side apply.

        The apply creates a missing object, except through a subresource (S-01, S-12).
        """
        target = call.target
        check_write(call.options, "PatchOptions", apply=True)
        record = self._store.get(target.resource.storage, target.key)
        if record is None and target.subresource:
            raise not_found(target.resource.group, target.resource.plural, target.name)
        if record is None:
            self._admit(target)
        write = self._write(call, record, uid="" if record else self._identities.uid())
        live = None if record is None else target.resource.live(record)
        return Prepared(call, record, pipeline.apply(target.resource.definition, live, call.body, write), write)

    def _admit(self, target: RequestTarget) -> None:
        """Raise ApiFailure for a create in a missing or terminating namespace, or for a CRD that is being deleted."""
        registry.admit(self._store, target)
        self._namespaces.admit(target)

    def _store_outcome(
        self, target: RequestTarget, before: Record | None, outcome: WriteOutcome, options: WriteOptions
    ) -> bytes:
        """Store the outcome, unless nothing changed. Return the resulting object as bytes of the request's version."""
        resource = target.resource
        if before is not None and not outcome.changed and not before.lacks_status and not resource.converts:
            return resource.render(before)
        if options.dry_run:
            return encode(outcome.object)
        # apiserver: registry/generic/registry/store.go, Update calls deleteWithoutFinalizers if the update removed the
        # last finalizer. The answer has the last resourceVersion of the object, not that of the deletion (W-17).
        if before is not None and before.deleting and _unheld(outcome.object):
            self._store.remove(resource.storage, before.key)
            return encode(outcome.object)
        stored = resource.to_stored(outcome.object)
        if resource.converts:
            resource.to_served(stored)  # what cannot be converted back is not stored
            if before is not None and equal(stored, before.object()):
                return resource.render(before)
        schema = None if resource.converts else outcome.schema
        record = self._store.put(resource.storage, stored, lacks_status=outcome.lacks_status, schema=schema)
        return resource.render(record)

    def _live(self, target: RequestTarget) -> tuple[Record, Mapping[str, Any]]:
        record = self._store.get(target.resource.storage, target.key)
        if record is None:
            raise not_found(target.resource.group, target.resource.plural, target.name)
        return record, target.resource.live(record)

    def _write(self, call: WriteCall, record: Record | None = None, *, uid: str = "", name: str = "") -> WriteRequest:
        target, options = call.target, call.options
        return WriteRequest(
            manager=manager_of(options, call.caller),
            now=format_time(self._now()),
            name=target.name,
            namespace=target.namespace or "",
            subresource=target.subresource,
            force=options.force,
            field_validation=options.field_validation,
            uid=uid,
            generated_name=name,
            defers=call.defers,
            admit=self._pods.admit if record is None and target.resource.storage == PODS else None,
            exceeds=None if target.subresource else self._limits.check_of(target.resource.storage, record),
            settled=record is not None and record.schema is target.resource.definition.schema,
        )

    def _generated(self, body: Any) -> str:
        meta = body.get("metadata") if isinstance(body, Mapping) else None
        prefix = meta.get("generateName") if isinstance(meta, Mapping) else None
        return self._identities.name(prefix) if isinstance(prefix, str) and prefix else ""


@lru_cache(maxsize=256)
def _created_before(definition: ServedKind, body: bytes, write: WriteRequest) -> WriteOutcome:
    return pipeline.create(definition, decode(body), write)


def _patched(definition: ServedKind, manifest: Mapping[str, Any], patch: Any, version: str) -> Any:
    versions = definition.versions
    if versions is None or version in ("", definition.kind.version):
        return json_patch(manifest, patch)
    seen = versions.convert(manifest, f"{definition.kind.group}/{version}")
    return dict(versions.convert(json_patch(seen, patch), definition.api_version))


def _name_in(body: Any) -> str:
    name = get_path(body, "metadata", "name")
    return name if isinstance(name, str) else ""


def _unheld(manifest: Mapping[str, Any]) -> bool:
    """Report whether nothing holds a terminating object any longer.

    It is held by finalizers in its metadata or in a namespace's spec, and a pod on a node by its grace period.
    """
    spec = manifest.get("spec") if manifest["kind"] == "Namespace" else None
    meta = manifest["metadata"]
    # apiserver: registry/generic/registry/store.go, ShouldDeleteDuringUpdate.
    return not (meta.get("finalizers") or meta.get("deletionGracePeriodSeconds") or (spec and spec.get("finalizers")))


@attrs.frozen
class AdmissionPlugin:
    """A function in the server that reviews every create and update of a kind, as an admission webhook would.

    It is for a cluster in memory, where no webhook can be called; a server over HTTP calls plugins before webhooks.

    `review` takes an AdmissionReview v1, with objects in the version of `kind`, and returns its answer. The answer may
    contain a patch.
    """

    name: str
    kind: Kind
    review: Callable[[Manifest], Manifest] = attrs.field(repr=False)


def admitted(prepared: Prepared, plugins: Iterable[AdmissionPlugin], writer: ObjectWriter) -> Prepared:
    """Return the write after every plugin for its kind has agreed. Raises ApiFailure if a plugin denies the write.

    `writer` applies the plugins' patches to the object. Warnings of the plugins are added to those of the write.
    """
    for plugin in plugins:
        resource = prepared.call.target.resource
        if (resource.group, resource.plural) != (plugin.kind.group, plugin.kind.plural):
            continue
        request = prepared.request().in_version(plugin.kind.version)
        response = plugin.review(request.review(plugin.name, "v1"))["response"]
        if (refusal := denial(plugin.name, response)) is not None:
            raise refusal
        if (patch := patch_of(response)) is not None:
            prepared = writer.mutated(prepared, patch, plugin.kind.version)
        if warnings := response.get("warnings"):
            outcome = attrs.evolve(prepared.outcome, warnings=(*prepared.outcome.warnings, *warnings))
            prepared = attrs.evolve(prepared, outcome=outcome)
    return prepared
