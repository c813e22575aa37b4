"""A box and the schemas of its kinds: what is a dependency, and what is refused when the file is read (PH-1, PH-4)."""

from typing import Any

import pytest

from purekube.boxes.box import Box
from purekube.boxes.model import ApplyMode
from tests.support.boxes import box_of, config, crd, deployment, examined, secret, told


def edges(box: Box, identifier: str) -> set[tuple[str, str]]:
    node = box.node(identifier)
    assert node is not None
    return {(edge.to, edge.until.name) for edge in node.edges}


def only(found: Any) -> str:
    (problem,) = told(found)
    return problem


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("${web.metadata.name}", "APPLIED"),
        ("${web.spec.template.spec.containers[0].image}", "APPLIED"),
        ("${web.metadata.uid}", "OBSERVED"),
        ("${string(web.status.readyReplicas)}", "READY"),
        ("${string(web.?status.?readyReplicas.orValue(0))}", "NOTHING"),
        ("${hash(web)}", "READY"),
        ("${children.deployment.metadata.name}", "APPLIED"),
        ("${children.deployment.web.metadata.uid}", "OBSERVED"),
        ("${string(size(children.deployment[*]))}", "APPLIED"),
    ],
)
def test_box_edges_follow_from_the_path(text: str, until: str) -> None:
    """D4: what we render is known, other fields are waited for, a status until it is ready, `.?` never."""
    box = box_of(deployment("web"), config("a", data={"x": text}))
    assert edges(box, "a") == {("web", until)}


def test_box_nodes_stand_in_topological_order_with_their_waves() -> None:
    box = box_of(config("b", data={"x": "${a.metadata.name}"}), config("a"), config("c", dependsOn=["b"]))
    assert [(node.id, node.wave) for node in box.nodes] == [("a", 0), ("b", 1), ("c", 2)]


def test_box_cycle_is_refused_with_its_path() -> None:
    """L6."""
    first, second = config("a", data={"x": "${b.metadata.name}"}), config("b", data={"x": "${a.metadata.name}"})
    assert "these wait for each other: a → b → a" in only(examined(first, second))


def test_box_soft_references_make_no_cycle() -> None:
    first = config("a", data={"x": "${b.?data.?x}"})
    assert examined(first, config("b", data={"x": "${a.metadata.name}"})).problems == ()


def test_box_phases_say_how_often_their_resources_are_written() -> None:
    phase = {"name": "first", "on": "create", "resources": [config("a"), config("b", reconcile=True)]}
    box = box_of(phases=[phase, {"name": "last", "on": "delete", "resources": [config("c")]}])
    assert [node.apply for node in box.nodes] == [ApplyMode.ONCE, ApplyMode.ALWAYS]
    assert [node.id for phase_nodes in box.drains for node in phase_nodes] == ["c"]


@pytest.mark.parametrize(
    ("gate", "choice"),
    [
        ("${has(self.spec.host)}", True),
        ({"field": "spec.host", "exists": True}, True),
        ("${isReady(web)}", False),
        ({"field": "children.deployment.status.readyReplicas", "equals": 2}, False),
    ],
)
def test_box_gate_of_the_parent_alone_is_a_choice(gate: Any, choice: bool) -> None:
    """D13: a gate that looks at children is a wait."""
    box = box_of(deployment("web"), config("a", when=[gate]))
    (found,) = next(node for node in box.nodes if node.id == "a").when_conditions
    assert found.is_choice is choice
    said = box_of(deployment("web"), config("a", when=[gate], optional=not choice))
    assert next(node for node in said.nodes if node.id == "a").when_conditions[0].is_choice is not choice


def test_box_for_each_stands_for_a_list_elsewhere_and_for_an_item_in_ready_when() -> None:
    each = {"p": "${self.spec.parts}", "key": "${p.name}"}
    part = deployment("part", "${p.name}", {"replicas": "${p.?replicas}"}, forEach=each)
    ready = "${part.status.availableReplicas >= self.spec.replicas}"
    service = config("b", "${d.metadata.name}-b", forEach={"d": "${part}", "key": "${d.metadata.name}"})
    box = box_of({**part, "readyWhen": [ready]}, service, config("c", data={"n": "${string(size(part))}"}))
    assert edges(box, "b") == edges(box, "c") == {("part", "APPLIED")}


def test_a_list_that_is_made_of_another_resource_waits_for_it_although_no_template_reads_it() -> None:
    names = {"n": "${[web.metadata.name]}", "key": "${n}"}
    found = {("web", "APPLIED"), ("web", "OBSERVED")}
    assert edges(box_of(deployment("web"), config("b", "${n}-b", forEach=names)), "b") == found


