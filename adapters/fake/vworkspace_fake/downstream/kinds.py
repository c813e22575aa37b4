"""Kinds that only the simulated controllers and their users touch; the operator itself knows nothing of them."""

from typing import Final

from vworkspace_core.manifest import Kind

__all__ = [
    "BACKUP_STORAGE_LOCATION",
    "DELETE_BACKUP_REQUEST",
    "PERSISTENT_VOLUME",
    "STORAGE_CLASS",
    "WORKFLOW_TEMPLATE",
]

BACKUP_STORAGE_LOCATION: Final = Kind("velero.io", "v1", "BackupStorageLocation", "backupstoragelocations")
DELETE_BACKUP_REQUEST: Final = Kind("velero.io", "v1", "DeleteBackupRequest", "deletebackuprequests")
WORKFLOW_TEMPLATE: Final = Kind("argoproj.io", "v1alpha1", "WorkflowTemplate", "workflowtemplates")
PERSISTENT_VOLUME: Final = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
STORAGE_CLASS: Final = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
