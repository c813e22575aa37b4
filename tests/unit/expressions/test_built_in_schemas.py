"""Schemas of built-in kinds type expressions, and are loaded only when they are asked for (PH-6)."""

import subprocess
import sys

import pytest

from purekube.cel import CelSyntaxError, Environment, compile_expression
from purekube.schema.builtin import built_in_kind, built_in_kinds, built_in_schema
from purekube.schema.celtypes import type_of_schema
from purekube.schema.node import JsonType, Schema


def test_every_kind_of_the_table_has_its_schema() -> None:
    for api_version, kind in built_in_kinds():
        found, schema = built_in_kind(api_version, kind), built_in_schema(api_version, kind)
        assert found is not None, kind
        assert (found.kind.api_version, found.kind.kind) == (api_version, kind)
        assert schema is not None, kind
        assert {"apiVersion", "kind", "metadata"} <= set(schema.properties), kind
        assert schema.required == (*found.openapi.get("required", ()), "apiVersion", "kind", "metadata"), kind


def test_a_kind_that_is_not_built_in_has_none() -> None:
    assert built_in_schema("apps/v1", "Shop") is None


def test_expressions_are_typed_by_them() -> None:
    schema = built_in_schema("apps/v1", "Deployment")
    assert schema is not None
    environment = Environment({"web": type_of_schema(schema, plain=True)})

    assert str(compile_expression("web.spec.?replicas.orValue(1) + 1", environment).type) == "int"
    checked = compile_expression("web.status.readyReplicas == 3", environment).checked
    assert checked is not None
    assert [".".join(absence.path) for absence in checked.absences] == ["web.status", "web.status.readyReplicas"]
    with pytest.raises(CelSyntaxError, match="did you mean 'readyReplicas'"):
        compile_expression("web.status.readyReplica == 3", environment)


@pytest.mark.parametrize(
    ("schema", "in_rules", "of_json"),
    [
        (Schema(), "dyn", "dyn"),
        (Schema(type=JsonType.BOOLEAN), "bool", "bool"),
        (Schema(type=JsonType.INTEGER), "int", "int"),
        (Schema(type=JsonType.NUMBER), "double", "dyn"),
        (Schema(type=JsonType.STRING), "string", "string"),
        (Schema(type=JsonType.STRING, format="date-time"), "timestamp", "string"),
        (Schema(type=JsonType.STRING, format="date"), "timestamp", "string"),
        (Schema(type=JsonType.STRING, format="duration"), "duration", "string"),
        (Schema(type=JsonType.STRING, format="byte"), "bytes", "string"),
        (Schema(type=JsonType.STRING, format="uuid"), "string", "string"),
        (Schema(type=JsonType.STRING, nullable=True), "string", "dyn"),
        (Schema(type=JsonType.ARRAY), "list(dyn)", "list(dyn)"),
        (Schema(type=JsonType.ARRAY, items=Schema(type=JsonType.NUMBER)), "list(double)", "list(dyn)"),
        (Schema(type=JsonType.OBJECT, additional=Schema()), "map(string, dyn)", "map(string, dyn)"),
        (
            Schema(type=JsonType.OBJECT, additional=Schema(type=JsonType.NUMBER)),
            "map(string, double)",
            "map(string, dyn)",
        ),
        (Schema(type=JsonType.OBJECT, preserve_unknown=True), "dyn", "dyn"),
        (Schema(type=JsonType.OBJECT), "object", "object"),
        (Schema(type=JsonType.INTEGER, int_or_string=True), "dyn", "dyn"),
    ],
    ids=range(18),
)
def test_each_type_of_a_schema_has_its_type_in_rules_and_in_json(schema: Schema, in_rules: str, of_json: str) -> None:
    assert str(type_of_schema(schema)) == in_rules
    assert str(type_of_schema(schema, plain=True)) == of_json


def test_to_import_the_package_loads_none_of_them() -> None:
    code = (
        "import sys, purekube.schema.builtin as it;"
        " print(sorted(name for name in sys.modules if name.startswith(it.__name__ + '.')))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert shown.strip() == "['purekube.schema.builtin.schema_parts']"


def test_a_reserved_word_is_a_field_as_in_the_language() -> None:
    schema = built_in_schema("v1", "Pod")
    assert schema is not None

    assert (
        str(compile_expression("pod.metadata.namespace", Environment({"pod": type_of_schema(schema, plain=True)})).type)
        == "string"
    )
    with pytest.raises(CelSyntaxError, match="did you mean '__namespace__'"):
        compile_expression("pod.metadata.namespace", Environment({"pod": type_of_schema(schema)}))
