"""A stage with the simulated Flux on the embedded API server, under a clock set by hand."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import attrs

from tests.support.flux_stage import NAME, SHOWN, Holds, Stage
from tests.support.kube_client import InProcessHands, InProcessRecord
from tests.support.passing_time import go_on
from tools.cluster.charts import NAMES
from vworkspace_apiserver.inprocess import InProcessKube, run_sync
from vworkspace_apiserver.server import ApiServer
from vworkspace_core.apimachinery.manifest import Kind
from vworkspace_core.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, HELM_RELEASE, NAMESPACE
from vworkspace_core.ports import WatchEvent
from vworkspace_fake.clock import ManualClock
from vworkspace_fake.flux import FluxBehaviour, FluxOutcome, FluxSimulator, OutcomeKind, ReleaseRule
from vworkspace_fake.flux.behaviour import Action, SourceFault, SourceOutcome, SourceRule
from vworkspace_fake.flux.crds import flux_crds
from vworkspace_fake.flux.versions import sha256_of

_PLACE: Final = "org"
_LONGEST: Final = timedelta(hours=1)


class SimulatedStage(Stage):
    """What charts do is told to the simulator by rules, one for each chart that does something special."""

    def __init__(self) -> None:
        self._clock = ManualClock()
        server = ApiServer(now=self._clock.now, collects=True)
        api = InProcessKube(server)
        for crd in flux_crds():
            run_sync(api.create(crd, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="admin"))
        run_sync(api.create(NAMESPACE.manifest(_PLACE), kind=NAMESPACE, field_manager="admin"))
        behaviour = FluxBehaviour(published=dict.fromkeys(NAMES, ()))
        self._flux = FluxSimulator(InProcessKube(server), behaviour)
        self._record = InProcessRecord.of(api, SHOWN)
        self._seen: list[tuple[Kind, WatchEvent]] = []
        super().__init__(InProcessHands(api), _PLACE)

    @property
    def oci(self) -> str:
        """A registry that nobody asks."""
        return "oci://registry.example.com/org"

    @property
    def http(self) -> str:
        """A repository that nobody asks."""
        return "https://charts.example.com/org"

    def push(self, chart: str, version: str, **values: Any) -> None:
        """Have a version, with rules for what Helm meets."""
        behaviour = self._flux.behaviour
        versions = (*behaviour.published[chart], version)
        rules = [*behaviour.release_rules, *_rules(chart, version, values)]
        published = {**behaviour.published, chart: versions}
        self._flux.behaviour = attrs.evolve(behaviour, published=published, release_rules=rules)
        self.digests[sha256_of(f"{self.oci}/{chart}:{version}")] = f"{chart} {version}"

    def publish(self, *charts: tuple[str, str]) -> None:
        """Have these versions and a new index."""
        behaviour = self._flux.behaviour
        published = {name: tuple(version for chart, version in charts if chart == name) for name in NAMES}
        index = behaviour.index_revision + 1
        self._flux.behaviour = attrs.evolve(behaviour, published=published, index_revision=index)

    def registry_fails(self, status: int) -> None:
        """Say how every pull ends."""
        rules = [] if status == 0 else [SourceRule(SourceOutcome(SourceFault.UNAUTHORIZED))]
        if status not in (0, 401):
            rules = [
                SourceRule(
                    SourceOutcome(
                        SourceFault.UNAVAILABLE,
                        f"GET https://registry.example.com/v2/org/{chart}/manifests/{version}: UNAVAILABLE: busy",
                    ),
                    chart=chart,
                )
                for chart, versions in self._flux.behaviour.published.items()
                for version in versions
            ]
        self._flux.behaviour = attrs.evolve(self._flux.behaviour, source_rules=rules)

    def drift(self) -> None:
        """Say what Flux finds."""
        found = {f"{_PLACE}/{NAME}": (f"ConfigMap/{_PLACE}/{NAME}-settings",)}
        self._flux.behaviour = attrs.evolve(self._flux.behaviour, drifted=found)

    def until(self, holds: Holds, kind: Kind = HELM_RELEASE, name: str = NAME) -> None:
        """Let time pass."""
        self._until(lambda: (found := self.find(kind, name)) is not None and holds(found), kind, name)

    def until_gone(self, kind: Kind = HELM_RELEASE, name: str = NAME) -> None:
        """Let time pass."""
        self._until(lambda: self.find(kind, name) is None, kind, name)

    def _until(self, holds: Any, kind: Kind, name: str) -> None:
        limit = self._clock.now() + _LONGEST
        self._flux.tick(self._clock.now())
        while not holds():
            following = self._flux.next_wake_up()
            assert following is not None, f"nothing more happens: {self.find(kind, name)} {self._flux.errors}"
            assert following <= limit, f"not within {_LONGEST}: {self.find(kind, name)} {self._flux.errors}"
            self._clock.advance(max(0.0, (following - self._clock.now()).total_seconds()))
            self._flux.tick(self._clock.now())

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        go_on(self._clock, self._flux, seconds)

    def seen(self) -> Sequence[tuple[Kind, WatchEvent]]:
        """Everything, in the order of the server."""
        fresh = self._record.fresh()
        self._seen += sorted(fresh, key=lambda item: int(item[1].object["metadata"]["resourceVersion"]))
        return self._seen


def _rules(chart: str, version: str, values: dict[str, Any]) -> list[ReleaseRule]:
    if chart == "broken":
        told = "execution error at (broken/templates/fail.yaml:1:3): this chart never renders"
        outcome = FluxOutcome(OutcomeKind.RENDER_ERROR, told)
    elif chart == "large":
        told = 'create: failed to create: Secret "sh.helm.release.v1.shop.v1" is invalid: data: Too long: '
        outcome = FluxOutcome(OutcomeKind.RENDER_ERROR, f"{told}may not be more than 1048576 bytes")
    elif not isinstance(values.get("replicas", 1), int):
        outcome = FluxOutcome(OutcomeKind.VALUES_ERROR)
    elif values.get("pod") == "never-ready":
        outcome = FluxOutcome(OutcomeKind.HANG)
    elif values.get("hook") == "fails":
        told = f"failed early due to stalled resources: [Job/{_PLACE}/{NAME}-hook status: 'Failed']"
        outcome = FluxOutcome(OutcomeKind.FAIL, f"post-upgrade hooks failed: {told}")
    else:
        return []
    actions = (Action.INSTALL, Action.UPGRADE)
    return [ReleaseRule(outcome, action=action, chart=chart, version=version) for action in actions]
