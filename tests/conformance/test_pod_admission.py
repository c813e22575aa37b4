"""What admission adds to a pod and refuses, and what quotas count, on both servers (RUN-8, RUN-9)."""

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from kubelab.server import ApiServer
from tests.conformance.test_builtin_rules import Place, place
from tests.support.effort import unused_name
from tests.support.plain_http import until
from tests.support.server_thread import Answer, served, wall_clock, wired

__all__ = ["place"]

PODS: Final = ("v1", "pods")
QUOTAS: Final = ("v1", "resourcequotas")
PROBE: Final = "count/leases.coordination.k8s.io"
CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
MINUTES: Final = [{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300} for key in TAINTS]


def pod(place: Place, name: str = "a", query: str = "", **spec: Any) -> Answer:
    container = {"name": "c", "image": "i", **spec.pop("container", {})}
    body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
    return place.wire.send("POST", place.url(*PODS) + query, body)


def forbidden(answer: Answer) -> str:
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    name = answer.json["details"]["name"]
    text: str = answer.json["message"]
    return text.removeprefix(f'{answer.json["details"]["kind"]} "{name}" is forbidden: ')


# --- what a pod has that its template has not ------------------------------------------------------------------------


def test_a_pod_tolerates_a_node_that_is_not_ready_for_five_minutes(place: Place) -> None:
    other = {"key": "x", "operator": "Exists"}
    assert pod(place).json["spec"]["tolerations"] == MINUTES
    assert pod(place, "b", tolerations=[other]).json["spec"]["tolerations"] == [other, *MINUTES]
    everything = [{"operator": "Exists"}]
    assert pod(place, "c", tolerations=everything).json["spec"]["tolerations"] == everything
    own = {"key": TAINTS[0], "operator": "Exists", "effect": "NoExecute"}
    assert pod(place, "d", tolerations=[own]).json["spec"]["tolerations"] == [own, MINUTES[1]]


def test_nobody_owns_what_admission_adds_and_a_put_may_leave_it_out(place: Place) -> None:
    made = pod(place)
    assert {"f:tolerations", "f:priority"}.isdisjoint(made.json["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"])
    body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "j"}]}}
    put = place.wire.send("PUT", place.url(*PODS, "a"), body)
    assert (put.status, put.json["spec"]["tolerations"], put.json["spec"]["priority"]) == (200, MINUTES, 0)


