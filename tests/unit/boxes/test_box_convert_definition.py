"""A ResourceGraphDefinition of kro has a counterpart in a box and a definition, or it is told with its path (PH-6)."""

from typing import Any

import pytest

from purekube.boxes.read import read_box
from purekube.cel import CelSyntaxError
from purekube.schema.compile import compile_schema
from purekube_convert import ConversionResult, ConvertedBox, convert
from purekube_convert.kro_expressions import rewrite

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "${schema.metadata.name}"}}


def converted(*resources: Any, **schema: Any) -> ConversionResult:
    schema = {"apiVersion": "v1alpha1", "kind": "Shop", "spec": {"image": "string"}, **schema}
    spec = {"schema": schema, "resources": list(resources)}
    return convert({"kind": "ResourceGraphDefinition", "metadata": {"name": "shop"}, "spec": spec})


def box(*resources: Any, **schema: Any) -> ConvertedBox:
    """The box of a definition without problems; its form and its definition are right."""
    conversion = converted(*resources, **schema)
    assert conversion.problems == ()
    (made,) = conversion.boxes
    read_box(made.box)
    assert made.crd is not None
    compile_schema(made.crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    return made


def spec_schema(made: ConvertedBox, part: str = "spec") -> Any:
    assert made.crd is not None
    return made.crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part]["properties"]


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("schema.spec.image", "self.spec.image"),
        ("schema.spec.schema", "self.spec.schema"),
        ("'schema' + schema.spec.image", "'schema' + self.spec.image"),
        ("schema.spec.list.map(schema, schema + 'a')", "self.spec.list.map(schema, schema + 'a')"),
        ("cel.bind(schema, schema.spec.a, schema + 1)", "cel.bind(schema, self.spec.a, schema + 1)"),
        ("{'schema': schema.spec.a}[schema.spec.b]", "{'schema': self.spec.a}[self.spec.b]"),
        ("json.marshal(schema.spec)", "json(self.spec)"),
        ("lists.range(size(schema.spec.a))", "lists.range(size(self.spec.a))"),
        ("web.status.?a[?0].orValue(schema.spec.b)", "web.status.?a[?0].orValue(self.spec.b)"),
    ],
)
def test_the_parent_is_called_self_wherever_it_is_meant(text: str, rewritten: str) -> None:
    assert rewrite(text, {"schema": "self"}).text == rewritten


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("schema.spec.on ? schema.spec.a : omit()", "the function omit is not known: write an optional"),
        ("schema.spec.a.deepMerge(schema.spec.b)", "the function deepMerge is not known: see docs/expressions.md"),
    ],
)
def test_a_function_of_kro_is_told(text: str, problem: str) -> None:
    (found,) = rewrite(text, {"schema": "self"}).problems

    assert found.startswith(problem)


def test_variables_are_told_and_bound_ones_are_not() -> None:
    assert rewrite("web.a + schema.b.map(x, x + y)", {}, frozenset("y")).names == {"web", "schema"}
    with pytest.raises(CelSyntaxError):
        rewrite("schema.", {})


