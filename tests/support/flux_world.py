"""A cluster with the Flux CRDs and the simulated Flux, under a clock set by hand."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubelab.clock import ManualClock
from kubelab.flux import FluxBehaviour, FluxSimulator, ReleasedWorkload
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import (
    HELM_RELEASE,
    HELM_REPOSITORY,
    OCI_REPOSITORY,
)
from purekube.ports import KubeRequest, KubeVerb, PatchType, Send, WatchEventType
from tests.support.furnished import furnish
from tests.support.passing_time import go_on, settle

ORG = "org"
NAME = "shop"
URL = "oci://registry.example/charts/nextcloud"


def oci_repository(tag: str = "6.6.0", **spec: Any) -> dict[str, Any]:
    """The OCIRepository that the operator makes (REC-3)."""
    selector = {"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "operation": "copy"}
    body = {"interval": "5m", "url": URL, "ref": {"tag": tag}, "layerSelector": selector, **spec}
    return {**OCI_REPOSITORY.manifest(NAME, ORG), "spec": body}


def helm_repository(**spec: Any) -> dict[str, Any]:
    """A classic Helm repository."""
    return {
        **HELM_REPOSITORY.manifest(NAME, ORG),
        "spec": {"interval": "5m", "url": "https://charts.example", **spec},
    }


def helm_release(*, classic: str = "", **spec: Any) -> dict[str, Any]:
    """The HelmRelease that the operator makes (REC-4); of a classic repository with `classic` as chart version."""
    reference = {"kind": "HelmRepository", "name": NAME}
    chart = {"chart": {"spec": {"chart": "nextcloud", "version": classic, "sourceRef": reference}}}
    body = {
        **(chart if classic else {"chartRef": {"kind": "OCIRepository", "name": NAME}}),
        "interval": "5m",
        "timeout": "5m",
        "maxHistory": 10,
        "install": {"remediation": {"retries": 3}},
        "upgrade": {
            "cleanupOnFail": True,
            "remediation": {"retries": 0, "remediateLastFailure": True, "strategy": "rollback"},
        },
        "driftDetection": {"mode": "warn"},
        **spec,
    }
    return {**HELM_RELEASE.manifest(NAME, ORG), "spec": body}


async def keeping(request: KubeRequest, proceed: Send) -> Manifest:
    """Watch the server for pruning: whatever a controller patches must be in the answer, field by field."""
    answer = await proceed(request)
    if request.verb is KubeVerb.PATCH:
        lost = list(_lost(request.body, answer, str(request.ref)))
        assert not lost, f"the CRD does not keep {lost}"
    return answer


def _lost(sent: Any, kept: Any, path: str) -> Iterator[str]:
    """Paths of what was sent and not kept."""
    if path.endswith(".metadata.resourceVersion"):
        return
    if isinstance(sent, Mapping):
        for key, value in sent.items():
            if value is not None:
                yield from _lost(value, get_path(kept, key), f"{path}.{key}")
    elif isinstance(sent, list):
        for index, value in enumerate(sent):
            yield from _lost(value, get_path(kept, index), f"{path}[{index}]")
    elif sent != kept:
        yield path


def left_behind(flux: FluxSimulator) -> tuple[ReleasedWorkload, ...]:
    """The installed workloads whose HelmRelease was deleted while it was suspended, or without Flux's finalizer."""
    releases = flux.known(HELM_RELEASE)
    return tuple(item for item in flux.workloads if item.owner not in releases)


class FluxWorld:
    """An in-memory API server, a simulated Flux on it, and a clock; collects every state of the HelmReleases."""

    def __init__(self, behaviour: FluxBehaviour | None = None, crds: Sequence[Manifest] | None = None) -> None:
        self.clock = ManualClock()
        self.server = ApiServer(now=self.clock.now)
        self.api = InProcessKube(self.server)
        furnish(self.api, crds or flux_crds(), ORG)
        self.flux = FluxSimulator(InProcessKube(self.server).through(keeping), behaviour)
        self._watches = {kind: self.api.open_watch(kind) for kind in (HELM_RELEASE, OCI_REPOSITORY)}

    def apply(self, manifest: Manifest, kind: Kind) -> Manifest:
        """Apply as the operator does."""
        return run_sync(self.api.apply(manifest, kind=kind, field_manager="vworkspace-operator", force=True))

    def retag(self, tag: str) -> None:
        """Ask for another version, as the operator does with an OCI source."""
        self.apply(oci_repository(tag), OCI_REPOSITORY)

    def find(self, kind: Kind, name: str = NAME) -> Manifest | None:
        """An object of the namespace, None where it does not exist."""
        try:
            return run_sync(self.api.get(ObjectRef(kind, ORG, name)))
        except NotFound:
            return None

    def get(self, kind: Kind = HELM_RELEASE, name: str = NAME) -> Manifest:
        """An object of the namespace."""
        return run_sync(self.api.get(ObjectRef(kind, ORG, name)))

    def delete(self, kind: Kind = HELM_RELEASE, name: str = NAME) -> None:
        """Delete an object."""
        run_sync(self.api.delete(ObjectRef(kind, ORG, name)))

    def annotate(self, **tokens: str) -> None:
        """Set `reconcile.fluxcd.io/<key>` annotations on the HelmRelease."""
        self.patch({"metadata": {"annotations": {f"reconcile.fluxcd.io/{key}": at for key, at in tokens.items()}}})

    def patch(self, body: Mapping[str, Any], kind: Kind = HELM_RELEASE, subresource: str = "") -> None:
        """Merge patch an object by hand."""
        ref = ObjectRef(kind, ORG, NAME)
        run_sync(
            self.api.patch(ref, body, patch_type=PatchType.MERGE, field_manager="kubectl-edit", subresource=subresource)
        )

    def settle(self, horizon: float = 86_400.0) -> None:
        """Let time pass until Flux has nothing to do but its intervals."""
        settle(self.clock, self.flux, horizon)

    def run(self, seconds: float) -> None:
        """Let `seconds` pass, doing everything that is due on the way."""
        go_on(self.clock, self.flux, seconds)

    def states(self, kind: Kind = HELM_RELEASE) -> list[Manifest]:
        """Every state of the objects of a kind since the last call."""
        events = self._watches[kind].drain()
        return [event.object for event in events if event.type in (WatchEventType.ADDED, WatchEventType.MODIFIED)]

    def conditions(self, kind: Kind = HELM_RELEASE, name: str = NAME) -> dict[str, Any]:
        """`status/reason` of the object's conditions by type."""
        return conditions_by_type(self.get(kind, name))

    def message(self, type_: str, kind: Kind = HELM_RELEASE, name: str = NAME) -> str:
        """Message of one condition."""
        conditions = get_path(self.get(kind, name), "status", "conditions") or ()
        return str(next(item["message"] for item in conditions if item["type"] == type_))

    def status(self, *path: str | int, kind: Kind = HELM_RELEASE) -> Any:
        """A value in the object's status."""
        return get_path(self.get(kind), "status", *path)


def observed_generation(manifest: Manifest) -> int:
    """`status.observedGeneration`; -1, the schema's default, where nothing was stored yet."""
    found = get_path(manifest, "status", "observedGeneration")
    return -1 if found is None else int(found)


def conditions_by_type(manifest: Manifest) -> dict[str, str]:
    """`status/reason` of an object's conditions by type."""
    conditions = get_path(manifest, "status", "conditions") or ()
    return {item["type"]: f"{item['status']}/{item['reason']}" for item in conditions}
