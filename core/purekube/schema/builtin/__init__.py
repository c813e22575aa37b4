"""Schemas of built-in kinds, for the types of CEL expressions and for the embedded API server.

They are loaded on demand, since they are large: most contain a pod template. `UNTYPED` are the kinds without a schema
here, by their names in the discovery of kube-apiserver 1.36 (PH-5). A test compares these names with what a
kube-apiserver serves. CEL expressions about such kinds are not typed, which `box check` reports; everything else works
as for any kind.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin.schema_parts import BuiltIn
from purekube.schema.compile import Compiled, compile_schema
from purekube.schema.node import Schema
from purekube.schema.objectmeta import OBJECT_META_OPENAPI

__all__ = ["UNTYPED", "BuiltIn", "built_in_kind", "built_in_kinds", "built_in_names", "built_in_schema"]

_UNTYPED: Final[Mapping[str, str]] = {
    "admissionregistration.k8s.io/v1": (
        "MutatingAdmissionPolicy/mutatingadmissionpolicies* "
        "MutatingAdmissionPolicyBinding/mutatingadmissionpolicybindings* "
        "MutatingWebhookConfiguration/mutatingwebhookconfigurations* "
        "ValidatingAdmissionPolicy/validatingadmissionpolicies* "
        "ValidatingAdmissionPolicyBinding/validatingadmissionpolicybindings* "
        "ValidatingWebhookConfiguration/validatingwebhookconfigurations*"
    ),
    "apiregistration.k8s.io/v1": "APIService/apiservices*",
    "autoscaling/v1": "HorizontalPodAutoscaler/horizontalpodautoscalers",
    "certificates.k8s.io/v1": "CertificateSigningRequest/certificatesigningrequests*",
    "discovery.k8s.io/v1": "EndpointSlice/endpointslices",
    "flowcontrol.apiserver.k8s.io/v1": (
        "FlowSchema/flowschemas* PriorityLevelConfiguration/prioritylevelconfigurations*"
    ),
    "networking.k8s.io/v1": "IPAddress/ipaddresses* ServiceCIDR/servicecidrs*",
    "node.k8s.io/v1": "RuntimeClass/runtimeclasses*",
    "resource.k8s.io/v1": (
        "DeviceClass/deviceclasses* ResourceClaim/resourceclaims ResourceClaimTemplate/resourceclaimtemplates "
        "ResourceSlice/resourceslices*"
    ),
    "storage.k8s.io/v1": (
        "CSIDriver/csidrivers* CSINode/csinodes* CSIStorageCapacity/csistoragecapacities "
        "VolumeAttachment/volumeattachments* VolumeAttributesClass/volumeattributesclasses*"
    ),
    "v1": ("Endpoints/endpoints Node/nodes* PodTemplate/podtemplates ReplicationController/replicationcontrollers"),
}
"""Kinds and plurals (`Kind/plurals`) by apiVersion; a star follows the plural of cluster-scoped kinds."""


def _untyped() -> Iterator[Kind]:
    for api_version, names in _UNTYPED.items():
        group, _, version = api_version.rpartition("/")
        for name in names.split():
            kind, _, plural = name.partition("/")
            yield Kind(group, version, kind, plural.rstrip("*"), namespaced=not plural.endswith("*"))


UNTYPED: Final[Mapping[tuple[str, str], Kind]] = {(kind.api_version, kind.kind): kind for kind in _untyped()}
"""The built-in kinds without a schema here, by apiVersion and kind."""

_COMPILED: Final[Compiled] = {}
"""Compiled parts that several kinds share."""


@cache
def built_in_kinds() -> Mapping[tuple[str, str], BuiltIn]:
    """Return all built-in kinds that have a schema here, by apiVersion and kind."""
    from purekube.schema.builtin import basic_schemas, cluster_schemas, workload_schemas

    values = (value for module in (basic_schemas, cluster_schemas, workload_schemas) for value in vars(module).values())
    return {(value.kind.api_version, value.kind.kind): value for value in values if isinstance(value, BuiltIn)}


def built_in_kind(api_version: str, kind: str) -> BuiltIn | None:
    """Return a built-in kind with its OpenAPI schema; None if the kind is not built in or has no schema here."""
    return built_in_kinds().get((api_version, kind))


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
