"""RES-1 to RES-3 at the border: nothing is lost on the way through, and whatever is wrong is named at once."""

import copy
import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any, Literal

import attrs
import pytest
from cattrs import BaseValidationError, Converter
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.converters import FAST, STRICT, TOLERANT
from purekube.apimachinery.meta import NameRef, ObjectMeta
from purekube.apimachinery.problems import Problem, ValidationProblems, join
from purekube.apimachinery.structuring import read_meta, structure
from tests.support.strategies import application_instances, clusters, json_values, operations
from vworkspace_core.api.application_instance import ApplicationInstance, Mode
from vworkspace_core.api.classes import CLASSES, class_of
from vworkspace_core.api.codec import (
    read_application_instance,
    read_cluster,
    read_operation,
    structure_strict,
    unstructure,
    validate_strict,
)

OBJECTS = application_instances() | operations() | clusters()


def manifest_of(name: str = "nextcloud", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps.vworkspace.io/v1alpha1",
        "kind": "ApplicationInstance",
        "metadata": {"name": name, "namespace": "org-myteam"},
        "spec": {
            "appRef": {"catalogId": "nextcloud"},
            "mode": "managed",
            "chart": {"sourceType": "oci", "url": "oci://r.example.test/c", "name": "nextcloud", "version": "6.6.0"},
            "release": {"name": name, "namespace": "org-myteam"},
            **spec,
        },
    }


def paths(problems: tuple[Problem, ...]) -> list[str]:
    return [problem.path for problem in problems]


@given(OBJECTS)
def test_what_is_written_reads_back_as_it_was(value: Any) -> None:
    assert structure(type(value), unstructure(value)) == value
    assert structure_strict(type(value), unstructure(value)) == value
    assert validate_strict(unstructure(value)) == ()


@given(OBJECTS)
def test_a_written_object_survives_json(value: Any) -> None:
    assert structure(type(value), json.loads(json.dumps(unstructure(value)))) == value


@given(OBJECTS)
def test_written_objects_hold_no_null_and_no_enum_outside_of_free_objects(value: Any) -> None:
    def walk(item: Any, free: bool) -> None:
        assert free or item is not None
        assert type(item) in (dict, list, str, int, bool, float, type(None)) or free
        if isinstance(item, dict):
            for key, child in item.items():
                walk(child, free or key in ("inline", "parameters", "outputs", "valuesPatch", "labels", "annotations"))
        elif isinstance(item, list):
            for child in item:
                walk(child, free)

    walk(unstructure(value), False)


def test_absent_parts_are_left_out_and_false_is_not() -> None:
    instance = read_application_instance(manifest_of())

    written = unstructure(instance)

    assert written["spec"]["suspend"] is False
    assert set(written) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(written["metadata"]) == {"name", "namespace"}
    assert "values" not in written["spec"]


def test_empty_inline_values_are_not_the_same_as_none() -> None:
    instance = read_application_instance(manifest_of(values={"source": "inline", "inline": {}}))

    assert instance.spec.values is not None
    assert instance.spec.values.inline == {}
    assert unstructure(instance)["spec"]["values"] == {"source": "inline", "inline": {}}


UNKNOWN = st.dictionaries(st.text(min_size=1, max_size=5).map("x-{}".format), json_values(), min_size=1, max_size=16)
"""Two of each are named; 32 problems are told at most."""


@pytest.mark.slow
@given(OBJECTS, UNKNOWN)
def test_unknown_fields_are_skipped_on_read_and_named_in_a_strict_one(value: Any, extra: dict[str, Any]) -> None:
    body = unstructure(value)
    grown = {**body, **extra, "spec": {**body["spec"], **extra}}

    assert structure(type(value), grown) == value
    problems = validate_strict(grown)
    assert {problem.message for problem in problems} == {"unknown field"}
    assert len(problems) == 2 * len(extra)


def _damaged(body: Any, draw: st.DataObject) -> Any:
    """The body with one value in it replaced by any JSON."""
    spots = [
        (item, key) for item in _containers(body) for key in (item if isinstance(item, dict) else range(len(item)))
    ]
    item, key = draw.draw(st.sampled_from(spots))
    item[key] = draw.draw(json_values())
    return body


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list) and value:
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _containers(inner)


def _reading(converter: Converter, cls: type[Any], body: Any) -> Any:
    try:
        return converter.structure(body, cls)
    except (TypeError, ValueError, KeyError, BaseValidationError):
        return None


@given(OBJECTS, st.data())
def test_the_fast_converter_and_the_tolerant_one_read_the_same_except_nulls(value: Any, data: st.DataObject) -> None:
    body = _damaged(json.loads(json.dumps(unstructure(value))), data)
    fast, tolerant = (_reading(one, type(value), body) for one in (FAST, TOLERANT))

    if fast is not None:
        assert tolerant == fast
    elif tolerant is not None:
        assert None in [
            inner for item in _containers(body) for inner in (item.values() if isinstance(item, dict) else item)
        ]