@pytest.mark.parametrize(
    ("field", "schema"),
    [
        ("string", {"type": "string"}),
        ("integer | default=3 minimum=1 maximum=10", {"type": "integer", "default": 3, "minimum": 1, "maximum": 10}),
        ("float | default=0.5", {"type": "number", "default": 0.5}),
        ("boolean | default=false", {"type": "boolean", "default": False}),
        ('string | default="a b" enum="a b,c"', {"type": "string", "default": "a b", "enum": ["a b", "c"]}),
        ('string | pattern="^[a-z]+\\\\.$" minLength=2', {"type": "string", "pattern": "^[a-z]+\\.$", "minLength": 2}),
        ('string | description="say \\"hi\\""', {"type": "string", "description": 'say "hi"'}),
        (r'string | pattern="^\d{2}\.[\w-]+$"', {"type": "string", "pattern": r"^\d{2}\.[\w-]+$"}),
        (r'string | pattern="^\\d \"x\"$"', {"type": "string", "pattern": '^\\d "x"$'}),
        (r'string | default="a\nb" description="a\nb"', {"type": "string", "default": "a\nb", "description": r"a\nb"}),
        ("string | pattern=[a-z]+", {"type": "string", "pattern": "[a-z]+"}),
        ("string | immutable=True", {"type": "string",
                                     "x-kubernetes-validations": [{"rule": "self == oldSelf",
                                                                   "message": "is immutable"}]}),
        ("string | immutable=true", {"type": "string",
                                     "x-kubernetes-validations": [{"rule": "self == oldSelf",
                                                                   "message": "is immutable"}]}),
        ("[]string | maxItems=3", {"type": "array", "items": {"type": "string"}, "maxItems": 3}),
        ("[]string | uniqueItems=true",
         {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        ({"a": "string | required=True"},
         {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
        ('object | default={"a": {"b": ["}"]}}',
         {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": {"a": {"b": ["}"]}}}),
        ('[]string | default=["a"]', {"type": "array", "items": {"type": "string"}, "default": ["a"]}),
        ("map[string]integer", {"type": "object", "additionalProperties": {"type": "integer"}}),
        ("map[string][]string", {"type": "object", "additionalProperties": {"type": "array",
                                                                            "items": {"type": "string"}}}),
        ("object", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        ({"a": "string | required=true"},
         {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
        ("[]Part | listType=map listMapKey=name",
         {"type": "array",
          "items": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
          "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
    ],
)  # fmt: skip
def test_a_short_schema_becomes_a_long_one(field: Any, schema: Any) -> None:
    made = box(spec={"field": field}, types={"Part": {"name": "string | required=true"}})

    assert spec_schema(made)["field"] == schema


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("text", "the type 'text' is not known"),
        ("integer | default=many", "'many' is no value of type integer"),
        ("string | colour=red", "the marker 'colour' is not known"),
        ("string | required=yes", "'yes' must be true or false"),
        ("object | default={", "cannot read the markers at '{'"),
        ('string | default="open', "cannot read the markers at '\"open'"),
        ("Loop", "is nested more than 16 levels deep; does a type contain itself?"),
        ("[]" * 20 + "string", "is nested more than 16 levels deep; does a type contain itself?"),
        (3, "must be the name of a type, or an object of fields"),
    ],
)
def test_a_short_schema_that_cannot_be_read_is_told(field: Any, problem: str) -> None:
    conversion = converted(spec={"field": field}, types={"Loop": {"next": "Loop"}})

    assert any(str(found).startswith("spec.schema.spec.field") and problem in str(found) for found in
               conversion.problems)  # fmt: skip


def test_the_definition_of_the_kind_has_what_the_schema_says() -> None:
    made = box(
        group="example.test", kind="Policy", scope="Cluster", shortNames=["po"],
        additionalPrinterColumns=[{"name": "Image", "type": "string", "jsonPath": ".spec.image"}],
    )  # fmt: skip

    assert made.crd is not None
    assert made.crd["metadata"]["name"] == "policies.example.test"
    assert made.crd["spec"]["scope"] == "Cluster"
    assert made.crd["spec"]["names"]["shortNames"] == ["po"]
    assert made.crd["spec"]["versions"][0]["additionalPrinterColumns"] == [
        {"name": "Image", "type": "string", "jsonPath": ".spec.image"}
    ]
    assert made.box["spec"]["crd"] == "shop-crd.yaml"


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("WebApp", "webapps"), ("Policy", "policies"), ("Gateway", "gateways"), ("Redis", "redis"),
        ("Postgres", "postgres"), ("Prometheus", "prometheus"), ("NodeStatus", "nodestatuses"), ("Class", "classes"),
        ("Analysis", "analyses"), ("SearchIndex", "searchindices"), ("Box", "boxes"), ("Mesh", "meshes"),
        ("Repo", "repoes"), ("Portfolio", "portfolios"), ("Database", "databases"), ("Topaz", "topazs"),
        ("Alias", "aliases"), ("Shelf", "shelves"), ("Cache", "caches"), ("Batch", "batches"), ("House", "houses"),
        ("ServiceBus", "servicebus"), ("Bus", "buses"), ("Fleet", "fleet"), ("TestData", "testdata"),
    ],
)  # fmt: skip
def test_the_plural_is_that_of_kro(kind: str, plural: str) -> None:
    """With another one, the definition conflicts with kro's own: to remove that is to lose every object."""
    made = box(kind=kind)

    assert made.crd is not None
    assert made.crd["metadata"]["name"] == f"{plural}.kro.run"


def test_types_of_the_status_are_those_of_its_expressions() -> None:
    web = {"id": "web", "template": {**POD, "apiVersion": "apps/v1", "kind": "Deployment"}}
    status = {
        "ready": "${web.status.readyReplicas}",
        "name": "${web.metadata.name}",
        "url": "http://${web.metadata.name}",
        "labels": "${web.metadata.labels}",
        "up": "${web.status.readyReplicas > 0}",
        "in": {"deep": "${web.status.conditions.map(c, c.type)}"},
    }
    fields = spec_schema(box(web, status=status), "status")

    assert {name: fields[name] for name in status} == {
        "ready": {"type": "integer"},
        "name": {"type": "string"},
        "url": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "up": {"type": "boolean"},
        "in": {"type": "object", "properties": {"deep": {"type": "array", "items": {"type": "string"}}}},
    }
    assert {"conditions", "observedGeneration"} <= set(fields)


def test_who_refers_to_a_resource_with_ready_when_waits_for_it() -> None:
    web = {"id": "web", "readyWhen": ["${web.status.phase == 'Running'}"], "template": POD}
    other = {"id": "other", "template": {**POD, "metadata": {"name": "${web.metadata.name}-b"}}}
    third = {"id": "third", "template": {**POD, "metadata": {"name": "${other.metadata.name}-c"}}}

    made = box(web, other, third).box["spec"]["resources"]

    assert [entry.get("dependsOn") for entry in made] == [None, ["web"], None]
    assert made[0]["readyWhen"] == ["${web.status.phase == 'Running'}"]


def test_what_a_loop_or_a_condition_refers_to_is_waited_for_until_it_is_ready() -> None:
    """Else a box makes objects of a list that is not complete, or of what is not ready."""
    web = {"id": "web", "readyWhen": ["${web.status.phase == 'Running'}"], "template": POD}
    template = {**POD, "metadata": {"name": "${address.ip}"}}
    each = {"id": "each", "forEach": [{"address": "${web.status.podIPs}"}], "template": template}
    other = {**POD, "metadata": {"name": "shown"}}
    shown = {"id": "shown", "includeWhen": ["${web.status.podIP != ''}"], "template": other}

    made = box(web, each, shown).box["spec"]["resources"]

    assert [entry.get("dependsOn") for entry in made] == [None, ["web"], ["web"]]


def test_a_variable_with_the_name_of_a_field_of_a_loop_is_another() -> None:
    template = {**POD, "metadata": {"name": "${schema.metadata.name}-${key}"}}
    each = {"id": "pods", "forEach": [{"key": "${schema.spec.list}"}], "template": template}
    (made,) = box(each, spec={"list": "[]string | required=true"}).box["spec"]["resources"]

    assert made["forEach"] == {"item": "${self.spec.list}", "key": "${item}"}
    assert made["template"]["metadata"]["name"] == "${self.metadata.name}-${item}"


def test_a_list_or_a_condition_that_may_be_absent_is_waited_for_as_in_kro() -> None:
    each = {"id": "pods", "forEach": [{"r": "${schema.spec.list}"}], "includeWhen": ["${schema.spec.on}"]}
    template = {**POD, "metadata": {"name": "${r}"}}
    made = box({**each, "template": template}, spec={"list": "[]string", "on": "boolean"}).box["spec"]["resources"][0]

    assert made["forEach"]["r"] == "${self.spec.?list.value()}"
    assert made["includeWhen"] == ["${self.spec.?on.value()}"]


def test_a_null_field_of_a_built_in_kind_is_absent_and_a_null_value_of_a_map_stays() -> None:
    nulls = {**POD, "metadata": {"name": "a", "labels": None, "annotations": {"a": None}}, "spec": {"containers": None}}
    (made,) = box({"id": "p", "template": nulls}).box["spec"]["resources"]

    assert made["template"]["metadata"] == {"name": "a", "annotations": {"a": None}}
    assert made["template"]["spec"] == {}


def test_an_external_is_read_only() -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.spec.image}-config"}}
    made = box({"id": "config", "externalRef": reference}, spec={"image": "string | required=true"})

    assert made.box["spec"]["externals"] == [
        {"id": "config", "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${self.spec.image}-config"}}
    ]
    chosen = {"id": "config", "externalRef": reference, "includeWhen": ["${schema.spec.image != 'x'}"]}
    (found,) = box(chosen, spec={"image": "string | required=true"}).box["spec"]["externals"]
    assert found["includeWhen"] == ["${self.spec.image != 'x'}"]


@pytest.mark.parametrize(
    ("items", "loop"),
    [
        ("[]string", {"r": "${self.spec.list}", "key": "${r}"}),
        ("[]integer", {"r": "${self.spec.list}", "key": "${string(r)}"}),
        ("[]Part", {"r": "${self.spec.list}", "key": "${self.metadata.name + '-' + r.id}"}),
        ("[]Free", {"r": "${self.spec.list}", "key": "${self.metadata.name + '-' + r.?id.value()}"}),
    ],
)
def test_a_collection_goes_by_a_key_of_its_items(items: str, loop: dict[str, str]) -> None:
    template = {**POD, "metadata": {"name": "${schema.metadata.name + '-' + r.id}"}}
    pods = {"id": "pods", "forEach": [{"r": "${schema.spec.list}"}], "template": template}
    pods["readyWhen"] = ["${each.status.phase == 'Running'}"]
    types = {"Part": {"name": "string | required=true", "id": "string | required=true"}, "Free": {"id": "string"}}

    (made,) = box(pods, spec={"list": f"{items} | required=true"}, types=types).box["spec"]["resources"]

    assert made["forEach"] == loop
    assert made["readyWhen"] == ["${pods.status.phase == 'Running'}"]


@pytest.mark.parametrize(
    ("name", "namespace", "key"),
    [
        ("${r.name}", "", "${r.name}"),
        ("shop-${r.name}", "${r.name}", "${r.name}"),
        ("${r.name}-${r.zone}", "", '${r.name + "-" + r.zone}'),
        ("${r.name}", "${r.zone}", '${r.zone + "." + r.name}'),
        ("shop", "${r.zone}", '${r.zone + ".shop"}'),
        ("${r.name}", "${schema.spec.image}", "${r.name}"),
    ],
)
def test_items_with_one_name_are_told_apart_as_their_objects_are(name: str, namespace: str, key: str) -> None:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    pods = {"id": "pods", "forEach": [{"r": "${schema.spec.list}"}], "template": {**POD, "metadata": meta}}
    types = {"Part": {"name": "string | required=true", "zone": "string | required=true"}}
    fields = {"list": "[]Part | required=true", "image": "string"}

    (made,) = box(pods, spec=fields, types=types).box["spec"]["resources"]

    assert made["forEach"]["key"] == key


def test_a_field_that_may_be_absent_is_left_out() -> None:
    template = {**POD, "spec": {"nodeName": "${schema.spec.image}"}}

    assert box({"id": "p", "template": template}).box["spec"]["resources"][0]["template"]["spec"] == {
        "nodeName": "${self.spec.?image}"
    }


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (("metadata", "namespace"), "${self.spec.?image.value()}"),
        (("spec", "selector", "matchLabels", "app"), "${self.spec.?image.value()}"),
        (("spec", "podSelector"), "${self.spec.?image.value()}"),
        (("spec", "nodeSelector", "zone"), "${self.spec.?image.value()}"),
        (("spec", "selectorName"), "${self.spec.?image}"),
    ],
)
def test_no_field_is_left_out_that_says_which_objects_are_meant(path: tuple[str, ...], found: str) -> None:
    """kro waits for it; without it, the namespace would be the parent's, and a selector would select everything."""
    value: Any = "${schema.spec.image}"
    for step in reversed(path[1:]):
        value = {step: value}
    meta = {"metadata": {"name": "a", **(value if path[0] == "metadata" else {})}}
    template = {"apiVersion": "example.test/v1", "kind": "Rule", path[0]: value, **meta}

    made = box({"id": "p", "template": template}).box["spec"]["resources"][0]["template"]

    for step in path:
        made = made[step]
    assert made == found


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ('echo ${"${HOME}"}', 'echo ${"${HOME}"}'),
        ('${"$${HOME}"}', '${"$${HOME}"}'),
        ("costs $${schema.spec.price}", "costs ${'$'}${self.spec.price}"),
        ("$$${schema.spec.price}$", "${'$$'}${self.spec.price}$"),
        ("$$ $(HOME) $HOME", "$$ $(HOME) $HOME"),
        ("", ""),
        ("${schema.spec.price}\n", "${self.spec.price}${'\\n'}"),
    ],
)
def test_a_text_means_what_it_means_in_kro(text: str, made: str) -> None:
    template = {**POD, "spec": {"containers": [{"name": "a", "command": [text]}]}}
    fields = {"price": "string | required=true"}
    (resource,) = box({"id": "p", "template": template}, spec=fields).box["spec"]["resources"]

    assert resource["template"]["spec"]["containers"][0]["command"] == [made]


