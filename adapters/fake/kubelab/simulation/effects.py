"""The effects of a simulated controller as data, and the result of its passes.

An effect is a request of a pass: a read, a write, a pause, or a question to another system. A pass is a generator that
yields effects, is sent their answers, and returns a `ControllerResult`. It has no clock and does no I/O; the simulator
performs the effects. Dropping a pass between two effects is a crash of the controller there. An error of the API server
is thrown into the pass, and ends the pass unless the pass catches it.

The method `perform` of a read or write sends it through a `KubeApi`, with the pass's field manager, and returns the
answer. It raises the errors of `KubeApi`, unless the effect ignores them.
"""

import hashlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs

from purekube.apimachinery.errors import AlreadyExists, KindMissing, NotFound, OperatorError, Stale
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import CORE_EVENT
from purekube.ports import KubeApi, PatchType, Propagation

# client-go: tools/pager/pager.go, defaultPageSize.
_PAGE: Final = 500


async def list_all(api: KubeApi, kind: Kind, namespace: str | None = None, selector: str = "") -> Sequence[Manifest]:
    """Return every object of a kind, read page by page, or none if the kind is not served.

    `namespace` None means all namespaces. `selector` is a label selector; an empty one selects all objects.
    """
    items: list[Manifest] = []
    token = ""
    while True:
        try:
            page = await api.list(kind, namespace=namespace, label_selector=selector, limit=_PAGE, continue_token=token)
        except KindMissing:
            return ()
        items.extend(page.items)
        token = page.continue_token
        if not token:
            return tuple(items)


@attrs.frozen
class SimulatedGet:
    """A read of one object. The answer is the object's manifest, or None if the object does not exist."""

    ref: ObjectRef

    async def perform(self, api: KubeApi, _manager: str) -> Manifest | None:
        """Read the object."""
        try:
            return await api.get(self.ref)
        except NotFound:
            return None


@attrs.frozen
class SimulatedList:
    """A read of every object of a kind, in one namespace or in all namespaces.

    The answer is a tuple of manifests, empty if the kind is not served.
    """

    kind: Kind
    namespace: str | None = None

    async def perform(self, api: KubeApi, _manager: str) -> Sequence[Manifest]:
        """Read the objects, page by page."""
        return await list_all(api, self.kind, self.namespace)


@attrs.frozen
class SimulatedPatch:
    """A merge patch of one object. If a uid is given, only an object with that uid is patched.

    The answer is a bool: False if no object with this name and uid exists.
    """

    ref: ObjectRef
    uid: str
    body: Mapping[str, Any]
    subresource: str = ""

    async def perform(self, api: KubeApi, manager: str) -> bool:
        """Patch the object."""
        body = dict(self.body)
        if self.uid:
            body["metadata"] = {**body.get("metadata", {}), "uid": self.uid}
        try:
            await api.patch(
                self.ref, body, patch_type=PatchType.MERGE, field_manager=manager, subresource=self.subresource
            )
        except NotFound:
            return False
        except Stale:
            # The API server answers 409 if the object has another uid than the patch (W-30).
            if not self.uid:
                raise
            return False
        return True


@attrs.frozen
class SimulatedApply:
    """A server-side apply of `manifest` with force, by the controller's field manager. The answer is None."""

    kind: Kind
    manifest: Manifest

    async def perform(self, api: KubeApi, manager: str) -> None:
        """Apply the object."""
        await api.apply(self.manifest, kind=self.kind, field_manager=manager, force=True)


@attrs.frozen
class SimulatedCreate:
    """A create (POST). It has no effect if an object of that name exists, or if the kind is not served.

    The answer is None.
    """

    kind: Kind
    manifest: Manifest

    async def perform(self, api: KubeApi, manager: str) -> None:
        """Create the object."""
        with suppress(AlreadyExists, KindMissing):
            await api.create(self.manifest, kind=self.kind, field_manager=manager)


@attrs.frozen
class SimulatedDelete:
    """A delete of one object. If a uid is given, only an object with that uid is deleted.

    The answer is None.
    """

    ref: ObjectRef
    uid: str = ""
    propagation: Propagation = Propagation.BACKGROUND

    async def perform(self, api: KubeApi, _manager: str) -> None:
        """Delete the object."""
        with suppress(NotFound, Stale):
            await api.delete(self.ref, uid=self.uid or None, propagation=self.propagation)