OF_TYPE: dict[str, Any] = {
    "null": None,
    "a boolean": True,
    "a number": 0.5,
    "a string": "x",
    "an object": {},
    "a list": [],
}
"""A JSON value of each type, by the words for it."""
MODES = "one of managed, placeholder"
TYPES: list[tuple[Any, str, set[str]]] = [
    (str, "a string", {"a string"}),
    (int, "an integer", set()),
    (float, "a number", {"a number"}),
    (bool, "a boolean", {"a boolean"}),
    (int | str, "an integer or a string", {"a string"}),
    (Mode, MODES, {"a string"}),
    (NameRef, "an object", {"an object"}),
    (Mapping[str, Any], "an object", {"an object"}),
    (Mapping[str, str], "an object", {"an object"}),
    (Mapping[str, int], "an object", {"an object"}),
    (dict[str, Any], "an object", {"an object"}),
    (tuple[int, ...], "a list", {"a list"}),
    (list[int], "a list", {"a list"}),
    (int | None, "an integer", {"null"}),
]


def _structured(converter: Converter, value: Any, cls: Any) -> Any:
    return converter.structure(value, cls)


@pytest.mark.parametrize("converter", [FAST, TOLERANT, STRICT], ids=["fast", "tolerant", "strict"])
@pytest.mark.parametrize(("cls", "what", "fitting"), TYPES)
def test_each_converter_says_what_a_value_must_be_and_what_it_is(
    converter: Converter, cls: Any, what: str, fitting: set[str]
) -> None:
    for name in OF_TYPE.keys() - fitting:
        with pytest.raises(TypeError) as refused:
            converter.structure(OF_TYPE[name], cls)
        assert str(refused.value) == f"must be {what}, not {name}"


@pytest.mark.parametrize("converter", [FAST, TOLERANT, STRICT], ids=["fast", "tolerant", "strict"])
def test_each_converter_says_which_values_there_are(converter: Converter) -> None:
    with pytest.raises(ValueError, match=r"^must be one of managed, placeholder, not 'x'$"):
        converter.structure("x", Mode)
    with pytest.raises(ValueError, match=r"^must be one of a, 1, not 'x'$"):
        _structured(converter, "x", Literal["a", 1])
    with pytest.raises(TypeError, match=r"^must be an object of strings; one value is, not a number$"):
        _structured(converter, {"a": 1}, Mapping[str, str])


def test_unknown_fields_of_metadata_are_kubernetes_own_affair() -> None:
    manifest = manifest_of()
    manifest["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    manifest["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u", "blockOwnerDeletion": True}
    ]

    assert validate_strict(manifest) == ()


@given(OBJECTS)
def test_null_means_absent(value: Any) -> None:
    body = unstructure(value)

    def with_nulls(item: Any, cls: type[Any]) -> Any:
        names = {field.name: field for field in attrs.fields(cls)}
        missing = {
            _camel(name): None
            for name, field in names.items()
            if field.default is not attrs.NOTHING and _camel(name) not in item
        }
        return {**item, **missing}

    spec_class = attrs.fields_dict(type(value))["spec"].type
    assert spec_class is not None
    nulled = {**body, "spec": with_nulls(body["spec"], spec_class), "status": None}

    assert structure(type(value), nulled) == attrs.evolve(value, status=type(value.status)())


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.title() for part in tail)


def test_every_problem_is_named_at_once_with_its_path_RES_1() -> None:
    manifest = manifest_of(
        chart={"sourceType": "git", "version": 5, "x": 1}, integrations="abc", suspend="no", appRef=None
    )
    manifest["status"] = {
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Fine"},
            {"type": "Ready", "status": "true", "reason": 3},
        ],
        "endpoints": {"a": 1},
    }

    assert [str(problem) for problem in validate_strict(manifest)] == [
        "spec.appRef: is required",
        "spec.chart.name: is required",
        "spec.chart.sourceType: must be one of oci, helm, not 'git'",
        "spec.chart.url: is required",
        "spec.chart.version: must be a string, not a number",
        "spec.chart.x: unknown field",
        "spec.integrations: must be an object, not a string",
        "spec.suspend: must be a boolean, not a string",
        "status.conditions[1].reason: must be a string, not a number",
        "status.conditions[1].status: must be one of True, False, Unknown, not 'true'",
        "status.endpoints: must be a list, not an object",
    ]
    with pytest.raises(ValidationProblems) as caught:
        read_application_instance(manifest)
    assert set(caught.value.problems) == {p for p in validate_strict(manifest) if p.message != "unknown field"}


def problems_of(read: Callable[[Any], Any], value: Any) -> tuple[Problem, ...]:
    try:
        read(value)
    except ValidationProblems as error:
        return error.problems
    return ()


@given(st.sampled_from([read_application_instance, read_operation, read_cluster]), json_values())
@example(read_application_instance, None)
@example(read_application_instance, "spec")
@example(read_cluster, {"metadata": {"name": "c"}, "spec": []})
def test_whatever_lies_in_the_cluster_its_problems_are_named(read: Callable[[Any], Any], value: Any) -> None:
    # Nothing that json_values draws has metadata.name and a spec that fits.
    assert problems_of(read, value)