def test_the_limits_of_a_pod_are_its_requests_where_it_has_none(place: Place) -> None:
    limits = {"cpu": "1", "memory": "1Gi"}
    made = pod(place, container={"resources": {"limits": limits}})
    assert made.json["spec"]["containers"][0]["resources"] == {"limits": limits, "requests": limits}
    assert made.json["status"]["qosClass"] == "Guaranteed"
    some = pod(place, "b", container={"resources": {"limits": limits, "requests": {"cpu": "500m"}}})
    assert some.json["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert some.json["status"]["qosClass"] == "Burstable"
    other = pod(place, "c", container={"resources": {"limits": {"example.com/gpu": "1"}}})
    assert other.json["status"]["qosClass"] == "BestEffort"


def test_defaults_that_are_deep_in_a_pod(place: Place) -> None:
    container = {
        "livenessProbe": {"grpc": {"port": 1}},
        "lifecycle": {"preStop": {"httpGet": {"port": 1}}},
        "env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
        "ports": [{"containerPort": 80}],
    }
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    name = {"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}
    volumes = [
        {"name": "a", "ephemeral": {"volumeClaimTemplate": claim}},
        {"name": "b", "downwardAPI": {"items": [name]}},
        {"name": "c", "projected": {"sources": [{"downwardAPI": {"items": [name]}}]}},
        {"name": "d", "image": {"reference": "x:1"}},
    ]
    spec = pod(place, container=container, volumes=volumes, hostNetwork=True).json["spec"]
    (stored,) = spec["containers"]
    assert stored["livenessProbe"]["grpc"] == {"port": 1, "service": ""}
    assert stored["lifecycle"]["preStop"]["httpGet"] == {"path": "/", "port": 1, "scheme": "HTTP"}
    assert stored["env"][0]["valueFrom"]["resourceFieldRef"]["divisor"] == "0"
    assert stored["ports"] == [{"hostPort": 80, "containerPort": 80, "protocol": "TCP"}]
    assert spec["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["spec"]["volumeMode"] == "Filesystem"
    assert spec["volumes"][1]["downwardAPI"]["items"][0]["fieldRef"]["apiVersion"] == "v1"
    assert spec["volumes"][2]["projected"]["sources"][0]["downwardAPI"]["items"][0]["fieldRef"]["apiVersion"] == "v1"
    assert spec["volumes"][3]["image"]["pullPolicy"] == "IfNotPresent"


# --- classes ---------------------------------------------------------------------------------------------------------


def test_a_pod_has_the_priority_of_its_class(place: Place) -> None:
    name = unused_name("class")
    made = place.wire.send("POST", CLASSES, {"metadata": {"name": name}, "value": 5, "preemptionPolicy": "Never"})
    assert made.status == 201
    spec = pod(place, priorityClassName=name).json["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (5, "Never")
    assert pod(place, "b", priorityClassName="system-node-critical").json["spec"]["priority"] == 2000001000
    plain = pod(place, "c").json["spec"]
    assert (plain["priority"], plain["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    place.wire.send("DELETE", f"{CLASSES}/{name}")


def test_a_class_has_to_be_there(place: Place) -> None:
    assert forbidden(pod(place, priorityClassName="none")) == "no PriorityClass with name none was found"
    assert forbidden(pod(place, priority=5)) == (
        "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 "
        "from the given PriorityClass name"
    )
    assert forbidden(pod(place, runtimeClassName="none")) == 'pod rejected: RuntimeClass "none" not found'
    assert place.wire.send("GET", place.url(*PODS, "a")).status == 404


# --- quotas ----------------------------------------------------------------------------------------------------------


def quota(place: Place, hard: dict[str, str], **spec: Any) -> None:
    """A quota as its controller leaves it: counted, and without any use. Wait until admission knows of it.

    It forbids Leases, too, unless it counts the pods of a scope only.
    """
    place.wire.send("DELETE", place.url(*QUOTAS, "q"))
    hard = hard if spec else {**hard, PROBE: "0"}
    made = place.wire.send("POST", place.url(*QUOTAS), {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}})
    assert made.status == 201
    status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    assert place.patch(f"{place.url(*QUOTAS, 'q')}/status", {"status": status}).status == 200
    if not spec:
        url = f"{place.url('coordination.k8s.io/v1', 'leases')}?dryRun=All"
        until(lambda: place.wire.send("POST", url, {"metadata": {"name": "probe"}, "spec": {}}).status == 403)


def used(place: Place) -> Any:
    amounts = place.wire.send("GET", place.url(*QUOTAS, "q")).json["status"]["used"]
    return {key: amount for key, amount in amounts.items() if key != PROBE}


def test_a_quota_limits_the_number_of_pods(place: Place) -> None:
    place.wire.send("POST", place.url(*QUOTAS), {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}})
    assert pod(place, "early").status == 201, "nobody has counted yet"
    quota(place, {"pods": "1"})
    assert pod(place, "a", "?dryRun=All").status == 201
    assert used(place) == {"pods": "0"}
    assert pod(place).status == 201
    assert used(place) == {"pods": "1"}
    for query in ("", "?dryRun=All"):
        why = "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
        assert forbidden(pod(place, "b", query)) == why


def test_a_quota_of_compute_resources_wants_them_of_each_container(place: Place) -> None:
    quota(place, {"requests.cpu": "1", "limits.memory": "1Gi"})
    assert forbidden(pod(place)) == "failed quota: q: must specify limits.memory for: c; requests.cpu for: c"
    half = {"limits": {"cpu": "500m", "memory": "512Mi"}}
    assert pod(place, container={"resources": half}).status == 201
    assert used(place) == {"requests.cpu": "500m", "limits.memory": "512Mi"}
    more = {"limits": {"cpu": "600m", "memory": "100Mi"}}
    why = "exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=500m, limited: requests.cpu=1"
    assert forbidden(pod(place, "b", container={"resources": more})) == why


def test_a_quota_counts_what_the_containers_of_a_pod_need_at_one_time(place: Place) -> None:
    """A container that runs before a sidecar does not run with it."""
    quota(place, {"requests.cpu": "10", "hugepages-2Mi": "1Gi"})
    pages = {"hugepages-2Mi": "4Mi"}
    first = {"name": "i", "image": "i", "resources": {"requests": {"cpu": "5"}}}
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "3"}}}
    container = {"resources": {"requests": {"cpu": "1", **pages}, "limits": {"cpu": "1", **pages}}}
    assert pod(place, container=container, initContainers=[first, sidecar]).status == 201
    assert used(place) == {"requests.cpu": "5", "hugepages-2Mi": "4Mi"}


def test_a_quota_counts_objects_of_any_kind(place: Place) -> None:
    quota(place, {"count/configmaps": "1", "count/deployments.apps": "0", "services.loadbalancers": "0"})
    assert place.create("v1", "ConfigMap", "configmaps").status == 201
    second = place.create("v1", "ConfigMap", "configmaps", metadata={"name": "b"})
    assert forbidden(second).startswith("exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    assert "count/deployments.apps=1" in forbidden(place.create("apps/v1", "Deployment", "deployments", spec=spec))
    service = {"ports": [{"port": 80}]}
    assert place.create("v1", "Service", "services", spec=service).status == 201
    changed = place.patch(place.url("v1", "services", "a"), {"spec": {"type": "LoadBalancer"}})
    assert "services.loadbalancers=1" in forbidden(changed)


def test_a_quota_of_storage(place: Place) -> None:
    quota(place, {"requests.storage": "1Gi", "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "0"})
    for name, size, kind, status in (
        ("a", "512Mi", {}, 201),
        ("b", "1Gi", {}, 403),
        ("c", "1", {"storageClassName": "fast"}, 403),
    ):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **kind}
        made = place.create("v1", "PersistentVolumeClaim", "persistentvolumeclaims", metadata={"name": name}, spec=spec)
        assert made.status == status
    assert used(place)["requests.storage"] == "512Mi"


@pytest.mark.parametrize(
    ("scope", "counted"),
    [
        ({"scopes": ["BestEffort"]}, {}),
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 5}),
        (
            {"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
            ]}},
            {"priorityClassName": "system-node-critical"},
        ),
    ],
)  # fmt: skip
def test_a_quota_counts_the_pods_of_its_scope(place: Place, scope: dict[str, Any], counted: dict[str, Any]) -> None:
    quota(place, {"pods": "0"}, **scope)
    until(lambda: pod(place, "probe", "?dryRun=All", **counted).status == 403)
    assert forbidden(pod(place, **counted)).startswith("exceeded quota: q")
    assert pod(place, container={"resources": {"requests": {"cpu": "1"}}}).status == 201