@pytest.mark.parametrize(
    ("resource", "problem"),
    [
        ({"id": "a b"}, "spec.resources[0]: must be an object with an id"),
        ({"id": "a", "template": "text"}, "spec.resources[0].template: must be a manifest"),
        ({"id": "a", "template": POD, "readyWhen": "x"},
         "spec.resources[0].readyWhen: must be a list of expressions"),
        ({"id": "a", "template": POD, "patch": {}}, "spec.resources[0].patch: has no counterpart in a box"),
        ({"id": "a", "template": POD, "forEach": [{"a": "${[1]}", "b": "${[2]}"}]},
         "spec.resources[0].forEach: must be a list of variables, each with its list as an expression"),
        ({"id": "a", "externalRef": {"metadata": {"selector": {}}}},
         "spec.resources[0].externalRef.metadata.selector: a box reads externals by name, not by labels"),
        ({"id": "a", "template": {"kind": "${"}}, "spec.resources[0].template.kind: ${ without its }"),
    ],
)  # fmt: skip
def test_what_has_no_counterpart_is_told_with_its_path(resource: Any, problem: str) -> None:
    assert any(str(found).startswith(problem) for found in converted(resource).problems)


def test_conditions_and_the_state_of_kro_are_told() -> None:
    assert [problem.path for problem in converted(status={"conditions": [], "state": "x"}).problems] == [
        "spec.schema.status.conditions",
        "spec.schema.status.state",
    ]


