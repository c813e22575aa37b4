"""The definitions of the built-in kinds Service, NetworkPolicy, Ingress and IngressClass: defaults and checks."""

from collections.abc import Mapping
from typing import Any, Final

from kubelab.builtin.definition_builder import built_in, filled
from kubelab.model.definition import Behaviour, Generation, NameRule
from purekube.apimachinery.errors import StatusCause
from purekube.schema.builtin import network_schemas as schemas
from purekube.schema.causes import invalid_value, required

Manifest = Mapping[str, Any]


def _read_service(manifest: Manifest) -> Manifest:
    spec = filled(manifest.get("spec") or {}, sessionAffinity="None", type="ClusterIP")
    if isinstance(spec.get("ports"), list):
        spec["ports"] = [filled(port, protocol="TCP", targetPort=port.get("port")) for port in spec["ports"]]
    if spec["type"] != "ExternalName":
        spec = filled(spec, internalTrafficPolicy="Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec = filled(spec, externalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        spec = filled(spec, allocateLoadBalancerNodePorts=True)
    return filled({**manifest, "spec": spec}, status={"loadBalancer": {}})


def _create_service(manifest: Manifest) -> Manifest:
    """Return a new Service with a cluster IP and, if its type has them, node ports.

    All are derived from the Service's uid.
    """
    spec = dict(manifest["spec"])
    if spec["type"] != "ExternalName":
        spec = filled(spec, clusterIP=_address(manifest["metadata"]["uid"]))
        spec = filled(spec, clusterIPs=[spec["clusterIP"]], ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        first = 30000 + _number(manifest["metadata"]["uid"]) % 2000
        spec["ports"] = [filled(port, nodePort=first + index) for index, port in enumerate(spec.get("ports") or ())]
    return {**manifest, "spec": spec, "status": {"loadBalancer": {}}}


def _update_service(new: Manifest, old: Manifest) -> Manifest:
    """Return the updated Service. The Service keeps its cluster IP and related fields if an update leaves them out."""
    spec, before = dict(new["spec"]), old["spec"]
    for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"):
        if not spec.get(key) and before.get(key) and spec["type"] != "ExternalName":
            spec[key] = before[key]
    return {**new, "spec": spec}


def _number(uid: str) -> int:
    digits = "".join(character for character in uid if character in "0123456789abcdef")
    return int(digits or "0", 16)


def _address(uid: str) -> str:
    number = _number(uid)
    return f"10.96.{number // 254 % 254 + 1}.{number % 254 + 1}"


def _check_service(manifest: Manifest) -> list[StatusCause]:
    spec = manifest["spec"]
    causes = []
    if not spec.get("ports") and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
        causes.append(required("spec.ports"))
    if len(spec.get("ports") or ()) > 1:
        causes += [required(f"spec.ports[{i}].name") for i, port in enumerate(spec["ports"]) if not port.get("name")]
    for index, port in enumerate(spec.get("ports") or ()):
        if not 1 <= port.get("port", 0) <= 65535:
            text = "must be between 1 and 65535, inclusive"
            causes.append(invalid_value(f"spec.ports[{index}].port", port.get("port"), text))
    return causes


def _check_service_update(new: Manifest, old: Manifest) -> list[StatusCause]:
    causes = _check_service(new)
    now, before = new["spec"], old["spec"]
    if before.get("clusterIP") and now["type"] != "ExternalName" and now.get("clusterIP") != before["clusterIP"]:
        causes.append(invalid_value("spec.clusterIPs[0]", now.get("clusterIPs"), "may not change once set"))
    return causes


def _read_policy(manifest: Manifest) -> Manifest:
    """Return a NetworkPolicy with its defaults: the protocol TCP, and the policy types that its rules imply.

    A policy with egress rules applies to both directions.
    """
    spec = dict(manifest.get("spec") or {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for key in ("ingress", "egress"):
        if isinstance(spec.get(key), list):
            spec[key] = [_rule(rule) for rule in spec[key]]
    return {**manifest, "spec": spec}


def _rule(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(rule.get("ports"), list):
        return rule
    return {**rule, "ports": [filled(port, protocol="TCP") for port in rule["ports"]]}


def _read_ingress(manifest: Manifest) -> Manifest:
    return filled({**manifest}, spec={}, status={"loadBalancer": {}})


def _check_ingress(manifest: Manifest) -> list[StatusCause]:
    """Return the problems of an Ingress. It needs a rule or a default backend, and its paths must be absolute."""
    spec = manifest.get("spec") or {}
    if not spec.get("rules") and not spec.get("defaultBackend"):
        text = "either `defaultBackend` or `rules` must be specified"
        return [invalid_value("spec", spec, text)]
    causes = []
    for at, rule in enumerate(spec.get("rules") or ()):
        for index, path in enumerate((rule.get("http") or {}).get("paths") or ()):
            where = f"spec.rules[{at}].http.paths[{index}]"
            if path.get("pathType") in ("Exact", "Prefix") and not str(path.get("path") or "").startswith("/"):
                causes.append(invalid_value(f"{where}.path", path.get("path") or "", "must be an absolute path"))
    return causes


NETWORKING: Final = (
    built_in(
        schemas.SERVICE,
        Behaviour(
            skeleton={"spec": {}, "status": {"loadBalancer": {}}},
            generation=Generation.NEVER,
            unconditional_update=True,
            name_rule=NameRule.SERVICE,
            read=_read_service,
            on_create=_create_service,
            on_update=_update_service,
            check=_check_service,
            check_update=_check_service_update,
        ),
        short_names=("svc",),
        categories=("all",),
        selectable_fields=("spec.clusterIP", "spec.type"),
    ),
    built_in(
        schemas.NETWORK_POLICY,
        Behaviour(
            skeleton={"spec": {"podSelector": {}}},
            generation=Generation.SPEC,
            unconditional_update=True,
            read=_read_policy,
        ),
        short_names=("netpol",),
    ),
    built_in(
        schemas.INGRESS,
        Behaviour(
            skeleton={"spec": {}, "status": {"loadBalancer": {}}},
            generation=Generation.SPEC,
            unconditional_update=True,
            read=_read_ingress,
            check=_check_ingress,
        ),
        short_names=("ing",),
    ),
    built_in(
        schemas.INGRESS_CLASS,
        Behaviour(skeleton={"spec": {}}, generation=Generation.SPEC, unconditional_update=True),
    ),
)
