"""What objects with random changes showed to be different on a kube-apiserver (RUN-8, RUN-9)."""

from typing import Any, Final

from tests.conformance.test_builtin_rules import Place, place, refused
from tests.support.server_thread import Answer

__all__ = ["place"]

STRATEGIC: Final = "application/strategic-merge-patch+json"
SELECTOR: Final = {"matchLabels": {"a": "b"}}
CLAIM: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def workload(place: Place, kind: str, container: dict[str, Any] | None = None, **spec: Any) -> Answer:
    pods = {"containers": [{"name": "c", "image": "i", **(container or {})}], **spec.pop("pods", {})}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pods}
    whole = {"selector": SELECTOR, "template": template, **spec}
    return place.create("apps/v1", kind, f"{kind.lower()}s", spec=whole)


def delete(place: Place, plural: str) -> None:
    place.wire.send("DELETE", place.url("apps/v1", plural, "a"))


def fields(answer: Answer) -> list[str]:
    return [field for field, _ in refused(answer)]


def test_values_that_mean_nothing_are_not_stored(place: Place) -> None:
    """As by Go's tag omitempty: an operator that compares them with what it wants has to know."""
    ports = [{"containerPort": 1, "hostPort": 0, "hostIP": "", "protocol": ""}]
    container = {"stdin": False, "workingDir": "", "env": [{"name": "A", "value": ""}], "ports": ports}
    pods = {"hostNetwork": False, "hostPID": False, "nodeName": "", "schedulerName": ""}
    made = workload(place, "Deployment", container, minReadySeconds=0, paused=False, replicas=0, pods=pods)
    assert made.status == 201, made.json["message"]
    spec = made.json["spec"]
    assert {"minReadySeconds", "paused"}.isdisjoint(spec)
    assert spec["replicas"] == 0
    stored = spec["template"]["spec"]
    assert {"hostNetwork", "hostPID", "nodeName"}.isdisjoint(stored)
    assert stored["schedulerName"] == "default-scheduler"
    (one,) = stored["containers"]
    assert {"stdin", "workingDir"}.isdisjoint(one)
    assert (one["env"], one["ports"]) == ([{"name": "A"}], [{"containerPort": 1, "protocol": "TCP"}])
    again = place.patch(place.url("apps/v1", "deployments", "a"), {"spec": {"paused": False}})
    assert again.json["metadata"]["resourceVersion"] == made.json["metadata"]["resourceVersion"]


def test_the_templates_of_claims_are_shown_as_claims(place: Place) -> None:
    template = {"metadata": {"name": "d"}, "spec": CLAIM}
    made = workload(place, "StatefulSet", serviceName="s", volumeClaimTemplates=[template])
    (stored,) = made.json["spec"]["volumeClaimTemplates"]
    assert (stored["kind"], stored["apiVersion"]) == ("PersistentVolumeClaim", "v1")
    assert stored["status"] == {"phase": "Pending"}
    assert stored["spec"]["volumeMode"] == "Filesystem"
    url = place.url("apps/v1", "statefulsets", "a")
    spec = place.wire.send("GET", url).json["spec"] | {"volumeClaimTemplates": [template], "replicas": 2}
    put = place.wire.send("PUT", url, {"metadata": {"name": "a"}, "spec": spec})
    assert (put.status, put.json["spec"]["replicas"]) == (200, 2)


def test_the_template_of_a_claim_has_the_rules_of_a_claim(place: Place) -> None:
    where = "spec.volumeClaimTemplates[0].spec"
    for wrong, at in (
        ({"accessModes": []}, "accessModes"),
        ({"accessModes": ["x"]}, "accessModes"),
        ({"resources": {}}, "resources[storage]"),
        ({"volumeMode": "x"}, "volumeMode"),
    ):
        template = {"metadata": {"name": "d"}, "spec": {**CLAIM, **wrong}}
        answer = workload(place, "StatefulSet", serviceName="s", volumeClaimTemplates=[template])
        assert fields(answer) == [f"{where}.{at}"], wrong


def test_a_workload_selects_its_own_pods_in_a_known_way(place: Place) -> None:
    owners = {"ReplicaSet": "deployment", "StatefulSet": "statefulset", "DaemonSet": "daemonset"}
    for kind, owner in {"Deployment": "deployment", **owners}.items():
        text = f"Invalid value: {{}}: empty selector is invalid for {owner}"
        assert refused(workload(place, kind, selector={})) == [("spec.selector", text)]
    for kind in ("StatefulSet", "DaemonSet"):
        assert fields(workload(place, kind, updateStrategy={"type": "Foo"})) == ["spec.updateStrategy"]