@given(OBJECTS, st.data())
def test_any_part_replaced_by_anything_gives_an_object_or_a_problem_at_or_below_that_part(
    value: Any, data: st.DataObject
) -> None:
    body = copy.deepcopy(unstructure(value))
    place, parent, where = body, "", ""
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        parent, where = where, join(where, key)
        child = place[key]
        if not isinstance(child, dict) or not child or data.draw(st.booleans()):
            break
        place = child
    place[key] = data.draw(json_values())

    problems = problems_of(lambda manifest: structure(type(value), manifest), body)

    # Labels and annotations are judged as a whole.
    assert all(problem.path.startswith(where) or problem.path == parent for problem in problems)


@pytest.mark.parametrize("value", [True, 1.5, "1", [1], {}, float("inf")])
def test_nothing_is_coerced_into_an_integer(value: Any) -> None:
    operation = {
        "metadata": {"name": "b"},
        "spec": {
            "targetRef": {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "n"},
            "type": "Backup",
            "engine": "velero",
            "timeoutSeconds": value,
        },
    }

    with pytest.raises(ValidationProblems, match=r"spec\.timeoutSeconds: must be an integer"):
        read_operation(operation)


def test_a_whole_float_is_an_integer_as_the_api_server_sees_it() -> None:
    meta = structure(ObjectMeta, {"name": "n", "generation": 3.0})

    assert meta.generation == 3
    assert type(meta.generation) is int


def test_enums_come_out_as_members_and_go_in_as_text() -> None:
    instance = read_application_instance(manifest_of())

    assert instance.spec.mode is Mode.MANAGED
    assert type(unstructure(instance)["spec"]["mode"]) is str


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ([], ": must be an object, not a list"),
        ({}, "kind: must be one of"),
        ({"apiVersion": [], "kind": {}}, "kind: must be one of"),
        ({"apiVersion": "apps.vworkspace.io/v1", "kind": "ApplicationInstance"}, "kind: must be one of"),
    ],
)
def test_what_is_none_of_our_kinds_is_said_to_be_none(manifest: Any, problem: str) -> None:
    (found,) = validate_strict(manifest)

    assert problem.removeprefix(": ") in str(found)
    assert class_of(manifest) is None


def test_a_strict_read_of_the_wrong_kind_says_so_beside_its_other_problems() -> None:
    manifest = manifest_of(mode="both")
    manifest["kind"] = "Operation"
    del manifest["apiVersion"]

    with pytest.raises(ValidationProblems) as caught:
        structure_strict(ApplicationInstance, manifest)

    assert paths(caught.value.problems) == ["apiVersion", "kind", "spec.mode"]


def test_a_strict_read_of_the_right_shape_and_the_wrong_kind_gives_no_object() -> None:
    with pytest.raises(ValidationProblems, match=r"^apiVersion: is required; kind: must be Application"):
        structure_strict(ApplicationInstance, {**manifest_of(), "kind": "Operation", "apiVersion": None})


def test_parts_can_be_read_strictly_too() -> None:
    assert structure_strict(NameRef, {"name": "n"}) == NameRef("n")
    with pytest.raises(ValidationProblems, match=r"^key: unknown field$"):
        structure_strict(NameRef, {"name": "n", "key": "k"})
    with pytest.raises(ValidationProblems, match=r"^must be an object, not a list$"):
        structure_strict(ApplicationInstance, [])


def test_what_yaml_has_and_json_has_not_is_named_by_its_python_type() -> None:
    manifest = manifest_of(appRef={"catalogId": date(2030, 1, 31)})

    assert [str(problem) for problem in validate_strict(manifest)] == [
        "spec.appRef.catalogId: must be a string, not a date"
    ]


@given(json_values())
@example({"metadata": {"name": 5, "labels": {"a": 1}, "generation": "x", "namespace": "n"}})
@example({"metadata": {"ownerReferences": [{"uid": 1}], "annotations": None}})
def test_metadata_can_be_read_of_anything(value: Any) -> None:
    meta = read_meta(value if isinstance(value, dict) else {"metadata": value})

    assert isinstance(meta.name, str)
    assert isinstance(meta.labels, Mapping)


def test_readable_metadata_survives_beside_what_is_not() -> None:
    meta = read_meta({"metadata": {"name": "n", "namespace": "ns", "labels": {"a": 1}, "finalizers": ["f"]}})

    assert meta == ObjectMeta(name="n", namespace="ns", finalizers=("f",))


def test_problems_can_be_pickled_and_compared() -> None:
    with pytest.raises(ValidationProblems) as caught:
        read_application_instance({"metadata": {}, "spec": {}})
    again = pickle.loads(pickle.dumps(caught.value))

    assert (
        again.problems
        == caught.value.problems
        == (
            Problem("metadata.name", "is required"),
            Problem("spec.appRef", "is required"),
        )
    )
    assert str(again) == "metadata.name: is required; spec.appRef: is required"


def test_every_class_of_the_border_names_its_kind() -> None:
    assert {kind.kind for kind in CLASSES.values()} == {cls.__name__ for cls in CLASSES}
