"""The form of a box's file: everything that is wrong at once, each with its path (PH-6)."""

from typing import Any

import pytest

from purekube.apimachinery.problems import ValidationProblems
from purekube.boxes.model import ApplyMode, Dependency, DependencyUntil, ForEach, GeneratedField
from purekube.boxes.read import read_box

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
