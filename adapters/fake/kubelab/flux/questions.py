"""The questions that simulated Flux controllers put to registries and Helm: classes, and functions that ask.

A reconcile pass yields an instance of such a class. The simulator then resumes the pass with the answer.
"""

from collections.abc import Sequence

import attrs

from kubelab.flux.behaviour import Action, ActionAnswer, HelmTarget, PullAnswer, PullRequest
from kubelab.flux.storage import StoredRelease
from kubelab.simulation.effects import PassStep, Question
from purekube.apimachinery.manifest import ObjectRef


@attrs.frozen
class Pull(Question):
    """A request to an OCI registry or a Helm repository for a chart or an index. The answer is a `PullAnswer`."""

    request: PullRequest


@attrs.frozen
class Decide(Question):
    """A request to run a Helm action, which may take `timeout` seconds. The answer is an `ActionAnswer`."""

    action: Action
    target: HelmTarget
    timeout: float


@attrs.frozen
class LoadReleases(Question):
    """A request for the revisions of the release `name` in Helm's storage.

    The answer has them as a tuple, oldest first.
    """

    namespace: str
    name: str
    owner: ObjectRef


@attrs.frozen
class StoreReleases(Question):
    """A request to make `releases` the only revisions of the release `name` in Helm's storage. The answer is None."""

    namespace: str
    name: str
    releases: tuple[StoredRelease, ...]
    owner: ObjectRef


@attrs.frozen
class FindDrift(Question):
    """A request for the resources of the HelmRelease `owner` that were changed by hand, without Helm (drift).

    The answer is a sequence of texts, in the form of `FluxBehaviour.drifted`: `<kind>/<namespace>/<name>`, possibly
    with `#` and the JSON pointer of the changed field.
    """

    owner: ObjectRef


@attrs.frozen
class CanImpersonate(Question):
    """A question whether the service account `namespace`/`name`, which Flux impersonates, exists.

    The answer is a bool: True if it exists.
    """

    namespace: str
    name: str


@attrs.frozen
class CorrectDrift(Question):
    """A request to undo the changes by hand (drift) to resources of the HelmRelease `owner`. The answer is None."""

    owner: ObjectRef


def pull(request: PullRequest) -> PassStep[PullAnswer]:
    """Return the answer of a registry or Helm repository to `request`."""
    answer: PullAnswer = yield Pull(request)
    return answer


def decide(action: Action, target: HelmTarget, timeout: float) -> PassStep[ActionAnswer]:
    """Return the outcome of the Helm action `action` on the release `target`. The action may take `timeout` seconds."""
    answer: ActionAnswer = yield Decide(action, target, timeout)
    return answer


def load_releases(namespace: str, name: str, owner: ObjectRef) -> PassStep[tuple[StoredRelease, ...]]:
    """Return the revisions of the Helm release `name` in Helm's storage in `namespace`, oldest first.

    `owner` is the HelmRelease to which the release belongs.
    """
    answer: tuple[StoredRelease, ...] = yield LoadReleases(namespace, name, owner)
    return answer


def find_drift(owner: ObjectRef) -> PassStep[Sequence[str]]:
    """Return the resources of the HelmRelease `owner` that were changed by hand, without Helm (drift).

    Each is `<kind>/<namespace>/<name>`, and may end with `#` and the JSON pointer of the changed field.
    """
    answer: Sequence[str] = yield FindDrift(owner)
    return answer


def can_impersonate(namespace: str, name: str) -> PassStep[bool]:
    """Report whether the service account `namespace`/`name` exists, which Flux impersonates to run Helm actions."""
    answer: bool = yield CanImpersonate(namespace, name)
    return answer


def correct_drift(owner: ObjectRef) -> PassStep[None]:
    """Undo the changes that were made by hand to resources of the HelmRelease `owner` (drift)."""
    yield CorrectDrift(owner)
