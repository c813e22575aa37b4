"""Whatever is posted as a CRD is installed or refused with a status, and never a defect of the server (RUN-9)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Invalid, OperatorError
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.schema.keywords import mistyped_keywords

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCALARS = (
    st.none() | st.booleans() | st.integers(-2, 2) | st.just(1.5) | st.sampled_from(["", "a", "string", "object", "["])
)
WORDS = st.sampled_from(
    [
        "type",
        "properties",
        "additionalProperties",
        "items",
        "required",
        "enum",
        "pattern",
        "format",
        "default",
        "nullable",
        "minimum",
        "maxLength",
        "allOf",
        "anyOf",
        "not",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-validations",
        "rule",
        "fieldPath",
        "a",
    ]
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=12
)

TEXTS = st.sampled_from(["", "a", "string", "object", "array", "integer", "set", "map", "[", "^a$", "date-time"])
RULES = st.fixed_dictionaries(
    {"rule": st.sampled_from(["true", "self", "self.a == oldSelf.a", "self.all(x, x)", "(", "'" * 3])},
    optional={"message": TEXTS, "reason": TEXTS, "fieldPath": TEXTS, "optionalOldSelf": st.booleans()},
)
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("pattern", "format", "x-kubernetes-list-type", "x-kubernetes-map-type"), TEXTS),
    **dict.fromkeys(("nullable", "x-kubernetes-int-or-string", "x-kubernetes-embedded-resource"), st.booleans()),
    **dict.fromkeys(("minimum", "maxLength", "minItems", "multipleOf"), st.integers(-1, 3)),
    **dict.fromkeys(("required", "x-kubernetes-list-map-keys"), st.lists(TEXTS, max_size=2)),
    "x-kubernetes-preserve-unknown-fields": st.booleans(),
    "default": SCALARS,
    "enum": st.lists(SCALARS, max_size=2),
    "x-kubernetes-validations": st.lists(RULES, max_size=2),
}
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "", "null"])


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    within = {
        "properties": st.dictionaries(TEXTS, inner, max_size=2),
        "additionalProperties": inner | st.booleans(),
        "items": inner,
        "not": inner,
        **dict.fromkeys(("allOf", "anyOf", "oneOf"), st.lists(inner, max_size=2)),
    }
    return st.fixed_dictionaries({"type": TYPES}, optional={**PLAIN, **within})


READABLE = st.recursive(st.fixed_dictionaries({"type": TYPES}, optional=PLAIN), nested, max_leaves=4)
"""Schemas whose words all have their types: what comes after the decoder has to judge their meaning."""


def crd(spec: Any) -> dict[str, Any]:
    root = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
    names = {"plural": "things", "kind": "Thing"}
    body = {"group": "hostile.test", "scope": "Namespaced", "names": names, "versions": [version]}
    return {**CUSTOM_RESOURCE_DEFINITION.manifest("things.hostile.test"), "spec": body}


def install(spec: Any) -> OperatorError | None:
    api = InProcessKube(ApiServer(now=lambda: NOW))
    try:
        run_sync(api.create(crd(spec), kind=CUSTOM_RESOURCE_DEFINITION, field_manager="tests"))
    except OperatorError as error:
        return error
    return None


@given(ANYTHING | READABLE)
def test_any_schema_is_installed_or_refused(spec: Any) -> None:
    refused = install(spec)
    assert refused is None or isinstance(refused, Invalid), refused


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ("x", "properties[spec]: must be an object, not str"),
        (
            {"x-kubernetes-validations": ["a"]},
            "properties[spec].x-kubernetes-validations[0]: must be an object, not str",
        ),
        ({"x-kubernetes-validations": [{"rule": 5}]}, "x-kubernetes-validations[0].rule: must be a string, not int"),
        ({"x-kubernetes-validations": [{"fieldPath": 9}]}, "validations[0].fieldPath: must be a string, not int"),
        ({"required": "name"}, "properties[spec].required: must be a list, not str"),
        ({"items": {"properties": {"a": {"pattern": 1}}}}, "items.properties[a].pattern: must be a string, not int"),
        ({"additionalProperties": 1}, "additionalProperties: must be an object, not int"),
        ({"minimum": True}, "minimum: must be a number, not bool"),
    ],
)
def test_a_word_of_a_wrong_type_is_named_with_its_path(spec: Any, where: str) -> None:
    refused = install(spec)
    assert isinstance(refused, Invalid)
    assert where in refused.message


def test_null_stands_for_an_absent_word() -> None:
    spec = {"type": "object", "required": None, "not": None, "x-kubernetes-validations": None, "properties": None}
    assert list(mistyped_keywords(spec, "")) == []
    assert install(spec) is None
