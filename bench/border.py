"""The cost of decoding: of every watch event of an ApplicationInstance, and of a broken object.

python bench/border.py
"""

import time
from collections.abc import Callable
from typing import Any

from bench.machine import describe, line
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.secret_material import redact
from vworkspace_core.api.admission import check_application_instance
from vworkspace_core.api.codec import read_application_instance, unstructure

MANIFEST: dict[str, Any] = {
    "apiVersion": "apps.vworkspace.io/v1alpha1",
    "kind": "ApplicationInstance",
    "metadata": {
        "name": "nextcloud-myteam",
        "namespace": "org-myteam",
        "uid": "7dc83bea-97ee-4f13-b0c0-fbaed327cce7",
        "resourceVersion": "4711",
        "generation": 3,
        "labels": {
            "app.vworkspace.io/managed-by": "control-plane",
            "app.vworkspace.io/cluster-id": "cluster-prod-1",
        },
        "annotations": {"ops.vworkspace.io/backup": "velero"},
        "finalizers": ["vworkspace.io/operator"],
        "creationTimestamp": "2030-01-31T12:00:00Z",
    },
    "spec": {
        "appRef": {"catalogId": "nextcloud"},
        "mode": "managed",
        "chart": {"sourceType": "oci", "url": "oci://r.example.test/c", "name": "nextcloud", "version": "6.6.0"},
        "release": {"name": "nextcloud-myteam", "namespace": "org-myteam"},
        "values": {"source": "inline", "inline": {"replicaCount": 2, "persistence": {"size": "10Gi"}}},
        "suspend": False,
        "integrations": {"ingress": {"enabled": True, "host": "cloud.example.test"}},
    },
    "status": {
        "observedGeneration": 3,
        "conditions": [
            {
                "type": condition,
                "status": "True",
                "reason": "HelmReleaseReady",
                "message": "Helm upgrade succeeded for release org-myteam/nextcloud-myteam.v3, chart nextcloud@6.6.0",
                "lastTransitionTime": "2030-01-31T12:00:00Z",
                "observedGeneration": 3,
            }
            for condition in ("Ready", "Reconciling", "Degraded", "Suspended", "Blocked")
        ],
        "helmReleaseRef": {"name": "nextcloud-myteam", "namespace": "org-myteam"},
        "lastAppliedChart": {
            "sourceType": "oci",
            "url": "oci://r.example.test/c",
            "name": "nextcloud",
            "version": "6.6.0",
        },
        "lastReconcileTime": "2030-01-31T12:00:00Z",
        "endpoints": [{"name": "ingress", "url": "https://cloud.example.test", "type": "ingress"}],
    },
}
BROKEN = {**MANIFEST, "spec": {**MANIFEST["spec"], "suspend": "yes", "chart": {"version": 5}}}
MESSAGE = MANIFEST["status"]["conditions"][0]["message"]
TELLTALE = f"{MESSAGE}: token=abc"


def microseconds(call: Callable[[], object], count: int = 7) -> list[float]:
    """Return mean times of one call, from several runs, after one to warm up."""
    return [_mean(call) for _ in range(count + 1)][1:]


def _mean(call: Callable[[], object], calls: int = 2_000) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls * 1e6


def _read_broken() -> tuple[object, ...]:
    try:
        read_application_instance(BROKEN)
    except ValidationProblems as error:
        return error.problems
    raise AssertionError("the broken object was read")


def main() -> None:
    """Measure and print."""
    print(describe())
    instance = read_application_instance(MANIFEST)
    assert unstructure(instance) == MANIFEST
    assert check_application_instance(instance) == ()
    assert len(_read_broken()) == 5
    print(line("read an instance", microseconds(lambda: read_application_instance(MANIFEST)), "µs", "below 30"))
    print(line("name its problems", microseconds(_read_broken), "µs"))
    print(line("write it", microseconds(lambda: unstructure(instance)), "µs"))
    print(line("check it for admission", microseconds(lambda: check_application_instance(instance)), "µs"))
    print(line("redact a message", microseconds(lambda: redact(MESSAGE)), "µs"))
    print(line("redact one with a secret", microseconds(lambda: redact(TELLTALE)), "µs"))


if __name__ == "__main__":
    main()
