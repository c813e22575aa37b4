"""A second look at what did not change: left out, without anybody seeing it.

An object that was stored under a schema keeps to it. Writes that share parts with it take them as they are. What they
store and refuse must be the same as when everything is looked at again.
"""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.model.calls import WriteOptions, WriteOutcome, WriteRequest
from kubelab.model.definition import ServedKind, definitions_of_crd
from kubelab.model.failure import ApiFailure, status_body
from kubelab.model.records import decode, encode
from kubelab.server import ApiServer
from kubelab.writes import pipeline
from kubelab.writes.body_decoding import sharing
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.ports import PatchType
from tests.support.apiserver_world import GIZMO, apply, at, crd, gizmo, new_server

STRING: dict[str, Any] = {"type": "string"}
PART: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": STRING,
        "n": {"type": "integer", "default": 1},
        "none": {"type": "string", "nullable": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
    "x-kubernetes-validations": [{"rule": "self.a != 'bad'"}, {"rule": "self.n >= oldSelf.n"}],
}
KEYED: dict[str, Any] = {
    "type": "array",
    "items": {**PART, "required": ["a"]},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["a"],
}
LOOSE: dict[str, Any] = {**PART, "required": ["a"], "x-kubernetes-validations": [{"rule": "self.a != 'bad'"}]}
LISTS: dict[str, Any] = {
    "keyed": KEYED,
    "loose": {"type": "array", "items": LOOSE},
    "plain": {"type": "array", "items": STRING},
}
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {"first": PART, "second": PART, **LISTS},
    "x-kubernetes-validations": [{"rule": "!has(self.first) || !has(self.second) || self.first.n <= self.second.n"}],
}
OPTIONS = WriteOptions("m")


def definition(spec: dict[str, Any]) -> ServedKind:
    return definitions_of_crd(crd_of(spec))[0]


def crd_of(spec: dict[str, Any]) -> dict[str, Any]:
    out = crd(GIZMO)
    out["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return out


NOW = definition(SPEC)
VALUES = st.sampled_from(["x", "bad", None, 1, 2, 2.0])
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.sampled_from(["x", "x", "y", "bad"]),
        "n": st.sampled_from([1, 2, 2.0, 3]),
        "none": st.none() | st.just("x"),
        "free": st.dictionaries(st.sampled_from(["k", "l"]), VALUES, max_size=2),
    },
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "first": PARTS,
        "second": PARTS,
        "keyed": st.lists(PARTS, max_size=2),
        "loose": st.lists(PARTS, max_size=3),
        "plain": st.lists(st.sampled_from(["x", "y", "x", 1]), max_size=2),
    },
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(st.sampled_from(["l", "m", "no good"]), st.sampled_from(["", "v"]), max_size=1),
        "annotations": st.dictionaries(st.sampled_from(["a", "b", "no good"]), st.just("v"), max_size=1),
        "finalizers": st.lists(st.sampled_from(["x/y", "x/z", "no good"]), max_size=1, unique=True),
    },
)
PUT = "PUT"
WRITES = st.tuples(st.sampled_from([None, PatchType.MERGE, PUT]), SPECS, METADATA, st.sampled_from(["m", "other"]))


def request(manager: str, *, settled: bool) -> WriteRequest:
    return WriteRequest(manager, "2026-01-01T00:00:00Z", "g", "default", force=True, uid="u", settled=settled)


def outcome(live: Any, write: Any, *, settled: bool) -> WriteOutcome | dict[str, Any]:
    """What comes of a write: the outcome, or the refusal."""
    patch_type, spec, metadata, manager = write
    try:
        if live is None or patch_type is None:
            body = {**gizmo("g", **metadata), "spec": spec}
            return pipeline.apply(NOW, live, body, request(manager, settled=settled))
        if patch_type == PUT:
            body = decode(encode({**live, "metadata": {**live["metadata"], **metadata}, "spec": spec}))
            return pipeline.update(NOW, live, body, request(manager, settled=settled))
        body = {"metadata": metadata, "spec": spec}
        return pipeline.patch(NOW, live, body, patch_type, request(manager, settled=settled))
    except ApiFailure as failure:
        return status_body(failure)


