# ruff: noqa: E501
"""The form of a box's file: everything that is wrong at once, each with its path (PH-6)."""

from typing import Any

import pytest

from purekube.apimachinery.problems import ValidationProblems
from purekube.boxes.model import ApplyMode, Dependency, DependencyUntil, ForEach, GeneratedField
from purekube.boxes.read import offset_of, read_box
from purekube.boxes.when_conditions import path_of, read_when_condition
from purekube.cel import CelSyntaxError

TEMPLATE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def a_box(**resource: Any) -> dict[str, Any]:
    return {
        "apiVersion": "box.vworkspace.io/v1alpha1",
        "kind": "OperatorBox",
        "metadata": {"name": "shop"},
        "spec": {"crd": "shop-crd.yaml", "resources": [{"id": "web", "template": TEMPLATE, **resource}]},
    }


def problems_of(raw: Any) -> dict[str, str]:
    with pytest.raises(ValidationProblems) as raised:
        read_box(raw)
    return {problem.path: problem.message for problem in raised.value.problems}


def test_box_fields_have_several_forms() -> None:
    box = read_box(
        a_box(
            apply="IfAbsent",
            dependsOn=["a", {"id": "b", "until": "Applied"}],
            forEach={"c": "${self.spec.list}", "key": "${c.name}"},
            generate={"data.password": {"length": 8}},
            when=["${true}", {"field": "spec.host", "exists": True}],
        )
    )
    (web,) = box.spec.resources
    assert web.apply is ApplyMode.IF_ABSENT
    assert web.depends_on == (Dependency("a"), Dependency("b", DependencyUntil.APPLIED))
    assert web.for_each == ForEach("c", "${self.spec.list}", "${c.name}")
    assert web.generate.fields == (GeneratedField("data.password", 8),)
    assert [entry.gate is None for entry in web.when] == [True, False]


def test_box_tells_every_wrong_field_at_once() -> None:
    raw = a_box(template=3, when=[{"fiel": "x"}], any=3, forEach={"a": "b"}, dependsOn=[{"id": "x", "unti": 2}])
    raw["spec"]["resourcs"] = []
    raw["kind"] = "Box"
    problems = problems_of(raw)
    assert problems["kind"] == "must be OperatorBox"
    assert problems["spec.resourcs"] == "unknown field; did you mean resources?"
    assert problems["spec.resources[0].template"] == "must be an object, not a number"
    assert "fiel: is unknown to a gate" in problems["spec.resources[0].when[0]"]
    assert {"spec.resources[0].any", "spec.resources[0].forEach", "spec.resources[0].dependsOn[0]"} <= problems.keys()


@pytest.mark.parametrize("raw", [None, 3, "text", [], {}])
def test_box_that_is_no_object_is_told(raw: Any) -> None:
    assert problems_of(raw)


def test_box_ids_are_names_for_expressions() -> None:
    problems = problems_of(a_box(id="My-Web"))
    assert problems["spec.resources[0].id"].startswith("must be a small letter, then letters, digits and _")


@pytest.mark.parametrize("raw", [None, 3, "text", []])
def test_a_document_of_no_object_is_wrong_as_a_whole(raw: Any) -> None:
    (path,) = problems_of(raw)
    assert path == ""


@pytest.mark.parametrize(
    ("field", "steps"),
    [
        ("spec", ["spec"]), ("spec.host", ["spec", "host"]), ("spec.parts[0].name", ["spec", "parts", 0, "name"]),
        ("children.web[12]", ["children", "web", 12]), ("spec['a.b'].c", ["spec", "a.b", "c"]), ("a.", []),
        ("['a']", []), ("[0]", []), ("a[", []), ("a[x]", []), ("a..b", []),
    ],
)  # fmt: skip
def test_a_path_of_a_gate_begins_with_a_name_and_has_steps_alone(field: str, steps: list[Any]) -> None:
    gate = {"field": field, "exists": True}
    if steps:
        assert path_of(read_when_condition(gate)) == steps
    else:
        with pytest.raises(ValidationProblems, match="field: must be a path"):
            read_when_condition(gate, "here")


GATE = {"field": "spec.host", "equals": 1}


@pytest.mark.parametrize(
    ("gate", "paths"),
    [
        (GATE, []), (3, [""]), ({"field": "spec.host"}, [""]), ({**GATE, "exists": True}, [""]), ({**GATE, "odd": 1}, [".odd"]),
        ({**GATE, "not": True}, []), ({**GATE, "not": "yes"}, [".not"]), ({"field": "a", "exists": "yes"}, [".exists"]),
        ({"field": "a", "isReady": 1}, [".isReady"]), ({"field": "a", "exists": False}, []), ({"field": "a", "in": 1}, [".in"]),
        ({"field": "a", "in": [1]}, []), ({"field": "a", "notIn": "${[1]}"}, []), ({"field": "a", "notIn": {}}, [".notIn"]),
        ({"field": "", "equals": 1}, [".field"]), ({"equals": 1}, [".field"]), ({"field": "a" * 5000, "equals": 1}, [".field"]),
        ({"after": "5m"}, []), ({"after": "5m", "field": "spec.at"}, []), ({"after": "soon"}, [".after"]), ({"after": 5}, [".after"]),
        ({"after": "5m", "not": False}, [".not"]), ({"after": "1s" * 3000}, [".after"]), ({"after": "5m", "field": 1}, [".field"]),
    ],
)  # fmt: skip
def test_each_mistake_of_a_gate_is_told_at_its_field_PH_6(gate: Any, paths: list[str]) -> None:
    try:
        read_when_condition(gate, "when")
        found = []
    except ValidationProblems as error:
        found = [problem.path for problem in error.problems]
    assert found == [f"when{path}" for path in paths]


@pytest.mark.parametrize(("line", "column", "offset"), [(0, 0, 0), (1, 1, 0), (1, 3, 2), (2, 1, 3), (3, 2, 7)])
def test_the_place_of_an_error_is_counted_from_the_beginning(line: int, column: int, offset: int) -> None:
    error = CelSyntaxError("x")
    error.line, error.column = line, column
    assert offset_of(error, "ab\ncd\nef") == offset
    if line:
        assert offset_of(CelSyntaxError("x", "ab\ncd\nef", offset), "ab\ncd\nef") == offset