WRONG: list[tuple[str, Any, str]] = [
    ("a field that is not there", config("a", data={"x": "${self.spec.imag}"}), "did you mean 'image'?"),
    ("a field that may be absent", config("a", data={"x": "${self.spec.host}"}), "write self.spec.?host"),
    ("a number in a text", config("a", data={"x": "r${self.spec.replicas}"}), "write string(…)"),
    ("a number for a text", config("a", data={"x": "${self.spec.replicas}"}), "expected string, found int"),
    ("a text for a number", deployment("a", spec={"replicas": "${self.spec.image}"}), "expected integer, found string"),
    ("a literal of a wrong type", deployment("a", spec={"replicas": "two"}), "expected integer, found a string"),
    ("a field of the template", deployment("a", spec={"replica": 1}), "undefined field; did you mean replicas?"),
    (
        "another id",
        config("a", data={"x": "${wep.metadata.name}"}),
        "undeclared reference to 'wep'; did you mean 'web'?",
    ),
    ("a variable of the shell", config("a", data={"x": "${HOME}"}), "a shell variable? write $${HOME}"),
    ("no end of an expression", config("a", data={"x": "${self.spec.image"}), "${ without its }"),
    ("its own id", config("a", data={"x": "${a.metadata.uid}"}), "a cannot read itself"),
    ("a kind that is no literal", {"id": "a", "template": {"apiVersion": "v1", "kind": "${x}"}}, "must be a literal"),
    ("an unknown kind", {"id": "a", "template": {"apiVersion": "v1", "kind": "Deploymen"}}, "did you mean Deployment?"),
    ("another group", {"id": "a", "template": {"apiVersion": "v1", "kind": "Deployment"}}, "apiVersion: apps/v1"),
    (
        "generateName",
        {"id": "a", "template": {**config("a")["template"], "metadata": {"generateName": "x"}}},
        "each pass",
    ),
    ("a taken id", config("self"), "has a meaning of its own"),
    ("the id of another", config("web"), "is the id of spec.resources[0] already"),
    ("the object of another", config("a", "x"), "is the object that x writes already"),
    ("a dependency that is not there", config("a", dependsOn=["wep"]), "did you mean web?"),
    ("a gate of no type", config("a", when=["${self.spec.image}"]), "must give true or false, not string"),
    ("a gate that is optional", config("a", when=["${self.spec.?host}"]), "add .orValue(…)"),
    ("a gate without an expression", config("a", when=["true"]), "must be a gate such as"),
    ("a gate on no field", config("a", when=[{"field": "web.status.readyReplica", "equals": 1}]), "'readyReplicas'"),
    ("a gate of other types", config("a", when=[{"field": "spec.image", "equals": 3}]), "(string, int)"),
    (
        "another namespace",
        config("a", data={}) | {"template": {**config("a")["template"], "metadata": {"name": "a", "namespace": "b"}}},
        "owner: Label",
    ),
    ("drawn every time", secret("a", generate={"data.p": {}}), "apply: IfAbsent"),
    ("drawn into the open", config("a", apply="Once", generate={"data.p": {}}), "only data of a Secret"),
    ("no list", config("a", forEach={"p": "${self.spec.image}", "key": "${p}"}), "must give a list, not string"),
    (
        "a field of the server",
        config("a") | {"template": {**config("a")["template"], "metadata": {"name": "a", "uid": "x"}}},
        "API server alone",
    ),
    (
        "two of a kind",
        config("a", data={"x": "${children.configmap.metadata.name}"}),
        "several resources are of that kind",
    ),
    (
        "no child of a kind",
        config("a", data={"x": "${children.deploymnt.metadata.name}"}),
        "did you mean children.deployment?",
    ),
]


@pytest.mark.parametrize(("resource", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_box_tells_what_is_wrong_and_what_to_write(resource: Any, message: str) -> None:
    others = [deployment("web"), config("x"), config("y")]
    assert message in only(examined(*others, resource))


def test_box_status_that_the_crd_would_drop_is_refused() -> None:
    """Trap c: a field that the CRD does not declare would be written for ever."""
    examination = examined(config("a"), status={"fields": {"adress": "${self.spec.image}"}})
    assert "declares no status.adress; did you mean address?" in only(examination)
    bare = crd(status={"type": "object", "properties": {}})
    assert any("add to the schema of the status: conditions" in line for line in told(examined(config("a"), kind=bare)))


def test_box_status_fields_have_the_types_of_the_crd() -> None:
    assert "expected integer, found string" in only(
        examined(config("a"), status={"fields": {"ready": "${self.spec.image}"}})
    )
    assert examined(config("a"), status={"fields": {"ready": "${size(self.spec.parts)}"}}).problems == ()
