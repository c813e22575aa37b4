"""The complete Flux simulation: source-controller and helm-controller on any API server."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from kubelab.flux.behaviour import FluxBehaviour
from kubelab.flux.draft import Draft
from kubelab.flux.helm_controller import HELM_CONTROLLER, reconcile_helm_release
from kubelab.flux.helm_storage import HelmStorage, ReleasedWorkload
from kubelab.flux.questions import CanImpersonate, CorrectDrift, Decide, FindDrift, LoadReleases, Pull, StoreReleases
from kubelab.flux.rule_script import Script
from kubelab.flux.source_controller import SOURCE_CONTROLLER, reconcile_source
from kubelab.flux.triggers import CONFIG_KINDS, RECONCILED_KINDS, WATCH_LABEL, FluxObjects, triggered
from kubelab.simulation.effects import ControllerResult, PassStep, Question, get_object
from kubelab.simulation.queue import FailureBackoff, Together, in_turn
from kubelab.simulation.simulator import ControllerPass, Simulator
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.ports import KubeApi


def _reconcile(ref: ObjectRef, now: datetime, behaviour: FluxBehaviour) -> PassStep[ControllerResult]:
    """Run a reconcile pass over the object `ref`. The result is empty if the object does not exist."""
    manifest = yield from get_object(ref)
    if manifest is None:
        return ControllerResult()
    draft = Draft(manifest, ref.kind, now, events=behaviour.events)
    if ref.kind == HELM_RELEASE:
        return (yield from reconcile_helm_release(draft, behaviour))
    return (yield from reconcile_source(draft))


class FluxSimulator(Simulator):
    """A simulation of source-controller and helm-controller on an API server. Registries and Helm are simulated too.

    `behaviour` says which actions fail and how long they take; it may be replaced at any time. `crash()` drops the
    passes in progress, as a restart does. `together` is the function that runs the passes that are due: one after the
    other by default, or several at once, as Flux's workers do.
    """

    title = "the simulated Flux"

    def __init__(self, api: KubeApi, behaviour: FluxBehaviour | None = None, *, together: Together = in_turn) -> None:
        self._flux_objects = FluxObjects()
        super().__init__(api, self._flux_objects, together=together)
        self._script = Script(behaviour or FluxBehaviour())
        self._storage = HelmStorage(api)

    @property
    def watched(self) -> Sequence[tuple[Kind, str]]:
        """The kinds that are listed and watched, each with its label selector."""
        return (*((kind, "") for kind in RECONCILED_KINDS), *((kind, WATCH_LABEL) for kind in CONFIG_KINDS))

    @property
    def backoff(self) -> FailureBackoff:
        """The delays before a failed pass is repeated, which grow with each failure up to a maximum."""
        return FailureBackoff(self.behaviour.min_retry_seconds, self.behaviour.max_retry_seconds)

    @property
    def behaviour(self) -> FluxBehaviour:
        """The present settings of the simulation: which actions fail, and how long they take."""
        return self._script.behaviour

    @behaviour.setter
    def behaviour(self, behaviour: FluxBehaviour) -> None:
        self._script.behaviour = behaviour

    @property
    def workloads(self) -> Sequence[ReleasedWorkload]:
        """All workloads that Helm has installed and not uninstalled."""
        return tuple(self._storage.workloads())

    def _affected(self, ref: ObjectRef, old: Manifest | None, new: Manifest | None) -> Iterable[ObjectRef]:
        return triggered(ref.kind, old, new, self._flux_objects)

    def _begin(self, ref: ObjectRef, now: datetime) -> ControllerPass:
        manager = HELM_CONTROLLER if ref.kind == HELM_RELEASE else SOURCE_CONTROLLER
        return ControllerPass(manager, _reconcile(ref, now, self.behaviour))

    async def _answer(self, question: Question[Any]) -> Any:
        match question:
            case Pull(request):
                return self._script.pull(request)
            case Decide(action, target, timeout):
                return self._script.decide(action, target, timeout)
            case CanImpersonate(namespace, name):
                return self._script.can_impersonate(namespace, name)
            case FindDrift(owner):
                return self._script.drift(owner)
            case CorrectDrift(owner):
                return self._script.correct(owner)
            case LoadReleases(namespace, name, owner):
                return await self._storage.load(namespace, name, owner, secrets=self.behaviour.release_secrets)
            case StoreReleases(namespace, name, releases, owner):
                return await self._storage.store(
                    namespace, name, owner, releases, secrets=self.behaviour.release_secrets
                )
            case _:
                raise AssertionError(f"nobody answers {question}")
