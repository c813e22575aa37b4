"""Services, network policy, and what the Prometheus operator takes."""

from collections.abc import Iterator
from typing import Any, Final

from vworkspace_app.install.alerts import prometheus_rule
from vworkspace_app.install.options import HEALTH_PORT, INSTANCE_LABELS, NAME, WEBHOOK_PORT, InstallOptions, meta
from vworkspace_app.install.webhooks import SERVICE

_LINK_LOCAL: Final = "169.254.0.0/16"
_NODE_LOCAL_DNS: Final = "169.254.20.10/32"
_METRICS: Final = f"{NAME}-metrics"


def network(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Where the operator is reached, and what it may reach: it calls out, nothing else calls in."""
    yield _service(_METRICS, options, {"name": "metrics", "port": HEALTH_PORT, "targetPort": "metrics"})
    if options.service_monitor:
        yield _monitor(options)
    if options.prometheus_rule:
        yield prometheus_rule(options)
    if options.webhooks:
        yield _service(SERVICE, options, {"name": "webhook", "port": 443, "targetPort": "webhook"})
    if options.network_policy:
        yield _policy(options)


def _policy(options: InstallOptions) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": meta(NAME, options.namespace),
        "spec": {
            "podSelector": {"matchLabels": INSTANCE_LABELS},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": _ingress(options),
            "egress": _egress(),
        },
    }


def _egress() -> list[dict[str, Any]]:
    """Everywhere but the addresses of the node itself, where clouds hand out credentials.

    The API server and the control plane have no labels to select them by, and ports of their own. Names are asked of
    pods, and where the node has a cache of its own, of that.
    """
    outside: list[dict[str, Any]] = [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": [_LINK_LOCAL]}},
        {"ipBlock": {"cidr": "::/0", "except": ["fe80::/10", "fd00:ec2::254/128"]}},
        {"namespaceSelector": {}},
    ]
    names = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    return [{"to": outside}, {"to": [{"ipBlock": {"cidr": _NODE_LOCAL_DNS}}], "ports": names}]


def _ingress(options: InstallOptions) -> list[dict[str, Any]]:
    """Prometheus and the API server: neither can be told by labels everywhere. Probes of the kubelet always pass."""
    served = (HEALTH_PORT, WEBHOOK_PORT) if options.webhooks else (HEALTH_PORT,)
    return [{"ports": [{"port": port, "protocol": "TCP"} for port in served]}]


def _service(name: str, options: InstallOptions, port: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _named(name, options),
        "spec": {"selector": INSTANCE_LABELS, "ports": [{**port, "protocol": "TCP"}]},
    }


def _named(name: str, options: InstallOptions) -> dict[str, Any]:
    """Metadata with a label of its own, for a ServiceMonitor to select one Service of two by."""
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
