"""The built-in resources: the definitions of the built-in kinds, with settings such as what a DELETE answers.

Events are stored once and served under two APIs, as in a real server: an Event that is written as `events.k8s.io/v1`
can be read as `v1`, which `kubectl describe` does, and the other way round.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from kubelab.access.authorization import review_resources
from kubelab.builtin.admission_kinds import POLICIES, WEBHOOKS
from kubelab.builtin.capacity_kinds import CAPACITY
from kubelab.builtin.config_kinds import CONFIGS
from kubelab.builtin.crd_kinds import CRDS
from kubelab.builtin.definition_builder import built_in
from kubelab.builtin.event_kinds import EVENTS, core_event_of, new_event_of
from kubelab.builtin.job_kinds import JOBS
from kubelab.builtin.network_kinds import NETWORKING
from kubelab.builtin.pod_kinds import PODS
from kubelab.builtin.rbac_kinds import RBAC
from kubelab.builtin.storage_kinds import STORAGE
from kubelab.builtin.workload_kinds import WORKLOADS
from kubelab.lifecycle.namespaces import NAMESPACES
from kubelab.model.definition import Behaviour, ServedKind
from kubelab.model.records import GroupResource
from kubelab.model.resources import ALL_VERBS, ServedResource, resource_of
from purekube.apimachinery.resources import CORE_EVENT, EVENT
from purekube.schema.builtin import UNTYPED
from purekube.schema.builtin.schema_parts import ANY, BuiltIn, obj

_ELSEWHERE: Final = ("admissionregistration.k8s.io", "autoscaling")
"""The API groups that are left out here, since other modules serve their kinds (of `autoscaling` only version v2)."""
_WITH_STATUS: Final = frozenset(("CertificateSigningRequest", "Node", "ReplicationController", "ResourceClaim"))
# kubernetes: pkg/registry/*/*/strategy.go, AllowUnconditionalUpdate.
_LOCKED: Final = frozenset(("RuntimeClass", "CSIDriver", "CSINode", "CSIStorageCapacity", "VolumeAttachment"))
"""The kinds whose updates have to name the version that they change."""

STORED: Final = tuple(
    built_in(
        BuiltIn(kind, {**ANY, **obj(**({"status": ANY} if kind.kind in _WITH_STATUS else {}))}),
        Behaviour(unconditional_update=kind.kind not in _LOCKED),
    )
    for kind in UNTYPED.values()
    if kind.group not in _ELSEWHERE
)
"""The kinds without a schema: objects are stored as they are written, and no controller acts on them."""
BUILTIN_DEFINITIONS: Final[tuple[ServedKind, ...]] = (
    *CONFIGS,
    *EVENTS,
    *PODS,
    *NETWORKING,
    *STORAGE,
    *WORKLOADS,
    *JOBS,
    *RBAC,
    *WEBHOOKS,
    *POLICIES,
    *CRDS,
    *CAPACITY,
    *STORED,
)
"""The definitions of all built-in kinds."""

_SUBRESOURCES: Final[Mapping[GroupResource, tuple[str, ...]]] = {
    NAMESPACES: ("finalize",),
    ("", "pods"): ("binding", "eviction"),
    ("", "serviceaccounts"): ("token",),
}
# kubernetes: pkg/registry/*/*/storage/storage.go: the stores with ReturnDeletedObject.
_RETURNS_DELETED: Final[frozenset[GroupResource]] = frozenset(
    (
        ("", "namespaces"),
        ("", "persistentvolumeclaims"),
        ("", "persistentvolumes"),
        ("", "pods"),
        ("", "podtemplates"),
        ("", "resourcequotas"),
        ("", "serviceaccounts"),
        ("", "services"),
        ("resource.k8s.io", "deviceclasses"),
        ("resource.k8s.io", "resourceclaims"),
        ("resource.k8s.io", "resourceclaimtemplates"),
        ("resource.k8s.io", "resourceslices"),
        ("storage.k8s.io", "csidrivers"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "storageclasses"),
        ("storage.k8s.io", "volumeattachments"),
        ("storage.k8s.io", "volumeattributesclasses"),
    )
)
"""Kinds whose DELETE answers with the deleted object instead of a Status."""

_EVENT_FIELDS: Final = (
    "involvedObject.apiVersion",
    "involvedObject.fieldPath",
    "involvedObject.resourceVersion",
    "reportingComponent",
    "source",
)
"""Field selectors of core Events in addition to those of the definition; `kubectl events --for` uses them."""


def builtin_resources() -> tuple[ServedResource, ...]:
    """Return every resource that is served without a CRD."""
    return (*(_resource(definition) for definition in BUILTIN_DEFINITIONS), *review_resources())


def _resource(definition: ServedKind) -> ServedResource:
    where = (definition.kind.group, definition.kind.plural)
    if definition.kind == EVENT:
        return resource_of(definition)
    if definition.kind == CORE_EVENT:
        stored = (EVENT.group, EVENT.plural)
        served = resource_of(definition, storage=stored, to_stored=new_event_of, to_served=core_event_of)
        return attrs.evolve(served, fields=(*served.fields, *_EVENT_FIELDS))
    return resource_of(
        definition,
        # kubernetes: registry/core/namespace/storage/storage.go: the REST of namespaces deletes no collections.
        verbs=tuple(verb for verb in ALL_VERBS if where != NAMESPACES or verb != "deletecollection"),
        subresources=_SUBRESOURCES.get(where, ()),
        returns_deleted=where in _RETURNS_DELETED,
    )
