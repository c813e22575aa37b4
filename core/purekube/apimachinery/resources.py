"""The kinds of Kubernetes and of controllers such as Flux and Velero that operators use, and rights on kinds."""

from collections.abc import Iterable
from typing import Final

import attrs

from purekube.apimachinery.manifest import Kind


@attrs.frozen
class Access:
    """A right to use some verbs on a kind, or on a subresource of the kind. With `name` it is limited to that
    object.
    """

    kind: Kind
    verbs: tuple[str, ...]
    subresource: str = ""
    name: str = ""

    @property
    def resource(self) -> str:
        """The resource as a rule of an RBAC role names it, such as `helmreleases` or `deployments/status`."""
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural


def resources(accesses: Iterable[Access]) -> dict[tuple[str, str, str], set[str]]:
    """Return the verbs of all accesses, grouped by the triple of API group, resource and object name. The name is empty
    for an access to all objects.
    """
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for access in accesses:
        verbs.setdefault((access.kind.group, access.resource, access.name), set()).update(access.verbs)
    return verbs


HELM_RELEASE: Final = Kind("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases")
OCI_REPOSITORY: Final = Kind("source.toolkit.fluxcd.io", "v1", "OCIRepository", "ocirepositories")
HELM_REPOSITORY: Final = Kind("source.toolkit.fluxcd.io", "v1", "HelmRepository", "helmrepositories")
HELM_CHART: Final = Kind("source.toolkit.fluxcd.io", "v1", "HelmChart", "helmcharts")

VELERO_BACKUP: Final = Kind("velero.io", "v1", "Backup", "backups")
VELERO_RESTORE: Final = Kind("velero.io", "v1", "Restore", "restores")
WORKFLOW: Final = Kind("argoproj.io", "v1alpha1", "Workflow", "workflows")
REPLICATION_SOURCE: Final = Kind("volsync.backube", "v1alpha1", "ReplicationSource", "replicationsources")
REPLICATION_DESTINATION: Final = Kind(
    "volsync.backube", "v1alpha1", "ReplicationDestination", "replicationdestinations"
)
VOLUME_SNAPSHOT_CLASS: Final = Kind(
    "snapshot.storage.k8s.io", "v1", "VolumeSnapshotClass", "volumesnapshotclasses", namespaced=False
)
VOLUME_SNAPSHOT_CONTENT: Final = Kind(
    "snapshot.storage.k8s.io", "v1", "VolumeSnapshotContent", "volumesnapshotcontents", namespaced=False
)
VOLUME_SNAPSHOT: Final = Kind("snapshot.storage.k8s.io", "v1", "VolumeSnapshot", "volumesnapshots")

JOB: Final = Kind("batch", "v1", "Job", "jobs")
PERSISTENT_VOLUME_CLAIM: Final = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
NAMESPACE: Final = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
CONFIG_MAP: Final = Kind("", "v1", "ConfigMap", "configmaps")
SECRET: Final = Kind("", "v1", "Secret", "secrets")
EVENT: Final = Kind("events.k8s.io", "v1", "Event", "events")
CORE_EVENT: Final = Kind("", "v1", "Event", "events")
"""The kind Event of the core group, for which a field selector can choose the events about one object."""

POD: Final = Kind("", "v1", "Pod", "pods")
LEASE: Final = Kind("coordination.k8s.io", "v1", "Lease", "leases")
CUSTOM_RESOURCE_DEFINITION: Final = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)

KNOWN_KINDS: Final = (
    HELM_RELEASE,
    OCI_REPOSITORY,
    HELM_REPOSITORY,
    HELM_CHART,
    VELERO_BACKUP,
    VELERO_RESTORE,
    WORKFLOW,
    REPLICATION_SOURCE,
    REPLICATION_DESTINATION,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CLASS,
    VOLUME_SNAPSHOT_CONTENT,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    NAMESPACE,
    CONFIG_MAP,
    SECRET,
    EVENT,
    CORE_EVENT,
    POD,
    LEASE,
    CUSTOM_RESOURCE_DEFINITION,
)
"""The kinds that can be looked up by apiVersion and kind."""

DEPLOYMENT: Final = Kind("apps", "v1", "Deployment", "deployments")
STATEFUL_SET: Final = Kind("apps", "v1", "StatefulSet", "statefulsets")
DAEMON_SET: Final = Kind("apps", "v1", "DaemonSet", "daemonsets")
SERVICE: Final = Kind("", "v1", "Service", "services")
SERVICE_ACCOUNT: Final = Kind("", "v1", "ServiceAccount", "serviceaccounts")
INGRESS: Final = Kind("networking.k8s.io", "v1", "Ingress", "ingresses")
RESOURCE_QUOTA: Final = Kind("", "v1", "ResourceQuota", "resourcequotas")

RBAC_GROUP: Final = "rbac.authorization.k8s.io"
ROLE: Final = Kind(RBAC_GROUP, "v1", "Role", "roles")
ROLE_BINDING: Final = Kind(RBAC_GROUP, "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE: Final = Kind(RBAC_GROUP, "v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING: Final = Kind(RBAC_GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
RBAC_KINDS: Final = (CLUSTER_ROLE_BINDING, CLUSTER_ROLE, ROLE_BINDING, ROLE)
"""The RBAC kinds in charts and in our own installation. Commands read them, reconcilers do not."""
_REVIEW: Final = "authorization.k8s.io"
ACCESS_REVIEW: Final = Kind(_REVIEW, "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
SELF_ACCESS_REVIEW: Final = Kind(_REVIEW, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False)

SERVICE_ACCOUNT_USERS: Final = "system:serviceaccount:"
"""The prefix of the user names of ServiceAccounts; namespace, colon and name follow."""


def service_account_user(namespace: str | None, name: str) -> str:
    """Return the user name under which the API server authenticates a ServiceAccount:
    `system:serviceaccount:<namespace>:<name>`.
    """
    return f"{SERVICE_ACCOUNT_USERS}{namespace}:{name}"
