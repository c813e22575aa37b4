"""The definition of the built-in kind Service: its defaults, addresses and ports, and what its type forbids.

A change of the type takes the fields away that the new type has no use for, unless the same write changes them.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

from kubelab.builtin.container_checks import (
    PROTOCOLS,
    address_causes,
    named_causes,
    network_causes,
    port_causes,
    repeated,
)
from kubelab.builtin.definition_builder import built_in, filled
from kubelab.model.definition import Behaviour, NameRule, ServedKind
from kubelab.writes.metadata import label_causes, qualified_causes
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest
from purekube.schema.builtin import cluster_schemas as schemas
from purekube.schema.causes import duplicate, forbidden_value, invalid_value, not_supported, required
from purekube.schema.structure import equal

Spec = Mapping[str, Any]

# The range is the default of kube-apiserver's --service-node-port-range.
_NODE_PORT: Final = "provided port is not in the valid range. The range of valid ports is 30000-32767"
_ADDRESSES: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
_OF_LOAD_BALANCERS: Final = ("allocateLoadBalancerNodePorts", "loadBalancerClass", "loadBalancerSourceRanges")
_NODE_PORTS: Final = ("NodePort", "LoadBalancer")
"""The types of Services that have node ports."""
_FAMILIES: Final = ("IPv4", "IPv6")
_KNOWN: Final = {
    "type": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
    "sessionAffinity": ("ClientIP", "None"),
    "ipFamilyPolicy": ("PreferDualStack", "RequireDualStack", "SingleStack"),
    "externalTrafficPolicy": ("Cluster", "Local"),
    "internalTrafficPolicy": ("Cluster", "Local"),
}
"""The fields of a Service that have few values, with these."""


def _read(manifest: Manifest) -> Manifest:
    # pkg/apis/core/v1/defaults.go, SetDefaults_Service.
    spec = filled(manifest.get("spec") or {}, sessionAffinity="None", type="ClusterIP")
    if isinstance(spec.get("ports"), list):
        spec["ports"] = [_port(port) for port in spec["ports"]]
    if spec["type"] != "ExternalName":
        spec = filled(spec, internalTrafficPolicy="Cluster")
    if spec["type"] in _NODE_PORTS or (spec["type"] == "ClusterIP" and spec.get("externalIPs")):
        spec = filled(spec, externalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        spec = filled(spec, allocateLoadBalancerNodePorts=True)
    if spec["sessionAffinity"] == "ClientIP":
        spec = filled(spec, sessionAffinityConfig={"clientIP": {"timeoutSeconds": 10800}})
    return filled({**manifest, "spec": spec}, status={"loadBalancer": {}})


def _port(port: Mapping[str, Any]) -> dict[str, Any]:
    return {**filled(port, protocol="TCP"), "targetPort": port.get("targetPort") or port.get("port")}


def _create(manifest: Manifest) -> Manifest:
    spec = _allocated(manifest["spec"], manifest["metadata"]["uid"])
    return {**manifest, "spec": spec, "status": {"loadBalancer": {}}}


def _allocated(spec: Spec, uid: str) -> dict[str, Any]:
    """Return the spec with a cluster IP and node ports where its type needs them. All are derived from the uid."""
    out, number = dict(spec), _number(uid)
    if spec["type"] != "ExternalName":
        # An address in the range that kubeadm sets by default, 10.96.0.0/12.
        out = filled(out, clusterIP=f"10.96.{number // 254 % 254 + 1}.{number % 254 + 1}")
        out = filled(out, clusterIPs=[out["clusterIP"]], ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
    if _needs_node_ports(spec):
        # kubernetes: kubeapiserver/options/options.go, DefaultServiceNodePortRange begins at 30000 and has 2768 ports.
        first = 30000 + number % 2000
        ports = spec.get("ports") or ()
        taken = {port.get("nodePort") for port in ports}
        free = (node for node in count(first) if node not in taken)
        out["ports"] = [port if port.get("nodePort") else {**port, "nodePort": next(free)} for port in ports]
    if spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local":
        out = filled(out, healthCheckNodePort=32000 + number % 700)
    return out


def _needs_node_ports(spec: Spec) -> bool:
    """Report whether each port gets a port of the nodes. A load balancer that reaches pods directly may do without."""
    return spec["type"] in _NODE_PORTS and spec.get("allocateLoadBalancerNodePorts") is not False


def _update(new: Manifest, old: Manifest) -> Manifest:
    """Return the updated Service: fields that the update omits are kept, and fields that the new type does not use are
    removed.
    """
    before, spec = old["spec"], _without_unused(new["spec"], old["spec"])
    if spec["type"] != "ExternalName":
        spec |= {key: before[key] for key in _ADDRESSES if not spec.get(key) and before.get(key)}
    if _needs_node_ports(spec):
        held = {port.get("name"): port["nodePort"] for port in before.get("ports") or () if port.get("nodePort")}
        spec["ports"] = [filled(port, nodePort=held.get(port.get("name"))) for port in spec.get("ports") or ()]
    return {**new, "spec": _allocated(spec, old["metadata"]["uid"])}


def _without_unused(spec: Spec, before: Spec) -> dict[str, Any]:
    """Return the spec of an update without the fields of the former spec `before` that the new type does not use."""
    # pkg/registry/core/service/strategy.go, dropTypeDependentFields: a user may change the type alone.
    unused = {key for key in _unused(spec) if key in spec and equal(spec[key], before.get(key))}
    out = {key: value for key, value in spec.items() if key not in unused}
    if spec["type"] not in _NODE_PORTS and spec.get("ports"):
        held = [port["nodePort"] for port in before.get("ports") or () if port.get("nodePort")]
        out["ports"] = [
            {key: value for key, value in port.items() if key != "nodePort" or value not in held}
            for port in spec["ports"]
        ]
    return out


def _unused(spec: Spec) -> Iterator[str]:
    if spec["type"] == "ExternalName":
        yield from (*_ADDRESSES, "internalTrafficPolicy")
    if spec["type"] not in _NODE_PORTS and not spec.get("externalIPs"):
        yield "externalTrafficPolicy"
    if spec["type"] != "LoadBalancer":
        yield from _OF_LOAD_BALANCERS
    if spec["type"] != "LoadBalancer" or spec.get("externalTrafficPolicy") != "Local":
        yield "healthCheckNodePort"
    if spec["sessionAffinity"] != "ClientIP":
        yield "sessionAffinityConfig"


def _number(uid: str) -> int:
    digits = "".join(character for character in uid if character in "0123456789abcdef")
    return int(digits or "0", 16)


# --- checks ----------------------------------------------------------------------------------------------------------


def _check(manifest: Manifest) -> Iterator[StatusCause]:
    spec = manifest["spec"]
    yield from _of_type(spec)
    yield from _of_ports(spec)
    yield from label_causes(spec.get("selector") or {}, "spec.selector")
    for key, known in _KNOWN.items():
        if key in spec and spec[key] not in known and (key != "externalTrafficPolicy" or _is_reached(spec)):
            yield not_supported(f"spec.{key}", spec[key], known)
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in _FAMILIES:
            yield not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        yield from address_causes(address, f"spec.externalIPs[{index}]")
    for index, network in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from network_causes(network.strip(), f"spec.LoadBalancerSourceRanges[{index}]")
    yield from qualified_causes(spec.get("loadBalancerClass"), "spec.loadBalancerClass")


def _is_reached(spec: Spec) -> bool:
    """Report whether a Service can be reached from outside of the cluster."""
    return spec["type"] in _NODE_PORTS or bool(spec.get("externalIPs"))


def _of_type(spec: Spec) -> Iterator[StatusCause]:
    kind = spec["type"]
    if kind == "ExternalName":
        yield from _external(spec)
    if kind in _NODE_PORTS and spec.get("clusterIP") == "None":
        yield invalid_value("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind != "LoadBalancer":
        text = "may only be used when `type` is 'LoadBalancer'"
        # The capital letter is the API server's (pkg/apis/core/validation, ValidateService).
        named = {"loadBalancerClass": "loadBalancerClass", "loadBalancerSourceRanges": "LoadBalancerSourceRanges"}
        yield from (forbidden_value(f"spec.{shown}", text) for key, shown in named.items() if spec.get(key))
    if spec.get("externalTrafficPolicy") and not _is_reached(spec):
        text = "may only be set for externally-accessible services"
        yield invalid_value("spec.externalTrafficPolicy", spec["externalTrafficPolicy"], text)


def _external(spec: Spec) -> Iterator[StatusCause]:
    # A dot at the end marks a name that is complete.
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        yield required("spec.externalName")
    yield from named_causes(name, "spec.externalName", NameRule.SUBDOMAIN)
    if spec.get("clusterIP") or spec.get("clusterIPs"):
        yield forbidden_value("spec.clusterIPs", "may not be set for ExternalName services")


def _of_ports(spec: Spec) -> Iterator[StatusCause]:
    ports, names = spec.get("ports") or (), set[str]()
    if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    for index, port in enumerate(ports):
        where, name = f"spec.ports[{index}]", port.get("name")
        if not name and len(ports) > 1:
            yield required(f"{where}.name")
        yield from named_causes(name, f"{where}.name", NameRule.LABEL)
        if name in names:
            yield duplicate(f"{where}.name", name)
        names |= {name} if name else set()
        yield from _of_port(port, where, spec["type"])
    for index, (_, node) in repeated((port["protocol"], port.get("nodePort", 0)) for port in ports):
        if node:
            yield duplicate(f"spec.ports[{index}].nodePort", node)
    for index, (kind, number) in repeated((port["protocol"], port.get("port", 0)) for port in ports):
        # kubernetes: apis/core/validation/validation.go, ValidateService compares Go structs with these two members.
        struct = f'{{"Name":"","Protocol":"{kind}","AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}'
        yield StatusCause(f"spec.ports[{index}]", f"Duplicate value: {struct}", "FieldValueDuplicate")


def _of_port(port: Mapping[str, Any], where: str, kind: str) -> Iterator[StatusCause]:
    number, target, node = port.get("port", 0), port["targetPort"], port.get("nodePort")
    yield from port_causes(number, f"{where}.port")
    if port["protocol"] not in PROTOCOLS:
        yield not_supported(f"{where}.protocol", port["protocol"], PROTOCOLS)
    yield from qualified_causes(port.get("appProtocol"), f"{where}.appProtocol")
    yield from port_causes(target, f"{where}.targetPort")
    if node and kind not in _NODE_PORTS:
        yield forbidden_value(f"{where}.nodePort", f"may not be used when `type` is '{kind}'")
    elif node and not 30000 <= node <= 32767:
        yield invalid_value(f"{where}.nodePort", node, _NODE_PORT)


def _check_update(new: Manifest, old: Manifest) -> Iterator[StatusCause]:
    yield from _check(new)
    now, before = new["spec"], old["spec"]
    if before.get("clusterIP") and now["type"] != "ExternalName" and now.get("clusterIP") != before["clusterIP"]:
        yield invalid_value("spec.clusterIPs[0]", [now.get("clusterIP")], "may not change once set")


SERVICE: Final[ServedKind] = built_in(
    schemas.SERVICE,
    Behaviour(
        skeleton={"spec": {}, "status": {"loadBalancer": {}}},
        name_rule=NameRule.LABEL,
        read=_read,
        on_create=_create,
        on_update=_update,
        check=_check,
        check_update=_check_update,
    ),
    short_names=("svc",),
    categories=("all",),
    selectable_fields=("spec.clusterIP", "spec.type"),
)
