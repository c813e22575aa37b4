"""Further differences that objects with random changes showed on a kube-apiserver 1.36 (RUN-8, RUN-9)."""

from typing import Any, Final

import pytest

from tests.conformance.test_builtin_rules import Place, place, refused
from tests.support.server_thread import Answer

__all__ = ["place"]

LABELS: Final = {"a": "b"}
PODS: Final = {"containers": [{"name": "c", "image": "i"}]}
LABEL_TEXT: Final = "a valid label must be an empty string or consist of"


def template(labels: Any = LABELS, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": {**PODS, **spec}}


def workload(place: Place, kind: str, query: str = "", **spec: Any) -> Answer:
    whole = {"selector": {"matchLabels": LABELS}, "template": template(), **spec}
    body = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"}, "spec": whole}
    return place.wire.send("POST", place.url("apps/v1", f"{kind.lower()}s") + query, body)


def fields(answer: Answer) -> list[str]:
    return [field for field, _ in refused(answer)]


# --- what is stored --------------------------------------------------------------------------------------------------


def test_a_job_keeps_its_own_labels(place: Place) -> None:
    """Only those that it has from its template are the template's, with the labels that the Job's uid determines."""
    generated = {"batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"}
    spec = {"template": template(restartPolicy="Never")}
    for name, labels, expected in (("a", LABELS, {"a"}), ("b", {"x": "y"}, {"x"}), ("c", None, {"a", *generated})):
        made = place.create("batch/v1", "Job", "jobs", metadata={"name": name, "labels": labels}, spec=spec)
        assert made.json["metadata"]["labels"].keys() == expected
        assert made.json["spec"]["template"]["metadata"]["labels"].keys() == {"a", *generated}


def test_a_daemon_set_counts_its_templates(place: Place) -> None:
    key, url = "deprecated.daemonset.template.generation", place.url("apps/v1", "daemonsets", "a")
    made = workload(place, "DaemonSet").json["metadata"]
    assert made["annotations"] == {key: "1"}
    assert f"f:{key}" in made["managedFields"][0]["fieldsV1"]["f:metadata"]["f:annotations"]
    paused = place.patch(url, {"spec": {"minReadySeconds": 5}})
    assert (paused.json["metadata"]["annotations"], paused.json["metadata"]["generation"]) == ({key: "1"}, 2)
    changed = place.patch(url, {"metadata": {"annotations": {"x": "y"}}, "spec": {"template": template(x=None)}})
    assert changed.json["metadata"]["annotations"] == {key: "1", "x": "y"}
    body = {"spec": {"template": {"spec": {"hostname": "h"}}}}
    assert place.patch(url, body).json["metadata"]["annotations"] == {key: "2", "x": "y"}
    gone = place.patch(url, {"metadata": {"annotations": None}})
    assert gone.json["metadata"]["annotations"] == {key: "2"}, "nobody removes it"


def test_a_balanced_service_may_do_without_ports_of_nodes(place: Place) -> None:
    spec = {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "ports": [{"port": 80}]}
    made = place.create("v1", "Service", "services", spec=spec)
    assert "nodePort" not in made.json["spec"]["ports"][0]


def test_a_class_of_priority_may_leave_out_that_its_value_is_0(place: Place) -> None:
    url = "/apis/scheduling.k8s.io/v1/priorityclasses?dryRun=All"
    made = place.wire.send("POST", url, {"metadata": {"name": "drawn"}, "description": "d"})
    assert (made.status, made.json["value"]) == (201, 0)
    wrong = place.wire.send("POST", url, {"metadata": {"name": "drawn"}, "preemptionPolicy": "x"})
    text = 'Unsupported value: "x": supported values: "PreemptLowerPriority", "Never"'
    assert refused(wrong) == [("preemptionPolicy", text)]


def test_a_port_of_an_ingress_is_owned_as_one(place: Place) -> None:
    spec = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    made = place.create("networking.k8s.io/v1", "Ingress", "ingresses", spec=spec)
    owned = made.json["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:defaultBackend"]["f:service"]
    assert owned == {".": {}, "f:name": {}, "f:port": {}}


# --- selectors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "at", "text"),
    [
        ({"matchExpressions": [{"key": "a", "operator": "x", "values": ["b"]}]}, "matchExpressions[0].operator",
         'Invalid value: "x": not a valid selector operator'),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "matchExpressions[0].values",
         "Required value: must be specified when `operator` is 'In' or 'NotIn'"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}, "matchExpressions[0].values",
         "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
        ({"matchLabels": {"a b": "c"}}, "matchLabels", 'Invalid value: "a b": name part must consist of'),
        ({"matchLabels": {"a": "b c"}}, "matchLabels", f'Invalid value: "b c": {LABEL_TEXT}'),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}, "matchExpressions[0].values[0]",
         f'Invalid value: "b c": {LABEL_TEXT}'),
    ],
)  # fmt: skip
def test_a_selector_that_selects_nothing_is_refused(place: Place, selector: dict[str, Any], at: str, text: str) -> None:
    def found(answer: Answer, path: str) -> None:
        (message,) = [message for field, message in refused(answer) if field == f"{path}.{at}"]
        assert message.startswith(text)

    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        found(workload(place, kind, selector=selector), "spec.selector")
    term = {"labelSelector": selector, "topologyKey": "k"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    answer = place.create("v1", "Pod", "pods", spec={**PODS, "affinity": affinity})
    found(answer, "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector")
    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term}
    answer = place.create("v1", "Pod", "pods", spec={**PODS, "topologySpreadConstraints": [spread]})
    found(answer, "spec.topologySpreadConstraints[0].labelSelector")
    networking = "networking.k8s.io/v1"
    peer = {"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": selector}]}]}
    answer = place.create(networking, "NetworkPolicy", "networkpolicies", spec=peer)
    found(answer, "spec.ingress[0].from[0].namespaceSelector")
    answer = place.create(networking, "NetworkPolicy", "networkpolicies", spec={"podSelector": selector})
    found(answer, "spec.podSelector")
    budget = {"minAvailable": 1, "selector": selector}
    found(place.create("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", spec=budget), "spec.selector")
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "selector": selector}
    answer = place.create("v1", "PersistentVolumeClaim", "persistentvolumeclaims", spec=claim)
    found(answer, "spec.selector")


