"""Types of Services: what each refuses, and which fields go when the type changes, as on a kube-apiserver (RUN-9)."""

from typing import Any

import pytest

from tests.conformance.test_builtin_rules import APPLY, Place, place, refused

__all__ = ["place"]

PORTS = [{"port": 80}]
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def create(place: Place, **spec: Any) -> Any:
    return place.create("v1", "Service", "services", spec={"ports": PORTS, "selector": {"a": "b"}, **spec})


def changed(place: Place, **spec: Any) -> dict[str, Any]:
    """The spec after a change."""
    answer = place.patch(place.url("v1", "services", "a"), {"spec": spec})
    assert answer.status == 200, answer.json
    after: dict[str, Any] = answer.json["spec"]
    return after


def test_a_load_balancer_without_ports_of_nodes_gets_none_and_keeps_those_that_it_has(place: Place) -> None:
    made = create(place, type="LoadBalancer", allocateLoadBalancerNodePorts=False).json["spec"]
    given = changed(place, allocateLoadBalancerNodePorts=True)
    kept = changed(place, allocateLoadBalancerNodePorts=False)
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {**made, "ports": PORTS}}
    replaced = place.wire.send("PUT", place.url("v1", "services", "a"), body).json["spec"]

    held = [["nodePort" in port for port in spec["ports"]] for spec in (made, given, kept, replaced)]
    assert held == [[False], [True], [True], [False]]


WRONG: dict[str, tuple[dict[str, Any], set[str]]] = {
    "an alias of nothing": ({"type": "ExternalName"}, {"spec.externalName: Required value"}),
    "an alias with an address": (
        {"type": "ExternalName", "externalName": "a.b", "clusterIP": "10.0.0.77"},
        {"spec.clusterIPs: Forbidden: may not be set for ExternalName services"},
    ),
    "a headless one with ports of nodes": (
        {"type": "NodePort", "clusterIP": "None"},
        {"spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"},
    ),
    "a port of nodes without its type": (
        {"ports": [{"port": 80, "nodePort": 30129}]},
        {"spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"},
    ),
    "a port of nodes out of range": (
        {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]},
        {
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid "
            "ports is 30000-32767"
        },
    ),
    "two ports of one name": (
        {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]},
        {'spec.ports[1].name: Duplicate value: "a"'},
    ),
    "a port with a bad name": (
        {"ports": [{"port": 80, "name": "A_b"}]},
        {f'spec.ports[0].name: Invalid value: "A_b": {LABEL}'},
    ),
    "a target with a bad name": (
        {"ports": [{"port": 80, "targetPort": "-"}]},
        {
            'spec.ports[0].targetPort: Invalid value: "-": must contain at least one letter (a-z)',
            'spec.ports[0].targetPort: Invalid value: "-": must not begin or end with a hyphen',
        },
    ),
    "a target out of range": (
        {"ports": [{"port": 80, "targetPort": 70000}]},
        {"spec.ports[0].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive"},
    ),
    "a class without its type": (
        {"loadBalancerClass": "x/y"},
        {"spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"},
    ),
    "sources without their type": (
        {"loadBalancerSourceRanges": ["1.2.3.0/24"]},
        {"spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"},
    ),
    "a policy for outside traffic without any": (
        {"externalTrafficPolicy": "Local"},
        {'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services'},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", WRONG)
def test_a_type_of_Service_refuses_what_is_another_types(place: Place, how: str) -> None:
    spec, expected = WRONG[how]

    causes = refused(create(place, **spec))

    assert sorted(f"{field}: {text}" for field, text in causes) == sorted(expected)


def test_ports_of_nodes_come_and_go_with_the_type(place: Place) -> None:
    plain = create(place).json["spec"]

    nodes = changed(place, type="NodePort")
    balanced = changed(place, type="LoadBalancer", externalTrafficPolicy="Local")
    back = changed(place, type="ClusterIP")

    assert 30000 <= nodes["ports"][0]["nodePort"] <= 32767
    assert nodes["externalTrafficPolicy"] == "Cluster"
    assert balanced["ports"] == nodes["ports"]
    assert (balanced["allocateLoadBalancerNodePorts"], "healthCheckNodePort" in balanced) == (True, True)
    assert back == plain


def test_a_port_keeps_its_port_of_nodes_by_its_name(place: Place) -> None:
    first = create(place, type="NodePort").json["spec"]["ports"][0]

    moved = changed(place, ports=[{"port": 81}])["ports"][0]

    assert (moved["port"], moved["nodePort"]) == (81, first["nodePort"])


def test_an_alias_has_no_address_and_gets_one_with_another_type(place: Place) -> None:
    create(place)

    alias = changed(place, type="ExternalName", externalName="a.b")
    back = changed(place, type="ClusterIP", externalName=None)

    assert not alias.keys() & {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"}
    assert back["clusterIPs"] == [back["clusterIP"]]
    assert (back["internalTrafficPolicy"], back["ipFamilies"]) == ("Cluster", ["IPv4"])


def test_an_apply_of_another_type_needs_to_name_no_port_of_nodes(place: Place) -> None:
    url = f"{place.url('v1', 'services', 'a')}?fieldManager=x"
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}

    specs = [
        place.patch(url, {**body, "spec": {"type": kind, "ports": PORTS}}, APPLY).json["spec"]
        for kind in ("NodePort", "ClusterIP", "NodePort")
    ]

    assert ["nodePort" in spec["ports"][0] for spec in specs] == [True, False, True]
    assert ["externalTrafficPolicy" in spec for spec in specs] == [True, False, True]


def test_sessions_have_a_time_while_they_are_kept(place: Place) -> None:
    kept = create(place, sessionAffinity="ClientIP").json["spec"]

    assert kept["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}
    assert "sessionAffinityConfig" not in changed(place, sessionAffinity="None")


def test_the_name_of_a_Service_may_begin_with_a_digit_since_1_36(place: Place) -> None:
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "7up"}, "spec": {"ports": PORTS}}

    assert place.wire.send("POST", place.url("v1", "services"), body).status == 201


def test_a_target_of_0_is_the_port_itself(place: Place) -> None:
    answer = create(place, ports=[{"port": 80, "targetPort": 0}])

    assert answer.json["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]


def test_the_refusal_of_another_address_names_the_wanted_one(place: Place) -> None:
    create(place, clusterIP="None")

    answer = place.patch(place.url("v1", "services", "a"), {"spec": {"clusterIP": "10.0.0.50"}})

    assert refused(answer) == [("spec.clusterIPs[0]", 'Invalid value: ["10.0.0.50"]: may not change once set')]


def test_a_port_that_is_put_before_another_gets_a_free_port_of_the_nodes(place: Place) -> None:
    made = place.create("v1", "Service", "services", spec={"type": "NodePort", "ports": [{"name": "a", "port": 80}]})
    held = made.json["spec"]["ports"][0]["nodePort"]
    ports = [{"name": "b", "port": 81}, {"name": "a", "port": 80}]
    changed = place.patch(place.url("v1", "services", "a"), {"spec": {"ports": ports}})
    assert changed.status == 200, changed.json["message"]
    first, second = changed.json["spec"]["ports"]
    assert second["nodePort"] == held != first["nodePort"]
