"""The traps that others fell into, as far as they show in a box's file (boxes, section 8)."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind
from purekube.boxes.decision.decide import composite_of
from purekube.boxes.schemas import CrdProblem, CrdVersions, Schemas
from purekube.boxes.templates import text_parts, whole_expression
from purekube.cel import BOOL, Program
from purekube.cel.json_values import as_json
from purekube.schema import compile_schema
from tests.support.boxes import STATUS, box_of, config, crd, deployment, examined, secret, told


def named(box: Any, identifier: str) -> Any:
    return next(node for node in box.nodes if node.id == identifier)


def test_trap_3_ready_when_is_compiled_and_typed() -> None:
    """kro lost it twice in refactorings."""
    box = box_of(deployment("web", readyWhen=["${web.status.availableReplicas >= self.spec.replicas}"]))
    (ready,) = named(box, "web").ready
    assert ready.program.type == BOOL
    assert ready.holds({"self": {"spec": {"replicas": 2}}, "web": {"status": {"availableReplicas": 2}}})
    assert "must give true or false" in told(examined(deployment("web", readyWhen=["${web.metadata.name}"])))[0]


@pytest.mark.parametrize("field", ["resourceVersion", "generation", "managedFields"])
@pytest.mark.parametrize("whose", ["self", "web"])
def test_trap_7_a_name_is_not_made_of_what_changes_by_itself(whose: str, field: str) -> None:
    """A new object in every pass."""
    text = f"a-${{hash({whose}.metadata.{'?' if field == 'managedFields' else ''}{field})}}"
    for resource in (
        config("a", text),
        config("b", forEach={"p": "${self.spec.parts}", "key": f"${{p.name + '{text[:2]}' + hash({text[9:-2]})}}"}),
    ):
        found = told(examined(deployment("web"), resource))
        assert any("is a new object in each pass" in line for line in found), found


def test_trap_7_a_template_does_not_chase_a_status_that_is_made_of_it() -> None:
    reader = config("a", data={"x": "${string(self.?status.?ready.orValue(0))}"})
    status = {"fields": {"ready": "${size(a.data)}"}}
    assert any("would never settle" in line for line in told(examined(reader, status=status)))
    further = config("b", data={"x": "${a.data.x}"})
    status = {"fields": {"ready": "${size(b.data)}"}}
    assert any("would never settle" in line for line in told(examined(reader, further, status=status)))
    assert examined(reader, config("b"), status={"fields": {"ready": "${size(b.data)}"}}).problems == ()


def test_trap_10_kinds_are_known_from_files_and_what_is_not_known_is_named() -> None:
    """No cluster is asked; a kind may also be declared."""
    widget = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"any": 1}}
    resource = {"id": "w", "template": widget}
    assert "give its CRD with --crds, or declare it under spec.kinds" in told(examined(resource))[0]


def test_trap_11_islands_without_types_are_told_and_refuse_nothing() -> None:
    """preserve-unknown-fields, int-or-string, numbers, what may be null."""
    free, port = "${string(self.spec.?free.?any.?thing.orValue('x'))}", "${self.spec.?port.hasValue() ? 'y' : 'n'}"
    examination = examined(config("c", data={"a": free, "b": port}))
    assert told(examination) == []
    assert "self.spec.free" in examination.unchecked


def test_trap_11_a_null_is_not_taken_for_the_type() -> None:
    spec = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "nullable": True}}}
    examination = examined(config("a", data={"x": "${string(self.spec.n)}"}), kind=crd(spec))
    assert examination.problems == ()
    assert examination.unchecked == ("self.spec.n",)


def test_trap_19_a_child_of_several_is_an_error_and_a_missing_value_is_told() -> None:
    two = [deployment("web"), deployment("api")]
    (line,) = told(examined(*two, config("a", data={"x": "${children.deployment.metadata.name}"})))
    assert "write children.deployment.web or children.deployment.api, or children.deployment[*] for all" in line
    assert examined(*two, config("a", data={"x": "${children.deployment.api.metadata.name}"})).problems == ()
    gate = {"field": "children.deployment.status.readyReplicas", "exists": True}
    assert "several resources are of that kind" in told(examined(*two, config("a", when=[gate])))[0]


def test_trap_20_a_schema_is_compiled_where_a_box_names_its_kind() -> None:
    schemas = Schemas()
    assert schemas.find("v1", "ConfigMap") is schemas.find("v1", "ConfigMap")
    assert len(schemas._found) == 1


def test_trap_a_strict_order_leaves_references_off() -> None:
    """A deletion in the foreground then keeps the order."""
    assert box_of(config("a"), deletion={"order": "Strict"}).strict_order
    assert not box_of(config("a")).strict_order


@pytest.mark.parametrize(
    "gate",
    [
        {"field": "children.deployment.status.readyReplicas", "equals": 0},
        {"field": "web.status.readyReplicas", "lessThan": 1},
        "${web.status.readyReplicas == 0}",
    ],
)
def test_trap_b_a_field_that_is_absent_at_zero_is_warned_of(gate: Any) -> None:
    examination = examined(deployment("web"), config("a", when=[gate]))
    assert examination.problems == ()
    assert "is absent at zero" in examination.warnings[0].message


def test_trap_c_a_condition_that_the_crd_would_drop_is_refused_with_what_to_add() -> None:
    fields = STATUS["properties"]
    bare = {**fields, "conditions": {"type": "array", "items": {"type": "object"}}}
    found = told(examined(config("a"), kind=crd(status={**STATUS, "properties": bare})))
    assert "would drop status.conditions[*].type" in found[0]
    without = {key: field for key, field in fields.items() if key != "observedGeneration"}
    found = told(examined(config("a"), kind=crd(status={**STATUS, "properties": without})))
    assert "observedGeneration: {type: integer" in found[0]


def test_trap_d_has_of_an_object_that_is_empty_at_first_is_warned_of() -> None:
    template = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    service = {"id": "s", "template": template}
    examination = examined(service, config("a", when=["${has(s.status.loadBalancer)}"]))
    assert "holds for {} too" in examination.warnings[0].message
    (gate,) = named(
        box_of(service, config("a", when=[{"field": "s.status.loadBalancer", "exists": True}])), "a"
    ).when_conditions
    assert gate.expression is not None
    assert not gate.expression.holds({"s": {"status": {"loadBalancer": {}}}})
    assert gate.expression.holds({"s": {"status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}}})


def test_trap_e_a_newline_behind_an_expression_is_no_part_of_it() -> None:
    """What `|` of YAML leaves."""
    text_part = whole_expression("${self.spec.replicas}\n")
    assert text_part is not None
    box = box_of(deployment("web", spec={"replicas": "${self.spec.replicas}\n"}))
    replicas = {"self": {"spec": {"replicas": 3, "image": "i"}}}
    assert named(box, "web").template.render(replicas)["spec"]["replicas"] == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$${HOME}", [("${HOME}", False)]),
        ("a${'}'}b", [("a", False), ("'}'", True), ("b", False)]),
        ("${{'a': {'b': 1}}}", [("{'a': {'b': 1}}", True)]),
        ("${'${x}'}", [("'${x}'", True)]),
        ("$5 and $", [("$5 and $", False)]),
        ("${a}${b}", [("a", True), ("b", True)]),
        ("", []),
    ],
)
def test_the_end_of_an_expression_is_found_by_its_language(text: str, expected: list[tuple[str, bool]]) -> None:
    assert [(piece.text, piece.is_expression) for piece in text_parts(text)] == expected


def test_an_optional_without_value_removes_its_field_and_its_item() -> None:
    data = {"x": "${self.spec.?host}", "y": "z"}
    args = [{"name": "main", "image": "i", "args": ["a", "${self.spec.?host}"]}]
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": args}}
    box = box_of(config("a", data=data), deployment("web", spec={"template": pod}))
    assert named(box, "a").template.render({"self": {"spec": {}}})["data"] == {"y": "z"}
    assert named(box, "a").template.render({"self": {"spec": {"host": "h"}}})["data"] == {"x": "h", "y": "z"}
    rendered = named(box, "web").template.render({"self": {"spec": {}}})
    assert rendered["spec"]["template"]["spec"]["containers"][0]["args"] == ["a"]


def test_keys_may_be_expressions_that_give_texts() -> None:
    box = box_of(config("a", data={"${self.spec.image}-x": "y"}))
    assert named(box, "a").template.render({"self": {"spec": {"image": "k"}}})["data"] == {"k-x": "y"}
    assert "must give a string, not int" in told(examined(config("a", data={"${self.spec.replicas}": "y"})))[0]


def test_values_of_the_language_become_json() -> None:
    data = {"t": "${string(timestamp('2026-01-31T12:00:00Z'))}", "y": "${yaml({'b': ['on', 1], 'a': {}})}"}
    rendered = named(box_of(config("a", data=data)), "a").template.render({"self": {}})["data"]
    assert rendered == {"t": "2026-01-31T12:00:00Z", "y": 'a: {}\nb:\n  - "on"\n  - 1\n'}
    assert as_json([b"a", 1.5, None]) == ["YQ==", 1.5, None]


@pytest.mark.slow
def test_a_box_of_many_resources_in_a_circle_is_refused_briefly() -> None:
    """L6: hostile boxes."""
    many = [config(f"n{at}", data={"x": f"${{n{(at + 1) % 200}.metadata.name}}"}) for at in range(200)]
    (line,) = told(examined(*many))
    assert "these wait for each other: n0 → n1" in line
    assert len(line) < 300


def test_a_box_of_more_resources_than_a_box_may_have_is_refused() -> None:
    """Hostile boxes."""
    assert any("at most 1000" in line for line in told(examined(*(config(f"n{at}") for at in range(1_001)))))


def test_secrets_in_lists_of_children_are_secrets() -> None:
    """L21."""
    texts = ["${children.secret[*].map(s, s.data.p)[0]}", "${json(children.secret[*])}"]
    for text in texts:
        assert any("data of a Secret" in line for line in told(examined(secret("pw"), config("a", data={"x": text}))))


def test_a_crd_with_any_fault_is_no_traceback() -> None:
    for broken in ({}, {"kind": "CustomResourceDefinition"}, {**crd(), "spec": {"versions": [{}]}}):
        with pytest.raises(CrdProblem):
            CrdVersions.of(broken)
    with pytest.raises(CrdProblem, match="required"):
        CrdVersions.of(crd({"type": "object", "required": [[]]}))


@pytest.mark.parametrize(("scope", "namespaced"), [("Namespaced", True), ("Cluster", False)])
def test_a_crd_says_whether_its_objects_have_a_namespace(scope: str, namespaced: bool) -> None:
    assert CrdVersions.of(crd(scope=scope)).stored.kind == Kind("example.com", "v1", "Shop", "shops", namespaced)


def test_the_children_of_a_box_are_found_by_a_label_that_each_has() -> None:
    box = box_of(config("a"))
    name, _, value = composite_of(box).selector.partition("=")

    assert composite_of(box).labels[name] == value == box.name


def test_programs_of_a_box_say_what_they_read() -> None:
    """L16."""
    box = box_of(config("a", data={"x": "${self.spec.image}"}))
    (expression,) = named(box, "a").template.expressions
    assert isinstance(expression.program, Program)
    assert expression.program.checked is not None
    assert {read.path for read in expression.program.checked.reads} == {("self", "spec", "image")}
    assert compile_schema({"type": "object"}) is not None
