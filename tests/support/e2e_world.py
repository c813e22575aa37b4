"""What an end-to-end test acts on and looks at: both servers, the simulated Flux, and every version of every object."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import attrs
import pytest

from kubelab.clock import VirtualClock
from kubelab.downstream import DownstreamBehaviour, DownstreamSimulator
from kubelab.downstream.crds import downstream_crds
from kubelab.flux import Action, FluxBehaviour, FluxOutcome, FluxSimulator, OutcomeKind, ReleaseRule
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube.apimachinery.errors import AlreadyExists
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    EVENT,
    HELM_RELEASE,
    NAMESPACE,
    OCI_REPOSITORY,
    SECRET,
)
from purekube.ports import Clock, KubeApi, PatchType, Propagation, WatchEvent, WatchEventType
from tests.support.builders import instance_manifest
from tests.support.cluster_choice import Reached, real_cluster
from tests.support.kube_client import Hands, InProcessHands, InProcessRecord, Record
from tests.support.operator_process import Lever
from tests.support.patience import PATIENCE, pause_after
from tests.support.recording_client import Witness, Write
from tests.support.source_names import source_ref
from tools.cluster.up import VARIABLE
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import JOB_STORE
from vworkspace_core.operations.engines import engine_kinds
from vworkspace_fake.controlplane import ControlPlaneServer, JobEntry

_SHARED = ("E2E_CLUSTER", "KUBEBUILDER_ASSETS", VARIABLE)
SUFFIX = f"-{uuid4().hex[:6]}" if any(os.environ.get(name) for name in _SHARED) else ""
"""Keeps runs apart that may meet in one cluster; a cluster of the run's own needs none."""
CLUSTER = f"cluster-prod-1{SUFFIX}"
NS = f"org-myteam{SUFFIX}"
UNGATED_NS = f"kitchen{SUFFIX}"
OWN_NS = "vworkspace-system"
NAME = "nextcloud-myteam"
AGENT_TOKEN = "agent-token"
OPERATOR = "system:serviceaccount:vworkspace-system:vworkspace-operator"
ENGINES = "system:serviceaccount:engines:engines"
FLUX = "system:serviceaccount:flux-system:flux"
INSTANCE = ObjectRef(APPLICATION_INSTANCE, NS, NAME)
RELEASE = ObjectRef(HELM_RELEASE, NS, NAME)
FIRST, BROKEN, EDITED, LATER = "6.6.0", "6.7.0", "6.7.1", "6.8.0"
_REAL = real_cluster()
REGISTRY = (
    f"oci://{_REAL.registries.trusted}/{NS}" if _REAL and _REAL.registries else "oci://registry.example.com/charts"
)
CHART = {"sourceType": "oci", "url": REGISTRY, "name": "nextcloud", "version": FIRST}
SOURCE = source_ref(NS, NAME, CHART)
"""Of the first version."""
OLDER_FAILURE = f"hooks failed: 1 error occurred:\n\t* job {NAME}-hook failed: BackoffLimitExceeded"
"""A failed hook in the words of Helm 3, which helm-controller 1.4 has."""
FAILURE = f"hooks failed: failed early due to stalled resources: [Job/{NS}/{NAME}-hook status: 'Failed']"
"""What Helm says of the broken version, in its own words."""
QUICK = FluxBehaviour(
    source_fetch_seconds=0.1,
    install_seconds=0.3,
    upgrade_seconds=0.3,
    rollback_seconds=0.1,
    uninstall_seconds=0.1,
    min_retry_seconds=0.1,
    release_rules=(
        ReleaseRule(FluxOutcome(OutcomeKind.FAIL, f"post-upgrade {FAILURE}"), action=Action.UPGRADE, version=BROKEN),
    ),
)
"""A Flux that takes tenths of a second, and for which one version does not upgrade."""

_RECORDS = f"/namespaces/{OWN_NS}/secrets"
RECORDED = (APPLICATION_INSTANCE, OCI_REPOSITORY, HELM_RELEASE, OPERATION, *engine_kinds(), EVENT)
VELERO_NS = "velero"
NAMESPACES: Mapping[str, Mapping[str, str]] = {
    NS: {"managed-by": "vworkspace"},
    UNGATED_NS: {},
    OWN_NS: {},
    VELERO_NS: {},
}


