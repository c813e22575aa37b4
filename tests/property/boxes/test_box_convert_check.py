"""Where a conversion has nothing to tell, `box check` has nothing to tell either (PH-6)."""

from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from purekube.boxes.compiler.compile import examine
from purekube.boxes.read import read_box
from purekube.boxes.schemas import CrdVersions, Schemas
from purekube_convert import convert
from tests.support.boxes import crd

TEXTS = st.sampled_from(
    [
        "plain", "{{ .spec.image }}", "{{ .spec.host }}", "a-{{ .spec.host }}-b", "{{ .spec.replicas }}", "${HOME}",
        '{{ default .spec.host "none" }}', '{{ if .spec.host }}{{ .spec.host }}{{ else }}none{{ end }}',
        '{{ ternary .spec.host "a" "b" }}', '{{ printf "%s-%v" .spec.image .spec.replicas }}', "a b",
        "{{ toUpper .spec.host }}",
        '{{ if eq .spec.image "x" }}a{{ else if gt .spec.replicas 2 }}b{{ end }}', "{{ .metadata.namespace }}",
        "{{ .metadata.labels.tier }}", "{{ toBase64 .spec.image }}", '{{ coalesce .spec.host .spec.image "c" }}',
    ]
)  # fmt: skip
NUMBERS = st.sampled_from(
    ["3", 3, "{{ .spec.replicas }}", "{{ default .spec.replicas 2 }}", "{{ add .spec.replicas 1 }}"]
)
GATES = st.sampled_from(
    [
        {"field": "spec.host"}, {"field": "spec.host", "operator": "notExists"}, {"field": "spec.replicas", "gt": 1},
        {"field": "spec.image", "in": "a, b"}, {"field": "spec.image", "prefix": "a."},
        {"field": "spec.host", "equals": ""}, {"field": "spec.replicas", "between": "1,5"},
        {"field": "spec.host", "notEquals": "x", "negate": True},
        {"field": "children.deployment.status.readyReplicas", "equals": "{{ .spec.replicas }}"},
        {"field": "{{ readyReplicas .children.deployment }}", "gte": "1"}, {"field": "metadata.name", "suffix": "x"},
        {"field": "{{ allReplicasReady .children.deployment }}", "equals": "true"},
        {"field": "children.deployment.spec.replicas", "min": "1"},
    ]
)  # fmt: skip
ASKED = st.fixed_dictionaries({}, optional={"when": st.lists(GATES, max_size=2), "or": st.lists(GATES, max_size=2)})
MAPS = st.dictionaries(st.sampled_from(["a", "b"]), TEXTS, max_size=2)


def entries(name: str, gated: bool = True, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """At most one entry of that name."""
    optional = {"labels": MAPS, "annotations": MAPS, "reconcile": st.booleans()}
    entry = st.fixed_dictionaries({"name": st.just(name), **fields}, optional=optional)
    return st.lists(st.builds(lambda one, asked: {**one, **asked}, entry, ASKED if gated else st.just({})), max_size=1)


BLOCKS = st.fixed_dictionaries({
    "deployments": st.builds(
        lambda more: [{"name": "{{ .metadata.name }}", "image": "{{ .spec.image }}", "reconcile": True, **more}],
        st.fixed_dictionaries({}, optional={"replicas": NUMBERS, "port": NUMBERS, "labels": MAPS}),
    ),
    "configMaps": entries("{{ .metadata.name }}-config", data=MAPS),
    "services": entries("{{ .metadata.name }}-svc", port=NUMBERS),
    "ingresses": entries("in", host=TEXTS, serviceName=TEXTS, servicePort=NUMBERS),
    "jobs": entries("job", image=TEXTS, command=st.lists(TEXTS, max_size=2)),
})  # fmt: skip
FIELDS = st.fixed_dictionaries({}, optional={
    "ready": st.sampled_from(["{{ readyReplicas .children.deployment }}", "{{ .spec.replicas }}", "3"]),
    "address": TEXTS,
})  # fmt: skip


@cache
def shop() -> tuple[dict[str, Any], CrdVersions]:
    return crd(), CrdVersions.of(crd())


@given(BLOCKS, FIELDS)
def test_a_converted_katalog_passes_the_check(block: dict[str, Any], fields: dict[str, Any]) -> None:
    manifest, versions = shop()
    document = {"operatorBox": {"crdFile": "shop.yaml", "onReconcile": block, "status": {"fields": fields}}}

    conversion = convert(document, {"shop.yaml": manifest})

    assert conversion.problems == ()
    found = examine(read_box(conversion.boxes[0].box), versions, Schemas([versions]))
    assert [str(problem) for problem in found.problems] == []
