"""Each mistake in a box is told once, at its field and at its character, and what is no mistake is not (PH-6)."""

from typing import Any

import pytest

from purekube.apimachinery.problems import Place
from purekube.boxes.compiler.compile import examine
from purekube.boxes.read import read_box
from purekube.boxes.schemas import CrdVersions, Schemas
from tests.support.boxes import CONDITIONS, InDocument, config, crd, deployment, document, secret

NOWHERE = -1
"""A place is a whole field, and no character of it."""


class WithOffsets(InDocument):
    """The lookup that keeps the number of the character as the column."""

    def at(self, path: str, offset: int | None = None) -> Place:
        return Place(super().at(path, offset).path, column=NOWHERE if offset is None else offset)


def config_map(**more: Any) -> dict[str, Any]:
    return {"id": "a", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **more}}


CASES: list[tuple[list[Any], dict[str, Any], list[tuple[str, int, str]]]] = [
    (
        [config("a", data={"x": "${1.5}"})],
        {},
        [("R.template.data.x", 2, "expected string, found double: write string(…) (1.5)")],
    ),
    (
        [config("a", data={"x": "${true}"})],
        {},
        [("R.template.data.x", 2, "expected string, found bool: write string(…) (true)")],
    ),
    (
        [config("a", data={"x": "${1u}"})],
        {},
        [("R.template.data.x", 2, "expected string, found uint: write string(…) (1u)")],
    ),
    ([config("a", data={"x": "${[1]}"})], {}, [("R.template.data.x", 2, "expected string, found list(int) ([1])")]),
    ([config("a", data={"x": "${b'a'}"})], {}, []),
    (
        [config("a", data={"x": "to ${self.spec.host}"})],
        {},
        [
            (
                "R.template.data.x",
                14,
                "spec.host may be absent: write self.spec.?host, ask has(self.spec.host), or require it or give "
                "it a default in shops.example.com",
            )
        ],
    ),
    ([config("a", data={"x": "${timestamp(0)}"})], {}, []),
    ([config("a", data={"x": "${self.spec.?host}"})], {}, []),
    ([config("a", data={"x": [1]})], {}, [("R.template.data.x", -1, "expected string, found a list")]),
    ([config("a", data={"x": {"a": 1}})], {}, [("R.template.data.x", -1, "expected string, found an object")]),
    ([config_map(data="x")], {}, [("R.template.data", -1, "expected object, found a string")]),
    (
        [deployment("a", spec={"replicas": {"a": 1}})],
        {},
        [("R.template.spec.replicas", -1, "expected integer, found an object")],
    ),
    (
        [deployment("a", spec={"replicas": [1]})],
        {},
        [("R.template.spec.replicas", -1, "expected integer, found a list")],
    ),
    (
        [deployment("a", spec={"replicas": True})],
        {},
        [("R.template.spec.replicas", -1, "expected integer, found a boolean")],
    ),
    (
        [deployment("a", spec={"replicas": "${1.5}"})],
        {},
        [("R.template.spec.replicas", 2, "expected integer, found double: write int(…) (1.5)")],
    ),
    ([deployment("a", spec={"replicas": "${1u}"})], {}, []),
    ([deployment("a", spec={"selector": "${{'matchLabels': {'a': 1}}}"})], {}, []),
    ([deployment("a", spec={"selector": "${{'matchLabel': {'a': 'b'}}}"})], {}, []),
    (
        [deployment("a", spec={"selector": "${1}"})],
        {},
        [("R.template.spec.selector", 2, "expected object, found int (1)")],
    ),
    (
        [deployment("a", spec={"template": {"spec": {"containers": "${[1]}"}}})],
        {},
        [("R.template.spec.template.spec.containers", 2, "[*]: expected object, found int ([1])")],
    ),
    (
        [config("a", data={"x": "one\n${self.spec.image"})],
        {},
        [("R.template.data.x", 4, "${ without its }; write $${ for a ${ that is plain text")],
    ),
    (
        [config("a", data={"tls.crt": "one\ntwo\n ${self.spec.image"})],
        {},
        [("R.template.data['tls.crt']", 9, "${ without its }; write $${ for a ${ that is plain text")],
    ),
    (
        [config_map(metadata={"name": "a", "finalizers": ["a", "\n${'a"]})],
        {},
        [("R.template.metadata.finalizers[1]", 3, "a text without an end")],
    ),
    (
        [config("a", data={"x": "${self.spec.image"})],
        {},
        [("R.template.data.x", 0, "${ without its }; write $${ for a ${ that is plain text")],
    ),
    ([config("a", data={"x": "${}"})], {}, [("R.template.data.x", 2, "expected an expression, found the end")]),
    (
        [config("a", data={"x": "a ${self.spec.image +} b"})],
        {},
        [("R.template.data.x", 21, "expected an expression, found the end")],
    ),
    ([config("a", data={"x": "a ${foo} b"})], {}, [("R.template.data.x", 4, "undeclared reference to 'foo'")]),
    (
        [config("a", when=["${true} ${false}"])],
        {},
        [("R.when[0]", -1, "must be a gate such as {field: spec.host, exists: true}, or ")],
    ),
    ([config("a", readyWhen=["${1}"])], {}, [("R.readyWhen[0]", 2, "must give true or false, not int")]),
    ([config("a", readyWhen=["${1 +}"])], {}, [("R.readyWhen[0]", 5, "expected an expression, found the end")]),
    (
        [config("a", "${p}", forEach={"p": "${['a']}", "key": "${1}"})],
        {},
        [("R.forEach.key", 2, "must give a string, not int: write string(…)")],
    ),
    ([config("a", forEach={"p": "${['a']}", "key": "${p}"})], {}, []),
    (
        [config("a", "${self}", forEach={"self": "${['a']}", "key": "${self}"})],
        {},
        [("R.forEach", -1, "the variable self has the name of something else: choose ano")],
    ),
    (
        [{"id": "a", "template": {"apiVersion": "v1", "kind": "", "metadata": {"name": "a"}}}],
        {},
        [("R.template.kind", -1, "kind is required: a text")],
    ),
    (
        [{"id": "a", "template": {"apiVersion": "v1", "kind": 3, "metadata": {"name": "a"}}}],
        {},
        [("R.template.kind", -1, "kind is required: a text")],
    ),
    (
        [{"id": "a", "template": {"apiVersion": "v1", "metadata": {"name": "a"}}}],
        {},
        [("R.template", -1, "kind is required: a text")],
    ),
    (
        [{"id": "a", "template": {"kind": "ConfigMap", "metadata": {"name": "a"}}}],
        {},
        [("R.template", -1, "apiVersion is required: a text")],
    ),
    (
        [{"id": "a", "template": {"apiVersion": "${'v1'}", "kind": "ConfigMap", "metadata": {"name": "a"}}}],
        {},
        [("R.template.apiVersion", -1, "must be a literal: watches, roles and deletion are known whe")],
    ),
    (
        [{"id": "a", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}}],
        {},
        [("R.template.metadata", -1, "name is required")],
    ),
    (
        [{"id": "a", "template": {"apiVersion": "v1", "kind": "ConfigMap"}}],
        {},
        [("R.template.metadata", -1, "is required, with a name")],
    ),
    (
        [config_map(status={"a": 1})],
        {},
        [
            ("R.template.status", -1, "is what its controller writes: a template cannot"),
            ("R.template.status", -1, "undefined field"),
        ],
    ),
    (
        [{"id": "a", "template": {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}}}],
        {},
        [("R.template.kind", -1, "no ConfigMap is known in v2; did you mean apiVersion: v1?")],
    ),
    (
        [config("a")],
        {"status": {"fields": {"adress": "${'a'}"}}},
        [("spec.status.fields.adress", -1, "the API server would drop it: shop-crd.yaml declares no stat")],
    ),
    (
        [config("a")],
        {"status": {"fields": {"conditions": "${[]}"}}},
        [("spec.status.fields.conditions", -1, "is written by the engine; declare conditions under status.co")],
    ),
    (
        [config("a")],
        {"status": {"fields": {"observedGeneration": "${1}"}}},
        [("spec.status.fields.observedGeneration", -1, "is written by the engine; declare conditions under status.co")],
    ),
    (
        [config("a")],
        {"kind": crd(status={"type": "object", "properties": {"conditions": CONDITIONS}})},
        [("spec.crd", -1, "shop-crd.yaml: the API server would drop status.observedGene")],
    ),
    (
        [config("a")],
        {"kind": crd(status={"type": "object", "properties": {"observedGeneration": {"type": "integer"}}})},
        [("spec.crd", -1, "shop-crd.yaml: the API server would drop status.conditions; ")],
    ),
    (
        [config("a")],
        {"status": {"conditions": [{"type": "Ok", "status": "${1}"}]}},
        [("spec.status.conditions[0].status", 2, "must give true or false, not int")],
    ),
    (
        [config("a")],
        {"status": {"conditions": [{"type": "Ready", "status": "${true}"}]}},
        [("spec.status.conditions[0].type", -1, "Ready is written by the engine: choose another type")],
    ),
    (
        [config("a")],
        {"status": {"conditions": [{"type": "Ok", "status": "${true}"}, {"type": "Ok", "status": "${true}"}]}},
        [("spec.status.conditions[1].type", -1, "Ok is there twice")],
    ),
    ([config("a")], {"status": {"conditions": [{"type": "not ok", "status": "${true}"}]}}, []),
    (
        [config("a")],
        {"status": {"conditions": [{"type": "Ok", "status": "${true}", "message": "${1}"}]}},
        [("spec.status.conditions[0].message", 2, "must give a string, not int: write string(…)")],
    ),
    (
        [config("a")],
        {"validation": [{"rule": "self.spec.image != ''", "field": "spec.imag"}]},
        [("spec.validation[0].field", -1, "there is no field spec.imag")],
    ),
    (
        [config("a")],
        {"validation": [{"rule": "self.spec.imag != ''"}]},
        [("spec.validation[0].rule", 9, "undefined field 'imag'; did you mean 'image'?")],
    ),
    (
        [config("a")],
        {"validation": [{"rule": "self.spec.image"}]},
        [("spec.validation[0].rule", 0, "must give true or false, not string")],
    ),
    (
        [config("a")],
        {"mutation": [{"field": "spec.imag", "value": "x"}]},
        [("spec.mutation[0].field", -1, "there is no field spec.imag in the spec of shop-crd.yaml")],
    ),
    (
        [config("a")],
        {"mutation": [{"field": "status.ready", "value": 1}]},
        [("spec.mutation[0].field", -1, "there is no field status.ready in the spec of shop-crd.yaml")],
    ),
    (
        [config("a")],
        {"mutation": [{"field": "spec.image", "value": 1}]},
        [("spec.mutation[0].value", -1, "expected string, found a number; quote it")],
    ),
    (
        [config("a")],
        {"mutation": [{"field": "spec.image", "value": "${1}"}]},
        [("spec.mutation[0].value", 2, "expected string, found int: write string(…) (1)")],
    ),
    (
        [config("a", data={"x": "${e.data.x}"})],
        {"externals": [{"id": "e", "apiVersion": "v1", "kind": "ConfigMa", "metadata": {"name": "e"}}]},
        [("spec.externals[0].kind", -1, "the kind ConfigMa is not known; did you mean ConfigMap?")],
    ),
    (
        [config("a")],
        {"externals": [{"id": "e", "apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}]},
        [("spec.externals[0].metadata", -1, "name is required")],
    ),
    (
        [config("a")],
        {"externals": [{"id": "a", "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e"}}]},
        [("R.id", -1, "a is the id of spec.externals[0] already")],
    ),
    (
        [config("a")],
        {"externals": [{"id": "e", "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e"}}] * 2},
        [("spec.externals[1].id", -1, "e is the id of spec.externals[0] already")],
    ),
    (
        [config("a")],
        {
            "externals": [
                {
                    "id": "e",
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "e"},
                    "includeWhen": ["${a.metadata.name == 'x'}"],
                }
            ]
        },
        [("spec.externals[0].includeWhen[0]", 2, "undeclared reference to 'a'")],
    ),
    (
        [config("a")],
        {"externals": [{"id": "self", "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e"}}]},
        [
            ("spec.externals[0].id", -1, "self has a meaning of its own in expressions: choose another"),
            ("spec.resources[0].template.spec.template.spec.containers[0].image", 6, "undefined field 'spec'"),
        ],
    ),
    (
        [config("a", data={"x": "${e.spec.replica}"})],
        {"externals": [{"id": "e", "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "e"}}]},
        [("R.template.data.x", 8, "undefined field 'replica'; did you mean 'replicas'?")],
    ),
    (
        [config("a")],
        {
            "externals": [
                {"id": "e", "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${a.metadata.name}"}}
            ]
        },
        [("spec.externals[0].metadata.name", 2, "undeclared reference to 'a'")],
    ),
    ([config("a", dependsOn=["a"])], {}, [("R.dependsOn[0]", -1, "a cannot wait for itself")]),
    (
        [config("a", dependsOn=["b"]), config("b", dependsOn=["a"])],
        {},
        [("R.dependsOn[0]", -1, "these wait for each other: a → b → a")],
    ),
    (
        [config("a", rollOn=["z"])],
        {},
        [
            ("R.rollOn", -1, "the resource has no spec.template, whose annotations the has"),
            ("R.rollOn[0]", -1, "there is no resource, external or phase z: a, web, x"),
        ],
    ),
    ([config("a", when=[{"field": "children.deployment", "isReady": True}])], {}, []),
    ([config("a", when=[{"field": "spec.ratio", "exists": True}])], {}, []),
    (
        [config("a", when=[{"after": "5m", "field": "spec.replicas"}])],
        {},
        [("R.when[0].field", -1, "must be a time such as metadata.creationTimestamp, not optio")],
    ),
    ([config("a", when=["${self.spec.image == 'a'}", "${self.spec.image == 'b'}"])], {}, []),
    (
        [config("a", when=[{"field": "spec.imag", "exists": True}])],
        {},
        [("R.when[0]", -1, "undefined field 'imag'; did you mean 'image'?")],
    ),
    ([config("a", when=[{"field": "spec.replicas", "equals": 1}, {"field": "spec.replicas", "equals": 2}])], {}, []),
    (
        [secret("s", {"p": "x"}), config("a", data={"x": "${string(s.data.p)}"})],
        {},
        [("spec.resources[3].template.data.x", 2, "data of a Secret may flow into data of a Secret only; of a S")],
    ),
    ([config("a", data={"x": "${json(duration('1s'))}"})], {}, []),
    (
        [
            {
                "id": "a",
                "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"${1}": "x"}},
            }
        ],
        {},
        [("R.template.data.${1}", 2, "must give a string, not int: write string(…)")],
    ),
    (
        [
            {
                "id": "a",
                "template": {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "a"},
                    "data": {"a${'b'}": "x", "${'c'}": "y"},
                },
            }
        ],
        {},
        [],
    ),
]


@pytest.mark.parametrize(("resources", "more", "expected"), CASES, ids=range(len(CASES)))
def test_a_mistake_of_a_box_is_told_at_its_character_PH_6(
    resources: list[Any], more: dict[str, Any], expected: list[tuple[str, int, str]]
) -> None:
    kind = CrdVersions.of(more.get("kind", crd()))
    spec = {name: value for name, value in more.items() if name != "kind"}
    written = document(deployment("web"), config("x"), *resources, **spec)

    found = examine(read_box(written), kind, Schemas([kind]), WithOffsets(written)).problems

    told = [(one.place.path.replace("spec.resources[2].", "R."), one.place.column, one.message) for one in found]
    assert [(path, column) for path, column, _ in told] == [(path, column) for path, column, _ in expected]
    for (_, _, message), (_, _, words) in zip(told, expected, strict=True):
        assert message.startswith(words)