@pytest.mark.slow
def test_texts_and_lists_without_end_are_bounded() -> None:
    long = converted({"id": "a", "template": {"kind": "${schema.spec.image}" * 10_000}}).problems
    assert [str(problem) for problem in long] == [
        "spec.resources[0].template.kind: has 200000 characters; a text has at most 65536"
    ]
    many = converted(*({"id": f"a{at}", "template": POD} for at in range(1_001))).problems
    assert [problem.path for problem in many] == ["spec.resources[1000]"]
    field = converted(spec={"field": "string |" + " a=b" * 10_000}).problems
    assert [problem.path for problem in field] == ["spec.schema.spec.field"]


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("${schema.spec.image}-x", "${self.spec.?image.value()}-x"),
        (
            "${schema.spec.image + schema.spec.part.name}",
            "${self.spec.?image.value() + self.spec.?part.value().?name.value()}",
        ),
        ("${has(schema.spec.image) ? schema.spec.image : 'x'}", "${has(self.spec.image) ? self.spec.image : 'x'}"),
        ("${schema.spec.?image.orValue('x')}", "${self.spec.?image.orValue('x')}"),
        ("${schema.spec.size}", "${self.spec.size}"),
    ],
)
def test_what_kro_waits_for_is_waited_for_and_what_is_asked_for_stays(text: str, waits: str) -> None:
    fields = {"image": "string", "part": {"name": "string"}, "size": "string | default=big"}
    (made,) = box({"id": "web", "template": {**POD, "metadata": {"name": text}}}, spec=fields).box["spec"]["resources"]

    assert made["template"]["metadata"]["name"] == waits


