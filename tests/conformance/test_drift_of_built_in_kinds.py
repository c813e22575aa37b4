"""PH-2: what a server makes of an applied object of a built-in kind is no drift: empty fields, quantities, defaults.

A kube-apiserver leaves out what says nothing, and writes quantities in its own way.
"""

from typing import Any

import pytest

from purekube.controller.drift import needs_apply
from purekube.schema.builtin import built_in_schema
from tests.support.plain_http import WIRES

APPLY = "application/apply-patch+yaml"
LABELS = {"app": "a"}
CONTAINER: dict[str, Any] = {
    "name": "main",
    "image": "i:1",
    "tty": False,
    "env": [],
    "command": [],
    "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": "0.5"}},
    "ports": [{"containerPort": 80}],
    "volumeMounts": [{"name": "t", "mountPath": "/t", "readOnly": False}],
}
POD: dict[str, Any] = {
    "metadata": {"labels": LABELS},
    "spec": {
        "hostNetwork": False,
        "tolerations": [],
        "nodeSelector": {},
        "containers": [CONTAINER],
        "volumes": [{"name": "t", "emptyDir": {}}],
        "terminationGracePeriodSeconds": 0,
    },
}
OBJECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "Deployment": (
        "apis/apps/v1/namespaces/default/deployments",
        {"spec": {"replicas": 0, "paused": False, "selector": {"matchLabels": LABELS}, "template": POD}},
    ),
    "Service": (
        "api/v1/namespaces/default/services",
        {
            "spec": {
                "selector": LABELS,
                "ports": [{"port": 80, "targetPort": "http"}],
                "publishNotReadyAddresses": False,
            }
        },
    ),
    "ConfigMap": ("api/v1/namespaces/default/configmaps", {"data": {}, "immutable": False}),
    "PersistentVolumeClaim": (
        "api/v1/namespaces/default/persistentvolumeclaims",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}},
    ),
    "NetworkPolicy": (
        "apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        {"spec": {"podSelector": {}, "ingress": [], "policyTypes": ["Ingress"]}},
    ),
}


@pytest.mark.parametrize("opened", WIRES)
def test_what_was_applied_is_no_drift(opened: Any) -> None:
    with opened() as wire:
        for kind, (path, body) in OBJECTS.items():
            version = path.removeprefix("apis/").removeprefix("api/").partition("/namespaces")[0]
            manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "default"}, **body}
            answer = wire.send("PATCH", f"/{path}/a?fieldManager=m", manifest, content_type=APPLY)

            assert answer.status in (200, 201), answer
            assert not needs_apply(manifest, answer.json, built_in_schema(version, kind), drops_empty=True), kind
