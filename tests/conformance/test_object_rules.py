"""What a kube-apiserver refuses in claims, networking, budgets, bindings and Secrets beyond their schemas (RUN-9)."""

from typing import Any

import pytest

from tests.conformance.test_builtin_rules import Place, place, refused

__all__ = ["place"]

NETWORKING, RBAC = "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1"
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def ingress(**rule: Any) -> dict[str, Any]:
    path_type, backend = rule.pop("type", "Prefix"), rule.pop("backend", BACKEND)
    paths = [{"path": rule.pop("path", "/"), "pathType": path_type, "backend": backend}]
    return {"rules": [{"http": {"paths": paths}, **rule}]}


def claim(**spec: Any) -> dict[str, Any]:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}


def policy(**rule: Any) -> dict[str, Any]:
    return {"podSelector": {}, "ingress": [rule]}


PATH, PEER = "spec.rules[0].http.paths[0]", "spec.ingress[0].from[0]"
Case = tuple[str, str, str, dict[str, Any], set[str]]
OF_CLAIMS: dict[str, Case] = {
    f"a claim {how}": ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", spec, {cause})
    for how, spec, cause in (
        (
            "of an unknown mode",
            claim(accessModes=["Foo"]),
            'spec.accessModes: Unsupported value: "Foo": supported values: "ReadOnlyMany", "ReadWriteMany", '
            '"ReadWriteOnce", "ReadWriteOncePod"',
        ),
        (
            "of nothing",
            claim(resources={"requests": {"storage": "0"}}),
            'spec.resources[storage]: Invalid value: "0": must be greater than zero',
        ),
        (
            "of a class with a bad name",
            claim(storageClassName="A_b"),
            f'spec.storageClassName: Invalid value: "A_b": {SUBDOMAIN}',
        ),
    )
}
OF_INGRESSES: dict[str, Case] = {
    f"an ingress {how}": (NETWORKING, "Ingress", "ingresses", spec, {cause})
    for how, spec, cause in (
        ("for a bad host", ingress(host="A_b"), f'spec.rules[0].host: Invalid value: "A_b": {SUBDOMAIN}'),
        (
            "for an address",
            ingress(host="1.2.3.4"),
            'spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address',
        ),
        ("without paths", {"rules": [{"http": {"paths": []}}]}, "spec.rules[0].http.paths: Required value"),
        ("with an empty step", ingress(path="/a//b"), f"{PATH}.path: Invalid value: \"/a//b\": must not contain '//'"),
        ("with a step up", ingress(path="/a/.."), f"{PATH}.path: Invalid value: \"/a/..\": cannot end with '/..'"),
        ("with a step nowhere", ingress(path="/a/."), f"{PATH}.path: Invalid value: \"/a/.\": cannot end with '/.'"),
        (
            "with a path of no root",
            ingress(path="a", type="ImplementationSpecific"),
            f'{PATH}.path: Invalid value: "a": must be an absolute path',
        ),
        (
            "with a path of an unknown type",
            ingress(type="Regex"),
            f'{PATH}.pathType: Unsupported value: "Regex": supported values: "Exact", "ImplementationSpecific", '
            '"Prefix"',
        ),
        (
            "to a port out of range",
            ingress(backend={"service": {"name": "web", "port": {"number": 70000}}}),
            f"{PATH}.backend.service.port.number: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            "to a port with a long name",
            ingress(backend={"service": {"name": "web", "port": {"name": "a-port-of-a-long-name"}}}),
            f'{PATH}.backend.service.port.name: Invalid value: "a-port-of-a-long-name": must be no more than 15 '
            "characters",
        ),
        (
            "to nothing",
            {"defaultBackend": {}},
            'spec.defaultBackend: Invalid value: "": resource or service backend is required',
        ),
        (
            "to no port",
            ingress(backend={"service": {"name": "web"}}),
            f"{PATH}.backend: Required value: port name or number is required",
        ),
        (
            "to two ports",
            ingress(backend={"service": {"name": "web", "port": {"number": 80, "name": "http"}}}),
            f'{PATH}.backend: Invalid value: "": cannot set both port name & port number',
        ),
        (
            "of a class with a bad name",
            {"defaultBackend": BACKEND, "ingressClassName": "A_b"},
            f'spec.ingressClassName: Invalid value: "A_b": {SUBDOMAIN}',
        ),
    )
}
OF_POLICIES: dict[str, Case] = {
    f"a policy {how}": (NETWORKING, "NetworkPolicy", "networkpolicies", spec, {cause})
    for how, spec, cause in (
        ("for nobody", policy(**{"from": [{}]}), f"{PEER}: Required value: must specify a peer"),
        (
            "for no network",
            policy(**{"from": [{"ipBlock": {"cidr": "x"}}]}),
            f'{PEER}.ipBlock.cidr: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)',
        ),
        (
            "for two at once",
            policy(**{"from": [{"ipBlock": {"cidr": "1.2.3.0/24"}, "podSelector": {}}]}),
            f"{PEER}: Forbidden: may not specify both ipBlock and another peer",
        ),
        (
            "of a port out of range",
            policy(ports=[{"port": 99999}]),
            "spec.ingress[0].ports[0].port: Invalid value: 99999: must be between 1 and 65535, inclusive",
        ),
        (
            "of an unknown type",
            {"podSelector": {}, "policyTypes": ["Foo"]},
            'spec.policyTypes[0]: Unsupported value: "Foo": supported values: "Ingress", "Egress"',
        ),
    )
}
OF_PODS: dict[str, Case] = {
    "a budget above all": (
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        {"minAvailable": "150%"},
        {'spec.minAvailable: Invalid value: "150%": must not be greater than 100%'},
    ),
    "a budget below none": (
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        {"maxUnavailable": -1},
        {"spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"},
    ),
    "an autoscaler without an aim": (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}],
        },
        {
            "spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value "
            "or a target utilization"
        },
    ),
}
WRONG: dict[str, Case] = {**OF_CLAIMS, **OF_INGRESSES, **OF_POLICIES, **OF_PODS}


