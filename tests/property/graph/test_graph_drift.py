"""Whether an apply would say anything new, where the schema is known (PH-2)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.controller.drift import needs_apply
from purekube.schema import compile_schema
from purekube.schema.builtin import built_in_schema

DEPLOYMENT = built_in_schema("apps/v1", "Deployment")
SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "ports": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                        "items": {
                            "type": "object",
                            "required": ["port"],
                            "properties": {
                                "port": {"type": "integer"},
                                "protocol": {"type": "string", "default": "TCP"},
                                "name": {"type": "string"},
                            },
                        },
                    },
                    "groups": {
                        "type": "array",
                        "x-kubernetes-list-type": "set",
                        "items": {"type": "string"},
                    },
                    "args": {"type": "array", "items": {"type": "string"}},
                },
            }
        },
    }
)


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A Deployment with these containers."""
    template = {"spec": {"containers": list(containers), **spec}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"template": template}}


OURS = {"name": "main", "image": "a:1", "resources": {"limits": {"cpu": "1000m", "memory": 1024}}}
LIVE = {**OURS, "resources": {"limits": {"cpu": "1", "memory": "1Ki"}}, "imagePullPolicy": "IfNotPresent"}
SIDECAR = {"name": "sidecar", "image": "b:1"}


@pytest.mark.parametrize(
    ("desired", "live", "differs"),
    [
        (pod(OURS), pod(SIDECAR, LIVE), False),
        (pod(OURS), pod(SIDECAR), True),
        (pod(OURS), pod({**LIVE, "image": "a:1.0"}), True),
        (pod({**OURS, "image": "1"}), pod({**LIVE, "image": "1.0"}), True),
        (pod(OURS), pod({**LIVE, "resources": {"limits": {"cpu": "2", "memory": "1Ki"}}}), True),
        (pod(OURS, hostNetwork=False, tolerations=[]), pod(LIVE), False),
        (pod(OURS, hostNetwork=True), pod(LIVE), True),
        (pod(OURS, hostNetwork=False), pod(LIVE, hostNetwork=True), True),
    ],
)
def test_graph_drift_of_a_built_in_kind(desired: dict[str, Any], live: dict[str, Any], differs: bool) -> None:
    """A sidecar is left alone, a quantity is a number, a text is a text, and what is empty is left out."""
    assert needs_apply(desired, live, DEPLOYMENT, drops_empty=True) is differs


def test_graph_drift_of_a_custom_resource_minds_what_is_missing() -> None:
    """Objects of CRDs keep a false as it was sent; a null asks for nothing."""
    assert needs_apply({"spec": {"on": False}}, {"spec": {}}, SCHEMA)
    assert not needs_apply({"spec": {"on": None}}, {"spec": {}}, SCHEMA)


PORTS = st.lists(
    st.fixed_dictionaries(
        {"port": st.integers(1, 3)}, optional={"protocol": st.sampled_from(["TCP", "UDP"]), "name": st.just("a")}
    ),
    unique_by=lambda port: (port["port"], port.get("protocol", "TCP")),
    max_size=4,
)


@given(PORTS, PORTS, st.randoms(use_true_random=False))
def test_graph_drift_of_a_keyed_list_asks_for_our_items_only(
    ours: list[dict[str, Any]], theirs: list[dict[str, Any]], random: Any
) -> None:
    """Whatever others add, and in whichever order; a field of ours that differs is seen."""
    mine = {(port["port"], port.get("protocol", "TCP")) for port in ours}
    added = [port for port in theirs if (port["port"], port.get("protocol", "TCP")) not in mine]
    live = [{"protocol": "TCP", "theirs": 1, **port} for port in (*ours, *added)]
    random.shuffle(live)

    assert not needs_apply({"spec": {"ports": ours}}, {"spec": {"ports": live}}, SCHEMA)
    for at in range(len(ours)):
        changed = [{**port, "name": "b"} if index == at else port for index, port in enumerate(ours)]
        assert needs_apply({"spec": {"ports": changed}}, {"spec": {"ports": live}}, SCHEMA)


@given(st.lists(st.sampled_from("abc"), unique=True), st.lists(st.sampled_from("abc"), unique=True))
def test_graph_drift_of_a_set_and_of_a_plain_list(ours: list[str], live: list[str]) -> None:
    """Of a set our items have to be there; a plain list is one value."""
    assert needs_apply({"spec": {"groups": ours}}, {"spec": {"groups": live}}, SCHEMA) is (not set(ours) <= set(live))
    assert needs_apply({"spec": {"args": ours}}, {"spec": {"args": live}}, SCHEMA) is (ours != live)
