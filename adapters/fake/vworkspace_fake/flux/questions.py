"""What simulated Flux controllers ask of registries and of Helm, as data."""

from collections.abc import Sequence

import attrs

from vworkspace_core.apimachinery.manifest import ObjectRef
from vworkspace_fake.flux.behaviour import Action, ActionAnswer, HelmTarget, PullAnswer, PullRequest
from vworkspace_fake.flux.storage import StoredRelease
from vworkspace_fake.simulation.effects import PassStep, Question


@attrs.frozen
class Pull(Question):
    """What a registry answers. Answered with a `PullAnswer`."""

    request: PullRequest


@attrs.frozen
class Decide(Question):
    """How a Helm action ends that may take `timeout` seconds. Answered with an `ActionAnswer`."""

    action: Action
    target: HelmTarget
    timeout: float


@attrs.frozen
class LoadReleases(Question):
    """Helm's storage of one release name. Answered with its releases, oldest first."""

    namespace: str
    name: str
    owner: ObjectRef


@attrs.frozen
class StoreReleases(Question):
    """Replace Helm's storage of one release name. Answered with None."""

    namespace: str
    name: str
    releases: tuple[StoredRelease, ...]
    owner: ObjectRef


@attrs.frozen
class FindDrift(Question):
    """Which resources of a release were changed in the cluster. Answered with a tuple of names."""

    owner: ObjectRef


@attrs.frozen
class CanImpersonate(Question):
    """Whether a service account exists. Answered with a bool."""

    namespace: str
    name: str


@attrs.frozen
class CorrectDrift(Question):
    """Put the drifted resources of a release back. Answered with None."""

    owner: ObjectRef


def pull(request: PullRequest) -> PassStep[PullAnswer]:
    """What the registry answers to `request`."""
    answer: PullAnswer = yield Pull(request)
    return answer


def decide(action: Action, target: HelmTarget, timeout: float) -> PassStep[ActionAnswer]:
    """How the Helm action is going to end."""
    answer: ActionAnswer = yield Decide(action, target, timeout)
    return answer


def load_releases(namespace: str, name: str, owner: ObjectRef) -> PassStep[tuple[StoredRelease, ...]]:
    """Helm's storage of one release name of `owner`, oldest first."""
    answer: tuple[StoredRelease, ...] = yield LoadReleases(namespace, name, owner)
    return answer


def find_drift(owner: ObjectRef) -> PassStep[Sequence[str]]:
    """Names of the resources of `owner`'s release that were changed behind Helm's back."""
    answer: Sequence[str] = yield FindDrift(owner)
    return answer


def can_impersonate(namespace: str, name: str) -> PassStep[bool]:
    """Whether the service account that Helm is to act as exists."""
    answer: bool = yield CanImpersonate(namespace, name)
    return answer


def correct_drift(owner: ObjectRef) -> PassStep[None]:
    """Put drifted resources back."""
    yield CorrectDrift(owner)