@pytest.mark.slow
@pytest.mark.parametrize("how", WRONG)
def test_what_could_not_work_is_refused(place: Place, how: str) -> None:
    group, kind, plural, spec, expected = WRONG[how]

    causes = refused(place.create(group, kind, plural, spec=spec))

    assert sorted(f"{field}: {text}" for field, text in causes) == sorted(expected)


def test_a_budget_of_two_numbers_is_refused(place: Place) -> None:
    spec = {"minAvailable": 1, "maxUnavailable": 1}

    [(field, text)] = refused(place.create("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", spec=spec))

    assert field == "spec"
    assert text.endswith("minAvailable and maxUnavailable cannot be both set")


def test_a_claim_grows_only_once_it_is_bound(place: Place) -> None:
    fast = {"metadata": {"name": place.namespace}, "provisioner": "example.com/disk", "allowVolumeExpansion": True}
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **fast}
    assert place.wire.send("POST", "/apis/storage.k8s.io/v1/storageclasses", body).status == 201
    assert place.create("v1", "PersistentVolumeClaim", "persistentvolumeclaims", spec=claim()).status == 201
    url, more = place.url("v1", "persistentvolumeclaims", "a"), {"resources": {"requests": {"storage": "2Gi"}}}

    [(field, text)] = refused(place.patch(url, {"spec": more}))
    with_class = place.patch(url, {"spec": {"storageClassName": place.namespace}})
    other_class = place.patch(url, {"spec": {"storageClassName": "slow"}})
    assert place.patch(url, {"spec": {"volumeName": "pv1"}}).status == 200
    assert place.patch(f"{url}/status", {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}).status == 200
    grown = place.patch(url, {"spec": more})

    assert (field, text.partition("\n")[0]) == (
        "spec",
        "Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for "
        "bound claims",
    )
    assert (with_class.status, other_class.status, grown.status) == (200, 422, 200)


def test_an_account_without_a_namespace_is_one_of_the_bindings_own(place: Place) -> None:
    fields = {"roleRef": {"kind": "Role", "name": "x"}, "subjects": [{"kind": "ServiceAccount", "name": "a"}]}

    bound = place.create(RBAC, "RoleBinding", "rolebindings", **fields)
    body = {"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": place.namespace}, **fields}
    body["roleRef"] = {"kind": "ClusterRole", "name": "x"}
    everywhere = place.wire.send("POST", f"/apis/{RBAC}/clusterrolebindings", body)

    assert bound.status == 201
    assert refused(everywhere) == [("subjects[0].namespace", "Required value")]


def test_a_binding_of_nobody_and_a_role_outside_its_namespace_are_refused(place: Place) -> None:
    reference = {"kind": "Role", "name": "x"}
    unknown = place.create(
        RBAC, "RoleBinding", "rolebindings", roleRef=reference, subjects=[{"kind": "Foo", "name": "a"}]
    )
    role = place.create(RBAC, "Role", "roles", rules=[{"nonResourceURLs": ["/x"], "verbs": ["get"]}])

    text = 'Unsupported value: "Foo": supported values: "ServiceAccount", "User", "Group"'
    assert refused(unknown) == [("subjects[0].kind", text)]
    [(field, text)] = refused(role)
    assert (field, text.rpartition(": ")[2]) == (
        "rules[0].nonResourceURLs",
        "namespaced rules cannot apply to non-resource URLs",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "data", "missing"),
    [
        ("basic-auth", {}, {"data[username]", "data[password]"}),
        ("basic-auth", {"username": "eA=="}, set()),
        ("ssh-auth", {"ssh-privatekey": ""}, {"data[ssh-privatekey]"}),
        ("dockerconfigjson", {".dockerconfigjson": "eA=="}, {"data[.dockerconfigjson]"}),
        ("dockerconfigjson", {".dockerconfigjson": "e30="}, set()),
    ],
)
def test_a_Secret_has_what_its_type_says(place: Place, kind: str, data: dict[str, str], missing: set[str]) -> None:
    answer = place.create("v1", "Secret", "secrets", type=f"kubernetes.io/{kind}", data=data)

    assert answer.status == (422 if missing else 201)
    assert not missing or {field for field, _ in refused(answer)} == missing
