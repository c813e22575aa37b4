"""What is known of a box before it runs holds when it runs: types, references, secrets, order."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from purekube.boxes.compiler.compile import BoxExamination
from purekube.boxes.expressions import ExpressionFailure
from purekube.boxes.templates import Template
from purekube.boxes.when_conditions import OPERATORS
from purekube.graph.node import Until
from tests.support.boxes import box_of, config, crd, deployment, examined, secret, told
from tests.support.effort import effort

KIND = crd()
METADATA = {
    "name": "shop",
    "namespace": "team",
    "uid": "0-0",
    "generation": 1,
    "resourceVersion": "7",
    "creationTimestamp": "2026-01-01T00:00:00Z",
}
TEXTS = st.sampled_from(["", "a", "shop", "a-b", "42"])
PARTS = st.fixed_dictionaries({"name": TEXTS}, optional={"replicas": st.integers(0, 5)})
SPECS = st.fixed_dictionaries(
    {"image": TEXTS, "replicas": st.integers(0, 9), "parts": st.lists(PARTS, max_size=3)},
    optional={
        "host": TEXTS,
        "ratio": st.sampled_from([1, 2.5]),
        "free": st.dictionaries(TEXTS, TEXTS | st.integers(0, 3), max_size=2),
        "port": st.integers(1, 9) | TEXTS,
    },
)
"""Every spec that the schema of Shop lets in, in small."""

ATOMS = [
    *(
        "self.spec.image",
        "self.spec.replicas",
        "self.spec.host",
        "self.spec.?host",
        "self.spec.parts",
        "self.spec.ratio",
    ),
    *("self.metadata.name", "self.metadata.labels", "self.metadata.?labels", "self.spec.free.a", "self.spec.port"),
    *("1", "'a'", "true", "1.5", "[]", "['a']", "null", "{'a': 1}"),
    *("size(self.spec.parts)", "self.spec.parts.map(p, p.name)", "self.spec.parts.map(p, p.?replicas.orValue(1))"),
    *("self.spec.parts.map(p, p.replicas)", "self.spec.parts.filter(p, has(p.replicas)).map(p, p.name)"),
    *("has(self.spec.host)", "self.spec.parts.all(p, p.name != '')", "self.status", "self.?status.?ready"),
]
FORMS = [
    *("({0} + {1})", "({0} - {1})", "({0} == {1})", "({0} < {1})", "({0} in {1})", "({0} && {1})", "({0} || {1})"),
    *(
        "({0} ? {1} : {2})",
        "(has(self.spec.host) ? self.spec.host : {0})",
        "(!{0})",
        "(-{0})",
        "string({0})",
        "int({0})",
    ),
    *("size({0})", "{0}.orValue({1})", "{0}.size()", "{0}.contains({1})", "{0}.startsWith({1})", "{0}.join('-')"),
    *("{0}.map(x, {1})", "{0}.filter(x, {1})", "{0}.all(x, x == {1})", "{0}.sum()", "{0}.max()", "default({0}, {1})"),
    *(
        "hash({0})",
        "json({0})",
        "name({0}, {1})",
        "{0}.optMap(v, v + {1})",
        "[{0}, {1}]",
        "{0}.lowerAscii()",
        "{0}.sort()",
    ),
]
EXPRESSIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.tuples(st.sampled_from(FORMS), inner, inner, inner).map(lambda drawn: drawn[0].format(*drawn[1:])),
    max_leaves=4,
)
VALUES_OF_DATA = (
    "overflow",
    "zero",
    "out of",
    "cannot convert",
    "invalid",
    "empty",
    "parse",
    "at the least",
    "no integer",
    "not a",
)
"""Failures that depend on values, which no type tells: an overflow, a text that is no number, an empty list."""


def of_config(text: str) -> BoxExamination:
    """A box that hashes an expression, so that its type does not matter."""
    return examined(config("a", data={"x": f"${{hash([{text}])}}"}), kind=KIND)


@pytest.mark.slow
@settings(max_examples=effort(3))
@given(EXPRESSIONS, SPECS)
@example("(self.spec.ratio + 1.5)", {"image": "", "replicas": 1, "parts": [], "ratio": 1})
def test_an_accepted_expression_of_a_box_never_meets_a_type_that_it_does_not_take(
    text: str, spec: Mapping[str, Any]
) -> None:
    """L15: no fault on any object of the schema; a field is missing only where the check said that it may be."""
    examination = of_config(text)
    if examination.box is None or examination.unchecked:
        return
    scope = {"self": {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": METADATA, "spec": spec}}
    failed: ExpressionFailure | None = None
    try:
        examination.box.nodes[0].template.render(scope)
    except ExpressionFailure as failure:
        failed = failure
    assert failed is None or any(word in failed.problem for word in VALUES_OF_DATA), (text, failed)


SECRET_ATOMS = [
    *("pw.data.p", "pw.metadata.name", "pw", "pw.?data.?p", "has(pw.data.p)", "pw.data", "pw['data']", "size(pw.data)"),
    *("children.secret.data.p", "children.secret[*].map(s, s.data.p)", "children.secret[*].map(s, s.metadata.name)"),
    *("pw.type", "isReady(pw)", "hash(pw)", "hash(pw.data.p)", "json(pw)", "self.spec.image", "1", "'a'", "true"),
    *("pw.metadata", "pw.metadata.annotations", "pw.metadata.?annotations", "pw.metadata.labels", "[pw]", "[[pw]]"),
    *("pw.?metadata.?annotations[?'kubectl.kubernetes.io/last-applied-configuration']", "optional.of(pw)", "size(pw)"),
    *("children.secret[*]", "children.secret[*][0]", "children.secret[*].first()", "size(children.secret[*])"),
    *("pw.metadata.resourceVersion", "pw.metadata.uid", "pw.metadata.namespace", "{'a': pw}", "{'a': pw.data}.a"),
]
SECRET_FORMS = [
    *FORMS,
    *("{0}.exists(k, {1})", "{0}.exists_one(k, {1})", "{0}.all(k, {1})", "{0}.map(k, {1}, {2})", "{0}.filter(k, {1})"),
    *("{0}.exists(k, v, {1})", "{0}.all(k, v, {1})", "{0}.exists_one(k, v, {1})", "{0}.existsOne(k, v, {1})"),
    *("{0}.transformMap(k, v, {1})", "{0}.transformList(k, v, {1})", "{0}.transformList(k, v, {1}, {2})"),
    *("{0}.transformMapEntry(k, v, {{string({1}): {2}}})", "{0}.sortBy(k, {1})", "{0}.optFlatMap(v, optional.of({1}))"),
    *("{0}.exists(k, v, v.p.startsWith('Y'))", "{0}.exists(k, v, v.p == {1})", "{0}.all(k, k != 'p')", "{0}.map(k, k)"),
    *("cel.bind(x, {0}, x.data.p)", "cel.bind(x, {0}, {1})", "get({0}, 'data', 'p')", "{0}[{1}]", "{0}.?data.?p"),
    *("{0}.data.p", "{0}.p", "{0}.metadata", "{0}.annotations", "{0} == {1}", "{0}.hasValue()", "{0}.map(k, k.data.p)"),
    *("{0}.exists(s, s.data.p == 'YQ==')", "{0}.filter(s, s.data.p == 'YQ==')", "{0}.exists(k, v, string(v) > 'b')"),
]
SECRET_EXPRESSIONS = st.recursive(
    st.sampled_from(SECRET_ATOMS),
    lambda inner: st.tuples(st.sampled_from(SECRET_FORMS), inner, inner, inner).map(
        lambda drawn: drawn[0].format(*drawn[1:])
    ),
    max_leaves=5,
)


def world(password: str) -> dict[str, Any]:
    """Return a scope with a Secret, which is one of the children, and which kubectl has applied."""
    told = {"kubectl.kubernetes.io/last-applied-configuration": f'{{"data": {{"p": "{password}"}}}}'}
    metadata = {**METADATA, "name": "pw", "labels": {"a": "b"}, "annotations": told}
    one = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": {"p": password}}
    spec = {"image": "i", "replicas": 1, "parts": []}
    parent = {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": METADATA, "spec": spec}
    return {"self": parent, "pw": one, "children.secret[*]": [one]}


def rendered(template: Template, scope: Mapping[str, Any]) -> Any:
    try:
        return template.render(scope)
    except ExpressionFailure as failure:
        return failure.problem


def in_a_config_map(text: str) -> Template | None:
    """Return the template of a ConfigMap that says this; None where `box check` refuses it."""
    examination = examined(secret("pw", {"p": "x"}), config("a", data={"x": f"${{json([{text}])}}"}), kind=KIND)
    return None if examination.box is None else next(node.template for node in examination.box.nodes if node.id == "a")


@pytest.mark.slow
@settings(max_examples=effort(4))
@given(SECRET_EXPRESSIONS)
@example("has(pw.data.p) ? 'a' : 'b'")
@example("children.secret[*].filter(s, s.data.p == 'a').map(s, s.metadata.name)")
@example("pw.data.map(k, pw.data[k])")
@example("cel.bind(x, pw, x.data.p)")
@example("hash(pw.data.p)")
@example("pw.metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']")
@example("pw.exists(k, v, k == 'data' && v.p.startsWith('YQ'))")
@example("pw.all(k, v, k != 'data' || v.p == 'YQ==')")
@example("pw.exists_one(k, v, k == 'data' && v.p == 'YQ==')")
@example("pw.transformList(k, v, v)")
@example("pw.transformMap(k, v, v)")
@example("pw.map(k, pw[k])")
@example("pw.filter(k, string(pw[k]) > 'b')")
def test_two_worlds_that_differ_in_data_of_secrets_are_one_for_every_tenant(text: str) -> None:
    """L21: what is accepted in a ConfigMap renders the same in worlds that differ only in the data of Secrets."""
    template = in_a_config_map(text)
    if template is not None:
        assert rendered(template, world("YQ==")) == rendered(template, world("YmI="))


ACCEPTED: list[str] = [
    *("pw.metadata.name", "pw.metadata.namespace", "pw.metadata.uid", "pw.metadata.labels", "pw.type", "isReady(pw)"),
    *("children.secret[*].map(s, s.metadata.name)", "size(children.secret[*])", "pw.metadata.labels.?a.orValue('')"),
    *("has(pw.data)", "has(pw.stringData) || has(pw.metadata.labels)"),
    *("children.secret[*].filter(s, s.type == 'Opaque').map(s, s.metadata.name)", "optional.of(pw).value().type"),
    *(
        "[pw][0].metadata.name",
        "[pw, pw].map(s, s.type)",
        "cel.bind(x, pw, x.metadata.name)",
        "has(pw.metadata.labels)",
    ),
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_of_a_secret_its_identity_labels_type_and_readiness_may_be_told_to_a_tenant(text: str) -> None:
    assert in_a_config_map(text) is not None


def test_data_of_secrets_flows_into_secrets() -> None:
    """L21: and is hidden where it cannot be evaluated."""
    copy = secret("b", {"p": "${string(base64.decode(a.data.p))}", "h": "${hash(a.data)}"})
    box = box_of(secret("a", {"p": "x"}), copy)
    template = next(node.template for node in box.nodes if node.id == "b")
    told_of = rendered(template, {"a": {"data": {"p": "not base64: hunter2"}}})
    assert "hunter2" not in told_of
    assert "secret" in told_of


REFUSED: list[dict[str, Any]] = [
    {"when": ["${pw.data.p == 'a'}"]},
    {"includeWhen": ["${has(pw.data.p)}"]},
    {"readyWhen": ["${size(pw.data) > 0}"]},
    {"forEach": {"k": "${pw.data.map(k, k)}", "key": "${k}"}},
    {"forEach": {"s": "${children.secret[*].filter(s, true)}", "key": "${s.data.p}"}},
    {"data": {"h": "${hash(pw.data)}"}},
    {"when": [{"field": "pw.data.p", "exists": True}]},
    {"any": [{"field": "children.secret.data.p", "equals": "a"}]},
]


def test_data_of_secrets_decides_nothing() -> None:
    for more in REFUSED:
        examination = examined(secret("pw", {"p": "x"}), config("a", **more))
        assert any("data of a Secret may flow" in line for line in told(examination)), more
    status = examined(secret("pw", {"p": "x"}), status={"fields": {"address": "${pw.data.p}"}})
    assert any("data of a Secret may flow" in line for line in told(status))


GRAPHS = st.integers(1, 7).flatmap(
    lambda size: st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=10).map(
        lambda edges: (size, edges)
    )
)


def reaches(edges: list[tuple[int, int]], start: int, end: int) -> bool:
    seen, open_ = set[int](), [start]
    while open_:
        for source, target in edges:
            if source == open_[-1] and target not in seen:
                seen.add(target)
                open_.insert(0, target)
        open_.pop()
    return end in seen


@given(GRAPHS)
def test_a_box_is_refused_exactly_where_its_resources_wait_for_each_other(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    """L6, and the message is one of the cycles."""
    size, drawn = graph
    edges = [(source, target) for source, target in drawn if source != target]
    reads = {node: [f"${{n{to}.metadata.name}}" for of, to in edges if of == node] for node in range(size)}
    examination = examined(*(config(f"n{node}", data=dict(enumerated(texts))) for node, texts in reads.items()))
    cyclic = any(reaches(edges, node, node) for node in range(size))
    assert (examination.box is None) is cyclic
    if examination.box is not None:
        waves = {node.id: node.wave for node in examination.box.nodes}
        assert all(waves[f"n{source}"] > waves[f"n{target}"] for source, target in edges)
    else:
        (line,) = told(examination)
        names = line.rpartition(": ")[2].split(" → ")
        assert names[0] == names[-1]
        assert all((int(a[1:]), int(b[1:])) in edges for a, b in pairwise(names))


def enumerated(texts: list[str]) -> list[tuple[str, str]]:
    return [(f"k{at}", text) for at, text in enumerate(texts)]


GATES = st.sampled_from(
    [
        ({"field": "children.deployment.status.readyReplicas", "equals": 2}, "web.status.readyReplicas == 2"),
        ({"field": "web.status.readyReplicas", "greaterOrEqual": 2}, "web.status.readyReplicas >= 2"),
        ({"field": "children.deployment.web.status.readyReplicas", "in": [1, 2]}, "web.status.readyReplicas in [1, 2]"),
        ({"field": "web.status.readyReplicas", "notEquals": 1}, "web.status.readyReplicas != 1"),
        ({"field": "spec.image", "matches": "^a"}, "self.spec.image.matches('^a')"),
        ({"field": "web", "isReady": True}, "isReady(web)"),
    ]
)


@given(GATES, st.booleans(), SPECS, st.none() | st.integers(0, 3))
def test_gates_as_mappings_and_as_texts_agree(
    gate: tuple[dict[str, Any], str], negated: bool, spec: Mapping[str, Any], ready: int | None
) -> None:
    """L22: and what is missing never holds, negated or not."""
    mapping, text = gate
    negation = f"!({text})" if negated else text
    whens = [[{**mapping, "not": negated}], [f"${{{negation}}}"]]
    boxes = [box_of(deployment("web"), config("a", when=when), kind=KIND) for when in whens]
    status = {} if ready is None else {"readyReplicas": ready}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": METADATA, "spec": {}, "status": status}
    scope = {"self": {"metadata": METADATA, "spec": spec}, "web": web}
    answers = []
    for box in boxes:
        (one,) = next(node for node in box.nodes if node.id == "a").when_conditions
        holds = False
        assert one.expression is not None
        with suppress(ExpressionFailure):
            holds = one.expression.holds(scope)
        answers.append(holds)
    assert answers[0] == answers[1]
    assert not (ready is None and "readyReplicas" in text and answers[0])


def test_every_operator_of_a_gate_is_typed_in_a_box() -> None:
    """L22: a comparison with another type is refused where types are known."""
    wrong = {"equals": 1, "notEquals": 1, "in": [1], "notIn": [1], "greaterThan": 1, "matches": 1}
    for operator in wrong.keys() & set(OPERATORS):
        examination = examined(config("a", when=[{"field": "spec.image", operator: wrong[operator]}]))
        assert examination.problems, operator


def test_every_branch_that_may_be_read_orders_the_waves_but_none_is_said_to_be_needed() -> None:
    """Trap 12: edges of expressions are inferred, so that what was not touched is no dependency (L16)."""
    box = box_of(
        config("a"), config("b"), config("c", data={"x": "${self.spec.replicas > 1 ? a.metadata.uid : b.metadata.uid}"})
    )
    found = next(node for node in box.nodes if node.id == "c").edges
    assert {(edge.to, edge.until, edge.declared) for edge in found} == {
        ("a", Until.OBSERVED, False),
        ("b", Until.OBSERVED, False),
    }
