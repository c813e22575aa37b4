"""Classes made from a CRD that exists: their own CRD means the same (PH-7, RES-6)."""

from typing import Any

import attrs
import pytest
from hypothesis import assume, event, example, given, note
from hypothesis import strategies as st

from kubelab.downstream.crds import downstream_crds
from kubelab.flux.crds import flux_crds
from purekube.boxes.schemas import CrdProblem, CrdVersions
from purekube.reconcilers.crd_classes import singular
from purekube.reconcilers.crd_source import UnfitCrd, kind_source
from purekube.reconcilers.resource import ENGINE_FIELDS
from purekube.schema import Schema, apply_defaults, compile_schema, drop_nulls, prune, validate
from purekube.schema.causes import NO_FIELD
from purekube.schema.objectmeta import with_type_meta
from purekube_kit import objects_of
from purekube_run.examples.examples import NoExample
from tests.support.crd_schemas import NODES, SPECS, bent, crd_of, meaning, object_schemas, resource_in
from vworkspace_core.api.crd import crd_manifests

REAL = {crd["metadata"]["name"]: crd for crd in (*flux_crds(), *downstream_crds(), *crd_manifests())}
KEPT_FOR_KUBERNETES = sorted(name for name in REAL if name.endswith(".k8s.io"))
FIT = sorted({*REAL} - {*KEPT_FOR_KUBERNETES})


def compiled(crd: dict[str, Any]) -> Schema:
    """The schema of the stored version."""
    (stored,) = (version for version in crd["spec"]["versions"] if version["storage"])
    return compile_schema(stored["schema"]["openAPIV3Schema"])


def own_status(schema: Schema) -> Any:
    """What a status means without the fields that the framework adds, and without what its fields require."""
    said = meaning(schema.properties.get("status", Schema()))
    return {name: said[name] for name in said if name not in ("required", "properties")}, {
        name: field for name, field in said["properties"].items() if name not in ENGINE_FIELDS
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", FIT)
def test_the_crd_of_the_classes_means_what_the_given_one_does(name: str) -> None:
    crd, version = REAL[name], CrdVersions.of(REAL[name]).storage
    made = resource_in(kind_source(crd, version).text)
    ours, theirs = compiled(made.crd()), compiled(crd)

    assert meaning(ours.properties["spec"]) == meaning(theirs.properties["spec"])
    assert [rule.text for rule in ours.rules] == [rule.text for rule in theirs.rules]
    if "status" in theirs.properties:
        assert own_status(ours) == own_status(theirs)
    said, given_names = made.crd()["spec"], crd["spec"]["names"]
    assert (said["group"], said["scope"]) == (crd["spec"]["group"], crd["spec"]["scope"])
    assert {key: said["names"].get(key) for key in given_names} == given_names


@pytest.mark.parametrize("name", KEPT_FOR_KUBERNETES)
def test_a_group_that_is_kept_for_kubernetes_is_refused(name: str) -> None:
    with pytest.raises(UnfitCrd, match=r"spec: the group snapshot.storage.k8s.io is kept for Kubernetes itself"):
        kind_source(REAL[name], "v1")


@pytest.mark.slow
@given(SPECS, object_schemas(NODES))
@example({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "object"})
@example({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "nullable": True}}}}, {})
def test_any_structural_schema_is_kept(spec: dict[str, Any], status: dict[str, Any]) -> None:
    crd = crd_of(spec, {"type": "object", **status})
    assume(is_valid(crd))
    source = kind_source(crd, "v1")
    note(source.text)
    made = resource_in(source.text)
    ours, theirs = compiled(made.crd()), compiled(crd)

    assert meaning(ours.properties["spec"]) == meaning(theirs.properties["spec"])
    assert own_status(ours) == own_status(theirs)


def is_valid(crd: dict[str, Any]) -> bool:
    try:
        CrdVersions.of(crd)
    except CrdProblem:
        return False
    return True


