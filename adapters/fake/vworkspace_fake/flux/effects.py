"""What a simulated Flux controller asks of the world, as data, and how one of its passes ends.

A pass is a conversation: a generator that yields effects and is sent their answers. It holds no clock
and does no I/O; whoever drives it (`vworkspace_fake.flux.simulator`) performs the effects. A pass that is
dropped between two effects is a controller that crashed there.
"""

from collections.abc import Generator, Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

import attrs

from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef
from vworkspace_fake.flux.behaviour import Action, ActionAnswer, PullAnswer, PullRequest, Target
from vworkspace_fake.flux.storage import Release


@attrs.frozen
class Patch:
    """Write the difference between two states of one object. Answered with None.

    Performed in this order, each only when something changed: the conditions (merged into the latest
    object), the metadata, the rest of the status. Readers can see Ready=True before the history that
    belongs to it.
    """

    ref: ObjectRef
    field_manager: str
    before: Manifest
    after: Manifest
    now: datetime


@attrs.frozen
class Read:
    """Read one object. Answered with the manifest, None where it does not exist."""

    ref: ObjectRef


@attrs.frozen
class ApplyChild:
    """Server-side apply of a child object, forced as Flux does. Answered with None."""

    kind: Kind
    manifest: Manifest
    field_manager: str


@attrs.frozen
class Remove:
    """Delete one object if it is there. Answered with None."""

    ref: ObjectRef


@attrs.frozen
class Sleep:
    """Be busy for `seconds`. Answered with the time afterwards."""

    seconds: float


@attrs.frozen
class Pull:
    """Ask the script what the registry answers. Answered with a `PullAnswer`."""

    request: PullRequest


@attrs.frozen
class Decide:
    """Ask the script how a Helm action ends that may take `timeout` seconds. Answered with an `ActionAnswer`."""

    action: Action
    target: Target
    timeout: float


@attrs.frozen
class LoadReleases:
    """Read Helm's storage of one release name. Answered with its releases, oldest first."""

    namespace: str
    name: str
    owner: ObjectRef


@attrs.frozen
class StoreReleases:
    """Replace Helm's storage of one release name. Answered with None."""

    namespace: str
    name: str
    releases: tuple[Release, ...]
    owner: ObjectRef


@attrs.frozen
class FindDrift:
    """Ask which resources of a release were changed in the cluster. Answered with a tuple of names."""

    owner: ObjectRef


@attrs.frozen
class CanImpersonate:
    """Ask whether a service account exists. Answered with a bool."""

    namespace: str
    name: str


@attrs.frozen
class CorrectDrift:
    """Put the drifted resources of a release back. Answered with None."""

    owner: ObjectRef


Effect: TypeAlias = (
    Patch
    | Read
    | ApplyChild
    | Remove
    | Sleep
    | Pull
    | Decide
    | LoadReleases
    | StoreReleases
    | CanImpersonate
    | FindDrift
    | CorrectDrift
)


@attrs.frozen
class Done:
    """The pass ended well; the object is looked at again after that many seconds, or only when it changes."""

    after: float | None = None


@attrs.frozen
class Requeue:
    """Run again soon, with the backoff of the work queue."""


@attrs.frozen
class Waiting:
    """Something else must become ready first; looked at again after `after` seconds without backoff."""

    after: float


@attrs.frozen
class Failed:
    """The pass ended with an error and is retried with backoff."""

    error: str


@attrs.frozen
class Terminal:
    """The pass ended with an error that no retry can cure: nothing happens until something changes."""

    error: str


Verdict: TypeAlias = Done | Requeue | Waiting | Failed | Terminal

_T = TypeVar("_T")
Step: TypeAlias = Generator[Effect, Any, _T]


def read(ref: ObjectRef) -> Step[Manifest | None]:
    """The object at `ref`, None where it does not exist."""
    answer: Manifest | None = yield Read(ref)
    return answer


def pull(request: PullRequest) -> Step[PullAnswer]:
    """What the registry answers to `request`."""
    answer: PullAnswer = yield Pull(request)
    return answer


def decide(action: Action, target: Target, timeout: float) -> Step[ActionAnswer]:
    """How the Helm action is going to end."""
    answer: ActionAnswer = yield Decide(action, target, timeout)
    return answer


def load_releases(namespace: str, name: str, owner: ObjectRef) -> Step[tuple[Release, ...]]:
    """Helm's storage of one release name of `owner`, oldest first."""
    answer: tuple[Release, ...] = yield LoadReleases(namespace, name, owner)
    return answer


def find_drift(owner: ObjectRef) -> Step[Sequence[str]]:
    """Names of the resources of `owner`'s release that were changed behind Helm's back."""
    answer: Sequence[str] = yield FindDrift(owner)
    return answer


def can_impersonate(namespace: str, name: str) -> Step[bool]:
    """Whether the service account that Helm is to act as exists."""
    answer: bool = yield CanImpersonate(namespace, name)
    return answer


def correct_drift(owner: ObjectRef) -> Step[None]:
    """Put drifted resources back."""
    yield CorrectDrift(owner)
