"""What a simulated controller asks of the world, as data, and how one of its passes ends.

A pass is a conversation: a generator that yields effects, is sent their answers, and returns a `ControllerResult`. It
holds no clock and does no I/O; the simulator performs the effects. A pass that is dropped between two effects is
a controller that crashed there. An error of the API server is thrown into the pass; one that it does not catch ends it.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import attrs

from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef
from vworkspace_core.ports import Propagation


@attrs.frozen
class SimulatedGet:
    """Read one object. Answered with the manifest, None where it does not exist."""

    ref: ObjectRef


@attrs.frozen
class SimulatedList:
    """Read every object of a kind, in one namespace or in all. Answered with a tuple, empty if none is served."""

    kind: Kind
    namespace: str | None = None


@attrs.frozen
class SimulatedPatch:
    """Merge patch of one object, if it still is the one with that uid (empty: whichever it is).

    Answered with whether it was written: an object that is gone takes no more writes.
    """

    ref: ObjectRef
    uid: str
    body: Mapping[str, Any]
    subresource: str = ""


@attrs.frozen
class SimulatedApply:
    """Server-side apply, forced. Answered with None."""

    kind: Kind
    manifest: Manifest


@attrs.frozen
class SimulatedCreate:
    """POST. An object of that name that is there already stays; a kind that is not served is left out."""

    kind: Kind
    manifest: Manifest


@attrs.frozen
class SimulatedDelete:
    """DELETE one object, if it is there and still is the one with that uid (empty: whichever it is)."""

    ref: ObjectRef
    uid: str = ""
    propagation: Propagation = Propagation.BACKGROUND


@attrs.frozen
class PostEvent:
    """Post an Event about an object; an error of the API server is ignored, as recorders of Events ignore it.

    `moment` is the time as it stands in the Event.
    """

    ref: ObjectRef
    uid: str
    type: str
    reason: str
    message: str
    moment: str


@attrs.frozen
class Sleep:
    """Be busy for `seconds`. Answered with the time afterwards."""

    seconds: float


class Question:
    """Something outside the API server (a registry, Helm's storage, an object storage), which the simulator answers.

    Base class: each controller's questions say what they are answered with.
    """


Effect: TypeAlias = (
    SimulatedGet
    | SimulatedList
    | SimulatedPatch
    | SimulatedApply
    | SimulatedCreate
    | SimulatedDelete
    | PostEvent
    | Sleep
    | Question
)


@attrs.frozen
class ControllerResult:
    """How a pass ended, and when the object is looked at again if nothing changes before.

    `requeue_after` is in seconds. With `backoff` the pass is repeated after the work queue's delay, which grows with
    every failure. `interval` marks a delay that is a regular interval, not work left to do. `error` is what the
    controller would log.
    """

    requeue_after: float | None = None
    backoff: bool = False
    interval: bool = False
    error: str = ""

    @property
    def retries(self) -> bool:
        """Whether work is left to do."""
        return self.backoff or (self.requeue_after is not None and not self.interval)


REQUEUE: Final = ControllerResult(backoff=True)
"""The pass is repeated with backoff, without an error."""


def done(interval: float | None = None) -> ControllerResult:
    """The pass ended well; the object is looked at again after `interval` seconds, or only when it changes."""
    return ControllerResult(requeue_after=interval, interval=True)


def waiting(seconds: float) -> ControllerResult:
    """Something else must become ready first; looked at again after `seconds`, without backoff."""
    return ControllerResult(requeue_after=seconds)


def failed(error: str) -> ControllerResult:
    """The pass ended with an error and is retried with backoff."""
    return ControllerResult(error=error, backoff=True)


def terminal(error: str) -> ControllerResult:
    """The pass ended with an error that no retry can cure: nothing happens until something changes."""
    return ControllerResult(error=error)


_T = TypeVar("_T")
PassStep: TypeAlias = Generator[Effect, Any, _T]
"""A part of a pass that ends with a `_T`."""


def get_object(ref: ObjectRef) -> PassStep[Manifest | None]:
    """The object at `ref`, None where it does not exist."""
    answer: Manifest | None = yield SimulatedGet(ref)
    return answer


def list_objects(kind: Kind, namespace: str | None = None) -> PassStep[Sequence[Manifest]]:
    """Every object of a kind, in one namespace or in all."""
    answer: Sequence[Manifest] = yield SimulatedList(kind, namespace)
    return answer


def patch_object(ref: ObjectRef, body: Mapping[str, Any], *, uid: str = "", subresource: str = "") -> PassStep[bool]:
    """Patch an object; whether it was there."""
    answer: bool = yield SimulatedPatch(ref, uid, body, subresource)
    return answer