# --- accounts --------------------------------------------------------------------------------------------------------


@pytest.fixture
def accounts() -> Iterator[Place]:
    """A namespace of the embedded server with accounts; the real one of this suite runs without the plugin."""
    with served(ApiServer(now=wall_clock, service_accounts=True), gc_delay=None) as url, wired(url) as wire:
        assert wire.send("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}}).status == 201
        yield Place(wire, "team")


def test_a_pod_gets_the_account_default_and_its_token(accounts: Place) -> None:
    """Measured on a kube-apiserver with the plugin, with all that the pod then has."""
    spec = pod(accounts, initContainers=[{"name": "i", "image": "i"}]).json["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert [list(source) for source in volume["projected"]["sources"]] == [
        ["serviceAccountToken"], ["configMap"], ["downwardAPI"]
    ]  # fmt: skip
    place = "/var/run/secrets/kubernetes.io/serviceaccount"
    mount = {"name": volume["name"], "readOnly": True, "mountPath": place}
    assert [container["volumeMounts"] for container in (*spec["initContainers"], *spec["containers"])] == [[mount]] * 2
    own = {"volumeMounts": [{"name": "v", "mountPath": place}]}
    assert pod(accounts, "b", container=own, volumes=[{"name": "v"}]).json["spec"]["volumes"] == [
        {"name": "v", "emptyDir": {}}
    ]
    assert "volumes" not in pod(accounts, "c", automountServiceAccountToken=False).json["spec"]


def test_an_account_says_what_its_pods_get_and_has_to_be_there(accounts: Place) -> None:
    account = {"metadata": {"name": "q"}, "automountServiceAccountToken": False, "imagePullSecrets": [{"name": "s"}]}
    assert accounts.wire.send("POST", accounts.url("v1", "serviceaccounts"), account).status == 201
    spec = pod(accounts, serviceAccountName="q").json["spec"]
    assert ("volumes" in spec, spec["imagePullSecrets"]) == (False, [{"name": "s"}])
    why = 'error looking up service account team/none: serviceaccount "none" not found'
    assert forbidden(pod(accounts, "b", serviceAccountName="none")) == why
    spec = {"serviceAccountName": "none", "containers": [{"name": "c", "image": "i"}]}
    body = {"metadata": {"generateName": "g-"}, "spec": spec}
    unnamed = accounts.wire.send("POST", accounts.url(*PODS), body)
    assert unnamed.json["message"].startswith('pods "g-" is forbidden: '), "it has no name yet"


def test_a_quota_refuses_a_pod_by_the_name_that_it_would_have(place: Place) -> None:
    quota(place, {"pods": "0"})
    body = {"metadata": {"generateName": "g-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    refusal = place.wire.send("POST", place.url(*PODS), body)
    assert re.match(r'pods "g-[a-z0-9]{5}" is forbidden: exceeded quota: q', refusal.json["message"])
