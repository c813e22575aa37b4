"""Services, network policy, and the objects of the Prometheus operator."""

from collections.abc import Iterator
from typing import Any, Final

from vworkspace_app.install.alerts import prometheus_rule
from vworkspace_app.install.guards import network_policy
from vworkspace_app.install.names import NAME
from vworkspace_app.install.options import HEALTH_PORT, INSTANCE_LABELS, WEBHOOK_PORT, InstallOptions, meta
from vworkspace_app.install.webhooks import SERVICE

_METRICS: Final = f"{NAME}-metrics"


def network(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield the Services and the network policy, which opens only metrics and webhooks."""
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
    """Return metadata with a component label, by which a ServiceMonitor selects one of the two Services."""
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
