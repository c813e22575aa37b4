"""One run of a check of a controller: the kind's sample object, and what the controller did for it."""

import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Self

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube_run.examination.audit import Call
from purekube_run.examination.examination import HUMAN, Case, Examination
from purekube_run.examination.objects import is_owned_by, shown
from purekube_run.examination.verdicts import Check, NotTried

NEEDS: Final[Mapping[str, str]] = {
    "edited": "--edited, the sample after an edit of its spec",
    "status": "a status subresource of the kind",
}
"""The things that checks may need, in the words of the list."""

_NO_WORK: Final = frozenset({"events", "leases"})
"""Plurals of objects that are no part of a controller's work."""


@attrs.frozen
class Subject:
    """The kind under examination, a sample object, and the sample after an edit of its spec, if one is given."""

    kind: Kind
    sample: Manifest
    edited: Mapping[str, Any] | None = None


class ControllerCase(Case):
    """A check of one object of the kind."""

    def __init__(self, examination: Examination, check: Check[Any]) -> None:
        super().__init__(examination, check)
        subject = examination.played["subject"]
        assert isinstance(subject, Subject)
        self.subject = subject
        self.ref = ObjectRef(subject.kind, self.namespace if subject.kind.namespaced else None, self._name())
        self.uid = ""

    def _name(self) -> str:
        name = str(get_path(self.subject.sample, "metadata", "name") or "sample")
        return name if self.subject.kind.namespaced else f"{name}-{self.namespace[-6:]}"

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        for manifest in self.examination.played.get("further", ()):
            meta = {**manifest["metadata"], "namespace": self.namespace}
            kind = self.examination.played["kinds"][manifest["apiVersion"], manifest["kind"]]
            await self.apply({**manifest, "metadata": meta}, kind)
        return self

    async def clean(self) -> None:
        """Delete the object if deleting its namespace does not."""
        await self.delete(self.ref)

    # --- the object --------------------------------------------------------------------------------------------------

    async def create(self) -> Manifest:
        """Create the sample as a person does."""
        manifest = copy.deepcopy(dict(self.subject.sample))
        where = {"name": self.ref.name, **({"namespace": self.namespace} if self.ref.kind.namespaced else {})}
        manifest["metadata"] = {**manifest.get("metadata", {}), **where}
        made = await self.api.create(manifest, kind=self.ref.kind, field_manager=HUMAN)
        self.uid = str(get_path(made, "metadata", "uid"))
        return made

    async def managed(self) -> Manifest:
        """Create the sample, wait until the controller has written and come to rest, and return the object.

        Raises NotTried if the controller writes nothing in time or the object is gone, and Broken if the controller
        does not come to rest.
        """
        await self.create()
        await self.worked()
        await self.settled()
        return await self.live()

    async def worked(self, since: int | None = None) -> None:
        """Wait for a write of the controller. Raises NotTried if there is none: the check `progress` judges that."""

        async def wrote() -> bool:
            return bool(self.work(since))

        await self.required("a write of the controller", wrote)

    def acted(self, since: int) -> Callable[[], Awaitable[bool]]:
        """Return a function that reports whether the controller has written anything since a request, Events too."""

        async def look() -> bool:
            return bool(self.work(since) or self.calls(lambda call: call.writes, since))

        return look

    async def works(self, what: str, since: int | None = None, seconds: float | None = None) -> None:
        """Wait for a write of the controller after `since`. Raises Broken with `what` if none comes in time."""

        async def wrote() -> bool:
            return bool(self.work(since))

        await self.until(what, wrote, seconds)

    async def live(self) -> Manifest:
        """Return the object. Raises NotTried if it is gone."""
        live = await self.get(self.ref)
        if live is None:
            raise NotTried("its stimulus did not come about: the object is gone")
        return live

    async def edit_spec(self) -> int:
        """Edit the object's spec; return its new generation."""
        change = {"spec": self.subject.edited}
        return int(get_path(await self.edit(self.ref, change), "metadata", "generation") or 0)

    # --- the work ----------------------------------------------------------------------------------------------------

    def writes(self, since: int | None = None) -> list[Call]:
        """Return the controller's writes of the object and in its namespace, without Events and Leases."""
        return list(self.audit.where(self.is_work, self.since if since is None else since))

    def work(self, since: int | None = None) -> list[Call]:
        """Return the writes that the API server accepted."""
        return [call for call in self.writes(since) if call.succeeded]

    def is_work(self, call: Call) -> bool:
        """Return whether a request is a write of the object or in its namespace, and no Event or Lease."""
        if not call.writes or call.path.plural in _NO_WORK:
            return False
        return call.concerns(self.ref) or call.path.namespace == self.namespace

    def made(self, since: int | None = None) -> Mapping[ObjectRef, Call]:
        """Return the children that the controller created, each with the last request that did."""
        calls = [call for call in self.work(since) if call.created and not call.concerns(self.ref)]
        return {ref_of_call(call): call for call in calls}

    async def children(self) -> Mapping[ObjectRef, Call]:
        """Create the sample unless it is there, and return its children. Raises NotTried if it gets none."""
        if not self.uid:
            await self.managed()
        if not self.made():
            raise NotTried("the controller makes no children")
        return self.made()

    async def owned_child(self) -> ObjectRef:
        """Return a child that has an owner reference to the object. Raises NotTried if there is none."""
        for ref in await self.children():
            live = await self.get(ref)
            if live is not None and is_owned_by(live, self.uid):
                return ref
        raise NotTried("the controller makes no children with an owner reference")

    async def absent(self, ref: ObjectRef) -> None:
        """Wait until a child is gone. Raises NotTried if it stays: the check `children_go` judges that."""

        async def look() -> bool:
            return await self.get(ref) is None

        await self.required(f"the end of {ref}", look)

    async def removed(self) -> None:
        """Delete the object and wait until it is gone. Raises Broken if it stays."""
        await self.delete(self.ref)
        await self.gone(self.ref, "the end of the deleted object")

    async def evidence_now(self) -> list[str]:
        """Return the present object and the controller's last requests, as evidence."""
        return [shown(await self.get(self.ref)), *map(str, self.writes()[-2:])]


def ref_of_call(call: Call) -> ObjectRef:
    """Return the object that a write is about."""
    path = call.path
    name = str(get_path(call.answer or {}, "kind") or path.plural)
    kind = Kind(path.group, path.version, name, path.plural, namespaced=path.namespace is not None)
    return ObjectRef(kind, path.namespace, call.name)


def edited_spec(sample: Manifest, edited: Manifest) -> Mapping[str, Any]:
    """Return the merge patch that turns the spec of `sample` into that of `edited`."""
    before: Any = sample.get("spec") or {}
    after: Any = edited.get("spec") or {}
    return {**after, **dict.fromkeys(set(before) - set(after))}
