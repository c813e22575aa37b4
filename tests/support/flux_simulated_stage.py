"""A stage with the simulated Flux on the embedded API server, under a clock set by hand."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from kubelab.clock import ManualClock
from kubelab.flux import FluxBehaviour, FluxOutcome, FluxSimulator, OutcomeKind, ReleaseRule
from kubelab.flux.artifacts import sha256_of
from kubelab.flux.behaviour import Action, SourceFault, SourceOutcome, SourceRule
from kubelab.flux.crds import flux_crds
from kubelab.flux.storage import HelmReleaseStatus, StoredRelease, release_secret
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import (
    CORE_EVENT,
    HELM_RELEASE,
    OCI_REPOSITORY,
    SECRET,
)
from purekube.ports import WatchEvent
from tests.support.flux_stage import NAME, SHOWN, Stage
from tests.support.furnished import furnish
from tests.support.kube_client import InProcessHands, InProcessRecord
from tests.support.passing_time import go_on, go_until
from tools.cluster.charts import NAMES

_PLACE: Final = "org"
_UNKNOWN_AUTHORITY: Final = "x509: certificate signed by unknown authority"


class SimulatedStage(Stage):
    """What charts do is told to the simulator by rules, one for each chart that does something special."""

    def __init__(self) -> None:
        self._clock = ManualClock()
        server = ApiServer(now=self._clock.now, collects=True)
        api = InProcessKube(server)
        furnish(api, flux_crds(), _PLACE)
        refused = f'Get "https://untrusted.example.com/v2/": tls: failed to verify certificate: {_UNKNOWN_AUTHORITY}'
        self._rules = [_unavailable(refused, url=f"{self.untrusted}/web")]
        behaviour = FluxBehaviour(published=dict.fromkeys(NAMES, ()), source_rules=self._rules, events=True)
        self._flux = FluxSimulator(InProcessKube(server), behaviour)
        self._record = InProcessRecord.of(api, (*SHOWN, CORE_EVENT))
        self._seen: list[tuple[Kind, WatchEvent]] = []
        super().__init__(InProcessHands(api), _PLACE)

    @property
    def now(self) -> datetime:
        """The time on this stage."""
        return self._clock.now()

    @property
    def oci(self) -> str:
        """A registry of the script."""
        return "oci://registry.example.com/org"

    @property
    def http(self) -> str:
        """A repository of the script."""
        return "https://charts.example.com/org"

    @property
    def untrusted(self) -> str:
        """A registry of the script."""
        return "oci://untrusted.example.com/org"

    def push(self, chart: str, version: str, **values: Any) -> None:
        """Have a version, with rules for what Helm meets."""
        behaviour = self._flux.behaviour
        key, versions = f"{self.oci}/{chart}:{version}", behaviour.published[chart]
        salts = {**behaviour.digest_salts, **({key: "again"} if version in versions else {})}
        versions = (*versions, version)
        rules = [*behaviour.release_rules, *_rules(chart, version, values)]
        published = {**behaviour.published, chart: versions}
        self._flux.behaviour = attrs.evolve(behaviour, published=published, release_rules=rules, digest_salts=salts)
        self.know(sha256_of(key + salts.get(key, "")), chart, version)

    def helm_installs(self, chart: str, version: str) -> None:
        """Store what Helm stores."""
        now = self._clock.now()
        status = HelmReleaseStatus.DEPLOYED
        release = StoredRelease(
            NAME, _PLACE, 1, status, chart, version, {}, "", now, now, description="Install complete"
        )
        self.hands.do(lambda api: api.create(release_secret(release, _PLACE), kind=SECRET, field_manager="helm"))

    def publish(self, *charts: tuple[str, str]) -> None:
        """Have these versions and a new index."""
        behaviour = self._flux.behaviour
        published = {name: tuple(version for chart, version in charts if chart == name) for name in NAMES}
        index = behaviour.index_revision + 1
        self._flux.behaviour = attrs.evolve(behaviour, published=published, index_revision=index)

    def registry_fails(self, status: int) -> None:
        """Say how every pull ends."""
        rules = self._rules if status == 0 else [SourceRule(SourceOutcome(SourceFault.UNAUTHORIZED))]
        if status not in (0, 401):
            rules = [
                _unavailable(
                    f"GET https://registry.example.com/v2/org/{chart}/manifests/{version}: UNAVAILABLE: busy",
                    chart=chart,
                )
                for chart, versions in self._flux.behaviour.published.items()
                for version in versions
            ]
        self._flux.behaviour = attrs.evolve(self._flux.behaviour, source_rules=rules)

    def drift(self) -> None:
        """Say what Flux finds."""
        found = {f"{_PLACE}/{NAME}": (f"ConfigMap/{_PLACE}/{NAME}-settings#/data/motto",)}
        self._flux.behaviour = attrs.evolve(self._flux.behaviour, drifted=found)

    def kill_helm_controller(self) -> None:
        """Drop what is under way, and begin again a second later."""
        self._flux.crash()
        self._clock.advance(1)

    def end_namespace(self) -> None:
        """Play the namespace controller, which takes the account of the release before the release."""
        missing = frozenset({f"{_PLACE}/vworkspace-release"})
        self._flux.behaviour = attrs.evolve(self._flux.behaviour, missing_service_accounts=missing)
        for kind in (SECRET, HELM_RELEASE, OCI_REPOSITORY):
            for item in self._list(kind):
                self.delete(kind, item["metadata"]["name"])
        self.wait(
            lambda: not (self._list(HELM_RELEASE) or self._list(OCI_REPOSITORY)), lambda: self._list(HELM_RELEASE)
        )

    def wait(self, holds: Callable[[], bool], shown: Callable[[], object]) -> None:
        """Let time pass."""
        go_until(self._clock, self._flux, holds, shown)

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        go_on(self._clock, self._flux, seconds)

    def let_events_arrive(self) -> None:
        """Wait for nothing: they are posted within the pass."""

    def seen(self) -> Sequence[tuple[Kind, WatchEvent]]:
        """Everything, in the order of the server."""
        fresh = self._record.fresh()
        self._seen += sorted(fresh, key=lambda item: int(item[1].object["metadata"]["resourceVersion"]))
        return self._seen


def _unavailable(message: str, *, url: str | None = None, chart: str | None = None) -> SourceRule:
    return SourceRule(SourceOutcome(SourceFault.UNAVAILABLE, message), url=url, chart=chart)


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
