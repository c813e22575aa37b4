"""Whatever a client sends, a write has an outcome or is refused: the pipeline raises `ApiFailure` and nothing else."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubelab.builtin.resources import BUILTIN_DEFINITIONS
from kubelab.model.calls import WriteOutcome, WriteRequest
from kubelab.model.definition import ServedKind
from kubelab.model.failure import ApiFailure, status_body
from kubelab.writes import pipeline
from purekube.apimachinery.manifest import merge_patch
from purekube.ports import PatchType
from purekube.schema.node import JsonType, Schema
from tests.support.effort import effort
from tests.support.ssa_world import THING, World

pytestmark = pytest.mark.slow

SCALARS = (
    st.none() | st.booleans() | st.integers(-1, 70_000) | st.just(1.5) | st.sampled_from(["", "a", "x.y.z/a", "1Gi"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["name", "spec", "metadata", "labels", "a", "containers", "ports"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def like(schema: Schema, depth: int = 4) -> st.SearchStrategy[Any]:
    """Values that mostly fit `schema`, and sometimes are anything. Built once for each node of a schema."""
    return _like(_Node(schema), depth) if depth else JSON


@attrs.frozen(eq=False)
class _Node:
    """A schema, known by its place in memory: it is too large to be compared."""

    schema: Schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Node) and other.schema is self.schema


@cache
def _like(node: _Node, depth: int) -> st.SearchStrategy[Any]:
    fitting = _fitting(node.schema, depth)
    return st.one_of(fitting, fitting, JSON)


def _fitting(schema: Schema, depth: int) -> st.SearchStrategy[Any]:
    match schema.type:
        case JsonType.OBJECT:
            names = sorted(schema.properties)[:40]
            if not names:
                return st.dictionaries(st.sampled_from(["a", "k.y"]), JSON, max_size=2)
            picks = st.lists(st.sampled_from(names), max_size=4, unique=True)
            return picks.flatmap(
                lambda keys: st.fixed_dictionaries({key: like(schema.properties[key], depth - 1) for key in keys})
            )
        case JsonType.ARRAY:
            return st.lists(like(schema.items, depth - 1) if schema.items else JSON, max_size=2)
        case JsonType.STRING:
            return st.sampled_from(["", "a", "TCP", "2026-01-01T00:00:00Z", "Yg=="])
        case JsonType.BOOLEAN:
            return st.booleans()
        case JsonType.INTEGER | JsonType.NUMBER:
            return st.integers(-1, 3)
        case _:
            return JSON


def bodies(definition: ServedKind) -> st.SearchStrategy[Any]:
    fields = {key: child for key, child in definition.schema.properties.items() if key not in ("apiVersion", "kind")}
    known = {"apiVersion": st.just(definition.api_version), "kind": st.just(definition.kind.kind)}
    named = st.fixed_dictionaries(
        {"name": st.just("a")}, optional={"labels": JSON, "finalizers": JSON, "ownerReferences": JSON}
    )
    meta = st.one_of(named, named, like(fields.pop("metadata"), 3))
    return st.fixed_dictionaries(
        {**known, "metadata": meta}, optional={key: like(child) for key, child in fields.items()}
    )


def write(definition: ServedKind, **more: Any) -> WriteRequest:
    space = "t" if definition.kind.namespaced else ""
    return WriteRequest(manager="m", now="2026-01-01T00:00:00Z", name="a", namespace=space, uid="0f", **more)


def attempt(act: Callable[[], WriteOutcome]) -> dict[str, Any] | None:
    """The stored object, None where the write is refused properly."""
    found = outcome_or_refusal(act)
    if isinstance(found, ApiFailure):
        assert 400 <= found.status <= 500
        assert status_body(found)["message"]
        return None
    stored = found.object
    return {**stored, "metadata": {**stored["metadata"], "resourceVersion": "1"}}


def outcome_or_refusal(act: Callable[[], WriteOutcome]) -> WriteOutcome | ApiFailure:
    try:
        return act()
    except ApiFailure as failure:
        return failure


def every_write(definition: ServedKind, first: Any, second: Any) -> None:
    attempt(lambda: pipeline.apply(definition, None, first, write(definition)))
    live = attempt(lambda: pipeline.create(definition, first, write(definition)))
    if live is None:
        return
    attempt(lambda: pipeline.update(definition, live, {**second, "metadata": live["metadata"]}, write(definition)))
    attempt(lambda: pipeline.apply(definition, live, second, write(definition, force=True)))
    for subresource in ("", *definition.subresources):
        to = write(definition, subresource=subresource)
        for kind in (PatchType.MERGE, PatchType.STRATEGIC):
            attempt(lambda kind=kind, to=to: pipeline.patch(definition, live, second, kind, to))  # type: ignore[misc]


PODS: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
ROLLED: dict[str, Any] = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": PODS}}
ONCE: dict[str, Any] = {"spec": {**PODS["spec"], "restartPolicy": "Never"}}
HOOK = {
    "name": "a.b.c",
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "clientConfig": {"url": "https://x"},
    "rules": [{"operations": ["*"]}],
}
SOUND: dict[str, dict[str, Any]] = {
    "Pod": {"spec": PODS["spec"]},
    "Deployment": ROLLED,
    "StatefulSet": ROLLED,
    "DaemonSet": ROLLED,
    "Job": {"spec": {"template": ONCE}},
    "CronJob": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ONCE}}}},
    "Service": {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "Role": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "RoleBinding": {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]},
    "ClusterRoleBinding": {"roleRef": {"kind": "ClusterRole", "name": "r"}},
    "ValidatingWebhookConfiguration": {"webhooks": [HOOK]},
    "MutatingWebhookConfiguration": {"webhooks": [HOOK]},
    "StorageClass": {"provisioner": "p"},
    "Event": {
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"namespace": "t"},
        "involvedObject": {"namespace": "t"},
        "reportingController": "c",
        "reportingInstance": "i",
        "action": "a",
        "reason": "r",
        "type": "Normal",
    },
    "CustomResourceDefinition": {
        "spec": {
            "group": "x.y",
            "scope": "Cluster",
            "names": {"plural": "as", "kind": "A"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        }
    },
}
"""Content of some kinds that is accepted as it is; what the generator adds may spoil it."""


def mostly_sound(definition: ServedKind) -> st.SearchStrategy[Any]:
    """Any body, or a sound one with anything merged into it."""
    anything = bodies(definition)
    sound = SOUND.get(definition.kind.kind, {})
    return st.one_of(
        anything,
        anything.map(lambda body: merge_patch(body, sound)),
        anything.map(lambda body: merge_patch(sound, body)),
    )


BUILT_IN = {f"{one.kind.group}/{one.kind.kind}": one for one in BUILTIN_DEFINITIONS}
BODIES = {name: mostly_sound(definition) for name, definition in BUILT_IN.items()}


@pytest.mark.parametrize("name", BUILT_IN)
@settings(max_examples=effort(0.6))
@given(data=st.data())
def test_any_body_of_a_built_in_kind_has_an_answer(name: str, data: st.DataObject) -> None:
    first, second = data.draw(BODIES[name], "first"), data.draw(BODIES[name], "second")
    every_write(BUILT_IN[name], first, second)


@given(bodies(THING), bodies(THING))
def test_any_body_of_a_custom_kind_has_an_answer(first: Any, second: Any) -> None:
    every_write(THING, first, second)


@given(JSON)
@example([])
@example({"apiVersion": 1, "kind": "Thing"})
@example({"apiVersion": "tests.example/v1", "kind": ["Thing"], "metadata": 3})
def test_any_json_at_all_has_an_answer(body: Any) -> None:
    live = World().create("U", {"str": "x"}).object
    attempt(lambda: pipeline.create(THING, body, write(THING)))
    attempt(lambda: pipeline.apply(THING, None, body, write(THING)))
    attempt(lambda: pipeline.apply(THING, live, body, write(THING)))
    attempt(lambda: pipeline.update(THING, live, body, write(THING)))
    for kind in (PatchType.MERGE, PatchType.JSON, PatchType.STRATEGIC):
        attempt(lambda kind=kind: pipeline.patch(THING, live, body, kind, write(THING)))  # type: ignore[misc]


OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"])},
        optional={
            "path": st.sampled_from(
                ["", "/spec", "/spec/str", "/spec/al/-", "/spec/al/0", "/metadata/name", "/kind", "/x"]
            ),
            "from": st.sampled_from(["", "/spec", "/metadata", "/spec/str"]),
            "value": JSON,
        },
    ),
    max_size=4,
)


@given(OPERATIONS)
def test_any_json_patch_has_an_answer(operations: Any) -> None:
    live = World().create("U", {"str": "x", "al": ["a"]}).object
    attempt(lambda: pipeline.patch(THING, live, operations, PatchType.JSON, write(THING)))


def test_the_generator_reaches_both_outcomes() -> None:
    found: set[bool] = set()

    @given(bodies(THING))
    def look(body: Any) -> None:
        found.add(attempt(lambda: pipeline.create(THING, body, write(THING))) is None)

    with suppress(AssertionError):
        look()
    assert found == {True, False}