@attrs.frozen
class PostEvent:
    """A request to post an Event about the object `ref`. The answer is None.

    An error of the API server is ignored, as by client-go's event recorder. `moment` is the time in the Event.
    """

    ref: ObjectRef
    uid: str
    type: str
    reason: str
    message: str
    moment: str

    async def perform(self, api: KubeApi, manager: str) -> None:
        """Post the Event."""
        # client-go: tools/record/event.go: an event is worth less than the work, so its loss is only logged.
        with suppress(OperatorError):
            await api.create(self._manifest(manager), kind=CORE_EVENT, field_manager=manager)

    def _manifest(self, component: str) -> Manifest:
        """Return the Event of the core group, in the form in which Kubernetes' controllers post it.

        The same reason and message give the same name, so a repetition creates no further Event.
        """
        digest = hashlib.sha256(f"{self.uid}/{self.reason}/{self.message}".encode()).hexdigest()
        ref = self.ref
        about = {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, "namespace": ref.namespace}
        return {
            **CORE_EVENT.manifest(f"{ref.name[:200]}.{digest[:16]}", ref.namespace),
            "involvedObject": {**about, "name": ref.name, "uid": self.uid},
            "type": self.type,
            "reason": self.reason,
            "message": self.message,
            "source": {"component": component},
            "firstTimestamp": self.moment,
            "lastTimestamp": self.moment,
            "count": 1,
        }


@attrs.frozen
class Sleep:
    """A pause of a reconcile pass for `seconds`. The answer is the time after the pause.

    No other pass over the same object begins during the pause.
    """

    seconds: float


_T = TypeVar("_T")


class Question(Generic[_T]):
    """A request to a system other than the API server, such as a registry. The simulator answers it with a `_T`.

    This is the base class. Each subclass documents its answer.
    """

    def ask(self) -> "PassStep[_T]":
        """Yield this question, and return the answer."""
        answer: _T = yield self
        return answer


Effect: TypeAlias = (
    SimulatedGet
    | SimulatedList
    | SimulatedPatch
    | SimulatedApply
    | SimulatedCreate
    | SimulatedDelete
    | PostEvent
    | Sleep
    | Question[Any]
)


@attrs.frozen
class ControllerResult:
    """The result of a reconcile pass, and the time of the next pass if no change triggers a pass earlier.

    `requeue_after` is in seconds. With `backoff` the pass is repeated after the work queue's delay, which grows with
    every failure. `interval` says that `requeue_after` is a regular interval, and that no work remains. `error` is the
    text that the controller would log.
    """

    requeue_after: float | None = None
    backoff: bool = False
    interval: bool = False
    error: str = ""

    @property
    def retries(self) -> bool:
        """True if the object has work left, so that a further pass must follow.

        The object has work left if the pass is repeated with backoff, or after `requeue_after` seconds that are not a
        regular interval.
        """
        return self.backoff or (self.requeue_after is not None and not self.interval)


REQUEUE: Final = ControllerResult(backoff=True)
"""The result of a pass that is repeated with backoff, without an error."""


def done(interval: float | None = None) -> ControllerResult:
    """Return the result of a successful pass. The next pass is after `interval` seconds, if given."""
    return ControllerResult(requeue_after=interval, interval=True)


def waiting(seconds: float) -> ControllerResult:
    """Return the result of a pass that waits for another object. The next pass is after `seconds`, without backoff."""
    return ControllerResult(requeue_after=seconds)


def failed(error: str) -> ControllerResult:
    """Return the result of a failed pass, which is retried with backoff. `error` is what the controller would log."""
    return ControllerResult(error=error, backoff=True)


def terminal(error: str) -> ControllerResult:
    """Return the result of a pass with a permanent error. Only a change of the object leads to another pass."""
    return ControllerResult(error=error)


PassStep: TypeAlias = Generator[Effect, Any, _T]
"""A generator that is a part of a pass: it yields effects and returns a `_T`. A pass calls it with `yield from`."""


def get_object(ref: ObjectRef) -> PassStep[Manifest | None]:
    """Return the object at `ref`, or None if the object does not exist."""
    answer: Manifest | None = yield SimulatedGet(ref)
    return answer


def list_objects(kind: Kind, namespace: str | None = None) -> PassStep[Sequence[Manifest]]:
    """Return every object of a kind, in one namespace or, if that is None, in all namespaces."""
    answer: Sequence[Manifest] = yield SimulatedList(kind, namespace)
    return answer


def patch_object(ref: ObjectRef, body: Mapping[str, Any], *, subresource: str = "") -> PassStep[bool]:
    """Patch an object with the merge patch `body`. Return whether the object existed.

    `subresource` is empty for a patch of the object itself.
    """
    answer: bool = yield SimulatedPatch(ref, "", body, subresource)
    return answer
