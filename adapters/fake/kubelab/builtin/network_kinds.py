"""The definitions of the built-in kinds NetworkPolicy, Ingress and IngressClass, and of all kinds of networking."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubelab.builtin.container_checks import name_causes, named_causes, network_causes, port_causes
from kubelab.builtin.definition_builder import built_in, filled, filled_at
from kubelab.builtin.selector_checks import selector_causes
from kubelab.builtin.service_kind import SERVICE
from kubelab.model.definition import Behaviour, Generation, NameRule
from kubelab.writes.metadata import name_problems
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest
from purekube.schema.builtin import cluster_schemas as schemas
from purekube.schema.causes import forbidden_value, invalid_value, not_supported, required

# pkg/apis/networking/validation: invalidPathSequences and invalidPathSuffixes.
_BAD: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS: Final = ("/..", "/.")
_SCOPES: Final = ("Cluster", "Namespace")
_POLICY_TYPES: Final = ("Ingress", "Egress")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_WILDCARD: Final = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    "regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def _read_policy(manifest: Manifest) -> Manifest:
    """Return a NetworkPolicy with its defaults: the protocol TCP, and the policy types that its rules imply.

    A policy with egress rules applies to both directions.
    """
    spec = dict(manifest.get("spec") or {})
    if not spec.get("policyTypes"):
        # kubernetes: apis/networking/v1/defaults.go.
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for key in ("ingress", "egress"):
        spec = filled_at(spec, f"{key}.*.ports.*", protocol="TCP")
    return {**manifest, "spec": spec}


def _check_ingress(manifest: Manifest) -> Iterator[StatusCause]:
    """Yield the problems of an Ingress. It needs a rule or a default backend, and each backend a target."""
    spec = manifest.get("spec") or {}
    default = spec.get("defaultBackend")
    if not spec.get("rules") and default is None:
        yield invalid_value("spec", spec, "either `defaultBackend` or `rules` must be specified")
        return
    if default is not None:
        yield from _backend(default, "spec.defaultBackend")
    for at, rule in enumerate(spec.get("rules") or ()):
        yield from _ingress_rule(rule, f"spec.rules[{at}]")
    for at, tls in enumerate(spec.get("tls") or ()):
        for index, host in enumerate(tls.get("hosts") or ()):
            where = f"spec.tls[{at}].hosts[{index}]"
            yield from (invalid_value(where, host, text) for text in _name_problems(host))
        yield from named_causes(tls.get("secretName"), f"spec.tls[{at}].secretName", NameRule.SUBDOMAIN)
    yield from named_causes(spec.get("ingressClassName"), "spec.ingressClassName", NameRule.SUBDOMAIN)


def _ingress_rule(rule: Mapping[str, Any], where: str) -> Iterator[StatusCause]:
    host, http = rule.get("host"), rule.get("http")
    for text in _host_problems(host) if host else ():
        yield invalid_value(f"{where}.host", host, text)
    if http is not None and not http.get("paths"):
        yield required(f"{where}.http.paths")
    for index, path in enumerate((http or {}).get("paths") or ()):
        at, text = f"{where}.http.paths[{index}]", str(path.get("path") or "")
        yield from (
            invalid_value(f"{at}.path", text, problem) for problem in _path_problems(text, path.get("pathType"))
        )
        yield from _backend(path.get("backend") or {}, f"{at}.backend")


def _path_problems(text: str, path_type: Any) -> Iterator[str]:
    # pkg/apis/networking/validation, validateHTTPIngressPath: an ingress controller may read its own paths as it likes.
    is_literal = path_type in ("Exact", "Prefix")
    if not text.startswith("/") and (text or is_literal):
        yield "must be an absolute path"
    if is_literal:
        yield from (f"must not contain '{bad}'" for bad in _BAD if bad in text)
        yield from (f"cannot end with '{bad}'" for bad in _BAD_ENDS if text.endswith(bad))


def _host_problems(host: str) -> list[str]:
    """Return the problems of the host of a rule: a DNS name, whose first label may be `*`."""
    if re.fullmatch(r"[0-9]+(\.[0-9]+){3}", host, re.ASCII) or ":" in host:
        return ["must be a DNS name, not an IP address"]
    return _name_problems(host)


def _name_problems(host: str) -> list[str]:
    if "*" in host:
        rest = host.removeprefix("*.")
        return [] if rest != host and not name_problems(rest, NameRule.SUBDOMAIN) else [_WILDCARD]
    return name_problems(host, NameRule.SUBDOMAIN)


def _backend(backend: Mapping[str, Any], where: str) -> Iterator[StatusCause]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is None and resource is None:
        # pkg/apis/networking/validation, validateIngressBackend: its messages name no value.
        yield invalid_value(where, "", "resource or service backend is required")
    elif service is not None and resource is not None:
        yield invalid_value(where, "", "cannot set both resource and service backends")
    if service is not None:
        port = service.get("port") or {}
        yield from name_causes(service, f"{where}.service")
        if port.get("name") and port.get("number"):
            yield invalid_value(where, "", "cannot set both port name & port number")
        elif name := port.get("name"):
            yield from port_causes(name, f"{where}.service.port.name")
        elif number := port.get("number"):
            yield from port_causes(number, f"{where}.service.port.number")
        else:
            yield required(where, "port name or number is required")


def _check_class(manifest: Manifest) -> Iterator[StatusCause]:
    spec = manifest.get("spec") or {}
    controller, given = spec.get("controller", ""), spec.get("parameters")
    domain, slash, path = controller.partition("/")
    if not controller:
        yield required("spec.controller")
    elif not (slash and path):
        text = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield invalid_value("spec.controller", controller, text)
    yield from named_causes(domain if path else None, "spec.controller", NameRule.SUBDOMAIN)
    if given is not None:
        yield from _parameters(given, "spec.parameters")


def _parameters(given: Mapping[str, Any], where: str) -> Iterator[StatusCause]:
    """Yield the problems of the reference to an object with the parameters of an IngressClass."""
    scope, space = given["scope"], given.get("namespace")
    yield from named_causes(given.get("apiGroup"), f"{where}.apiGroup", NameRule.SUBDOMAIN)
    if scope not in _SCOPES:
        yield not_supported(f"{where}.scope", scope, _SCOPES)
    elif scope == "Namespace" and space is None:
        yield required(f"{where}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif scope == "Namespace":
        yield from named_causes(space, f"{where}.namespace", NameRule.LABEL)
    elif space is not None:
        yield forbidden_value(f"{where}.namespace", "`parameters.scope` is set to 'Cluster'")


def _check_policy(manifest: Manifest) -> Iterator[StatusCause]:
    """Yield the problems of a NetworkPolicy: peers that say nothing or too much, ports out of range."""
    spec = manifest.get("spec") or {}
    yield from selector_causes(spec.get("podSelector"), "spec.podSelector")
    for way, side in (("ingress", "from"), ("egress", "to")):
        for at, rule in enumerate(spec.get(way) or ()):
            where = f"spec.{way}[{at}]"
            for index, port in enumerate(rule.get("ports") or ()):
                yield from _policy_port(port, f"{where}.ports[{index}]")
            for index, peer in enumerate(rule.get(side) or ()):
                yield from _peer(peer, f"{where}.{side}[{index}]")
    for at, kind in enumerate(spec.get("policyTypes") or ()):
        if kind not in _POLICY_TYPES:
            yield not_supported(f"spec.policyTypes[{at}]", kind, _POLICY_TYPES)


def _policy_port(port: Mapping[str, Any], where: str) -> Iterator[StatusCause]:
    number, end = port.get("port"), port.get("endPort")
    if port.get("protocol") not in _PROTOCOLS:
        yield not_supported(f"{where}.protocol", port.get("protocol", ""), _PROTOCOLS)
    if number is not None:
        yield from port_causes(number, f"{where}.port")
    if end is None:
        return
    if not isinstance(number, int):
        state = "non-numeric" if number else "not specified"
        yield invalid_value(f"{where}.endPort", end, f"may not be specified when `port` is {state}")
    elif end < number:
        yield invalid_value(f"{where}.endPort", end, "must be greater than or equal to `port`")
    yield from port_causes(end, f"{where}.endPort")


def _peer(peer: Mapping[str, Any], where: str) -> Iterator[StatusCause]:
    selects = peer.get("podSelector") is not None or peer.get("namespaceSelector") is not None
    if peer.get("ipBlock") is None and not selects:
        yield required(where, "must specify a peer")
    elif peer.get("ipBlock") is not None and selects:
        yield forbidden_value(where, "may not specify both ipBlock and another peer")
    for key in ("podSelector", "namespaceSelector"):
        yield from selector_causes(peer.get(key), f"{where}.{key}")
    if (block := peer.get("ipBlock")) is not None:
        yield from network_causes(block.get("cidr", ""), f"{where}.ipBlock.cidr")
        for index, text in enumerate(block.get("except") or ()):
            yield from network_causes(text, f"{where}.ipBlock.except[{index}]")


NETWORKING: Final = (
    SERVICE,
    built_in(
        schemas.NETWORK_POLICY,
        Behaviour(
            skeleton={"spec": {"podSelector": {}}},
            generation=Generation.SPEC,
            read=_read_policy,
            check=_check_policy,
        ),
        short_names=("netpol",),
    ),
    built_in(
        schemas.INGRESS,
        Behaviour(
            skeleton={"spec": {}, "status": {"loadBalancer": {}}},
            generation=Generation.SPEC,
            read=lambda manifest: filled(manifest, spec={}, status={"loadBalancer": {}}),
            on_create=lambda manifest: {**manifest, "status": {"loadBalancer": {}}},
            check=_check_ingress,
        ),
        short_names=("ing",),
    ),
    built_in(
        schemas.INGRESS_CLASS,
        Behaviour(
            skeleton={"spec": {}},
            generation=Generation.SPEC,
            read=lambda manifest: filled_at(manifest, "spec.parameters", scope="Cluster"),
            check=_check_class,
        ),
    ),
)
