"""The readiness of any object: by deletion and generation, then its kind's rule, or else the kstatus conventions."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from purekube.apimachinery.manifest import Manifest
from purekube.readiness import cluster, engines, workloads
from purekube.readiness.result import Conditions, Readiness, mapping, number, progressing, ready, text, unknown

if TYPE_CHECKING:
    from purekube.schema.node import Schema


ReadinessRule: TypeAlias = Callable[[Manifest], Readiness]
"""A function that returns the readiness of an object of one kind.

It is called only for an object that exists and is not being deleted. If the object's status has an observedGeneration,
it equals the object's generation.
"""

RULES: Final[Mapping[tuple[str, str], ReadinessRule]] = {
    ("apps", "Deployment"): workloads.deployment,
    ("apps", "StatefulSet"): workloads.stateful_set,
    ("apps", "DaemonSet"): workloads.daemon_set,
    ("apps", "ReplicaSet"): workloads.replica_set,
    ("", "ReplicationController"): workloads.replica_set,
    ("", "Pod"): workloads.pod,
    ("batch", "Job"): workloads.job,
    ("batch", "CronJob"): workloads.cron_job,
    ("", "PersistentVolumeClaim"): cluster.persistent_volume_claim,
    ("", "PersistentVolume"): cluster.persistent_volume,
    ("snapshot.storage.k8s.io", "VolumeSnapshot"): cluster.volume_snapshot,
    ("", "Service"): cluster.service,
    ("networking.k8s.io", "Ingress"): cluster.ingress,
    ("networking.k8s.io", "ServiceCIDR"): cluster.service_cidr,
    ("autoscaling", "HorizontalPodAutoscaler"): cluster.autoscaler,
    ("policy", "PodDisruptionBudget"): cluster.disruption_budget,
    ("", "Namespace"): cluster.namespace,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): cluster.custom_resource_definition,
    ("apiregistration.k8s.io", "APIService"): cluster.api_service,
    ("certificates.k8s.io", "CertificateSigningRequest"): cluster.signing_request,
    ("helm.toolkit.fluxcd.io", "HelmRelease"): engines.helm_release,
    ("kustomize.toolkit.fluxcd.io", "Kustomization"): engines.kustomization,
    ("source.toolkit.fluxcd.io", "OCIRepository"): engines.source,
    ("source.toolkit.fluxcd.io", "GitRepository"): engines.source,
    ("source.toolkit.fluxcd.io", "Bucket"): engines.source,
    ("source.toolkit.fluxcd.io", "HelmChart"): engines.source,
    ("source.toolkit.fluxcd.io", "HelmRepository"): engines.helm_repository,
    ("velero.io", "Backup"): engines.velero_backup,
    ("velero.io", "Restore"): engines.velero_restore,
    ("velero.io", "BackupStorageLocation"): engines.backup_storage_location,
    ("argoproj.io", "Workflow"): engines.workflow,
    ("volsync.backube", "ReplicationSource"): engines.replication,
    ("volsync.backube", "ReplicationDestination"): engines.replication,
}
"""The readiness rules of the kinds that need their own, by API group and kind."""


def readiness(
    manifest: Manifest | None, schema: "Schema | None" = None, rules: Mapping[tuple[str, str], ReadinessRule] = RULES
) -> Readiness:
    """Return the readiness of an object. `rules` maps group and kind to the rule of a kind.

    `schema`, if known, says whether the kind has a status at all. Without a schema, an object without a status counts
    as ready, because kinds such as ConfigMap have none.
    """
    if manifest is None:
        return progressing("NotFound", "it does not exist yet")
    meta = mapping(manifest, "metadata")
    if meta.get("deletionTimestamp"):
        return progressing("Terminating", "it is being deleted")
    status = manifest.get("status")
    if status is not None and not isinstance(status, dict):
        return unknown("StatusUnreadable", "its status is no object")
    if (waiting := _generation(manifest)) is not None:
        return waiting
    group = text(manifest, "apiVersion").rpartition("/")[0]
    rule = rules.get((group, text(manifest, "kind")))
    if rule is not None:
        return rule(manifest)
    return by_conventions(manifest, schema)


def _generation(manifest: Manifest) -> Readiness | None:
    """Return why the object is not ready if its `observedGeneration` is outdated; None if it is current or absent.

    Flux leaves `observedGeneration` unchanged while it fails, so a condition Stalled or Ready=False of the current
    generation is reported first.
    """
    observed = number(mapping(manifest, "status"), "observedGeneration")
    generation = number(mapping(manifest, "metadata"), "generation")
    if observed is None or generation is None or observed >= generation:
        return None
    conditions = Conditions.of(manifest)
    if conditions.holds("Stalled") and conditions.observed("Stalled") == generation:
        return conditions.failed("Stalled", "it is stalled")
    if conditions.status("Ready") == "False" and conditions.observed("Ready") == generation:
        return conditions.progressing("Ready", "Ready is False", "NotReady")
    # The CRDs of Flux default observedGeneration to -1: no controller has observed the object.
    text = f"its controller has observed generation {observed}, it is at {generation}"
    return progressing("GenerationNotObserved", text if observed >= 0 else "its controller has not observed it yet")


def by_conventions(manifest: Manifest, schema: "Schema | None" = None) -> Readiness:
    """Return the readiness of an object by its conditions Stalled, Failed, Reconciling, Ready and Available, as kstatus
    does.

    An object without any of these conditions is ready, unless the schema declares a status and the object has none.
    """
    conditions = Conditions.of(manifest)
    if conditions.holds("Stalled"):
        return conditions.failed("Stalled", "it is stalled")
    if conditions.holds("Failed"):
        return conditions.failed("Failed", "it has failed")
    if conditions.holds("Reconciling"):
        return progressing("Reconciling", conditions.message_or_reason("Reconciling", "it is being reconciled"))
    for kind in ("Ready", "Available"):
        status = conditions.status(kind)
        if status == "True":
            return _at_its_generation(manifest, conditions, kind)
        if status:  # as in kstatus (status.go, checkReadyCondition), Ready=False is progress and never a failure
            return conditions.progressing(kind, f"{kind} is {status}", f"Not{kind}")
    # kstatus calls an object without a status ready, even if its controller has yet to write one (flux2#5855;
    # fluxcd/cli-utils: pkg/kstatus/status/status.go, Compute).
    if not mapping(manifest, "status") and schema is not None and "status" in schema.properties:
        return progressing("NoStatus", "its controller has not written a status yet")
    return ready("Exists")


def _at_its_generation(manifest: Manifest, conditions: Conditions, kind: str) -> Readiness:
    observed, generation = conditions.observed(kind), number(mapping(manifest, "metadata"), "generation")
    if observed is not None and generation is not None and observed < generation:
        return progressing("GenerationNotObserved", f"{kind} speaks of generation {observed}, it is at {generation}")
    return ready(conditions.reason(kind) or kind)
