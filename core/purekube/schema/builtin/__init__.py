"""Schemas of built-in kinds, for the types of CEL expressions and for the embedded API server.

They are loaded on demand, since they are large: most contain a pod template.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Final

from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin.schema_parts import BuiltIn
from purekube.schema.builtin.untyped import UNTYPED
from purekube.schema.compile import Compiled, compile_schema
from purekube.schema.node import Schema
from purekube.schema.objectmeta import OBJECT_META_OPENAPI

__all__ = ["BUILT_IN", "UNTYPED", "BuiltIn", "built_in_kind", "built_in_names", "built_in_schema"]

BUILT_IN: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("v1", "Namespace"): ("basic_schemas", "NAMESPACE"),
    ("v1", "ConfigMap"): ("basic_schemas", "CONFIG_MAP"),
    ("v1", "Secret"): ("basic_schemas", "SECRET"),
    ("v1", "ServiceAccount"): ("basic_schemas", "SERVICE_ACCOUNT"),
    ("v1", "Event"): ("basic_schemas", "CORE_EVENT"),
    ("events.k8s.io/v1", "Event"): ("basic_schemas", "EVENT"),
    ("v1", "Pod"): ("workload_schemas", "POD"),
    ("v1", "Service"): ("network_schemas", "SERVICE"),
    ("networking.k8s.io/v1", "NetworkPolicy"): ("network_schemas", "NETWORK_POLICY"),
    ("networking.k8s.io/v1", "Ingress"): ("network_schemas", "INGRESS"),
    ("v1", "PersistentVolumeClaim"): ("storage_schemas", "PERSISTENT_VOLUME_CLAIM"),
    ("v1", "PersistentVolume"): ("storage_schemas", "PERSISTENT_VOLUME"),
    ("storage.k8s.io/v1", "StorageClass"): ("storage_schemas", "STORAGE_CLASS"),
    ("policy/v1", "PodDisruptionBudget"): ("storage_schemas", "POD_DISRUPTION_BUDGET"),
    ("v1", "ResourceQuota"): ("capacity_schemas", "RESOURCE_QUOTA"),
    ("v1", "LimitRange"): ("capacity_schemas", "LIMIT_RANGE"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"): ("capacity_schemas", "HORIZONTAL_POD_AUTOSCALER"),
    ("scheduling.k8s.io/v1", "PriorityClass"): ("capacity_schemas", "PRIORITY_CLASS"),
    ("networking.k8s.io/v1", "IngressClass"): ("network_schemas", "INGRESS_CLASS"),
    ("apps/v1", "ReplicaSet"): ("workload_schemas", "REPLICA_SET"),
    ("apps/v1", "ControllerRevision"): ("workload_schemas", "CONTROLLER_REVISION"),
    ("apps/v1", "Deployment"): ("workload_schemas", "DEPLOYMENT"),
    ("apps/v1", "StatefulSet"): ("workload_schemas", "STATEFUL_SET"),
    ("apps/v1", "DaemonSet"): ("workload_schemas", "DAEMON_SET"),
    ("batch/v1", "Job"): ("workload_schemas", "JOB"),
    ("batch/v1", "CronJob"): ("workload_schemas", "CRON_JOB"),
    ("coordination.k8s.io/v1", "Lease"): ("basic_schemas", "LEASE"),
    ("rbac.authorization.k8s.io/v1", "Role"): ("basic_schemas", "ROLE"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): ("basic_schemas", "CLUSTER_ROLE"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): ("basic_schemas", "ROLE_BINDING"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): ("basic_schemas", "CLUSTER_ROLE_BINDING"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): ("basic_schemas", "CUSTOM_RESOURCE_DEFINITION"),
}
"""The module that defines each built-in kind, and the name of its constant in that module, by apiVersion and kind."""

_COMPILED: Final[Compiled] = {}
"""Compiled parts that several kinds share."""


@cache
def built_in_kind(api_version: str, kind: str) -> BuiltIn | None:
    """Return a built-in kind with its OpenAPI schema; None if the kind is not built in or has no schema here."""
    place = BUILT_IN.get((api_version, kind))
    if place is None:
        return None
    definition = getattr(import_module(f"{__name__}.{place[0]}"), place[1])
    assert isinstance(definition, BuiltIn)
    return definition


@cache
def built_in_schema(api_version: str, kind: str) -> Schema | None:
    """Return the compiled schema of whole objects of a built-in kind, including metadata; None for other kinds."""
    definition = built_in_kind(api_version, kind)
    if definition is None:
        return None
    text = {"type": "string"}
    fields = {
        **definition.openapi.get("properties", {}),
        "apiVersion": text,
        "kind": text,
        "metadata": OBJECT_META_OPENAPI,
    }
    required = [*definition.openapi.get("required", ()), "apiVersion", "kind", "metadata"]
    return compile_schema(
        {**definition.openapi, "type": "object", "properties": fields, "required": required}, _COMPILED
    )


def built_in_names(api_version: str, kind: str) -> Kind | None:
    """Return a built-in kind with its plural and scope, even if its schema is unknown; None for other kinds."""
    typed = built_in_kind(api_version, kind)
    return UNTYPED.get((api_version, kind)) if typed is None else typed.kind