def test_every_workload_selects_the_pods_of_its_template(place: Place) -> None:
    expressions = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        for labels in ({}, {"a": "c"}, None):
            answer = workload(place, kind, selector=expressions, template=template(labels))
            assert "spec.template.metadata.labels" in fields(answer)
        assert workload(place, kind, "?dryRun=All", selector=expressions).status == 201


def test_a_template_without_pods_is_refused(place: Place) -> None:
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        assert "spec.template.spec.containers" in fields(workload(place, kind, template={}))
    answer = place.create("apps/v1", "ReplicaSet", "replicasets", spec={"selector": {"matchLabels": LABELS}})
    assert fields(answer) == ["spec.template.metadata.labels", "spec.template.spec.containers"]


# --- services --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "at"),
    [
        ({"selector": {"a b": "c"}}, "selector"),
        ({"selector": {"a": "b c"}}, "selector"),
        ({"ports": [{"port": 80, "protocol": "x"}]}, "ports[0].protocol"),
        ({"ports": [{"port": 80, "appProtocol": "a b"}]}, "ports[0].appProtocol"),
        ({"externalIPs": ["x"]}, "externalIPs[0]"),
        ({"ipFamilies": ["x"]}, "ipFamilies[0]"),
        ({"ipFamilyPolicy": "x"}, "ipFamilyPolicy"),
        ({"sessionAffinity": "x"}, "sessionAffinity"),
        ({"internalTrafficPolicy": "x"}, "internalTrafficPolicy"),
        ({"type": "x"}, "type"),
        ({"type": "LoadBalancer", "loadBalancerClass": "a b"}, "loadBalancerClass"),
        ({"type": "LoadBalancer", "loadBalancerSourceRanges": ["x"]}, "LoadBalancerSourceRanges[0]"),
        ({"type": "NodePort", "externalTrafficPolicy": "x"}, "externalTrafficPolicy"),
    ],
)
def test_values_of_a_service_that_mean_nothing_are_refused(place: Place, spec: dict[str, Any], at: str) -> None:
    answer = place.create("v1", "Service", "services", spec={"ports": [{"port": 80}], **spec})
    assert f"spec.{at}" in fields(answer)
