"""What guards the pods of everything that is installed: who reaches them, and how many may be evicted at once."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_LINK_LOCAL: Final = "169.254.0.0/16"
_NODE_LOCAL_DNS: Final = "169.254.20.10/32"


def network_policy(metadata: Mapping[str, Any], labels: Mapping[str, str], ports: Sequence[int]) -> dict[str, Any]:
    """Return the policy by which the pods with these labels are reached at their ports alone, and what they reach."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": labels},
            "policyTypes": ["Ingress", "Egress"],
            # Prometheus and the API server: no labels tell them everywhere. Probes of the kubelet always pass.
            "ingress": [{"ports": [{"port": port, "protocol": "TCP"} for port in ports]}],
            "egress": _egress(),
        },
    }


def disruption_budget(metadata: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the budget by which one of the pods with these labels is evicted at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
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
