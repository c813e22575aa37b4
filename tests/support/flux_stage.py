"""A stage on which a scenario of Flux plays: real controllers or simulated ones, the same acts and waits (RUN-8).

A scenario applies what the operator makes of an ApplicationInstance (REC-3, REC-4), so that it shows what the operator
gets to read. `flux_scenarios` has the scenarios, `flux_sequence` says which part of an object's states is compared.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, merge_patch
from purekube.apimachinery.resources import HELM_CHART, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY, SECRET
from purekube.ports import PatchType, WatchEvent, WatchEventType
from tests.support.builders import instance_manifest
from tests.support.kube_client import Hands
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.instances.context import Settings
from vworkspace_core.instances.desired import DesiredObjects, desired_objects

NAME: Final = "shop"
"""Of the application, its release and its HelmRelease."""
SHOWN: Final = (OCI_REPOSITORY, HELM_REPOSITORY, HELM_CHART, HELM_RELEASE)
"""Kinds whose states are compared."""
MANAGER: Final = "vworkspace-operator"
_SETTINGS: Final = Settings(cluster_id="stage", interval="10m", timeout="30s")

_LOOKS: Final = 240

Holds = Callable[[Manifest], bool]


class Stage(ABC):
    """A namespace, a registry for it, and Flux.

    `names` and `digests` say what those drawn on this stage stand for, `wanted` what was asked for last.
    """

    def __init__(self, hands: Hands, namespace: str) -> None:
        self.hands = hands
        self.namespace = namespace
        self.names: dict[str, str] = {}
        self.digests: dict[str, str] = {}
        self.wanted: DesiredObjects | None = None

    # --- charts ------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def oci(self) -> str:
        """The URL of the OCI registry, as `chart.url` says it."""

    @property
    @abstractmethod
    def http(self) -> str:
        """The URL of the HTTP repository, as `chart.url` says it."""

    @property
    @abstractmethod
    def untrusted(self) -> str:
        """The URL of the same OCI registry where its certificate is signed by an unknown authority."""

    @abstractmethod
    def push(self, chart: str, version: str, **values: Any) -> None:
        """Push a chart to the OCI registry with these default values: `pod` and `hook` say what becomes of pods."""

    @abstractmethod
    def publish(self, *charts: tuple[str, str]) -> None:
        """Have these charts in the HTTP repository, and no others."""

    @abstractmethod
    def registry_fails(self, status: int) -> None:
        """Answer every request for a chart of this stage with that HTTP status; 0 ends it."""

    def know(self, digest: str, chart: str, version: str) -> None:
        """Remember what a digest stands for."""
        name = f"{chart} {version}"
        self.digests[digest] = f"{name} again" if name in self.digests.values() else name

    def digest_of(self, chart: str) -> str:
        """Return the digest of a chart that was pushed, by its name and version."""
        return next(digest for digest, known in self.digests.items() if known == chart)

    @abstractmethod
    def helm_installs(self, chart: str, version: str) -> None:
        """Have Helm alone install a chart that was pushed, under the name of the release."""

    # --- objects -----------------------------------------------------------------------------------------------------

    def want(
        self, chart: str, version: str, *, url: str = "", name: str = NAME, patch: Mapping[str, Any] = {}, **spec: Any
    ) -> None:
        """Apply what the operator makes of an instance with that chart; `patch` is merged into the HelmRelease's spec.

        The HelmRelease comes when its source has been looked at: which controller is faster is no part of a scenario.
        With another `name` it is another HelmRelease, of the same release where `patch` does not say otherwise.
        """
        self.wanted = self.desired(chart, version, url=url, **spec)
        for apply in self.wanted.applies:
            manifest = self._without_owner(apply.manifest)
            if apply.kind == HELM_RELEASE:
                manifest["spec"] = merge_patch(manifest["spec"], patch)
                manifest["metadata"]["name"] = name
            self.apply(manifest, apply.kind)
            if apply.kind in (OCI_REPOSITORY, HELM_REPOSITORY):
                self.until(_is_looked_at, apply.kind, apply.ref.name)

    def deploy(self, chart: str, version: str, *, patch: Mapping[str, Any] = {}) -> None:
        """Push a chart, want it, and wait until it is Ready at that version."""
        self.push(chart, version)
        self.want(chart, version, patch=patch)
        self.until(partial(is_ready, version=version))

    def want_many(self, chart: str, version: str, count: int) -> None:
        """Apply what the operator makes of that many instances, without waiting for any."""
        for number in range(count):
            name = f"{NAME}-{number:03}"
            self.names[name] = "<release>"
            for apply in self.desired(chart, version, name=name).applies:
                self.apply(self._without_owner(apply.manifest), apply.kind)

    def refer(self, chart: str, version: str, **reference: str) -> None:
        """Change what the source of a chart and version refers to: `tag`, `digest` or `semver`."""
        whole = {"tag": None, "digest": None, "semver": None, **reference}
        self.patch({"spec": {"ref": whole}}, OCI_REPOSITORY, self.desired(chart, version).source.name)

    def ask_source(self, chart: str, version: str) -> None:
        """Ask source-controller to look again."""
        asked = {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}}
        self.patch(asked, OCI_REPOSITORY, self.desired(chart, version).source.name)

    def desired(self, chart: str, version: str, *, url: str = "", name: str = NAME, **spec: Any) -> DesiredObjects:
        """Return what the operator makes of it."""
        place = url or self.oci
        kind = "oci" if place.startswith("oci://") else "helm"
        source = {"sourceType": kind, "url": place, "name": chart, "version": version, **spec.pop("chart_more", {})}
        metadata = {"uid": "0" * 8, "generation": 1}
        manifest = instance_manifest(name, self.namespace, chart=source, metadata=metadata, **spec)
        desired = desired_objects(read_application_instance(manifest), None, {}, _SETTINGS)
        # Before the release's name, which it begins with.
        meaning = f"source-of-{chart}-{version}" if kind == "oci" else "repository"
        self.names = {desired.source.name: meaning, **self.names}
        return desired

    @staticmethod
    def _without_owner(manifest: Manifest) -> dict[str, Any]:
        """Return the manifest without what needs an ApplicationInstance in the cluster."""
        meta = {key: value for key, value in manifest["metadata"].items() if key != "ownerReferences"}
        return {**manifest, "metadata": meta}

    def apply(self, manifest: Manifest, kind: Kind) -> None:
        """Apply an object as the operator does."""
        self.hands.do(lambda api: api.apply(manifest, kind=kind, field_manager=MANAGER, force=True))

    def create(self, kind: Kind, name: str, **body: Any) -> None:
        """Create an object as a person does."""
        manifest = {**kind.manifest(name, self.namespace if kind.namespaced else None), **body}
        self.hands.do(lambda api: api.create(manifest, kind=kind, field_manager="kubectl-create"))

    def patch(self, body: Mapping[str, Any], kind: Kind = HELM_RELEASE, name: str = NAME) -> None:
        """Merge a patch into an object as a person does."""
        ref = self._ref(kind, name)
        self.hands.do(lambda api: api.patch(ref, body, patch_type=PatchType.MERGE, field_manager="kubectl-edit"))

    def _ref(self, kind: Kind, name: str) -> ObjectRef:
        return ObjectRef(kind, self.namespace if kind.namespaced else None, name)

    def annotate(self, **tokens: str) -> None:
        """Set `reconcile.fluxcd.io/<key>` on the HelmRelease."""
        self.patch({"metadata": {"annotations": {f"reconcile.fluxcd.io/{key}": at for key, at in tokens.items()}}})

    def delete(self, kind: Kind = HELM_RELEASE, name: str = NAME) -> None:
        """Delete an object."""
        self.hands.do(lambda api: api.delete(self._ref(kind, name)))

    def find(self, kind: Kind = HELM_RELEASE, name: str = NAME) -> Manifest | None:
        """Return an object as it is now, None where there is none."""
        try:
            return self.hands.do(lambda api: api.get(self._ref(kind, name)))
        except NotFound:
            return None

    @abstractmethod
    def drift(self) -> None:
        """Change a ConfigMap of the release by hand."""

    def delete_storage(self) -> None:
        """Delete the Secrets in which Helm keeps releases, by hand."""
        for secret in self._list(SECRET, "owner=helm"):
            self.delete(SECRET, secret["metadata"]["name"])

    def _list(self, kind: Kind, selector: str = "") -> Sequence[Manifest]:
        return self.hands.do(lambda api: api.list(kind, namespace=self.namespace, label_selector=selector)).items

    # --- what goes wrong ---------------------------------------------------------------------------------------------

    @abstractmethod
    def kill_helm_controller(self) -> None:
        """Kill helm-controller, which starts again a moment later."""

    @abstractmethod
    def end_namespace(self) -> None:
        """Delete the namespace and wait until it is gone."""

    # --- waits -------------------------------------------------------------------------------------------------------

    def until(self, holds: Holds, kind: Kind = HELM_RELEASE, name: str = NAME) -> None:
        """Wait until an object that is there satisfies that. Raises AssertionError with its status when it does not."""
        shown = partial(self.find, kind, name)
        self.wait(lambda: (found := shown()) is not None and holds(found), shown)

    def until_gone(self, kind: Kind = HELM_RELEASE, name: str = NAME) -> None:
        """Wait until there is no such object."""
        shown = partial(self.find, kind, name)
        self.wait(lambda: shown() is None, shown)

    def until_all(self, holds: Holds, count: int) -> None:
        """Wait until that many HelmReleases satisfy that."""

        def counted() -> int:
            return sum(map(holds, self._list(HELM_RELEASE)))

        self.wait(lambda: counted() == count, counted)

    @abstractmethod
    def wait(self, holds: Callable[[], bool], shown: Callable[[], object]) -> None:
        """Wait until that is so. Raises AssertionError with what is `shown` when it is not so within the patience."""

    def until_failed_again(self, kind: Kind) -> None:
        """Wait until the only object of a kind was Ready=False, something else, and Ready=False again."""
        for _ in range(_LOOKS):
            if sum(failed for failed, _ in groupby(map(_has_failed, self._states_of(kind)))) >= 2:
                return
            self.pause(0.5)
        raise AssertionError(f"{kind.kind} did not fail twice: {self._states_of(kind)[-1:]}")

    def _states_of(self, kind: Kind) -> list[Manifest]:
        return [state for found, state in self.states() if found == kind]

    @abstractmethod
    def pause(self, seconds: float) -> None:
        """Let time pass where nothing is to happen."""

    # --- what was seen -----------------------------------------------------------------------------------------------

    @abstractmethod
    def seen(self) -> Sequence[tuple[Kind, WatchEvent]]:
        """Return every version that objects of this stage have had, in order."""

    @abstractmethod
    def let_events_arrive(self) -> None:
        """Wait until the Events of what has happened are there: controllers post them beside their work."""

    def states(self) -> list[tuple[Kind, Manifest]]:
        """Return every state of an object in order; None as status where it went."""
        return [
            (kind, event.object if event.type is not WatchEventType.DELETED else _gone(event.object))
            for kind, event in self.seen()
            if event.type is not WatchEventType.BOOKMARK
        ]


def _gone(manifest: Manifest) -> Manifest:
    return {"metadata": manifest["metadata"], "gone": True}


def conditions(manifest: Manifest) -> dict[str, str]:
    """Return `status/reason` by the type of condition."""
    found = get_path(manifest, "status", "conditions") or ()
    return {item["type"]: f"{item['status']}/{item['reason']}" for item in found}


def is_ready(manifest: Manifest, version: str = "") -> bool:
    """Say whether Flux is done with this generation and what it did is Ready; for a release, at that version."""
    ready = conditions(manifest).get("Ready", "")
    newest = str(get_path(manifest, "status", "history", 0, "chartVersion") or "")
    return ready.startswith("True/") and _is_observed(manifest) and newest.partition("+")[0].startswith(version)


def is_stalled(manifest: Manifest) -> bool:
    """Say whether Flux waits for another spec."""
    return conditions(manifest).get("Stalled", "").startswith("True/") and _is_observed(manifest)


def _is_looked_at(source: Manifest) -> bool:
    """Say whether a source is Ready, or why not."""
    found = conditions(source)
    return found.get("Ready", "Unknown").partition("/")[0] != "Unknown" and (
        found["Ready"].startswith("False/") or _is_observed(source)
    )


def _has_failed(manifest: Manifest) -> bool:
    return conditions(manifest).get("Ready", "").startswith("False/")


def _is_observed(manifest: Manifest) -> bool:
    observed: Any = get_path(manifest, "status", "observedGeneration")
    return bool(observed == manifest["metadata"]["generation"] and "Reconciling" not in conditions(manifest))
