"""One run of a check of a controller: the sample object, and the requests that the controller sent for it."""

import copy
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Self

import attrs

from purekube.apimachinery.errors import AlreadyExists, NotFound, Stale
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, patch_between
from purekube_run.examination.audit import RecordedRequest
from purekube_run.examination.examination import HUMAN, Case, Examination
from purekube_run.examination.objects import is_owned_by, shown
from purekube_run.examination.patience import no_wait
from purekube_run.examination.verdicts import Broken, Check, NotTried

NEEDS: Final[Mapping[str, str]] = {
    "edited": "--edited, the sample after an edit of its spec",
    "status": "a status subresource of the kind",
}
"""The needs that checks may have in addition to a sample: names as in `Check.needs`, each with its text in `--list`."""

_NO_WORK: Final = frozenset({"events", "leases"})
"""The plurals of objects whose writes do not count as a controller's work."""


@attrs.frozen
class Subject:
    """The kind whose controller is examined, a sample object of the kind, and an edit of the sample.

    The edit `edited` is a merge patch for the sample's spec, or None if none is given.
    """

    kind: Kind
    sample: Manifest
    edited: Mapping[str, Any] | None = None


class ControllerCase(Case):
    """One run of a check of a controller: it has a namespace of its own and one object of the kind, the sample.

    Its methods change the sample as a user would, and return the requests that the controller sent since the run began.
    """

    def __init__(self, examination: Examination, check: Check[Any]) -> None:
        super().__init__(examination, check)
        subject = examination.played["subject"]
        assert isinstance(subject, Subject)
        self.subject = subject
        self.ref = ObjectRef(subject.kind, self.namespace if subject.kind.namespaced else None, self._name())
        self.uid = ""
        if subject.kind.namespaced:
            self.held = (subject.kind,)
        else:
            examination.leavings.holds(subject.kind, None)

    def _name(self) -> str:
        name = str(get_path(self.subject.sample, "metadata", "name") or "sample")
        return name if self.subject.kind.namespaced else f"{name}-{self.namespace[-6:]}"

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self._have_further(self.namespace)
        return self

    async def _have_further(self, namespace: str) -> None:
        """Create the further objects of the sample's file in a namespace.

        An object without a namespace is created once for all checks, unless it exists already, when others may use it.
        """
        for manifest in self.examination.played.get("further", ()):
            kind = self.examination.played["kinds"][manifest["apiVersion"], manifest["kind"]]
            if kind.namespaced:
                await self.apply({**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}, kind)
                continue
            with suppress(AlreadyExists):
                live = await self.api.create(manifest, kind=kind, field_manager=HUMAN)
                self.examination.leavings.add(live, kind)

    async def clean(self) -> None:
        """Delete the sample, since a cluster-scoped sample is not removed with the check's namespace."""
        if self.uid:
            with suppress(NotFound, Stale):
                await self.api.delete(self.ref, uid=self.uid)

    # --- the object --------------------------------------------------------------------------------------------------

    async def create(self) -> Manifest:
        """Create the sample under the field manager of a user, and return the created object."""
        made = await self._create_at(self.ref)
        self.uid = str(get_path(made, "metadata", "uid"))
        return made

    async def _create_at(self, ref: ObjectRef) -> Manifest:
        manifest = copy.deepcopy(dict(self.subject.sample))
        where = {"name": ref.name, **({"namespace": ref.namespace} if ref.namespace else {})}
        manifest["metadata"] = {**manifest.get("metadata", {}), **where}
        made = await self.api.create(manifest, kind=ref.kind, field_manager=HUMAN)
        if ref.namespace is None:
            self.examination.leavings.add(made, ref.kind)
        return made

    async def at_work(self) -> None:
        """Create another sample elsewhere, and wait until the controller has written for it.

        A process that waits for a Lease is silent, too. Raises NotTried if there is no such write in time.
        """
        namespace = f"{self.namespace}-proof"
        ref = attrs.evolve(self.ref, name=f"{self.ref.name}-proof")
        if self.ref.kind.namespaced:
            await self.make_namespace(namespace, self.labels)
            await self._have_further(namespace)
            ref = attrs.evolve(self.ref, namespace=namespace)
        number = self.audit.number
        await self._create_at(ref)

        def is_proof(call: RecordedRequest) -> bool:
            is_there = call.concerns(ref) or call.path.namespace == namespace
            return is_there and call.writes and call.succeeded and call.path.plural not in _NO_WORK

        proof = no_wait(lambda: self.audit.first(is_proof, number))
        await self.required("a write for another object", proof, 3 * self.patience)

    async def managed(self) -> Manifest:
        """Create the sample, wait until the controller has written and come to rest, and return the object.

        Raises NotTried if the controller writes nothing in time or the object is gone. Raises Broken if the controller
        does not come to rest.
        """
        await self.create()
        await self.worked()
        await self.settled()
        return await self.live()

    async def worked(self, since: int | None = None) -> None:
        """Wait for an accepted write of the controller after request `since`, by default since the run began.

        Raises NotTried if there is no such write in time. It does not raise Broken, because only the check `progress`
        counts that as a failure.
        """
        await self.required("a write of the controller", no_wait(lambda: bool(self.work(since))))

    def acted(self, since: int) -> Callable[[], Awaitable[bool]]:
        """Return a function that reports whether the controller wrote anything, even Events, after request `since`."""
        return no_wait(lambda: bool(self.work(since) or self.calls(lambda call: call.writes, since)))

    async def works(self, what: str, since: int | None = None, seconds: float | None = None) -> None:
        """Wait for an accepted write of the controller after request `since`, by default since the run began.

        Raises Broken after `seconds`, by default `patience`; the message names the expected effect `what`.
        """
        await self.until(what, no_wait(lambda: bool(self.work(since))), seconds)

    async def live(self) -> Manifest:
        """Return the sample object as it is now. Raises NotTried if the object is gone."""
        live = await self.get(self.ref)
        if live is None:
            raise NotTried("its stimulus did not come about: the object is gone")
        return live

    async def edit_spec(self) -> int:
        """Apply the subject's merge patch `edited` to the sample's spec, and return the sample's new generation."""
        change = {"spec": self.subject.edited}
        return int(get_path(await self.edit(self.ref, change), "metadata", "generation") or 0)

    # --- the work ----------------------------------------------------------------------------------------------------

    def writes(self, since: int | None = None) -> list[RecordedRequest]:
        """Return the writes to the sample and in the check's namespace (see `is_work`), even refused ones."""
        return list(self.audit.where(self.is_work, self.since if since is None else since))

    def work(self, since: int | None = None) -> list[RecordedRequest]:
        """Return the controller's writes (see `writes`) that the API server accepted."""
        return [call for call in self.writes(since) if call.succeeded]

    def is_work(self, call: RecordedRequest) -> bool:
        """Report whether the request `call` writes the sample, or another object in the check's namespace.

        Events and Leases do not count.
        """
        if not call.writes or call.path.plural in _NO_WORK:
            return False
        return call.concerns(self.ref) or call.path.namespace == self.namespace

    def made(self, since: int | None = None) -> Mapping[ObjectRef, RecordedRequest]:
        """Return the controller's children: the objects that it created, each with the last request that created it."""
        calls = [call for call in self.work(since) if call.created and not call.concerns(self.ref)]
        return {ref_of_call(call): call for call in calls}

    async def children(self) -> Mapping[ObjectRef, RecordedRequest]:
        """Create the sample unless it exists, and return its children, each with the request that created it.

        Raises NotTried if the sample has no children.
        """
        if not self.uid:
            await self.managed()
        if not self.made():
            raise NotTried("the controller makes no children")
        return self.made()

    async def owned_child(self) -> ObjectRef:
        """Return a child that has an owner reference to the sample. Raises NotTried if there is no such child."""
        for ref in await self.children():
            live = await self.get(ref)
            if live is not None and is_owned_by(live, self.uid):
                return ref
        raise NotTried("the controller makes no children with an owner reference")

    async def absent(self, ref: ObjectRef) -> None:
        """Wait until the child `ref` is gone.

        Raises NotTried if it stays. It does not raise Broken, because only the check `children_go` counts that as a
        failure.
        """
        await self.required(f"the end of {ref}", partial(self.is_gone, ref))

    async def collected(self, ref: ObjectRef) -> None:
        """Wait until the child `ref` of the removed sample is gone.

        Raises Broken if it stays. Raises NotTried if it stays although it has an owner reference to the sample: then
        the cluster has no garbage collector, like the kube-apiserver that envtest starts alone.
        """
        try:
            await self.gone(ref, f"the end of {ref} with its object")
        except Broken:
            live = await self.get(ref) or {}
            if get_path(live, "metadata", "deletionTimestamp") is None and is_owned_by(live, self.uid):
                raise NotTried(f"{ref} waits for the garbage collector, which does not run in this cluster") from None
            raise

    async def removed(self) -> None:
        """Delete the sample and wait until it is gone. Raises Broken if the sample stays."""
        await self.delete(self.ref)
        await self.gone(self.ref, "the end of the deleted object")

    async def evidence_now(self) -> list[str]:
        """Return lines of evidence for a failure: the sample's present conditions, and the controller's last writes."""
        return [shown(await self.get(self.ref)), *map(str, self.writes()[-2:])]


def ref_of_call(call: RecordedRequest) -> ObjectRef:
    """Return the reference of the object that the recorded write `call` changes."""
    path = call.path
    name = str(get_path(call.answer or {}, "kind") or path.plural)
    kind = Kind(path.group, path.version, name, path.plural, namespaced=path.namespace is not None)
    return ObjectRef(kind, path.namespace, call.name)


def edited_spec(sample: Manifest, edited: Manifest) -> Mapping[str, Any]:
    """Return the merge patch that turns the spec of `sample` into the spec of `edited`."""
    return patch_between(sample.get("spec") or {}, edited.get("spec") or {})
