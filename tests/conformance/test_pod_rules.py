"""The rules of pods and of the templates of workloads, at kube-apiserver's fields (RUN-8, RUN-9)."""

from typing import Any, Final

import pytest

from tests.conformance.test_builtin_rules import Place, place, refused
from tests.support.server_thread import Answer

__all__ = ["place"]

GPU: Final = "example.com/gpu"
Rule = tuple[dict[str, Any], list[str]]
CONTAINERS: Final[dict[str, Rule]] = {
    "another protocol": ({"ports": [{"containerPort": 1, "protocol": "X"}]}, ["ports[0].protocol"]),
    "an unknown resource": ({"resources": {"requests": {"foo": "1"}}}, ["resources.requests[foo]"] * 2),
    "half a GPU": ({"resources": {"limits": {GPU: "500m"}, "requests": {GPU: "500m"}}},
                   [f"resources.limits[{GPU}]", f"resources.requests[{GPU}]"]),
    "a GPU without a limit": ({"resources": {"requests": {GPU: "1"}}}, ["resources.limits"]),
    "more GPUs than the limit": ({"resources": {"limits": {GPU: "1"}, "requests": {GPU: "2"}}}, ["resources.requests"]),
    "a hook without an action": ({"lifecycle": {"preStop": {}}}, ["lifecycle.preStop"]),
    "privileges without escalation": (
        {"securityContext": {"privileged": True, "allowPrivilegeEscalation": False}}, ["securityContext"]
    ),
    "a negative user": ({"securityContext": {"runAsUser": -1}}, ["securityContext.runAsUser"]),
    "a variable with an equals sign": ({"env": [{"name": "a=b"}]}, ["env[0].name"]),
    "a variable from an unknown field": (
        {"env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}, ["env[0].valueFrom.fieldRef.fieldPath"]
    ),
    "a variable without a key": (
        {"env": [{"name": "a", "valueFrom": {"secretKeyRef": {"name": "s", "key": ""}}}]},
        ["env[0].valueFrom.secretKeyRef.key"],
    ),
}  # fmt: skip
PODS: Final[dict[str, Rule]] = {
    "no time": ({"activeDeadlineSeconds": 0}, ["activeDeadlineSeconds"]),
    "the name of a node": ({"nodeName": "A_b"}, ["nodeName"]),
    "an address that is none": ({"hostAliases": [{"ip": "x", "hostnames": ["a"]}]}, ["hostAliases[0].ip"]),
    "a name server that is none": ({"dnsConfig": {"nameservers": ["x"]}}, ["dnsConfig.nameservers[0]"]),
    "a gate with a space": ({"readinessGates": [{"conditionType": "a b"}]}, ["readinessGates[0].conditionType"]),
    "a negative group": ({"securityContext": {"supplementalGroups": [-1]}}, ["securityContext.supplementalGroups[0]"]),
    "all processes, twice": (
        {"shareProcessNamespace": True, "hostPID": True}, ["securityContext.shareProcessNamespace"]
    ),
}  # fmt: skip
ALONE: Final[dict[str, Rule]] = {
    "an ephemeral container": ({"ephemeralContainers": [{"name": "e", "image": "i"}]}, ["ephemeralContainers"]),
    "a token of no account": (
        {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
        ["volumes[0].projected.sources[0].serviceAccountToken"],
    ),
}


def pod(**spec: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", **spec.pop("container", {})}], **spec}


def in_template(place: Place, spec: dict[str, Any]) -> Answer:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    whole = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    return place.create("apps/v1", "DaemonSet", "daemonsets", spec=whole)


def test_a_pod_and_a_template_are_refused_at_the_same_fields(place: Place) -> None:
    cases = {name: (pod(container=given), [f"containers[0].{field}" for field in fields])
             for name, (given, fields) in CONTAINERS.items()}  # fmt: skip
    cases |= {name: (pod(**given), fields) for name, (given, fields) in PODS.items()}
    for name, (spec, fields) in cases.items():
        if name != "a GPU without a limit":
            alone = place.create("v1", "Pod", "pods", spec=spec)
            assert sorted(field for field, _ in refused(alone)) == sorted(f"spec.{field}" for field in fields), name
        more = ["activeDeadlineSeconds"] if name == "no time" else []
        found = sorted(field for field, _ in refused(in_template(place, spec)))
        assert found == sorted(f"spec.template.spec.{field}" for field in [*fields, *more]), name


@pytest.mark.parametrize("name", ALONE)
def test_a_new_pod_has_rules_of_its_own(place: Place, name: str) -> None:
    given, fields = ALONE[name]
    answer = place.create("v1", "Pod", "pods", spec=pod(**given))
    assert [field for field, _ in refused(answer)] == [f"spec.{field}" for field in fields]


def test_an_image_has_no_space_around_it_in_a_pod(place: Place) -> None:
    spec = pod(container={"image": " i "})
    assert [field for field, _ in refused(place.create("v1", "Pod", "pods", spec=spec))] == ["spec.containers[0].image"]
    made = in_template(place, spec)
    assert (made.status, made.json["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"]) == (
        201,
        "IfNotPresent",
    )
