"""The readiness rule of each kind. For all other kinds only the conventions of `generic.py` hold."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from purekube.apimachinery.manifest import Manifest
from purekube.readiness import batch, cluster, engines, flux, network, storage, workloads
from purekube.readiness.result import Readiness

ReadinessRule: TypeAlias = Callable[[Manifest], Readiness]
"""A rule for an object that exists, is not being deleted, and whose generation is observed, if that is reported."""

RULES: Final[Mapping[tuple[str, str], ReadinessRule]] = {
    ("apps", "Deployment"): workloads.deployment,
    ("apps", "StatefulSet"): workloads.stateful_set,
    ("apps", "DaemonSet"): workloads.daemon_set,
    ("apps", "ReplicaSet"): workloads.replica_set,
    ("", "ReplicationController"): workloads.replica_set,
    ("", "Pod"): workloads.pod,
    ("batch", "Job"): batch.job,
    ("batch", "CronJob"): batch.cron_job,
    ("", "PersistentVolumeClaim"): storage.persistent_volume_claim,
    ("", "PersistentVolume"): storage.persistent_volume,
    ("snapshot.storage.k8s.io", "VolumeSnapshot"): storage.volume_snapshot,
    ("", "Service"): network.service,
    ("networking.k8s.io", "Ingress"): network.ingress,
    ("networking.k8s.io", "ServiceCIDR"): cluster.service_cidr,
    ("autoscaling", "HorizontalPodAutoscaler"): cluster.autoscaler,
    ("policy", "PodDisruptionBudget"): cluster.disruption_budget,
    ("", "Namespace"): cluster.namespace,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): cluster.custom_resource_definition,
    ("apiregistration.k8s.io", "APIService"): cluster.api_service,
    ("certificates.k8s.io", "CertificateSigningRequest"): cluster.signing_request,
    ("helm.toolkit.fluxcd.io", "HelmRelease"): flux.helm_release,
    ("kustomize.toolkit.fluxcd.io", "Kustomization"): flux.kustomization,
    ("source.toolkit.fluxcd.io", "OCIRepository"): flux.source,
    ("source.toolkit.fluxcd.io", "GitRepository"): flux.source,
    ("source.toolkit.fluxcd.io", "Bucket"): flux.source,
    ("source.toolkit.fluxcd.io", "HelmChart"): flux.source,
    ("source.toolkit.fluxcd.io", "HelmRepository"): flux.helm_repository,
    ("velero.io", "Backup"): engines.velero_backup,
    ("velero.io", "Restore"): engines.velero_restore,
    ("velero.io", "BackupStorageLocation"): engines.backup_storage_location,
    ("argoproj.io", "Workflow"): engines.workflow,
    ("volsync.backube", "ReplicationSource"): engines.replication,
    ("volsync.backube", "ReplicationDestination"): engines.replication,
}
"""The rules by group and kind."""