def test_a_resource_is_ready_as_in_kro_and_has_no_owner_where_none_is_legal() -> None:
    elsewhere = {**POD, "metadata": {"name": "a", "namespace": "other"}}
    same = {**POD, "metadata": {"name": "b", "namespace": "${ schema.metadata.namespace }"}}
    wide = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c"}}
    entries = [{"id": name, "template": template} for name, template in (("a", elsewhere), ("b", same), ("c", wide))]
    made = box(*entries).box["spec"]["resources"]

    assert [entry.get("owner") for entry in made] == ["Label", None, "Label"]
    assert {entry["readiness"] for entry in made} == {"Exists"}
    of_cluster = box(*entries, scope="Cluster").box["spec"]["resources"]
    assert [entry.get("owner") for entry in of_cluster] == [None, None, None]


def test_a_name_with_dots_becomes_one_of_a_box_and_is_noted() -> None:
    spec = {"schema": {"apiVersion": "v1", "kind": "Shop", "spec": {}}, "resources": [{"id": "web", "template": POD}]}
    document = {"kind": "ResourceGraphDefinition", "metadata": {"name": "Web.App.kro.run"}, "spec": spec}
    (made,) = convert(document).boxes

    assert made.name == made.box["metadata"]["name"] == "web-app-kro-run"
    assert made.box["spec"]["crd"] == "web-app-kro-run-crd.yaml"
    assert made.notes[("metadata", "name")].startswith("Web.App.kro.run in kro")