@pytest.mark.slow
@given(SPECS, st.data())
def test_it_admits_and_refuses_the_same_objects(spec: dict[str, Any], data: st.DataObject) -> None:
    crd = crd_of(spec)
    assume(is_valid(crd))
    made = resource_in(kind_source(crd, "v1").text)
    ours, theirs = with_type_meta(made.schema), with_type_meta(compiled(crd))
    try:
        drawn = data.draw(objects_of(crd, wide=True))
    except (NoExample, ValueError):
        assume(False)
    for given_spec in (drawn["spec"], data.draw(bent(drawn["spec"])), data.draw(bent(drawn["spec"]))):
        body = {**drawn, "spec": given_spec}
        judged = [judge(schema, body) for schema in (ours, theirs)]
        assert judged[0] == judged[1]
        stored, refused, _ = judged[0]
        event("refused" if refused else "admitted")
        if not refused:
            made.read(stored)  # no class is narrower than its schema


def judge(schema: Schema, body: dict[str, Any]) -> tuple[Any, bool, set[str]]:
    """What an API server makes of an object, whether it refuses it, and for which fields.

    The words may differ: an int-or-string of a CRD often has an `anyOf` that adds a line, and nothing else.
    """
    pruned, _ = prune(schema, body)
    stored = apply_defaults(schema, drop_nulls(schema, pruned))
    causes = validate(schema, stored)
    return stored, bool(causes), {cause.field for cause in causes} - {NO_FIELD}


ODD = {
    "foo-bar": {"type": "string"},
    "class": {"type": "string", "enum": ["a", "b"]},
    "clusterIP": {"type": "string", "nullable": True},
    "int": {"type": "integer", "minimum": 0},
    "sources": {
        "type": "array",
        "items": {"type": "object", "properties": {"ref": {"x-kubernetes-int-or-string": True}}},
    },
    "rest": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "at": {"type": "object", "properties": {"x_y": {"type": "string"}}, "oneOf": [{"required": ["x_y"]}]},
}


def test_what_classes_cannot_express_is_told_with_its_path() -> None:
    spec = {"type": "object", "required": ["foo-bar", "clusterIP", "class"], "properties": ODD}
    status = {"type": "object", "required": ["phase"], "properties": {"phase": {"type": "string"}}}
    crd = crd_of(spec, status, required=[], anyOf=[{"required": ["spec"]}])
    crd["spec"]["names"]["singular"] = "thing"
    crd["spec"]["versions"][0]["subresources"] = {"status": {}, "scale": {}}
    crd["spec"]["versions"].append({"name": "v1beta1", "served": True, "storage": False})
    source = kind_source(crd, "v1")

    assert [str(note) for note in source.notes] == [
        "spec.names.singular: becomes widget, not thing",
        "spec.versions: only the stored one, v1, becomes classes, not v1beta1",
        "spec.versions.subresources.scale: is left out",
        "spec: optional, but required here",
        "anyOf: is left out: a kind in Python has a spec and a status",
        "spec.foo-bar: no attribute can have this name: read it from the object's `manifest`",
        "spec.clusterIP: required and nullable, but None is left out when an object is written",
        "spec.at: oneOf: is in the schema, but not in the type",
        "spec.at.x_y: no attribute can have this name: read it from the object's `manifest`",
        "status.phase: required, but optional here: the status of a new object says nothing yet",
    ]


def test_its_fields_have_the_names_and_types_that_a_person_would_give_them() -> None:
    made = resource_in(kind_source(crd_of({"type": "object", "required": ["class"], "properties": ODD}), "v1").text)
    widget = made.read({"metadata": {"name": "a"}, "spec": {"class": "a", "sources": [{"ref": "x"}], "int": 3}})

    assert {field.name: str(field.type) for field in attrs.fields(made.spec)} == {
        "class_": "typing.Literal['a', 'b']",
        "clusterIP": "str | None",
        "int_": "int | None",
        "sources": "tuple[generated.Source, ...]",
        "rest": "collections.abc.Mapping[str, typing.Any]",
        "at": "generated.At | None",
    }
    assert (widget.spec.class_, widget.spec.sources[0].ref, widget.spec.int_) == ("a", "x", 3)


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ({"type": "integer"}, "a: int | None = None"),
        ({"type": "integer", "default": 3}, "a: int = 3"),
        ({"type": "integer", "description": "How many."}, 'a: int | None = schema_field("How many.", default=None)'),
        (
            {"type": "integer", "minimum": 1, "default": 3},
            'a: int = schema_field("", default=3, schema={"minimum": 1})',
        ),
    ],
)
def test_a_field_is_written_as_shortly_as_its_schema_permits(schema: dict[str, Any], line: str) -> None:
    text = kind_source(crd_of({"type": "object", "properties": {"a": schema}}), "v1").text

    assert f"    {line}" in text.splitlines()


