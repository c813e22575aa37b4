"""Built-in kinds without a schema here, by their names in the discovery of kube-apiserver 1.36 (PH-5).

A test compares these names with what a kube-apiserver serves. CEL expressions about these kinds are not typed, which
`box check` reports; everything else works as for any kind.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from purekube.apimachinery.manifest import Kind

_NAMES: Final[Mapping[str, str]] = {
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


def _kinds() -> Iterator[Kind]:
    for api_version, names in _NAMES.items():
        group, _, version = api_version.rpartition("/")
        for name in names.split():
            kind, _, plural = name.partition("/")
            yield Kind(group, version, kind, plural.rstrip("*"), namespaced=not plural.endswith("*"))


UNTYPED: Final[Mapping[tuple[str, str], Kind]] = {(kind.api_version, kind.kind): kind for kind in _kinds()}
"""The built-in kinds without a schema here, by apiVersion and kind."""