def test_an_image_that_is_no_reference_is_not_that_of_latest(place: Place) -> None:
    always, other = "Always", "IfNotPresent"
    for image, policy in (("a", always), ("r.example.com:5/a/b", always), ("A", other), ("r/A", other)):
        made = workload(place, "ReplicaSet", {"image": image})
        assert made.json["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] == policy, image
        delete(place, "replicasets")


def test_rules_of_kinds_that_were_left_out(place: Place) -> None:
    networking = "networking.k8s.io/v1"
    for port, at in (
        ({"port": 80, "protocol": "X"}, "protocol"),
        ({"port": 90, "endPort": 80}, "endPort"),
        ({"endPort": 80}, "endPort"),
        ({"port": "http", "endPort": 80}, "endPort"),
    ):
        spec = {"podSelector": {}, "ingress": [{"ports": [port]}]}
        answer = place.create(networking, "NetworkPolicy", "networkpolicies", spec=spec)
        assert fields(answer) == [f"spec.ingress[0].ports[0].{at}"], port
    backend = {"service": {"name": "a b", "port": {"number": 80}}}
    answer = place.create(networking, "Ingress", "ingresses", spec={"defaultBackend": backend})
    assert fields(answer) == ["spec.defaultBackend.service.name"]
    budget = {"minAvailable": 1, "selector": SELECTOR, "unhealthyPodEvictionPolicy": "x"}
    answer = place.create("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", spec=budget)
    assert fields(answer) == ["spec.unhealthyPodEvictionPolicy"]
    claim = place.create("v1", "PersistentVolumeClaim", "persistentvolumeclaims", spec={**CLAIM, "volumeMode": "x"})
    assert fields(claim) == ["spec.volumeMode"]
    role = {"kind": "Role", "name": "a", "apiGroup": "x"}
    binding = place.create("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", roleRef=role)
    assert fields(binding) == ["roleRef.apiGroup"]


def test_a_strategic_merge_patch_names_the_items_that_it_merges(place: Place) -> None:
    assert workload(place, "Deployment").status == 201
    patch = {"spec": {"template": {"spec": {"containers": [{"image": "j"}]}}}}
    answer = place.patch(place.url("apps/v1", "deployments", "a"), patch, STRATEGIC)
    text = "map: map[image:j] does not contain declared merge key: name"
    assert (answer.status, answer.json["message"]) == (500, text)


def test_the_paths_of_a_definition_lead_to_fields(place: Place) -> None:
    properties = {"a": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": "object"}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    below = "subresources.scale"
    for more, at in (
        ({"selectableFields": [{"jsonPath": ".spec.a"}], "subresources": {"scale": scale}}, None),
        ({"selectableFields": [{"jsonPath": ".spec.x"}]}, "selectableFields[0].jsonPath"),
        ({"selectableFields": [{"jsonPath": ".spec.o"}]}, "selectableFields[0].jsonPath"),
        ({"subresources": {"scale": {**scale, "statusReplicasPath": "x"}}}, f"{below}.statusReplicasPath"),
        (
            {"subresources": {"scale": {**scale, "specReplicasPath": ".status.n"}}},
            "subresources.scale.specReplicasPath",
        ),
        ({"subresources": {"scale": {**scale, "labelSelectorPath": ".x"}}}, f"{below}.labelSelectorPath"),
    ):
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **more}
        names = {"kind": "Q", "plural": "qs"}
        spec = {"group": "drawn.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
        body = {"metadata": {"name": "qs.drawn.example.com"}, "spec": spec}
        url = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All"
        answer = place.wire.send("POST", url, body)
        if at is None:
            assert answer.status == 201
        else:
            assert fields(answer) == [f"spec.{at}"], more


def test_the_port_of_a_probe_has_the_rules_of_ports(place: Place) -> None:
    for handler, port in (("httpGet", "-http"), ("tcpSocket", "a--b"), ("httpGet", 0), ("grpc", 70000)):
        answer = workload(place, "ReplicaSet", {"livenessProbe": {handler: {"port": port}}})
        assert fields(answer) == [f"spec.template.spec.containers[0].livenessProbe.{handler}.port"], port


def test_a_number_in_a_query_is_written_as_one(place: Place) -> None:
    for number in ("1_0", " 1", "1.0", "x"):
        answer = place.wire.send("GET", f"{place.url('v1', 'configmaps')}?limit={number.replace(' ', '%20')}")
        assert answer.status == 400, number
        assert f'strconv.ParseInt: parsing "{number}": invalid syntax' in answer.json["message"]
