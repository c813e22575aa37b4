"""The code that carries out the writes of a decision: each write is one call of the `KubeApi` port. Its result
updates the source (the reconciled object) or the snapshot (the observed state on which the next decision is made).

A refused write of a downstream object becomes a `Failure` in the snapshot. The errors of writes to the source itself
are raised: Stale, NotFound, and any other of the port's errors.
"""

import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import attrs

from purekube.apimachinery.errors import AlreadyExists, Conflict, Invalid, NotFound, OperatorError, Stale
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, merge_patch, metadata, with_preconditions
from purekube.apimachinery.meta import ObjectMeta
from purekube.controller.decision import Apply, Create, Decision, Delete, Failure, Finalizer, MergePatch, Snapshot
from purekube.ports import Entropy, KubeApi, PatchType

STATUS: Final = "status"
"""The verb under which a pass records a write of the status of the source (the reconciled object)."""

OnWrite: TypeAlias = Callable[[tuple[ObjectRef, str]], None]
"""A function that is called with each written object and the resourceVersion that the server returned."""


class StructuredObject(Protocol):
    """A reconciled object in the typed form (an attrs class) that `PassRules.read` returns."""

    @property
    def metadata(self) -> ObjectMeta: ...


S = TypeVar("S", bound=StructuredObject)
V = TypeVar("V", bound=Snapshot)


@attrs.frozen
class PassRules(Generic[S, V]):
    """The rules of a reconcile pass for one kind: how to read its objects, decide, and write.

    `manager` is the field manager of all writes. `finalizer` is the one that decisions add or remove. `idempotent`
    promises that the next decision is empty once everything was written (REC-6). `rounds` limits the decisions in one
    pass. With `looks_up`, an object that the snapshot lacks is read live if its apply is refused, and the next decision
    sees it; this is for caches that hold only labelled objects. `entropy`, the source of random strings, is needed if
    objects are created with such strings.
    """

    kind: Kind
    read: Callable[[Manifest], S]
    decide: Callable[[S, V], Decision]
    manager: str
    finalizer: str
    idempotent: bool = False
    rounds: int = 4
    looks_up: bool = False
    entropy: Entropy | None = None


@attrs.define
class ReconcilePass(Generic[S, V]):
    """One reconcile pass over one object, the source. The source and the snapshot (the observed state) are updated
    after each write.
    """

    reconciler: PassRules[S, V]
    api: KubeApi
    source: S
    observed: V
    on_write: OnWrite
    written: list[tuple[ObjectRef, str]] = attrs.field(factory=list)
    executed: list[tuple[str, ObjectRef]] = attrs.field(factory=list)
    """Verbs and objects of the writes so far, in order."""
    downstream: KubeApi = attrs.field()
    """The client for writes of all objects except the source. It acts as the decision's ServiceAccount, if set."""

    @downstream.default
    def _own_rights(self) -> KubeApi:
        return self.api

    def record(self, verb: str, ref: ObjectRef, manifest: Manifest) -> None:
        """Record a write of the object `ref`, which the server has accepted, and report the write to `on_write`.

        Verb and object are added to `executed`, the object and its new resourceVersion to `written`. `verb` names the
        kind of write, such as an apply. `manifest` is the object that the server returned; it is also put into the
        snapshot, unless it is of the source's kind.
        """
        self.executed.append((verb, ref))
        written = (ref, str(metadata(manifest).get("resourceVersion", "")))
        self.written.append(written)
        self.on_write(written)
        if ref.kind != self.reconciler.kind:
            self.observe(ref, manifest)

    def observe(self, ref: ObjectRef, manifest: Manifest) -> None:
        """Put the object's present state, `manifest`, into the snapshot."""
        self.observed = attrs.evolve(self.observed, objects={**self.observed.objects, ref: manifest})

    def record_failure(
        self,
        ref: ObjectRef,
        verb: str,
        error: OperatorError,
        live: Manifest | None = None,
        manifest: Manifest | None = None,
    ) -> None:
        """Add a refused write of the object `ref` to the snapshot for the next decision.

        `verb` is the kind of write, `error` the reason of the refusal, `live` the object as last read, and `manifest`
        the manifest that was refused. The failure replaces an earlier failure of the same object.
        """
        earlier = tuple(failure for failure in self.observed.failures if failure.ref != ref)
        failures = (*earlier, Failure(ref, verb, error, live, manifest))
        self.observed = attrs.evolve(self.observed, failures=failures)

    def forget_failure(self, ref: ObjectRef) -> None:
        """Remove the object's failure, if any, from the snapshot, since a write of the object has succeeded."""
        left = tuple(failure for failure in self.observed.failures if failure.ref != ref)
        self.observed = attrs.evolve(self.observed, failures=left)


