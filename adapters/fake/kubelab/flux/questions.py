"""The questions that the reconcile passes of simulated Flux controllers put to registries and Helm."""

from collections.abc import Sequence

import attrs

from kubelab.flux.behaviour import Action, ActionAnswer, HelmTarget, PullAnswer, PullRequest
from kubelab.flux.storage import StoredRelease
from kubelab.simulation.effects import Question
from purekube.apimachinery.manifest import ObjectRef


@attrs.frozen
class Pull(Question[PullAnswer]):
    """A request to an OCI registry or a Helm repository for a chart or an index. The answer is a `PullAnswer`."""

    request: PullRequest


@attrs.frozen
class Decide(Question[ActionAnswer]):
    """A request to run a Helm action, which may take `timeout` seconds. The answer is an `ActionAnswer`."""

    action: Action
    target: HelmTarget
    timeout: float


@attrs.frozen
class LoadReleases(Question[tuple[StoredRelease, ...]]):
    """A request for the revisions of the release `name` in Helm's storage.

    The answer has them as a tuple, oldest first.
    """

    namespace: str
    name: str
    owner: ObjectRef


@attrs.frozen
class StoreReleases(Question[None]):
    """A request to make `releases` the only revisions of the release `name` in Helm's storage. The answer is None."""

    namespace: str
    name: str
    releases: tuple[StoredRelease, ...]
    owner: ObjectRef


@attrs.frozen
class FindDrift(Question[Sequence[str]]):
    """A request for the resources of the HelmRelease `owner` that were changed by hand, without Helm (drift).

    The answer is a sequence of strings, in the form of `FluxBehaviour.drifted`: `<kind>/<namespace>/<name>`, possibly
    with `#` and the JSON pointer of the changed field.
    """

    owner: ObjectRef


@attrs.frozen
class CanImpersonate(Question[bool]):
    """A question whether the service account `namespace`/`name`, which Flux impersonates, exists.

    The answer is a bool: True if it exists.
    """

    namespace: str
    name: str


@attrs.frozen
class CorrectDrift(Question[None]):
    """A request to undo the changes by hand (drift) to resources of the HelmRelease `owner`. The answer is None."""

    owner: ObjectRef
