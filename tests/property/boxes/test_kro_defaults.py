"""A converted definition fills in what kro's own fills in, for any object (PH-6)."""

from collections.abc import Mapping
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import get_path
from purekube.schema.compile import compile_schema
from purekube.schema.pruning import apply_defaults
from purekube_convert import convert

NAMES = ("a", "b", "c")
LEAVES = st.sampled_from(
    ("integer", "integer | default=3", "integer | required=true", "integer | required=true default=2")
)
FIELDS = st.recursive(
    LEAVES, lambda inner: st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3), max_leaves=6
)
SPECS = st.dictionaries(st.sampled_from(NAMES), FIELDS, min_size=1, max_size=3)
VALUES = st.recursive(
    st.integers(0, 1), lambda inner: st.dictionaries(st.sampled_from(NAMES), inner, max_size=2), max_leaves=4
)


def has_default(field: Any) -> bool:
    """Whether kro gives the field a default: an object where none of its own is required and one has a default."""
    if isinstance(field, str):
        return "default=" in field
    required = any(isinstance(inner, str) and "required=true" in inner for inner in field.values())
    return not required and any(map(has_default, field.values()))


def filled(fields: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object as an API server stores it under kro's definition."""
    out = dict(value)
    for name, field in fields.items():
        if name not in out and has_default(field):
            out[name] = {} if isinstance(field, Mapping) else int(field.partition("default=")[2])
        if name in out and isinstance(field, Mapping) and isinstance(out[name], Mapping):
            out[name] = filled(field, out[name])
    return out


def shaped(fields: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    """As much of a drawn value as the fields can hold."""
    given = value if isinstance(value, Mapping) else {}
    out: dict[str, Any] = {}
    for name, inner in given.items():
        field = fields.get(name)
        if isinstance(field, Mapping):
            out[name] = shaped(field, inner)
        elif field is not None:
            out[name] = inner if isinstance(inner, int) else 0
    return out


@given(SPECS, VALUES)
@example({"a": {"b": "integer | default=3"}}, {})
@example({"a": {"b": {"c": "integer | default=3"}}}, {"a": {}})
@example({"a": {"b": "integer | default=3", "c": "integer | required=true"}}, {})
@example({"a": {"b": "integer | required=true default=2"}}, {})
def test_what_is_absent_is_filled_in_as_kro_does(fields: Mapping[str, Any], value: Any) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    schema = {"apiVersion": "v1", "kind": "Shop", "spec": fields}
    spec = {"schema": schema, "resources": [{"id": "pod", "template": pod}]}
    conversion = convert({"kind": "ResourceGraphDefinition", "metadata": {"name": "shop"}, "spec": spec})
    assert conversion.problems == ()
    (made,) = conversion.boxes
    openapi = get_path(made.crd, "spec", "versions")[0]["schema"]["openAPIV3Schema"]

    given_spec = shaped(fields, value)
    stored = apply_defaults(compile_schema(openapi), {"spec": given_spec})
    assert stored["spec"] == filled(fields, given_spec)