async def write_downstream(work: ReconcilePass[S, V], decision: Decision) -> bool:
    """Execute all writes of `decision`, except the status and its Events, in the pass `work`. Return True if the
    finalizer of the source (the reconciled object) was removed. The pass must then end, because the source may be gone.
    """
    work.downstream = work.api if decision.account is None else work.api.impersonating(decision.account)
    if decision.only_if_current:
        await _confirm_current(work)
    # Dry runs precede all writes: if one is refused, the cluster must be as if the pass had not begun.
    for dry_run in decision.dry_runs:
        if not await _apply(work, dry_run, dry_run=True):
            return False
    # The finalizer precedes the first downstream object: a deletion between the two could otherwise leave it undeleted.
    if decision.finalizer is Finalizer.ADD:
        finalizers = (*work.source.metadata.finalizers, work.reconciler.finalizer)
        await _patch_source(work, {"finalizers": list(finalizers), **_annotations(decision)}, "add finalizer")
    elif decision.annotations:
        await _patch_source(work, _annotations(decision), "annotate")
    # Deletes come last, because an object may become needless only once its replacement is applied. An object whose
    # patch was refused is not deleted, because the patch prepares the end (a release is resumed to be uninstalled).
    refused = await _make(work, decision)
    for delete in decision.deletes:
        if delete.ref not in refused:
            await _delete(work, delete)
    if decision.finalizer is Finalizer.REMOVE:
        left = tuple(name for name in work.source.metadata.finalizers if name != work.reconciler.finalizer)
        await _patch_source(work, {"finalizers": list(left)}, "remove finalizer")
        return True
    return False


async def _make(work: ReconcilePass[S, V], decision: Decision) -> set[ObjectRef]:
    """Perform patches, applies and creates, in this order; skip a write that depends on a refused or skipped write.

    Return the objects whose write was refused or skipped.
    """
    left_out: set[ObjectRef] = set()
    for patch in decision.patches:
        if not patch.after.isdisjoint(left_out) or not await _patch(work, patch):
            left_out.add(patch.ref)
    for apply in decision.applies:
        if not apply.after.isdisjoint(left_out) or not await _apply(work, apply):
            left_out.add(apply.ref)
    for create in decision.creates:
        if not create.after.isdisjoint(left_out) or not await _create(work, create):
            left_out.add(create.ref)
    return left_out


def _annotations(decision: Decision) -> dict[str, Any]:
    return {"annotations": dict(decision.annotations)} if decision.annotations else {}


async def _confirm_current(work: ReconcilePass[S, V]) -> None:
    """Raise Stale if the source (the reconciled object) has changed or was replaced since it was read. Raise NotFound
    if it no longer exists.
    """
    meta = work.source.metadata
    ref = ObjectRef(work.reconciler.kind, meta.namespace or None, meta.name)
    live = metadata(await work.api.get(ref))
    if (live.get("uid"), live.get("resourceVersion")) != (meta.uid, meta.resource_version):
        raise Stale(f"{ref} was decided on at resourceVersion {meta.resource_version} and has moved on")


async def _patch_source(work: ReconcilePass[S, V], changed: Mapping[str, Any], what: str) -> None:
    """Merge-patch `changed` into the metadata of the source (the reconciled object), guarded by its resourceVersion. An
    apply is never used for this (REC-6).

    Lists in `changed` replace the present ones. `what` is the verb under which the write is recorded.
    """
    meta = work.source.metadata
    ref = ObjectRef(work.reconciler.kind, meta.namespace or None, meta.name)
    patch = {"metadata": {"resourceVersion": meta.resource_version, **changed}}
    answer = await work.api.patch(ref, patch, patch_type=PatchType.MERGE, field_manager=work.reconciler.manager)
    work.record(what, ref, answer)
    work.source = work.reconciler.read(answer)


async def _patch(work: ReconcilePass[S, V], patch: MergePatch) -> bool:
    """Send one merge patch. Return False if it was refused; an object that no longer exists counts as patched."""
    try:
        answer = await work.downstream.patch(
            patch.ref, patch.patch, patch_type=PatchType.MERGE, field_manager=work.reconciler.manager
        )
    except NotFound:
        _gone(work, patch.ref)
    except Stale:
        raise
    except OperatorError as error:
        work.record_failure(patch.ref, "patch", error)
        return False
    else:
        work.record("patch", patch.ref, answer)
    return True


