"""Services, network policy, and the optional ServiceMonitor."""

from collections.abc import Iterator
from typing import Any

from vworkspace_app.install.options import INSTANCE_LABELS, NAME, WEBHOOK_PORT, InstallOptions, meta
from vworkspace_app.install.webhooks import SERVICE

__all__ = ["network"]


def network(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Where the operator is reached, and what it may reach: it calls out, nothing else calls in."""
    if options.webhooks:
        yield _service(SERVICE, options, {"name": "webhook", "port": 443, "targetPort": "webhook", "protocol": "TCP"})
    yield {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": meta(NAME, options.namespace),
        "spec": {
            "podSelector": {"matchLabels": INSTANCE_LABELS},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": _ingress(options),
            # The API server and the control plane have no labels to select them by, and ports of their own.
            "egress": [{}],
        },
    }


def _ingress(options: InstallOptions) -> list[dict[str, Any]]:
    ports = [{"port": WEBHOOK_PORT, "protocol": "TCP"}] if options.webhooks else []
    return [{"ports": ports}] if ports else []


def _service(name: str, options: InstallOptions, port: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta(name, options.namespace),
        "spec": {"selector": INSTANCE_LABELS, "ports": [port]},
    }
