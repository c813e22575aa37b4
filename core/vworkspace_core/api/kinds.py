"""The registry of the kinds that the operator uses. The operator's informers, RBAC and engines are derived from it."""

from typing import Final

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import KNOWN_KINDS

APPLICATION_INSTANCE: Final = Kind("apps.vworkspace.io", "v1alpha1", "ApplicationInstance", "applicationinstances")
OPERATION: Final = Kind("ops.vworkspace.io", "v1alpha1", "Operation", "operations")
CLUSTER: Final = Kind("ops.vworkspace.io", "v1alpha1", "Cluster", "clusters", namespaced=False)

OWN_KINDS: Final = (APPLICATION_INSTANCE, OPERATION, CLUSTER)
"""The kinds that this project defines; their CRDs are generated from the attrs classes (RES-6)."""

ALL_KINDS: Final = (*OWN_KINDS, *KNOWN_KINDS)
"""The operator's own kinds, and the kinds of Kubernetes and other projects that it works with."""
