"""The definitions of the built-in kinds NetworkPolicy, Ingress and IngressClass, and of all kinds of networking."""

from collections.abc import Mapping
from typing import Any, Final

from kubelab.builtin.definition_builder import built_in, filled
from kubelab.builtin.service_kind import SERVICE
from kubelab.model.definition import Behaviour, Generation
from purekube.apimachinery.errors import StatusCause
from purekube.schema.builtin import network_schemas as schemas
from purekube.schema.causes import invalid_value

Manifest = Mapping[str, Any]


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
    SERVICE,
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
