"""Objects of our own kinds with a few parts broken at random, and the API server's judgement of them."""

import copy
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import attrs
from hypothesis import strategies as st

from purekube.apimachinery.errors import StatusCause
from purekube.schema.compile import compile_schema
from purekube.schema.node import Schema
from purekube.schema.pruning import apply_defaults, drop_nulls, prune
from purekube.schema.violations import validate
from tests.support.strategies import application_instances, clusters, json_values, operations
from vworkspace_core.api.codec import unstructure
from vworkspace_core.api.crd import crd_manifests

Json = Any

# What a rule somewhere is about, and what comes close to it.
NEAR_MISSES = st.one_of(
    st.sampled_from(["managed", "placeholder", "inline", "secretRef", "configMapRef", "helm", "oci"]),
    st.sampled_from(
        ["oci://x", "https://x", "http://x", "latest", "1.2.3", "v1.2.3", "1.2", "1.2.3\n", "n-", "a" * 70]
    ),
    st.sampled_from(["2030-01-01T00:00:00Z", "2030-01-01T24:00:00Z", "2030-02-30t00:00:00z", "2030-1-1", "²", "é.b"]),
)
NAMES = st.sampled_from(["chart", "mode", "source", "inline", "host", "enabled", "secretRef", "name", "namespace", "x"])


@attrs.frozen
class Write:
    """A create (`old` is None) or an update as the API server is asked for it."""

    manifest: Mapping[str, Any]
    old: Mapping[str, Any] | None


@cache
def schema_of(kind: str) -> Schema:
    """Compiled schema of one of our kinds."""
    (crd,) = (crd for crd in crd_manifests() if crd["spec"]["names"]["kind"] == kind)
    return compile_schema(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def judged_by_crd(manifest: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[StatusCause]:
    """What an API server that knows nothing but the CRD holds against a write."""
    schema = schema_of(manifest["kind"])
    return validate(schema, _decoded(schema, manifest), None if old is None else _decoded(schema, old))


def _decoded(schema: Schema, manifest: Mapping[str, Any]) -> Json:
    pruned, _unknown = prune(schema, copy.deepcopy(dict(manifest)))
    return apply_defaults(schema, drop_nulls(schema, pruned))


def _places(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in a spec, but for the insides of free objects."""
    if path:
        yield path
    if path and path[-1] in ("inline", "parameters"):
        return
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*path, key))


def _break(draw: st.DrawFn, spec: Json) -> None:
    places = list(_places(spec))
    if not places:
        return
    *path, last = draw(st.sampled_from(places))
    for step in path:
        spec = spec[step]
    how = draw(st.integers(0, 4))
    if how == 0 and isinstance(spec, dict):
        del spec[last]
    elif how == 1 and isinstance(spec, dict):
        spec[draw(NAMES)] = draw(json_values(3))
    elif how == 2:
        spec[last] = draw(json_values(4))
    elif how == 3:
        spec[last] = None
    else:
        spec[last] = draw(NEAR_MISSES | st.text(max_size=6))


@st.composite
def writes(draw: st.DrawFn) -> Write:
    """Creates and updates of objects of all our kinds, some valid and some not."""
    manifest = unstructure(draw(application_instances() | operations() | clusters()))
    manifest = copy.deepcopy({key: value for key, value in manifest.items() if key != "status"})
    old = copy.deepcopy(manifest) if draw(st.booleans()) else None
    if old is not None and manifest["kind"] == "Operation" and draw(st.booleans()):
        manifest["status"] = old["status"] = {"startedAt": "2030-01-31T12:00:00Z"}
    for _ in range(draw(st.integers(0, 3))):
        _break(draw, manifest["spec"])
    return Write(manifest, old)
