"""The objects of a platform team for operations: Velero's namespace, a snapshot class, a volume, a restic repository.

Also the credentials Secret, with the key that checks approval claims.
"""

import base64
from collections.abc import Iterator
from typing import Any

from kubelab.downstream.kinds import SERVICE_ACCOUNT
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import NAMESPACE, PERSISTENT_VOLUME_CLAIM, SECRET, VOLUME_SNAPSHOT_CLASS
from vworkspace_core.api.installation import CREDENTIALS_SECRET
from vworkspace_core.operations.settings import RUNNER

APPROVAL_SECRET = b"demo-approval-secret"
VELERO_NAMESPACE = "velero"
CLAIM, REPOSITORY, SNAPSHOT_CLASS = "nextcloud-data", "restic-repository", "csi-snapshots"


def platform(namespace: str, own_namespace: str) -> Iterator[tuple[Kind, dict[str, Any]]]:
    """Yield objects in the order of their creation, for an application in `namespace`."""
    yield NAMESPACE, NAMESPACE.manifest(VELERO_NAMESPACE)
    snapshots = {"driver": "simulated.csi.example", "deletionPolicy": "Retain"}
    yield VOLUME_SNAPSHOT_CLASS, {**VOLUME_SNAPSHOT_CLASS.manifest(SNAPSHOT_CLASS), **snapshots}
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    yield PERSISTENT_VOLUME_CLAIM, {**PERSISTENT_VOLUME_CLAIM.manifest(CLAIM, namespace), "spec": size}
    yield SECRET, {**SECRET.manifest(REPOSITORY, namespace), "stringData": {"RESTIC_PASSWORD": "demo"}}
    yield SERVICE_ACCOUNT, SERVICE_ACCOUNT.manifest(RUNNER, namespace)  # as `manifests --namespace` prints it
    approval = {"approval-secret": base64.b64encode(APPROVAL_SECRET).decode()}
    yield SECRET, {**SECRET.manifest(CREDENTIALS_SECRET, own_namespace), "data": approval}