async def _apply(work: ReconcilePass[S, V], apply: Apply, *, dry_run: bool = False) -> bool:
    exact = with_preconditions(apply.manifest, work.observed.objects.get(apply.ref))
    try:
        answer = await work.downstream.apply(
            exact, kind=apply.kind, field_manager=work.reconciler.manager, force=apply.force, dry_run=dry_run
        )
    except Stale:
        if not _unseen(work, apply.ref) or not _refresh_live(work, apply.ref, await _read_live(work, apply.ref)):
            raise
        return False
    except (Conflict, Invalid) as error:
        if isinstance(error, Invalid) and any(cause.field == "metadata.uid" for cause in error.causes):
            raise Stale(error.message) from error  # the server's answer if another object has that name (S-09)
        # Fields that others hold explain a conflict, and sometimes why the whole object is invalid.
        live = await _read_live(work, apply.ref)
        if not _unseen(work, apply.ref) or not _refresh_live(work, apply.ref, live):
            work.record_failure(apply.ref, "apply", error, live, apply.manifest)
        return False
    except OperatorError as error:
        work.record_failure(apply.ref, "apply", error)
        return False
    if dry_run:
        return True
    work.record("apply", apply.ref, answer)
    work.forget_failure(apply.ref)
    return True


def _unseen(work: ReconcilePass[S, V], ref: ObjectRef) -> bool:
    """Report whether the object may exist although the snapshot does not show it."""
    return work.reconciler.looks_up and ref not in work.observed.objects


def _refresh_live(work: ReconcilePass[S, V], ref: ObjectRef, live: Manifest | None) -> bool:
    """Put `live`, the object as just read, into the snapshot, and return True. If `live` is None, only return False."""
    if live is not None:
        work.observe(ref, live)
    return live is not None


async def _create(work: ReconcilePass[S, V], create: Create) -> bool:
    """POST the object, and report whether it was created.

    If an object of that name exists, put it into the snapshot, so that the next decision sees its owner.
    """
    manifest = _filled(create, work.reconciler.entropy)
    try:
        answer = await work.downstream.create(manifest, kind=create.kind, field_manager=work.reconciler.manager)
    except Stale:
        raise
    except AlreadyExists as error:
        live = await _read_live(work, create.ref)
        work.record_failure(create.ref, "create", error, live)
        if live is not None:
            work.observe(create.ref, live)
    except OperatorError as error:
        work.record_failure(create.ref, "create", error)
    else:
        work.record("create", create.ref, answer)
        work.forget_failure(create.ref)
        return True
    return False


def _filled(create: Create, entropy: Entropy | None) -> Manifest:
    """Return the manifest with newly drawn random strings. Raises ValueError if `entropy` is needed and None."""
    manifest = create.manifest
    for fill in create.fill:
        if entropy is None:
            raise ValueError(f"{create.ref} is created with random text, and the reconciler has no source of it")
        drawn = entropy.text(fill.length, fill.alphabet)
        text = binascii.b2a_base64(drawn.encode(), newline=False).decode() if fill.base64 else drawn
        value: Any = text
        for key in reversed(fill.path):
            value = {key: value}
        manifest = merge_patch(manifest, value)
    return manifest


async def _read_live(work: ReconcilePass[S, V], ref: ObjectRef) -> Manifest | None:
    """Return the live object with its managedFields, or None if it cannot be read.

    A cached object has no managedFields. The message about a conflict needs them, for the command that it names
    (REC-8).
    """
    try:
        return await work.downstream.get(ref)
    except OperatorError:
        # The refusal itself is reported either way; without the object only its explanation is missing.
        return None


async def _delete(work: ReconcilePass[S, V], delete: Delete) -> None:
    """Delete an object. If a finalizer, usually of Flux, keeps it, record the object's remaining state."""
    try:
        left = await work.downstream.delete(delete.ref, uid=delete.uid, resource_version=delete.resource_version)
    except NotFound:
        _gone(work, delete.ref)
    except Stale:
        raise
    except OperatorError as error:
        work.record_failure(delete.ref, "delete", error)
    else:
        # The server answers with the object if finalizers keep it (W-31).
        if left is not None:
            work.record("delete", delete.ref, left)
        else:
            work.executed.append(("delete", delete.ref))
            _gone(work, delete.ref)


def _gone(work: ReconcilePass[S, V], ref: ObjectRef) -> None:
    left = {other: manifest for other, manifest in work.observed.objects.items() if other != ref}
    work.observed = attrs.evolve(work.observed, objects=left)


async def write_own_status(work: ReconcilePass[S, V], status: Manifest) -> None:
    """Write the status of the source (the reconciled object), and add the write to the writes of the pass `work`.

    `status` is an apply configuration of the object with its whole status.
    """
    kind, meta = work.reconciler.kind, work.source.metadata
    answer = await write_status(work.api, kind, status, work.reconciler.manager)
    work.record(STATUS, ObjectRef(kind, meta.namespace or None, meta.name), answer)


async def write_status(api: KubeApi, kind: Kind, status: Manifest, manager: str) -> Manifest:
    """Apply a whole status as the field manager `manager`, and return the object that the server returned.

    The write is refused if the object has changed since the resourceVersion in `status` (REC-6). The statuses of all
    kinds are written here.
    """
    return await api.apply_status(status, kind=kind, field_manager=manager)