def source_of(version: str) -> ObjectRef:
    """The source of that version of the chart."""
    return source_ref(NS, NAME, CHART, version)


def instance(version: str = FIRST, **changes: Any) -> dict[str, Any]:
    """The ApplicationInstance of PULL-2 as Odoo sends it; `changes` replace whole fields of the manifest."""
    values = {"source": "inline", "inline": {"replicaCount": 1}}
    return {**instance_manifest(NAME, NS, chart={**CHART, "version": version}, values=values), **changes}


@attrs.define
class History:
    """Every version that objects of some kinds ever had, in the order the server made them."""

    _record: Record
    _seen: list[tuple[Kind, WatchEvent]] = attrs.field(factory=list)

    def __len__(self) -> int:
        return len(self.events())

    def events(self, kind: Kind | None = None, *, since: int = 0) -> list[WatchEvent]:
        """Watch events, of one kind or of all, from position `since` on."""
        fresh = [(kind, event) for kind, event in self._record.fresh() if event.type is not WatchEventType.BOOKMARK]
        self._seen += sorted(fresh, key=lambda found: int(found[1].object["metadata"]["resourceVersion"]))
        return [event for found, event in self._seen[since:] if kind in (None, found)]


@attrs.frozen
class World:
    """Both servers and what lives in them. Nothing here is the operator's but the lever that moves it.

    `hands` are an administrator's. `operator_witness` and `flux_witness` see what is written by whom; `embedded` is
    the API server itself, where it is in this process.
    """

    clock: Clock
    hands: Hands
    control: ControlPlaneServer
    _flux: FluxSimulator
    history: History
    operator_witness: Witness
    flux_witness: Witness
    engines_witness: Witness
    engines: DownstreamSimulator | None = None
    embedded: ApiServer | None = None
    reached: Reached | None = None
    lever: Lever = attrs.field(factory=Lever)

    @classmethod
    def create(
        cls,
        clock: Clock,
        behaviour: FluxBehaviour,
        *,
        crds: Sequence[Manifest] | None = None,
        engines: DownstreamBehaviour | None = None,
    ) -> "World":
        """A cluster in this process with these CRDs (those of everybody in it, unless told otherwise).

        Flux is there, and with `engines` every downstream controller. Beside it a control plane that knows one agent.
        """
        server = ApiServer(now=clock.now, collects=True)
        admin = InProcessKube(server)
        hands = InProcessHands(admin)
        install(hands, usual_crds(engines is not None) if crds is None else crds)
        for name, namespace in NAMESPACES.items():
            manifest = {**NAMESPACE.manifest(name), "metadata": {"name": name, "labels": namespace}}
            run_sync(admin.create(manifest, kind=NAMESPACE, field_manager="admin"))
        history = History(InProcessRecord.of(admin, recorded(hands)))
        operator, flux, others = (
            Witness(InProcessKube(server, caller=caller))
            for caller in (Caller(OPERATOR), Caller(FLUX, agent="flux/2"), Caller(ENGINES, agent="engines/1"))
        )
        return cls.of(clock, hands, history, (operator, flux, others), behaviour, engines, embedded=server)

    @classmethod
    def of(
        cls,
        clock: Clock,
        hands: Hands,
        history: History,
        witnesses: tuple[Witness, Witness, Witness],
        behaviour: FluxBehaviour,
        engines: DownstreamBehaviour | None,
        **more: Any,
    ) -> "World":
        """In a cluster that is prepared: `witnesses` are the operator's, Flux's and the engines'."""
        control = ControlPlaneServer(now=clock.now, redelivery=timedelta(seconds=2))
        control.tokens.add(CLUSTER, AGENT_TOKEN)
        operator, flux, others = witnesses
        simulated = None if engines is None else DownstreamSimulator(others, engines)
        flux_simulator = FluxSimulator(flux, behaviour)
        return cls(clock, hands, control, flux_simulator, history, operator, flux, others, simulated, **more)

    @property
    def is_real(self) -> bool:
        """Whether the controllers beside the operator are the real ones."""
        return self.reached is not None and self.reached.real is not None

    @property
    def flux(self) -> FluxSimulator:
        """The simulated Flux; a test that asks for it has nothing to do where Flux is real."""
        if self.is_real:
            pytest.skip("asks the simulated Flux, and this one is real")
        return self._flux

    @property
    def cluster(self) -> ApiServer:
        """The API server itself, for tests that are about this one."""
        assert self.embedded is not None, "this cluster is not in this process"
        return self.embedded

    # --- Odoo's side, and people's ------------------------------------------------------------------------------

    def ask(self, version: str, generation: int, **job: Any) -> JobEntry:
        """Odoo asks for the instance at `version`; `job` replaces fields of the job."""
        fields: dict[str, Any] = {
            "kind": "apply",
            "payload": instance(version),
            "idempotency_key": f"ApplicationInstance/{NS}/{NAME}@{generation}",
        }
        return self.control.enqueue(CLUSTER, **{**fields, **job})

    def ask_deletion(self, generation: int) -> JobEntry:
        """Odoo asks for the instance to be gone."""
        payload = {
            "apiVersion": APPLICATION_INSTANCE.api_version,
            "kind": APPLICATION_INSTANCE.kind,
            "namespace": NS,
            "name": NAME,
        }
        return self.ask("", generation, kind="delete", payload=payload)

    def create_object(self, manifest: Mapping[str, Any], kind: Kind) -> Manifest:
        """Somebody creates an object."""
        return self.hands.do(lambda api: api.create(manifest, kind=kind, field_manager="kubectl-create"))

    def have(self, manifest: Mapping[str, Any], kind: Kind) -> None:
        """Somebody creates an object, unless it is there: what is not this story's alone."""
        with suppress(AlreadyExists):
            self.create_object(manifest, kind)

    def delete_object(self, ref: ObjectRef) -> None:
        """Somebody deletes an object."""
        self.hands.do(lambda api: api.delete(ref))

    def orphan_object(self, ref: ObjectRef) -> None:
        """Somebody deletes an object with `--cascade=orphan`."""
        self.hands.do(lambda api: api.delete(ref, propagation=Propagation.ORPHAN))

    def edit(self, ref: ObjectRef, patch: Mapping[str, Any], *, manager: str = "kubectl-edit") -> Manifest:
        """A merge patch by somebody."""
        return self.hands.do(lambda api: api.patch(ref, patch, patch_type=PatchType.MERGE, field_manager=manager))

    # --- waiting -------------------------------------------------------------------------------------------------

    async def until(self, holds: Callable[[], Any], what: str, *, seconds: float = 60.0) -> None:
        """Wait until something holds; AssertionError naming `what` when it does not come to that.

        `seconds` are those of virtual time; a real clock tells how busy the machine is.
        """
        patience = seconds if isinstance(self.clock, VirtualClock) else max(seconds, PATIENCE)
        began = self.clock.monotonic()
        while not holds():
            waited = self.clock.monotonic() - began
            assert waited < patience, f"{what}: not within {patience:g} seconds; {self.told()}"
            # Under virtual time what is done when is part of a story; over HTTP each look costs.
            await self.clock.sleep(0.02 if self.reached is None else pause_after(waited, 0.05))

    async def result(self, job: JobEntry) -> Mapping[str, Any]:
        """The job's result."""
        await self.until(lambda: job.result is not None, f"the result of {job.id}")
        found: Mapping[str, Any] = job.result
        return found

    async def ready(self, version: str = FIRST, generation: int = 7) -> JobEntry:
        """Have the instance at `version` and Ready, by a job that succeeded."""
        job = self.ask(version, generation)
        assert (await self.result(job))["outcome"] == "succeeded"
        return job

    # --- the state of the servers --------------------------------------------------------------------------------

    def find(self, ref: ObjectRef) -> Manifest | None:
        """The object as it stands; None when there is none."""
        named = f"metadata.name={ref.name}"
        page = self.hands.do(lambda api: api.list(ref.kind, namespace=ref.namespace, field_selector=named))
        return page.items[0] if page.items else None

    def get(self, ref: ObjectRef) -> Manifest:
        """The object as it stands."""
        return self.hands.do(lambda api: api.get(ref))

    def conditions(self) -> dict[str, str]:
        """`status/reason` of the instance's conditions by type, empty for none or of an older generation."""
        return conditions(self.find(INSTANCE))

    def events(self, reason: str) -> list[Manifest]:
        """Kubernetes Events with that reason."""
        page = self.hands.do(lambda api: api.list(EVENT, namespace=NS))
        return [event for event in page.items if event.get("reason") == reason]

    def transitions(self, part: str) -> list[Mapping[str, Any]]:
        """Events at the control plane whose key contains `part`."""
        return [event for event in self.control.events_of(CLUSTER) if part in event["eventKey"]]

    def running(self) -> list[str]:
        """Chart versions that run, without the digest that Flux appends for OCI sources."""
        if self.is_real:
            made = "app.kubernetes.io/managed-by=Helm"
            page = self.hands.do(lambda api: api.list(CONFIG_MAP, namespace=NS, label_selector=made))
            return [str(get_path(item, "data", "version")).partition("+")[0] for item in page.items]
        return [load.version.partition("+")[0] for load in self.flux.workloads]

    def writes(self) -> list[Write]:
        """What the operator wrote to the API server, refused and empty writes included; its job store apart."""
        return [write for write in self.operator_witness.writes if _RECORDS not in write.path]

    def forget_writes(self) -> None:
        """Count from here."""
        self.operator_witness.writes.clear()
        self.flux_witness.writes.clear()

    def open_records(self) -> list[str]:
        """Names of the records of open jobs."""
        page = self.hands.do(lambda api: api.list(SECRET, namespace=OWN_NS, label_selector=f"{JOB_STORE}=record"))
        return [secret["metadata"]["name"] for secret in page.items]

    def flux_writes(self) -> list[Write]:
        """What Flux wrote."""
        if self.is_real:
            pytest.skip("asks what the simulated Flux wrote, and this one is real")
        return list(self.flux_witness.writes)

    def statuses(self, *, since: int = 0) -> Iterator[dict[str, str]]:
        """The conditions of every version of the instance, as `conditions` tells them."""
        for event in self.history.events(APPLICATION_INSTANCE, since=since):
            yield conditions(event.object)

    def told(self) -> str:
        """What a failed wait says of the world."""
        results = {job.id: job.result for job in self.control.jobs}
        return f"conditions {self.conditions()}, results {results}, flux errors {self._flux.errors}"