RAISED = [
    (None, {"first": {"a": "x", "n": 2}, "second": {"a": "x", "n": 2}}, {"labels": {"l": "v"}}, "m"),
    (PatchType.MERGE, {"second": {"n": 1}}, {}, "m"),
    (PatchType.MERGE, {"first": {"free": {"k": 2.0}}, "keyed": [{"a": "x"}]}, {"finalizers": ["x/y"]}, "other"),
    (None, {"keyed": [{"a": "x", "n": 0}], "second": {"a": "bad"}}, {}, "other"),
    (PatchType.MERGE, {"loose": [{"a": "x", "free": {"k": 1}}, {"a": "y"}]}, {}, "m"),
    (PatchType.MERGE, {"loose": [{"a": "z"}, {"a": "x", "free": {"k": True}}, {"a": "y"}]}, {}, "other"),
    (None, {"loose": [{"a": "x", "n": 1, "free": {"k": True}}, {"a": "y", "n": 1}, {"a": "bad"}]}, {}, "m"),
    (PUT, {"second": {"a": "x", "n": 2}, "first": {"a": "x"}, "plain": ["x"]}, {}, "other"),
]


@given(st.lists(WRITES, min_size=1, max_size=4))
@example(RAISED[1:])
def test_a_write_comes_to_the_same_whether_or_not_it_looks_again_at_what_stays(writes: list[Any]) -> None:
    live: Any = None
    for version, write in enumerate([RAISED[0], *writes], 1):
        quick, slow = (outcome(live, write, settled=live is not None and first) for first in (True, False))

        assert quick == slow
        if isinstance(quick, WriteOutcome) and isinstance(slow, WriteOutcome):
            assert encode(quick.object) == encode(slow.object)

        if isinstance(slow, WriteOutcome) and slow.changed:
            assert isinstance(quick, WriteOutcome)
            assert quick.schema is NOW.schema
            live = {**slow.object, "metadata": {**slow.object["metadata"], "resourceVersion": str(version)}}


def test_a_patch_shares_the_items_that_stay_at_the_start_or_the_end_of_a_list() -> None:
    first, second = {"a": "x"}, {"a": "y"}
    old = {"list": [first, second], "flag": 1}

    more = sharing(old, {"list": [{"a": "n"}, {"a": "x"}, {"a": "y"}], "flag": True})
    less = sharing(old, {"list": [{"a": "y"}], "flag": 1})

    assert more["list"][1] is first
    assert more["list"][2] is second
    assert more["list"][0] == {"a": "n"}
    assert more["flag"] is True, "1 equals true in Python, but not in JSON"
    assert less["list"][0] is second
    assert sharing(old, {"list": [{"a": "x"}, {"a": "y"}], "flag": 1}) is old


def changed(server: ApiServer, **patch: Any) -> dict[str, Any]:
    where = at(server, GIZMO, "g")
    return server.patch(where, patch, PatchType.MERGE, OPTIONS).object()


def test_after_a_change_of_the_schema_everything_is_looked_at_again() -> None:
    """Measured on kube-apiserver 1.36: a failed rule on an unchanged value passes, one that cannot be run does not."""
    loose = {**SPEC, "properties": {**SPEC["properties"], "old": STRING}, "x-kubernetes-validations": []}
    loose["properties"]["first"] = {**PART, "x-kubernetes-validations": []}
    server = new_server()
    definitions = at(server, CUSTOM_RESOURCE_DEFINITION, GIZMO.crd_name)
    server.patch(definitions, {"spec": crd_of(loose)["spec"]}, PatchType.MERGE, OPTIONS)
    server.create(at(server, GIZMO), {**gizmo("g"), "spec": {"old": "x", "first": {"n": 1, "free": {"f": 1}}}})

    server.patch(definitions, {"spec": crd_of(SPEC)["spec"]}, PatchType.MERGE, OPTIONS)
    with pytest.raises(ApiFailure, match="no such key: a evaluating rule"):
        changed(server, spec={"plain": ["x"]})

    assert changed(server, spec={"first": {"a": "x"}})["spec"] == {"first": {"a": "x", "n": 1, "free": {"f": 1}}}


def test_what_no_schema_has_seen_is_looked_at() -> None:
    server = new_server()
    server.create(at(server, GIZMO), gizmo("g"))
    where = at(server, GIZMO, "g")
    odd = server.get(where).object()
    odd["spec"]["odd"] = 1
    assert not server.store.put(where.resource.storage, odd).schema, "past validation, as from an older etcd"

    after = apply(server, gizmo("g", labels={"a": "b"}))

    assert after["spec"] == {"size": 1, "mode": "normal"}
    record = server.store.get(where.resource.storage, where.key)
    assert record is not None
    assert record.schema is where.resource.definition.schema
