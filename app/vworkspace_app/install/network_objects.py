"""Services, network policies, disruption budgets, alert rules, and the objects of the Prometheus operator (RUN-5)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from vworkspace_app.install.names import INSTANCE_LABELS, NAME
from vworkspace_app.install.options import HEALTH_PORT, WEBHOOK_PORT, InstallOptions, meta
from vworkspace_app.install.webhook_manifests import SERVICE

_LINK_LOCAL: Final = "169.254.0.0/16"
_NODE_LOCAL_DNS: Final = "169.254.20.10/32"


def network_policy(metadata: Mapping[str, Any], labels: Mapping[str, str], ports: Sequence[int]) -> dict[str, Any]:
    """Return a NetworkPolicy with this metadata for the pods with these labels.

    Only `ports` can be reached, and the pods cannot reach the node's own addresses.
    """
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": labels},
            "policyTypes": ["Ingress", "Egress"],
            # From anywhere: Prometheus and the API server carry no labels that are the same in every cluster. Probes of
            # the kubelet always pass.
            "ingress": [{"ports": [{"port": port, "protocol": "TCP"} for port in ports]}],
            "egress": _egress(),
        },
    }


def disruption_budget(metadata: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return a PodDisruptionBudget with this metadata for the pods with these labels.

    At most one of the pods is evicted at a time.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
    }


def _egress() -> list[dict[str, Any]]:
    """Return egress rules that allow everything except the node's own addresses, where clouds serve credentials.

    They cannot be limited to the API server and the control plane, whose addresses and ports are unknown. DNS is
    allowed to pods, and to the node's DNS cache.
    """
    outside: list[dict[str, Any]] = [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": [_LINK_LOCAL]}},
        {"ipBlock": {"cidr": "::/0", "except": ["fe80::/10", "fd00:ec2::254/128"]}},
        {"namespaceSelector": {}},
    ]
    names = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    return [{"to": outside}, {"to": [{"ipBlock": {"cidr": _NODE_LOCAL_DNS}}], "ports": names}]


_FILE: Final = Path(__file__).with_name("alerts.yaml")


@cache
def alerts_file() -> str:
    """Return the text of the file with alert rules in the format of Prometheus."""
    return _FILE.read_text(encoding="utf-8")


def _groups(link: Mapping[Any, str]) -> list[Mapping[str, Any]]:
    """Return the groups of alert rules, with `link` added to the annotations of every rule."""
    groups: list[Mapping[str, Any]] = yaml.safe_load(alerts_file())["groups"]
    for group in groups:
        for rule in group["rules"]:
            rule["annotations"] |= link
    return groups


def prometheus_rule(options: InstallOptions, link: Mapping[Any, str] | None = None) -> dict[str, Any]:
    """Return the alert rules as a PrometheusRule.

    If the operator's web page has a URL, each rule has an annotation with it. `link` has other annotations to use
    instead.
    """
    page = options.settings.get("page_url", "")
    linked = link or ({"link": page} if page else {})
    metadata = meta(NAME, options.namespace)
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {**metadata, "labels": {**metadata["labels"], **options.prometheus_rule_labels}},
        "spec": {"groups": _groups(linked)},
    }


_METRICS: Final = f"{NAME}-metrics"


def network(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield the Services and the NetworkPolicy for metrics and webhooks.

    A ServiceMonitor and a PrometheusRule are included if the options request them.
    """
    yield _service(_METRICS, options, {"name": "metrics", "port": HEALTH_PORT, "targetPort": "metrics"})
    if options.service_monitor:
        yield _monitor(options)
    if options.prometheus_rule:
        yield prometheus_rule(options)
    if options.webhooks:
        yield _service(SERVICE, options, {"name": "webhook", "port": 443, "targetPort": "webhook"})
    if options.network_policy:
        ports = (HEALTH_PORT, WEBHOOK_PORT) if options.webhooks else (HEALTH_PORT,)
        yield network_policy(meta(NAME, options.namespace), INSTANCE_LABELS, ports)


def _service(name: str, options: InstallOptions, port: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _named(name, options),
        "spec": {"selector": INSTANCE_LABELS, "ports": [{**port, "protocol": "TCP"}]},
    }


def _named(name: str, options: InstallOptions) -> dict[str, Any]:
    """Return the metadata of a Service, with a component label by which a ServiceMonitor selects it."""
    metadata = meta(name, options.namespace)
    return {**metadata, "labels": {**metadata["labels"], "app.kubernetes.io/component": name}}


def _monitor(options: InstallOptions) -> dict[str, Any]:
    metadata = _named(_METRICS, options)
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {**metadata, "labels": {**metadata["labels"], **options.service_monitor_labels}},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/component": _METRICS}},
            "endpoints": [{"port": "metrics", "path": "/metrics", "interval": "30s"}],
        },
    }
