"""The guards of all installed pods: which traffic may reach them, and how many may be evicted at once."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_LINK_LOCAL: Final = "169.254.0.0/16"
_NODE_LOCAL_DNS: Final = "169.254.20.10/32"


def network_policy(metadata: Mapping[str, Any], labels: Mapping[str, str], ports: Sequence[int]) -> dict[str, Any]:
    """Return the policy that opens only these ports of the pods with these labels, and limits what they reach."""
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
    """Return the budget by which at most one of the pods with these labels is evicted at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
    }


def _egress() -> list[dict[str, Any]]:
    """Return rules that allow everything except the node's own addresses, where clouds hand out credentials.

    The API server and the control plane have no labels to select them by, and ports of their own. Names are resolved by
    pods, or by the node's DNS cache if it has one.
    """
    outside: list[dict[str, Any]] = [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": [_LINK_LOCAL]}},
        {"ipBlock": {"cidr": "::/0", "except": ["fe80::/10", "fd00:ec2::254/128"]}},
        {"namespaceSelector": {}},
    ]
    names = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    return [{"to": outside}, {"to": [{"ipBlock": {"cidr": _NODE_LOCAL_DNS}}], "ports": names}]
