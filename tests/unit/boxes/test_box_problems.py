"""What is told of a box as a whole: each problem and warning with its exact words, at its place (PH-4 to PH-6)."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.problems import Place
from purekube.boxes.compiler.compile import examine
from purekube.boxes.read import read_box
from purekube.boxes.schemas import CrdVersions, Schemas
from purekube.composites.composite import SecretUse
from tests.support.boxes import (
    CONDITIONS,
    SPEC,
    STATUS,
    InDocument,
    box_of,
    config,
    crd,
    deployment,
    document,
    examined,
    secret,
    told,
)

TEXT = {"type": "string"}
SENTENCE = (
    "conditions: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [type], items: {type: object, "
    "required: [type, status, reason, lastTransitionTime], properties: {type: {type: string}, status: {type: string}, "
    "reason: {type: string}, message: {type: string}, observedGeneration: {type: integer}, "
    "lastTransitionTime: {type: string, format: date-time}}}}"
)


def problems(*resources: Any, **spec: Any) -> list[tuple[str, str]]:
    return [(each.place.path, each.message) for each in examined(*resources, **spec).problems]


def warnings(*resources: Any, **spec: Any) -> list[tuple[str, str]]:
    return [(each.place.path, each.message) for each in examined(*resources, **spec).warnings]


def metadata(**meta: Any) -> dict[str, Any]:
    """A ConfigMap with this metadata."""
    return {"id": "a", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **meta}}}


# --- the form of a resource ------------------------------------------------------------------------------------------

META = "spec.resources[0].template.metadata"
ENGINE = "names below box.vworkspace.io/ are the engine's"


@pytest.mark.parametrize(
    ("meta", "path", "message"),
    [
        ({"ownerReferences": []}, f"{META}.ownerReferences", "are written for you; see `owner`"),
        ({"labels": {"box.vworkspace.io/x": "y"}}, f"{META}.labels", f"box.vworkspace.io/x: {ENGINE}"),
        ({"annotations": {"box.vworkspace.io/x": "y"}}, f"{META}.annotations", f"box.vworkspace.io/x: {ENGINE}"),
        *(
            ({field: value}, f"{META}.{field}", "is written by the API server alone")
            for field, value in (
                ("uid", "x"),
                ("resourceVersion", "x"),
                ("generation", 1),
                ("creationTimestamp", "2026-01-01T00:00:00Z"),
                ("managedFields", []),
                ("deletionTimestamp", "2026-01-01T00:00:00Z"),
            )
        ),
    ],
)
def test_metadata_that_the_engine_or_the_server_writes_is_refused(meta: Any, path: str, message: str) -> None:
    assert problems(metadata(**meta)) == [(path, message)]


def test_labels_of_others_are_allowed() -> None:
    said = {"box.vworkspace.iox/x": "y", "x.box.vworkspace.io/x": "y"}
    assert problems(metadata(labels=said, annotations=said)) == []


LEAVES = "an owner reference cannot leave the namespace: write `owner: Label` at the resource"
NAMESPACE = {"id": "a", "template": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}}


def in_namespace(resource: Mapping[str, Any], namespace: str, **more: Any) -> dict[str, Any]:
    made = copy.deepcopy({**resource, **more})
    made["template"]["metadata"]["namespace"] = namespace
    return made


@pytest.mark.parametrize(
    ("resource", "scope", "expected"),
    [
        (NAMESPACE, "Namespaced", [(META, LEAVES)]),
        ({**NAMESPACE, "owner": "Label"}, "Namespaced", []),
        (NAMESPACE, "Cluster", []),
        (
            in_namespace(NAMESPACE, "x", owner="Label"),
            "Namespaced",
            [(f"{META}.namespace", "Namespace lives in no namespace")],
        ),
        (metadata(), "Cluster", [(META, "namespace is required: a Shop lives in no namespace that could be taken")]),
        (in_namespace(metadata(), "x"), "Cluster", []),
        (in_namespace(metadata(), "x"), "Namespaced", [(META, LEAVES)]),
        (in_namespace(metadata(), "x", owner="Label"), "Namespaced", []),
        (in_namespace(metadata(), "${self.metadata.namespace}"), "Namespaced", []),
        (in_namespace(metadata(), "${ self . metadata.namespace }"), "Namespaced", []),
    ],
)
def test_an_owner_reference_stays_in_the_namespace(resource: Any, scope: str, expected: Any) -> None:
    assert problems(resource, kind=crd(scope=scope)) == expected


DRAWN = "what is drawn is drawn once: write `apply: IfAbsent`, or `apply: Once`"
OF_SECRET = "only data of a Secret can be drawn, such as data.password"


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (secret("a", generate={"data.p": {}}), [DRAWN]),
        (secret("a", generate={"data.p": {}}, apply="IfAbsent"), []),
        (secret("a", generate={"stringData.p": {}}, apply="Once"), []),
        (secret("a", generate={"type": {}}, apply="Once"), [f"type: {OF_SECRET}"]),
        (
            config("a", generate={"data.p": {}, "data.q": {}}, apply="Once"),
            [f"data.p: {OF_SECRET}", f"data.q: {OF_SECRET}"],
        ),
        (config("a", generate={"data.p": {}}), [f"data.p: {OF_SECRET}", DRAWN]),
    ],
)
def test_only_data_of_a_secret_that_is_not_written_again_is_drawn(resource: Any, expected: list[str]) -> None:
    assert problems(resource) == [("spec.resources[0].generate", message) for message in expected]


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (deployment("a", rollOn=["b"]), []),
        (deployment("a", rollOn=["b", "a"]), [("[1]", "a cannot be rolled on itself")]),
        (deployment("a", rollOn=["c"]), [("[0]", "there is no resource, external or phase c: a, b, e")]),
        (
            config("a", rollOn=["b"]),
            [("", "the resource has no spec.template, whose annotations the hash would go to")],
        ),
        (deployment("a", rollOn=["e"]), []),
    ],
)
def test_pods_are_rolled_on_other_objects(resource: Any, expected: Any) -> None:
    read = {"id": "e", "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e"}}
    found = problems(resource, config("b"), externals=[read])
    assert found == [(f"spec.resources[0].rollOn{at}", message) for at, message in expected]


@pytest.mark.parametrize(("on", "is_warned"), [("create", False), ("reconcile", True), ("delete", True), ("", True)])
def test_a_setting_that_says_nothing_is_warned_of(on: str, is_warned: bool) -> None:
    resource = config("a", reconcile=True)
    if on:
        path, found = "spec.phases[0].resources[0]", warnings(phases=[{"name": "p", "on": on, "resources": [resource]}])
    else:
        path, found = "spec.resources[0]", warnings(resource)
    assert found == ([(f"{path}.reconcile", "says nothing outside a phase with `on: create`")] if is_warned else [])


def test_other_fields_than_a_name_may_show_what_changes() -> None:
    assert problems(config("a", data={"v": "${self.metadata.resourceVersion}"})) == []


CHANGES = "changes when the object is written: a name made of it is a new object in each pass"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a-${self.metadata.resourceVersion}", f"resourceVersion {CHANGES}"),
        ("a-${string(self.metadata.generation)}", f"generation {CHANGES}"),
        ("a-${self.metadata.uid}", None),
        ("a-${b.metadata.resourceVersion}", f"resourceVersion {CHANGES}"),
    ],
)
def test_a_name_is_not_made_of_what_changes_by_itself(name: str, message: str | None) -> None:
    expected = [] if message is None else [(f"{META}.name", message)]
    assert problems(config("a", name), config("b")) == expected


def test_a_key_of_a_list_is_not_made_of_what_changes_by_itself() -> None:
    each = {"p": "${['a']}", "key": "${p + self.metadata.resourceVersion}"}
    assert problems(config("a", "a-${p}", forEach=each)) == [
        ("spec.resources[0].forEach.key", f"resourceVersion {CHANGES}")
    ]


def twice(*conditions: list[str] | None, **more: Any) -> list[tuple[str, str]]:
    """Two resources that write one object, each with what it asks before it exists."""
    asked: list[dict[str, Any]] = [{} if each is None else {"includeWhen": each} for each in conditions]
    return problems(*(config(f"r{at}", "same", **one, **more) for at, one in enumerate(asked)), kind=BOOLEAN)


BOOLEAN = crd({**SPEC, "properties": {**SPEC["properties"], "on": {"type": "boolean", "default": True}}})
TWICE = [("spec.resources[1].template.metadata.name", "is the object that r0 writes already: give it another name")]


@pytest.mark.parametrize(
    ("one", "other", "is_told"),
    [
        (None, None, True),
        (["${self.spec.on}"], ["${!self.spec.on}"], False),
        (["${!self.spec.on}"], ["${ self.spec.on }"], False),
        (["${self.spec.on}"], ["${self.spec.on}"], True),
        (["${self.spec.on}"], None, True),
        (["${self.spec.on}"], ["${!!self.spec.on}"], True),
        (["${true}", "${self.spec.on}"], ["${!self.spec.on}"], False),
        (["${self.spec.on == true}"], ["${!(self.spec.on == true)}"], True),
    ],
)
def test_two_resources_write_one_object_only_where_one_excludes_the_other(
    one: list[str] | None, other: list[str] | None, is_told: bool
) -> None:
    assert twice(one, other) == (TWICE if is_told else [])


def test_three_resources_of_one_object_are_compared_with_each_other() -> None:
    found = twice(["${self.spec.on}"], ["${!self.spec.on}"], ["${self.spec.on}"])
    assert found == [("spec.resources[2].template.metadata.name", TWICE[0][1])]


@pytest.mark.parametrize(
    ("other", "is_told"),
    [
        (config("b", "same"), True),
        (in_namespace(config("b", "same"), "x", owner="Label"), False),
        (secret("same") | {"id": "b"}, False),
        (config("b", "same", forEach={"p": "${['a']}", "key": "${p}"}), False),
        (config("b", "other"), False),
    ],
)
def test_an_object_is_known_by_its_kind_namespace_and_name(other: Any, is_told: bool) -> None:
    found = problems(config("a", "same"), other)
    message = "is the object that a writes already: give it another name"
    assert found == ([("spec.resources[1].template.metadata.name", message)] if is_told else [])


# --- ids and kinds ---------------------------------------------------------------------------------------------------


def test_ids_and_names_of_phases_are_there_once() -> None:
    phases = [
        {"name": "web", "resources": [config("a")]},
        {"name": "p", "resources": [config("b")]},
        {"name": "p", "resources": [config("web")]},
    ]
    assert problems(deployment("web"), phases=phases) == [
        ("spec.phases[0].name", "web is the name of something else already"),
        ("spec.phases[2].name", "p is the name of something else already"),
        ("spec.phases[2].resources[0].id", "web is the id of spec.resources[0] already"),
    ]


@pytest.mark.parametrize("name", ["self", "old", "children", "true", "null", "in", "int", "string", "for"])
def test_names_with_a_meaning_of_their_own_are_no_ids(name: str) -> None:
    message = f"{name} has a meaning of its own in expressions: choose another id"
    assert problems(config(name, "a")) == [("spec.resources[0].id", message)]


@pytest.mark.parametrize(
    ("api_version", "kind", "message"),
    [
        ("v2", "ConfigMap", "no ConfigMap is known in v2; did you mean apiVersion: v1?"),
        ("v1", "ConfigMapp", "the kind ConfigMapp is not known; did you mean ConfigMap?"),
        ("v1", "Xyz", "the kind Xyz is not known: give its CRD with --crds, or declare it under spec.kinds"),
    ],
)
def test_an_unknown_kind_is_told_with_one_that_is_like_it(api_version: str, kind: str, message: str) -> None:
    template = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}}
    assert problems({"id": "a", "template": template}) == [("spec.resources[0].template.kind", message)]


@pytest.mark.parametrize(("count", "is_told"), [(1_000, False), (1_001, True)])
def test_a_box_has_at_most_a_thousand_resources_and_externals(count: int, is_told: bool) -> None:
    """The resources are of an unknown kind, so that nothing of them is compiled."""
    many = [{"id": f"n{at}", "template": {"apiVersion": "v1"}} for at in range(count - 1)]
    read = {"id": "e", "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e"}}
    found = problems(*many, externals=[read])
    message = f"has {count} resources and externals; a box has at most 1000"
    assert (found == [("spec", message)]) is is_told
    assert ("spec", message) in found or not is_told


# --- externals -------------------------------------------------------------------------------------------------------


def reading(text: str, kind: str = "ConfigMap", **more: Any) -> list[tuple[str, str]]:
    read = {"id": "e", "apiVersion": "v1", "kind": kind, "metadata": {"name": "e"}, **more}
    return problems(config("a", data={"x": text}), externals=[read])


NOT_LISTED = ", which is not listed here"


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        ("${e.data.x}", ["data.x"], None),
        ("${e.data.x}", ["data"], None),
        ("${e.data.x}", ["data.y"], f"an expression reads data.x{NOT_LISTED}"),
        ("${e.data.x}", ["data.x.y"], f"an expression reads data.x{NOT_LISTED}"),
        ("${e.metadata.uid}", ["data.x"], None),
        ("${hash(e)}", ["data"], f"an expression reads all of it{NOT_LISTED}"),
        ("${e.data.x}", [], None),
    ],
)
def test_an_expression_reads_of_an_external_what_is_listed(text: str, fields: list[str], message: str | None) -> None:
    assert reading(text, fields=fields) == ([] if message is None else [("spec.externals[0].fields", message)])


def test_the_fields_of_an_external_are_those_that_are_read_and_listed() -> None:
    read = {
        "id": "e",
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "e"},
        "fields": ["spec", "status"],
    }
    text = "${e.spec.template.spec.containers[0].image + string(e.spec.?replicas.orValue(0))}"
    fields = box_of(config("a", data={"x": text}), externals=[read]).externals[0].fields
    assert fields == (("spec",), ("spec", "replicas"), ("spec", "template", "spec", "containers"), ("status",))


@pytest.mark.parametrize(
    ("kind", "watch", "is_watched"),
    [("ConfigMap", None, True), ("ConfigMap", False, False), ("Secret", None, False), ("Secret", True, True)],
)
def test_a_secret_that_is_read_is_watched_only_where_the_box_says_so(kind: str, watch: Any, is_watched: bool) -> None:
    read = {"id": "e", "apiVersion": "v1", "kind": kind, "metadata": {"name": "e"}, "watch": watch}
    assert box_of(config("a"), externals=[read]).externals[0].watch is is_watched


def test_an_external_is_found_by_name_and_namespace_alone() -> None:
    read = {"id": "e", "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {}, "uid": "x"}}
    at, alone = "spec.externals[0].metadata", "an external is found by name and namespace alone"
    assert problems(config("a"), externals=[read]) == [
        (at, f"labels: {alone}"),
        (at, "name is required"),
        (at, f"uid: {alone}"),
    ]


@pytest.mark.parametrize(
    ("meta", "elsewhere", "asks"),
    [
        ({}, False, False),
        ({"namespace": "x"}, True, False),
        ({"namespace": "${self.metadata.namespace}"}, False, False),
        ({"namespace": "${self.spec.image}"}, True, True),
        ({"namespace": "x-${self.spec.image}"}, True, True),
    ],
)
def test_an_external_is_elsewhere_unless_its_namespace_is_surely_the_parents(
    meta: dict[str, Any], elsewhere: bool, asks: bool
) -> None:
    read = {"id": "e", "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e", **meta}}
    box = box_of(config("a"), externals=[read], trustParents=["Namespaces"])
    (found,) = box.externals
    assert (found.elsewhere, found.asks_namespace, box.asks_namespaces) == (elsewhere, asks, asks)


# --- the status ------------------------------------------------------------------------------------------------------


def of_crd(**change: Any) -> list[str]:
    """What is told of a box whose CRD differs in this."""
    found = problems(config("a"), kind=crd(**change))
    assert {path for path, _ in found} <= {"spec.crd"}
    return [message for _, message in found]


def without(name: str) -> dict[str, Any]:
    """The fields of a condition except one."""
    return {key: value for key, value in CONDITIONS["items"]["properties"].items() if key != name}


def status_of(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {**STATUS["properties"], **fields}}


DROPPED = "shop-crd.yaml: the API server would drop {}; add to the schema of the status: {}"


@pytest.mark.parametrize("name", ["type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"])
def test_each_field_of_a_condition_has_to_be_declared(name: str) -> None:
    conditions = {"type": "array", "items": {"type": "object", "properties": without(name)}}
    assert of_crd(status=status_of(conditions=conditions)) == [DROPPED.format(f"status.conditions[*].{name}", SENTENCE)]


OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    "status",
    [
        OPEN,
        {"x-kubernetes-preserve-unknown-fields": True},
        status_of(conditions={"type": "array", "items": OPEN}),
        status_of(conditions=OPEN),
    ],
)
def test_a_status_that_may_have_any_field_drops_none(status: dict[str, Any]) -> None:
    assert of_crd(status=status) == []


def test_a_status_has_to_be_declared_and_written_apart() -> None:
    kind = crd()
    schema = kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["status"]
    del kind["spec"]["versions"][0]["subresources"]
    assert problems(config("a"), kind=kind) == [
        ("spec.crd", f"shop-crd.yaml: the schema declares no status; add to it: {SENTENCE}"),
        ("spec.crd", "shop-crd.yaml: the version v1 needs `subresources: {status: {}}`"),
    ]
    schema["x-kubernetes-preserve-unknown-fields"] = True
    assert [message for _, message in problems(config("a"), kind=kind)] == [
        "shop-crd.yaml: the version v1 needs `subresources: {status: {}}`"
    ]
    del kind["spec"]["versions"][0]["schema"]
    kind["spec"]["versions"][0]["subresources"] = {"status": {}}
    assert problems(config("a"), kind=kind) == []


def test_both_things_that_a_status_lacks_are_told() -> None:
    assert of_crd(status={"type": "object"}) == [
        DROPPED.format("status.conditions", SENTENCE),
        DROPPED.format("status.observedGeneration", "observedGeneration: {type: integer, format: int64}"),
    ]


def test_a_crd_that_is_named_is_called_by_its_name() -> None:
    found = problems(config("a"), crd={"name": "shops.example.com"}, kind=crd(status={"type": "object"}))
    assert found[0][1].startswith("shops.example.com: the API server would drop status.conditions; ")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("adress", "the API server would drop it: shop-crd.yaml declares no status.adress; did you mean address?"),
        ("zzz", "the API server would drop it: shop-crd.yaml declares no status.zzz"),
        ("conditions", "is written by the engine; declare conditions under status.conditions"),
        ("observedGeneration", "is written by the engine; declare conditions under status.conditions"),
    ],
)
def test_a_field_of_the_status_has_to_be_declared_and_the_boxs_own(name: str, message: str) -> None:
    fields = {name: "${nothing}" if name in ("conditions", "observedGeneration") else "x", "address": "y"}
    assert problems(config("a"), status={"fields": fields}) == [(f"spec.status.fields.{name}", message)]


def test_fields_and_conditions_of_a_status_are_compiled_with_their_defaults() -> None:
    conditions = [
        {"type": "Open", "status": "${true}"},
        {"type": "Told", "status": "${false}", "reason": "Why", "message": "so"},
    ]
    box = box_of(config("a"), status={"fields": {"address": "${self.spec.image}"}, "conditions": conditions})
    assert list(box.status_fields) == ["address"]
    assert [(each.type, each.reason.raw, each.message.raw) for each in box.conditions] == [
        ("Open", "Open", ""),
        ("Told", "Why", "so"),
    ]


@pytest.mark.parametrize("reserved", ["Ready", "Reconciling", "Stalled", "Deleting"])
def test_a_condition_of_the_engine_is_not_the_boxs(reserved: str) -> None:
    message = f"{reserved} is written by the engine: choose another type"
    found = problems(config("a"), status={"conditions": [{"type": reserved, "status": "${true}"}]})
    assert found == [("spec.status.conditions[0].type", message)]


@pytest.mark.parametrize(
    ("resource", "fields", "name"),
    [
        (config("a", data={"x": "${self.?status.?address.orValue('')}"}), {"address": "${a.metadata.uid}"}, "address"),
        (
            config("a", data={"x": "${self.?status.?address.orValue('')}"}),
            {"address": "${children.configmap[*][0].metadata.uid}"},
            "address",
        ),
        (config("a", data={"x": "${self.?status.?address.orValue('')}"}), {"ready": "${size(a.data)}"}, None),
        (config("a", data={"x": "${self.?status.?address.orValue('')}"}), {"address": "${b.metadata.uid}"}, None),
        (
            config("a", data={"x": "${self.?status.?address.orValue('')}"}),
            {"address": "${c.metadata.uid}"},
            "address",
        ),
    ],
)
def test_a_resource_that_reads_what_is_made_of_it_is_told(resource: Any, fields: Any, name: str | None) -> None:
    """The resource c reads b, which reads a."""
    others = [config("b"), config("c", data={"x": "${d.data.x}"}), config("d", data={"x": "${a.metadata.uid}"})]
    message = f"reads self.status.{name}, which is made of a itself: it would never settle"
    found = problems(resource, *others, status={"fields": fields})
    assert found == ([] if name is None else [("spec.resources[0].template", message)])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"address": "${self.?status.?address.orValue('')}"}, {"address": "self.status.address"}),
        ({"address": "${json(self.?status)}"}, {"address": "self.status.address, self.status.conditions"}),
        (
            {
                "address": "${string(self.?status.?ready.orValue(0))}",
                "ready": "${size(self.?status.?host.orValue(''))}",
                "host": "${self.?status.?address.orValue('')}",
            },
            {"address": "self.status.ready", "ready": "self.status.host", "host": "self.status.address"},
        ),
    ],
)
def test_a_field_of_the_status_that_is_made_of_itself_is_told(fields: Any, expected: dict[str, str]) -> None:
    found = problems(config("a"), status={"fields": fields}, kind=crd(status=status_of(host=TEXT)))
    assert dict(found) == {
        f"spec.status.fields.{name}": f"reads {read}, which is made of it: it would never settle"
        for name, read in expected.items()
    }


# --- dependencies ----------------------------------------------------------------------------------------------------


def test_a_resource_depends_on_ids_and_on_all_resources_of_a_phase() -> None:
    phases = [
        {"name": "first", "resources": [config("a"), config("b")]},
        {
            "name": "second",
            "resources": [config("c", dependsOn=["x"])],
            "dependsOn": [{"id": "first", "until": "Applied"}],
        },
    ]
    box = box_of(
        config("x"), config("y", dependsOn=[{"id": "x", "until": "Observed"}, "e"]), phases=phases, externals=[READ]
    )

    def edges(name: str) -> list[tuple[str, str, bool, str]]:
        found = box.node(name)
        assert found is not None
        return [(edge.to, edge.until.name, edge.declared, edge.place.path) for edge in found.edges]

    assert edges("y") == [
        ("x", "OBSERVED", True, "spec.resources[1].dependsOn[0]"),
        ("e", "READY", True, "spec.resources[1].dependsOn[1]"),
    ]
    assert edges("c") == [
        ("x", "READY", True, "spec.phases[1].resources[0].dependsOn[0]"),
        ("a", "APPLIED", True, "spec.phases[1].dependsOn[0]"),
        ("b", "APPLIED", True, "spec.phases[1].dependsOn[0]"),
    ]
    assert [(each.id, each.wave, each.phase) for each in box.nodes] == [
        ("x", 0, ""), ("y", 1, ""), ("a", 0, "first"), ("b", 0, "first"), ("c", 1, "second"),
    ]  # fmt: skip


READ = {"id": "e", "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e"}}


def test_what_runs_before_a_deletion_depends_on_its_like_alone() -> None:
    last = {"phases": [{"resources": [config("d", dependsOn=["a", "e"]), config("f", dependsOn=["d"])]}]}
    found = problems(config("a"), config("b", dependsOn=["d"]), externals=[READ], deletion=last)
    at = "spec.deletion.phases[0].resources[0].dependsOn"
    no_such = "there is no resource, external or phase"
    assert found == [
        (f"{at}[0]", f"{no_such} a: d, f"),
        (f"{at}[1]", f"{no_such} e: d, f"),
        ("spec.resources[1].dependsOn[0]", f"{no_such} d: a, b, e"),
    ]


@pytest.mark.parametrize(("count", "shown"), [(3, "n0 → n1 → n2 → n0"), (11, None), (12, "(2 more)"), (14, "(4 more)")])
def test_a_circle_is_shown_and_the_middle_of_a_long_one_left_out(count: int, shown: str | None) -> None:
    circle = [config(f"n{at}", dependsOn=[f"n{(at + 1) % count}"]) for at in range(count)]
    ((path, message),) = problems(*circle)
    assert path.startswith("spec.resources[")
    assert message.startswith("these wait for each other: n")
    names = message.removeprefix("these wait for each other: ").split(" → ")
    assert len(names) == min(count + 1, 12)
    assert names[0] == names[-1]
    assert shown is None or shown in message


# --- what a box needs of its Secrets ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "apply", "use"),
    [
        ("x", "Always", SecretUse.CONTENT),
        ("x", "IfAbsent", SecretUse.METADATA),
        ("${s.metadata.uid}", "Once", SecretUse.METADATA),
        ("${s.type}", "IfAbsent", SecretUse.TYPE),
        ("${s.type + s.metadata.uid}", "IfAbsent", SecretUse.TYPE),
        ("${children.secret[*][0].type}", "IfAbsent", SecretUse.TYPE),
        ("${children.secret[*][0].metadata.uid}", "IfAbsent", SecretUse.METADATA),
        ("${string(size(children.secret[*].map(x, x.type)))}", "IfAbsent", SecretUse.CONTENT),
        ("${string(isReady(s))}", "IfAbsent", SecretUse.CONTENT),
    ],
)
def test_as_much_is_read_of_secrets_as_expressions_ask_for(text: str, apply: str, use: SecretUse) -> None:
    assert box_of(secret("s", apply=apply), config("a", data={"x": text})).secrets is use
    assert box_of(config("a")).secrets is SecretUse.METADATA


# --- the whole box ---------------------------------------------------------------------------------------------------


def test_a_box_without_its_crd_is_told() -> None:
    found = examine(read_box(document(config("a"))), None, Schemas([]))
    assert found.box is None
    assert told(found) == ["spec.crd: the CRD of the box's kind is not known: name its file, or give it with --crds"]


def test_an_examination_says_what_could_not_be_checked() -> None:
    thing = {"id": "t", "template": {"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}}
    data = {"x": "${string(self.spec.?free.?a.?b.orValue(''))}", "y": "${string(self.spec.?free.?a.orValue(''))}"}
    declared = [{"apiVersion": "x.example.com/v1", "kind": "Thing", "plural": "things"}]
    model = read_box(document(thing, config("a", data=data), kinds=declared, externals=[{**READ, "kind": "Secret"}]))
    versions = CrdVersions.of(crd())
    kinds = [Kind("x.example.com", "v1", "Thing", "things")]
    found = examine(model, versions, Schemas([versions], kinds))
    assert told(found) == []
    assert found.untyped == ("x.example.com/v1 Thing",)
    assert found.unchecked == ("self.spec.free",)
    assert found.expressions == 2
    assert found.box is not None
    assert (found.box.resync, found.box.strict_order, found.box.name) == (60.0, False, "shop")


# --- rules, defaults and versions ------------------------------------------------------------------------------------


def two_versions(**change: Any) -> dict[str, Any]:
    kind = crd(**change)
    (first,) = kind["spec"]["versions"]
    older = copy.deepcopy(first) | {"name": "v0", "storage": False}
    older["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["picture"] = TEXT
    kind["spec"]["versions"] = [first, older]
    return kind


UP, DOWN = {"spec.image": "${old.spec.?picture.orValue('')}"}, {"spec.picture": "${self.spec.image}"}
STORED = {"name": "v1"}


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ([{"name": "v0", "up": UP, "down": DOWN}, STORED], []),
        (
            [{"name": "v0", "up": UP, "down": DOWN}],
            [("spec.versions", "the storage version v1 is missing")],
        ),
        (
            [{"name": "v9", "up": UP, "down": DOWN}, STORED],
            [("spec.versions[0].name", "shop-crd.yaml has no version v9; it has v0, v1")],
        ),
        ([STORED, STORED], [("spec.versions[1].name", "v1 is there twice")]),
        (
            [{**STORED, "up": UP}],
            [("spec.versions[0]", "v1 is the storage version: it is converted to and from")],
        ),
        (
            [{**STORED, "down": DOWN}],
            [("spec.versions[0]", "v1 is the storage version: it is converted to and from")],
        ),
        *(
            (
                [{"name": "v0", **only}, STORED],
                [("spec.versions[0]", "needs `up`, to the storage version, and `down`, from it")],
            )
            for only in ({}, {"up": UP}, {"down": DOWN})
        ),
        (
            [{"name": "v0", "up": {"spec.picture": "x"}, "down": DOWN}, STORED],
            [("spec.versions[0].up['spec.picture']", "there is no field spec.picture in v1")],
        ),
        (
            [{"name": "v0", "up": UP, "down": {"spec.pictur": "x"}}, STORED],
            [("spec.versions[0].down['spec.pictur']", "there is no field spec.pictur in v0")],
        ),
        (
            [{"name": "v0", "up": {"spec.replicas": "x"}, "down": DOWN}, STORED],
            [("spec.versions[0].up['spec.replicas']", "expected integer, found a string")],
        ),
        (
            [{"name": "v0", "up": {"spec.image": "${self.spec.image}"}, "down": {"spec.picture": "${old.x}"}}, STORED],
            [
                ("spec.versions[0].down['spec.picture']", "undeclared reference to 'old'"),
                ("spec.versions[0].up['spec.image']", "undeclared reference to 'self'"),
            ],
        ),
    ],
)
def test_each_version_but_the_stored_one_is_converted_both_ways(versions: Any, expected: Any) -> None:
    assert problems(config("a"), versions=versions, kind=two_versions()) == expected


def test_versions_are_compiled_with_their_fields() -> None:
    versions = [{"name": "v0", "up": UP, "down": DOWN, "keeps": "annotation"}, STORED]
    older, stored = box_of(config("a"), versions=versions, kind=two_versions()).versions
    assert (older.name, older.is_storage, str(older.keeps)) == ("v0", False, "annotation")
    assert (list(older.up), list(older.down)) == ([("spec", "image")], [("spec", "picture")])
    assert (stored.name, stored.is_storage, stored.up, stored.down, str(stored.keeps)) == ("v1", True, {}, {}, "none")


SIMPLE, META_RULE = "self.spec.image != ''", "self.metadata.?labels.hasValue()"


@pytest.mark.parametrize(
    ("kind", "more", "rule", "in_crd", "in_webhook"),
    [
        (crd(), {}, SIMPLE, True, False),
        (crd(), {}, META_RULE, False, True),
        (two_versions(), {}, SIMPLE, True, False),
        (two_versions(), {"versions": [{"name": "v0", "up": UP, "down": DOWN}, STORED]}, SIMPLE, True, True),
        (two_versions(conversion={"strategy": "Webhook"}), {}, SIMPLE, True, True),
        (two_versions(conversion={"strategy": "None"}), {}, SIMPLE, True, False),
        (crd(conversion={"strategy": "Webhook"}), {}, SIMPLE, True, False),
    ],
)
def test_a_rule_is_checked_by_the_crd_where_it_can_and_by_the_webhook_elsewhere(
    kind: Any, more: dict[str, Any], rule: str, in_crd: bool, in_webhook: bool
) -> None:
    (found,) = box_of(config("a"), kind=kind, validation=[{"rule": rule}], **more).rules
    assert (found.in_crd, found.in_webhook) == (in_crd, in_webhook)
    assert (found.rule, found.message, found.field) == (rule, f"must hold: {rule}", "")
    said = {"rule": rule, "message": "no", "field": "spec.image"}
    (told_,) = box_of(config("a"), kind=kind, validation=[said], **more).rules
    assert (told_.message, told_.field) == ("no", "spec.image")


@pytest.mark.parametrize(
    ("value", "is_default"),
    [("x", True), ("${self.spec.image}", False), ("a ${self.spec.image}", False), ("a $x", True)],
)
def test_a_literal_is_a_default_of_the_crd_and_an_expression_is_not(value: str, is_default: bool) -> None:
    (found,) = box_of(config("a"), mutation=[{"field": "spec.host", "value": value}]).mutations
    assert (found.path, found.is_default) == (("spec", "host"), is_default)


@pytest.mark.parametrize(
    ("value", "is_default"),
    [
        ({"a": {"b": ["x", 1]}}, True),
        ({"a": {"b": ["x", "${self.spec.image}"]}}, False),
        ({"${self.spec.image}": 1}, False),
        ([{"a": "${self.spec.image}"}], False),
        (3, True),
    ],
)
def test_an_expression_anywhere_in_a_value_is_computed(value: Any, is_default: bool) -> None:
    (found,) = box_of(config("a"), mutation=[{"field": "spec.free.x", "value": value}]).mutations
    assert found.is_default is is_default


# --- hints -----------------------------------------------------------------------------------------------------------


def hints(*when: Any) -> list[tuple[str, str]]:
    found = warnings(deployment("web"), config("a", when=list(when)))
    return [(path.removeprefix("spec.resources[1].when"), message) for path, message in found]


ZERO = "readyReplicas is absent at zero, so that this never holds: write `exists: false`"
READY = "children.deployment.status.readyReplicas"


@pytest.mark.parametrize(
    ("gate", "is_told"),
    [
        ({"field": READY, "equals": 0}, True),
        ({"field": READY, "equals": 1}, False),
        ({"field": READY, "lessOrEqual": 0}, True),
        ({"field": READY, "lessOrEqual": 1}, False),
        ({"field": READY, "lessThan": 1}, True),
        ({"field": READY, "lessThan": 0}, True),
        ({"field": READY, "lessThan": 2}, False),
        ({"field": READY, "greaterOrEqual": 0}, False),
        ({"field": READY, "equals": 0, "not": True}, False),
        ({"field": "children.deployment.status.observedGeneration", "equals": 0}, False),
        ({"field": "spec.replicas", "equals": 0}, False),
        ({"field": "web.spec.replicas", "equals": 0}, False),
    ],
)
def test_a_gate_for_zero_of_what_is_absent_at_zero_is_warned_of(gate: dict[str, Any], is_told: bool) -> None:
    assert hints(gate) == ([("[0]", ZERO)] if is_told else [])


OR_ZERO = "readyReplicas is absent at zero, so that this never holds: write .?readyReplicas.orValue(0)"


@pytest.mark.parametrize(
    ("expression", "is_told"),
    [
        ("web.status.readyReplicas == 0", True),
        ("web.status.readyReplicas <= 0", True),
        ("true && !(web.status.readyReplicas == 0)", True),
        ("web.status.readyReplicas == 1", False),
        ("web.status.readyReplicas >= 0", False),
        ("web.status.?readyReplicas.orValue(0) == 0", False),
        ("web.status.observedGeneration == 0", False),
        ("web.spec.replicas == 0", False),
    ],
)
def test_a_comparison_with_zero_of_what_is_absent_at_zero_is_warned_of(expression: str, is_told: bool) -> None:
    assert hints(f"${{{expression}}}") == ([("[0]", OR_ZERO)] if is_told else [])


@pytest.mark.parametrize(
    ("expression", "told_"),
    [
        ("has(web.status)", ("status", "web.status")),
        ("true || has(web.status)", ("status", "web.status")),
        ("has(web.status.readyReplicas)", None),
        ("has(web.spec.strategy)", None),
        ("has(web.status.conditions)", None),
    ],
)
def test_a_test_for_presence_of_an_object_in_a_status_is_warned_of(
    expression: str, told_: tuple[str, str] | None
) -> None:
    field, place = told_ or ("", "")
    message = (
        f"has(…{field}) holds for {{}} too, which controllers write at first: ask for a field below it, or write the "
        f"gate {{field: {place}, exists: true}}"
    )
    assert hints(f"${{{expression}}}") == ([] if told_ is None else [("[0]", message)])


# --- gates -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gate", "shown", "is_choice"),
    [
        ({"field": "spec.host", "exists": True}, "spec.host exists", True),
        ({"field": "spec.host", "exists": False}, "spec.host does not exist", True),
        ({"field": "spec.host", "exists": True, "not": True}, "spec.host does not exist", True),
        ({"field": "spec.host", "exists": False, "not": True}, "spec.host exists", True),
        ({"field": "children.deployment", "isReady": True}, "children.deployment is ready", False),
        ({"field": "web", "isReady": False}, "web is not ready", False),
        ({"field": "spec.image", "equals": "x"}, "spec.image equals x", True),
        ({"field": "spec.image", "equals": "x", "not": True}, "spec.image not equals x", True),
        ({"field": "spec.image", "in": ["x"]}, "spec.image in ['x']", True),
        ({"field": "web.spec.paused", "equals": True}, "web.spec.paused equals true", False),
        ({"after": "5m"}, "5m have passed since metadata.creationTimestamp", False),
        ("${ self.spec.image == 'x' }", "self.spec.image == 'x'", True),
        ("${web.spec.replicas == 1}", "web.spec.replicas == 1", False),
    ],
)
def test_a_gate_is_shown_as_the_file_has_it(gate: Any, shown: str, is_choice: bool) -> None:
    found = box_of(deployment("web"), config("a", when=[gate])).node("a")
    assert found is not None
    (when,) = found.when_conditions
    assert (when.shown, when.is_choice, when.phase) == (shown, is_choice, "")
    assert [each.seconds for each in when.times] == ([300.0] if "after" in gate else [])
    assert (when.expression is None) is ("after" in gate)


def test_gates_of_a_phase_come_first_and_any_of_several_is_one() -> None:
    any_of = [{"field": "spec.host", "exists": True}, {"after": "90s"}, "${web.spec.replicas == 1}"]
    phase = {
        "name": "p",
        "when": ["${self.spec.image == 'x'}"],
        "any": any_of,
        "resources": [config("a", when=["${self.spec.image == 'y'}"], any=any_of[:1])],
    }
    found = box_of(deployment("web"), phases=[phase]).node("a")
    assert found is not None
    assert [(each.phase, each.shown, each.place.path, each.is_choice) for each in found.when_conditions] == [
        ("p", "self.spec.image == 'x'", "spec.phases[0].when[0]", True),
        (
            "p",
            "spec.host exists or 90s have passed since metadata.creationTimestamp or web.spec.replicas == 1",
            "spec.phases[0].any",
            False,
        ),
        ("", "self.spec.image == 'y'", "spec.phases[0].resources[0].when[0]", True),
        ("", "spec.host exists", "spec.phases[0].resources[0].any[0]", True),
    ]
    of_any = found.when_conditions[1]
    assert of_any.expression is not None
    assert [each.seconds for each in of_any.times] == [90.0]


@pytest.mark.parametrize(
    ("gate", "path", "message"),
    [
        (
            {"field": "spec.image", "equals": 3},
            ".field",
            "compares values of types that are never equal: (string, int)",
        ),
        (
            {"field": "children.secret", "exists": True},
            ".field",
            "children.secret: no resource of this box is of a kind 'secret'",
        ),
        (
            {"field": "spec.replicas", "after": "5m"},
            ".field",
            "must be a time such as metadata.creationTimestamp, not optional(int)",
        ),
        ({"field": "spec.imag", "after": "5m"}, ".field", "undefined field 'imag'; did you mean 'image'?"),
        (
            {"field": "children.secret", "after": "5m"},
            ".field",
            "children.secret: no resource of this box is of a kind 'secret'",
        ),
        ("x", "", "must be a gate such as {field: spec.host, exists: true}, or ${x}"),
        ("${self.spec.imag == ''}", "", "undefined field 'imag'; did you mean 'image'?"),
    ],
)
def test_a_gate_that_cannot_hold_is_told(gate: Any, path: str, message: str) -> None:
    found = problems(deployment("web"), config("a", when=[gate]))
    assert found == [(f"spec.resources[1].when[0]{path}", message)]
    several = [gate, {"field": "spec.host", "exists": True}]
    assert problems(deployment("web"), config("a", any=several)) == [(f"spec.resources[1].any[0]{path}", message)]


def test_what_is_told_of_children_in_expressions() -> None:
    def of(text: str) -> list[str]:
        return [message for _, message in problems(deployment("web"), config("a", data={"x": text}))]

    assert of("${string(has(children.deployment))}") == [
        "write has(children.deployment.metadata): has() asks for a field"
    ]
    assert of("${string(children == 1)}") == ["children is read as children.<kind>: configmap, deployment"]
    assert of("${string([1].map(children, 1)[0])}") == ["children cannot be the name of a variable"]
    assert of("${string(cel.bind(children, 1, 2))}") == ["children cannot be the name of a variable"]


def test_the_place_of_a_problem_is_looked_up_in_the_document() -> None:
    written = document(config("a", data={"x": "${nothing}"}))
    versions = CrdVersions.of(crd())

    class Marked(InDocument):
        def at(self, path: str, offset: int | None = None) -> Place:
            return Place(f"at {super().at(path, offset).path}", column=offset or 0)

    (problem,) = examine(read_box(written), versions, Schemas([versions]), Marked(written)).problems
    assert (problem.place.path, problem.place.column) == ("at spec.resources[0].template.data.x", 2)
