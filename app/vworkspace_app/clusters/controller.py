"""The Cluster controller, which writes the operator's status into the cluster's Cluster object (RES-3, PULL-5).

If there is no such object, the controller creates it once per process. With a job agent, which pulls jobs from the
control plane (a server), it first waits until the control plane's URL is known (SEE-4). If a user deletes the object
later, it is created again only after a restart.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator

import attrs
import structlog

from purekube.apimachinery.errors import AlreadyExists
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.apimachinery.timestamps import Instant
from purekube.controller.execute import PassRules
from purekube.controller.informer.changes import CacheChange
from purekube.controller.queue.event_handlers import in_background
from purekube.controller.reconcile import ReconcileResult
from purekube.ports import Clock, EventSink, KubeApi
from purekube_run.controller.controller import ControllerDefinition, For, Queue, StatusManager, Watches
from purekube_run.controller.decision_reconciler import DecisionReconciler, LiveRereads
from purekube_run.controller.definitions import is_served
from purekube_run.controller.informers import Informers, StoredObject
from vworkspace_app.credentials.live_credential import Live
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.cluster import Cluster
from vworkspace_core.api.codec import read_cluster
from vworkspace_core.api.installation import PRINTED, Installation
from vworkspace_core.api.kinds import CLUSTER
from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER, namespace_is_managed
from vworkspace_core.clusters.decision import cluster_manifest, decide, strictest_policy
from vworkspace_core.clusters.inventory import (
    AgentReport,
    ClusterInventory,
    InformerReport,
    WeakSettings,
    weak_settings_of_cluster,
)
from vworkspace_core.credentials.secret import Credentials
from vworkspace_core.jobs.payload_security import required_by

_log = structlog.get_logger("operator")
POD_SECURITY = "pod-security.kubernetes.io/enforce"
_BUILT_IN = ("", "batch", CUSTOM_RESOURCE_DEFINITION.group)
"""API groups that every API server serves, so that no CRD has to be looked up."""


@attrs.frozen
class ClusterSettings:
    """The settings of the operator that determine the status of Cluster objects. They do not change while it runs.

    After `window` seconds without contact to the control plane, the condition Disconnected becomes True. Polls for jobs
    must fail for `damping` seconds before the condition Connected becomes False.
    """

    cluster_id: str
    operator_version: str = ""
    credentials_secret: str = ""
    window: float = 300.0
    damping: float = 10.0
    policy: Policy = attrs.field(factory=Policy)
    weak_settings: tuple[str, ...] = ()
    require_signed: bool = False
    installation: Installation = PRINTED


@attrs.define(eq=False)
class ClusterReconciler:
    """The reconciler of Cluster objects, which writes the state of this operator into their status.

    The status shows the state of the informers and of the job agent, which pulls jobs from the control plane (a
    server). `report` returns the agent's state; it is None if the operator runs without a job agent.
    """

    api: KubeApi
    informers: Informers
    settings: ClusterSettings
    clock: Clock
    events: EventSink
    report: Callable[[], AgentReport] | None
    credentials: Live[Credentials]
    _written: dict[str, Instant] = attrs.field(factory=dict, init=False)
    _offered: bool = attrs.field(default=False, init=False)

    def controller(self, writer: StatusManager, synced: Callable[[], Awaitable[None]]) -> ControllerDefinition:
        """Return the controller of Cluster objects.

        `writer` writes the statuses. Nothing is reconciled until `synced` returns, which waits for the informers'
        caches: the first status reports their state.
        """
        reconciler = DecisionReconciler(
            PassRules(CLUSTER, read_cluster, decide, FIELD_MANAGER, FINALIZER),
            _read,
            self._observe,
            self.api,
            self.events,
            LiveRereads(self.informers, self.clock),
            absent=self._offer,
            concluded=self._concluded,
        )
        kinds = (CUSTOM_RESOURCE_DEFINITION, NAMESPACE)
        return ControllerDefinition(
            "cluster",
            CLUSTER,
            reconciler,
            self.informers,
            For(self.informers.of(CLUSTER), self._keys_of, in_background),
            writer,
            watches=(Watches(self.informers.of(*kinds), self._keys_of, in_background),),
            queue=Queue(workers=1),
            synced=synced,
            all_keys=self.keys,
        )

    def _concluded(self, key: ObjectRef, result: ReconcileResult) -> None:
        if result.written:
            self._written[key.name] = self._now()

    async def _offer(self, key: ObjectRef) -> ReconcileResult:
        """Create the Cluster object of this cluster if there is none, at most once per process.

        With a job agent, that waits until the control plane's URL is known.
        """
        endpoint = self.credentials.current.url
        served = self._served(CLUSTER)
        known = bool(endpoint) or self.report is None
        if self._offered or not known or not served or any(True for _ in self._ours()):
            return ReconcileResult()
        manifest = cluster_manifest(self.settings.cluster_id, endpoint)
        try:
            live = await self.api.create(manifest, kind=CLUSTER, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            # Its informer has not seen it yet, or the name belongs to a Cluster of another id.
            self._offered = True
            _log.warning("a Cluster object of this name was there already", object=str(key))
            return ReconcileResult()
        self._offered = True
        _log.info("made the Cluster object that reports this operator", object=str(key))
        return ReconcileResult(written=((key, str(metadata(live).get("resourceVersion", ""))),))

    async def _observe(self, key: ObjectRef, source: Cluster, stored: StoredObject) -> ClusterInventory:
        self._offered = True  # if a user deletes it, this process does not create it again
        settings, credentials = self.settings, self.credentials.current
        return ClusterInventory(
            cluster_id=settings.cluster_id,
            now=self._now(),
            agent=None if self.report is None else self.report(),
            window=settings.window,
            damping=settings.damping,
            watched=dict(self._watched()),
            namespaces=tuple(self._namespaces()),
            operator_version=settings.operator_version,
            credentials_secret=settings.credentials_secret,
            credential_expires=credentials.expires_at,
            written=self._written.get(key.name),
            weak_settings=self._weak_settings(),
            installation=settings.installation,
        )

    def _weak_settings(self) -> WeakSettings:
        """Return the present settings that weaken security, for the status.

        They come from the operator's settings, the policy of the Cluster objects, and the managed namespaces.
        """
        settings, clusters = self.settings, self.informers.store(CLUSTER)
        raw = filter(None, (clusters.raw(namespace, name) for namespace, name in clusters.names()))
        policy = strictest_policy(settings.policy, raw, settings.cluster_id)
        signed = settings.require_signed or bool(self.credentials.current.signing_key)
        signed = signed or required_by(clusters.objects(), settings.cluster_id).require_signed
        unsigned = self.report is not None and not signed
        return weak_settings_of_cluster(settings.weak_settings, self._unguarded(), policy, unsigned=unsigned)

    def _unguarded(self) -> Iterator[str]:
        for namespace in self.informers.store(NAMESPACE).objects():
            if namespace_is_managed(namespace) and not get_path(namespace, "metadata", "labels", POD_SECURITY):
                yield str(metadata(namespace).get("name"))

    def _watched(self) -> Iterator[tuple[Kind, InformerReport]]:
        for runner in self.informers:
            trouble, failures = runner.trouble()
            yield runner.kind, InformerReport(self._served(runner.kind), failures, trouble)

    def _served(self, kind: Kind) -> bool:
        """Report whether the API server serves a kind.

        This is known from the kind's CRD, or from the kind's informer if CRDs cannot be listed.
        """
        definitions, runner = self.informers.find(CUSTOM_RESOURCE_DEFINITION), self.informers.find(kind)
        if definitions is None or not definitions.has_synced:
            return runner is not None and not runner.missing
        return kind.group in _BUILT_IN or is_served(kind, definitions.store)

    def _namespaces(self) -> Iterator[str]:
        for namespace in self.informers.store(NAMESPACE).objects():
            if namespace_is_managed(namespace):
                yield str(metadata(namespace).get("name"))

    def _ours(self) -> Iterator[Manifest]:
        return of_cluster(self.informers.store(CLUSTER).objects(), self.settings.cluster_id)

    def keys(self) -> Iterable[ObjectRef]:
        """Return references to all Cluster objects with this cluster's id.

        If there are none, return the reference of the Cluster object that the operator will create.
        """
        ref = ref_of(cluster_manifest(self.settings.cluster_id, ""), CLUSTER)
        return [ref_of(cluster, CLUSTER) for cluster in self._ours()] or [ref]

    def _keys_of(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield this cluster's Cluster objects if the change may alter their status."""
        yield from self.keys() if self._concerns(change) else ()

    def _concerns(self, change: CacheChange) -> bool:
        match change.ref.kind:
            case kind if kind == CLUSTER:
                return True
            case kind if kind == NAMESPACE:
                return _guard(change.object) != _guard(change.old_object)
            case _:
                return any(runner.kind.crd_name == change.ref.name for runner in self.informers)

    def _now(self) -> Instant:
        return Instant(self.clock.now(), self.clock.monotonic())


def _read(stored: StoredObject) -> Cluster | None:
    try:
        return read_cluster(stored.manifest)
    except ValidationProblems as error:
        _log.warning(
            "a Cluster object cannot be read", object=str(ref_of(stored.manifest, CLUSTER)), problems=str(error)
        )
        return None


def _guard(namespace: Manifest | None) -> tuple[bool, bool]:
    """Return a pair: whether the operator manages the namespace, and whether it has a Pod Security label."""
    return namespace_is_managed(namespace), bool(get_path(namespace, "metadata", "labels", POD_SECURITY))


def of_cluster(clusters: Iterable[Manifest], cluster_id: str) -> Iterator[Manifest]:
    """Yield the Cluster objects whose `spec.clusterId` is `cluster_id`."""
    return (cluster for cluster in clusters if get_path(cluster, "spec", "clusterId") == cluster_id)