def test_a_kind_that_nobody_tells_of_is_declared_and_noted_as_a_guess() -> None:
    policy = {"apiVersion": "iam.services.k8s.aws/v1alpha1", "kind": "Policy", "metadata": {"name": "a"}}
    made = box({"id": "policy", "template": policy}, {"id": "web", "template": POD})

    declared = {"apiVersion": "iam.services.k8s.aws/v1alpha1", "kind": "Policy", "plural": "policies"}
    assert made.box["spec"]["kinds"] == [declared]
    assert made.notes[("spec", "kinds")].endswith("look, or convert with --crds")

    part = {"apiVersion": "kro.run/v1alpha1", "kind": "Part", "metadata": {"name": "a"}}
    note = box({"id": "part", "template": part}).notes[("spec", "kinds")]
    assert note.endswith("kinds of kro have conditions, and no status.state to wait for")


def test_a_column_that_is_empty_is_noted() -> None:
    columns = [{"name": "Image", "jsonPath": ".spec.image"}, {"name": "State", "jsonPath": ".status.state"}]

    assert box(additionalPrinterColumns=columns).notes == {
        ("spec", "crd"): "its column State is empty: a box has no state, but a condition Ready"
    }


def test_a_type_that_is_another_with_markers_brings_them() -> None:
    types = {"Size": "integer | default=3 minimum=1", "Needed": "string | required=true"}
    made = box(spec={"size": "Size", "other": "Size | default=5", "name": "Needed"}, types=types)

    assert spec_schema(made)["size"] == {"type": "integer", "default": 3, "minimum": 1}
    assert spec_schema(made)["other"] == {"type": "integer", "default": 5, "minimum": 1}
    assert made.crd is not None
    openapi = made.crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert openapi["properties"]["spec"]["required"] == ["name"]