@pytest.mark.parametrize(
    ("default", "kind", "line"),
    [
        (0.5, "number", 'a: float = schema_field("", default=0.5, publish_default=True)'),
        (3, "integer", 'a: int = schema_field("", default=3, publish_default=True)'),
        ("x", "string", 'a: str = schema_field("", default="x", publish_default=True)'),
        (True, "boolean", 'a: bool = schema_field("", default=True, publish_default=True)'),
        (None, "integer", "a: int | None = None"),
    ],
)
def test_a_status_says_which_defaults_are_published(default: Any, kind: str, line: str) -> None:
    fields = {"a": {"type": kind} if default is None else {"type": kind, "default": default}}
    text = kind_source(crd_of({"type": "object"}, {"type": "object", "properties": fields}), "v1").text

    assert f"    {line}" in text.splitlines()


@pytest.mark.parametrize("version", ["v1beta1", "v1"])
def test_the_classes_are_of_the_version_that_is_asked_for(version: str) -> None:
    crd = crd_of({"type": "object", "properties": {"new": {"type": "string"}}})
    old = crd_of({"type": "object", "properties": {"old": {"type": "string"}}})["spec"]["versions"][0]
    crd["spec"]["versions"].insert(0, {**old, "name": "v1beta1", "storage": False})
    made = resource_in(kind_source(crd, version).text)

    assert (made.kind.version, [field.name for field in attrs.fields(made.spec)]) == (
        version,
        ["old" if version == "v1beta1" else "new"],
    )


def test_a_default_that_null_may_replace_is_in_the_schema_alone() -> None:
    fields = {"a": {"type": "integer", "default": 3, "nullable": True}}
    text = kind_source(crd_of({"type": "object"}, {"type": "object", "properties": fields}), "v1").text

    line = 'a: int | None = schema_field("", default=None, schema={"default": 3, "nullable": True})'
    assert f"    {line}" in text.splitlines()


@pytest.mark.parametrize(
    ("word", "one"),
    [
        ("policies", "policy"),
        ("classes", "class"),
        ("boxes", "box"),
        ("batches", "batch"),
        ("dishes", "dish"),
        ("quizzes", "quizz"),
        ("ports", "port"),
        ("access", "access"),
        ("status", "status"),
        ("data", "data"),
    ],
)
def test_a_list_is_of_what_its_name_is_the_plural_of(word: str, one: str) -> None:
    assert singular(word) == one


@pytest.mark.parametrize(("said", "first"), [({"description": "All of it."}, "All of it."), ({}, "The kind Widget.")])
def test_a_module_begins_with_what_the_kind_is(said: dict[str, Any], first: str) -> None:
    assert kind_source(crd_of({"type": "object"}, **said), "v1").text.startswith(f'"""{first}"""')


def test_a_spec_and_a_status_of_any_value_become_objects_with_any_fields() -> None:
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    source = kind_source(crd_of(anything, anything), "v1")
    made = resource_in(source.text)

    assert [str(note) for note in source.notes] == [
        "spec: may be any value, but is an object here",
        "status: may be any value, but is an object here",
        "spec: may have fields of any name: read them from the object's `manifest`",
        "status: may have fields of any name: read them from the object's `manifest`",
    ]
    assert made.problems({"metadata": {"name": "a"}, "spec": {"a": [1]}, "status": {"b": {}}}) == ()
    assert "status: is left out" in str(kind_source(crd_of({"type": "object"}, {"type": "string"}), "v1").notes[0])


def test_a_kind_without_a_spec_is_refused() -> None:
    with pytest.raises(
        UnfitCrd, match=r"spec.versions\[0\].schema.openAPIV3Schema.properties.spec: a kind in Python has"
    ):
        kind_source(crd_of({"type": "string"}), "v1")


@pytest.mark.slow
@given(st.sampled_from(FIT), st.data())
def test_a_crd_with_a_mistake_is_refused_or_makes_a_module(name: str, data: st.DataObject) -> None:
    crd = data.draw(bent(REAL[name]))
    try:
        source = kind_source(crd, CrdVersions.of(crd).storage)
    except (CrdProblem, UnfitCrd):
        return
    assert resource_in(source.text).kind == source.kind
