"""The kinds of objects that the simulated downstream controllers use. Their demos and tests use these kinds too."""

from typing import Final

from purekube.apimachinery.manifest import Kind

BACKUP_STORAGE_LOCATION: Final = Kind("velero.io", "v1", "BackupStorageLocation", "backupstoragelocations")
DELETE_BACKUP_REQUEST: Final = Kind("velero.io", "v1", "DeleteBackupRequest", "deletebackuprequests")
WORKFLOW_TEMPLATE: Final = Kind("argoproj.io", "v1alpha1", "WorkflowTemplate", "workflowtemplates")
PERSISTENT_VOLUME: Final = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
STORAGE_CLASS: Final = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
POD_DISRUPTION_BUDGET: Final = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
HORIZONTAL_POD_AUTOSCALER: Final = Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