def usual_crds(engines: bool) -> tuple[Manifest, ...]:
    """Our kinds and Flux's and, where they are wanted, those of the engines."""
    return (*crd_manifests(), *flux_crds(), *(downstream_crds() if engines else ()))


def install(hands: Hands, crds: Iterable[Manifest]) -> None:
    """Create CRDs."""
    for crd in crds:
        hands.do(partial(_install, crd))


async def _install(crd: Manifest, api: KubeApi) -> None:
    await api.create(crd, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="admin")


def recorded(hands: Hands) -> list[Kind]:
    """The kinds whose history is taken down, as far as they are served."""
    page = hands.do(lambda api: api.list(CUSTOM_RESOURCE_DEFINITION))
    served = {crd["metadata"]["name"] for crd in page.items}
    return [kind for kind in RECORDED if kind.group in ("", "batch", EVENT.group) or kind.crd_name in served]


def conditions(manifest: Manifest | None) -> dict[str, str]:
    """`status/reason` by type; empty while the status speaks of another generation than the present one (REC-7)."""
    if manifest is None or get_path(manifest, "status", "observedGeneration") != get_path(
        manifest, "metadata", "generation"
    ):
        return {}
    return {one["type"]: f"{one['status']}/{one['reason']}" for one in get_path(manifest, "status", "conditions") or ()}


def owned_by(manifest: Manifest, manager: str, subresource: str = "") -> Mapping[str, Any]:
    """The fields that `manager` holds by server-side apply, as the server keeps them."""
    for entry in get_path(manifest, "metadata", "managedFields") or ():
        found = (entry["manager"], entry["operation"], entry.get("subresource", ""))
        if found == (manager, "Apply", subresource):
            fields: Mapping[str, Any] = entry["fieldsV1"]
            return fields
    return {}
