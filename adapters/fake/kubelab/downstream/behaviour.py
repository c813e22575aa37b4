"""The behaviour of the simulated downstream controllers (Velero, Jobs and others), as data that can change at run time.

The result of one attempt (a backup, a pod, a sync, a snapshot) is a `DownstreamOutcome`, which rules choose. The first
rule that matches the object and is not used up decides; without one everything succeeds. A rule counts its uses per
object, so that `DownstreamRule(DownstreamOutcome(Ending.FAIL, times=2))` fails the first two attempts at each object.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

import attrs

from purekube.apimachinery.manifest import Kind, ObjectRef


class Ending(StrEnum):
    """The ways in which an attempt of a controller (such as a backup or the run of a pod) can end.

    A controller that does not support an ending treats it as FAIL.
    """

    SUCCEED = "succeed"
    PARTIAL = "partial"
    """Velero: PartiallyFailed, after phases whose names have this suffix already."""
    FAIL = "fail"
    """Final for Velero (Failed) and Argo (Failed); pods, movers and snapshots are retried."""
    ERROR = "error"
    """Argo: Error, as if Argo itself could not run the step. VolSync: Synchronizing=False/Error, which is retried."""
    INVALID = "invalid"
    """Velero: FailedValidation. Argo: Failed with `invalid spec`."""
    STALL = "stall"
    """An attempt that does not end until its rule is removed; then a new attempt begins by the remaining rules."""
    REFUSED = "refused"
    """Jobs: the API server refuses the pod (quota, Pod Security, a webhook), and the controller tries again."""


@attrs.frozen
class WorkflowStep:
    """One step (node) of an Argo workflow in the simulation, which ends as `ending` says.

    The step takes `seconds`; None means the usual time. With `suspend` and `seconds` of None, the step waits until a
    user resumes it.
    """

    name: str
    seconds: float | None = None
    suspend: bool = False
    ending: Ending = Ending.SUCCEED
    message: str = ""


@attrs.frozen
class DownstreamOutcome:
    """The outcome of one attempt of a controller, such as a backup or the run of a pod.

    `seconds` overrides the usual duration; `times` limits how often a rule gives one object this outcome.
    `exit_code` is the exit code of a failing pod. `waiting` is the reason why a stalled pod cannot start
    (`ImagePullBackOff`, `Unschedulable`). `steps` are a workflow's nodes, `outputs` its output parameters. `items` is
    the number of items that Velero counts; `errors` and `warnings` are how many of them had errors or warnings.
    `failed_hooks` is the number of failed hooks.
    """

    ending: Ending = Ending.SUCCEED
    message: str = ""
    seconds: float | None = None
    times: int | None = None
    exit_code: int = 1
    waiting: str = ""
    steps: tuple[WorkflowStep, ...] = ()
    outputs: Mapping[str, str] = attrs.field(factory=dict)
    items: int | None = None
    errors: int = 1
    warnings: int = 0
    failed_hooks: int = 0


@attrs.frozen
class DownstreamRule:
    """A rule that determines the outcome of a controller's attempts at matching objects.

    A field that is None matches every object. `name` is a glob (`nightly-*`).
    """

    outcome: DownstreamOutcome
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None

    def matches(self, ref: ObjectRef) -> bool:
        """Report whether the rule applies to the object `ref`."""
        return (
            self.kind in (None, ref.kind.kind)
            and self.namespace in (None, ref.namespace)
            and (self.name is None or fnmatchcase(ref.name, self.name))
        )


@attrs.frozen
class VeleroBehaviour:
    """The behaviour of Velero. Times are seconds.

    Velero ignores objects outside `namespace`. With `queues`, backups wait in a queue as in Velero v1.18 (Queued,
    ReadyToStart), and at most `concurrent_backups` run at a time. Each backup or restore has `plugin_operations`
    asynchronous uploads, which take `plugin_seconds`. Every `sync_seconds`, a missing Backup object is created for each
    backup in the object storage. `storage_locations` exist in addition to those with a BackupStorageLocation object.
    `captured` are the kinds whose objects a backup contains and a restore creates again: by default ConfigMaps,
    Secrets, volume claims, and each namespaced kind of a CustomResourceDefinition, except Velero's own.
    """

    namespace: str = "velero"
    backup_seconds: float = 5.0
    restore_seconds: float = 5.0
    finalize_seconds: float = 1.0
    plugin_operations: int = 0
    plugin_seconds: float = 2.0
    queues: bool = True
    concurrent_backups: int = 1
    # Velero's defaults: a sync with the object storage each minute, and thirty days until a backup expires.
    sync_seconds: float = 60.0
    default_ttl_seconds: float = 720 * 3600.0
    storage_locations: frozenset[str] = frozenset({"default"})
    captured: tuple[Kind, ...] = ()


@attrs.frozen
class WorkflowBehaviour:
    """The behaviour of Argo. Times are seconds.

    A workflow stays Pending for `pending_seconds`. `missing_templates` has the `<namespace>/<name>` of
    WorkflowTemplates that do not exist; all others exist. With `compresses_nodes` a status has `compressedNodes`
    instead of `nodes`, as large workflows have.
    """

    step_seconds: float = 2.0
    pending_seconds: float = 0.0
    missing_templates: frozenset[str] = frozenset()
    compresses_nodes: bool = False


@attrs.frozen
class JobBehaviour:
    """The behaviour of the Job controller. Times are seconds.

    As on every API server, a pod is refused while its service account does not exist. The account `default` exists in
    every namespace. Pods are ready after `ready_seconds` and end after `pod_seconds`; pods that are stopped take
    `terminating_seconds` to end. A failed pod is replaced after 10 s, 20 s, 40 s and so on, at most
    `max_backoff_seconds`.
    """

    ready_seconds: float = 0.0
    pod_seconds: float = 2.0
    terminating_seconds: float = 1.0
    # The Job controller's own constants, which no flag changes.
    backoff_seconds: float = 10.0
    max_backoff_seconds: float = 600.0


@attrs.frozen
class VolSyncBehaviour:
    """The behaviour of VolSync. Times are seconds.

    A sync takes `sync_seconds`, cleaning up after it `cleanup_seconds`. A failed mover (the pod that copies the data)
    is started again, and an error checked again, after `retry_seconds`. With `checks_references` the source claim and
    the repository's Secret have to exist, as for the real controller.
    """

    sync_seconds: float = 3.0
    cleanup_seconds: float = 1.0
    retry_seconds: float = 5.0
    checks_references: bool = True


@attrs.frozen
class SnapshotBehaviour:
    """The behaviour of the CSI snapshotter and the volume provisioner. Times are seconds.

    With `checks_references` a snapshot is taken only if its source claim is bound and its class exists; otherwise
    neither is checked. With `binds_claims` the provisioner provides volumes for claims, including claims from
    snapshots.
    """

    cut_seconds: float = 1.0
    retry_seconds: float = 1.0
    # The default of external-snapshotter's flag `--retry-interval-max`.
    max_retry_seconds: float = 300.0
    bind_seconds: float = 1.0
    binds_claims: bool = True
    checks_references: bool = True
    default_size: str = "1Gi"
    driver: str = "simulated.csi.example"


@attrs.frozen
class WorkloadBehaviour:
    """The behaviour of workloads' controllers, load balancers and ingress controllers. Times are seconds.

    A new generation is observed after `observe_seconds`. A rollout takes a pod at a time, each for `ready_seconds`. A
    DaemonSet has a pod on each of `nodes`. An address is assigned after `address_seconds`.
    """

    observe_seconds: float = 0.1
    ready_seconds: float = 1.0
    nodes: int = 2
    address_seconds: float = 2.0


@attrs.frozen
class DownstreamBehaviour:
    """All settings of the simulated controllers downstream of the operator, such as Velero and the Job controller.

    A controller sees a new object only after `watch_latency_seconds`. Until then the object has no status.
    """

    rules: Sequence[DownstreamRule] = ()
    watch_latency_seconds: float = 0.0
    retry_seconds: float = 1.0
    velero: VeleroBehaviour = VeleroBehaviour()
    workflow: WorkflowBehaviour = WorkflowBehaviour()
    job: JobBehaviour = JobBehaviour()
    volsync: VolSyncBehaviour = VolSyncBehaviour()
    snapshot: SnapshotBehaviour = SnapshotBehaviour()
    workloads: WorkloadBehaviour = WorkloadBehaviour()

    def choose(self, ref: ObjectRef, used: Sequence[DownstreamRule]) -> DownstreamRule | None:
        """Return the rule that decides the next attempt at the object `ref`, or None if that attempt succeeds.

        `used` are the rules of earlier attempts, which count against each rule's `times`.
        """
        for rule in self.rules:
            times = rule.outcome.times
            if rule.matches(ref) and (times is None or list(used).count(rule) < times):
                return rule
        return None
