"""A box's resources and externals as nodes of a graph: what each renders, waits for, and needs consent for (RUN-12)."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, NAMESPACE, SECRET
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import account_of, composite_of, decide, external_refs
from purekube.boxes.decision.evaluation import PASS_STEPS, Evaluation
from purekube.boxes.decision.nodes import drains_of, graph_of
from purekube.boxes.model import Power
from purekube.composites.parent import Parent
from purekube.controller.decision import ALPHANUMERIC, Fill, Snapshot
from purekube.graph.node import (
    ApplyPolicy,
    Child,
    GraphNode,
    Hold,
    HoldCause,
    Item,
    NodeChildren,
    NodeKnowledge,
    OnImmutable,
    PruneTime,
    Removal,
    Rendered,
    Scope,
    Until,
)
from purekube.readiness import Readiness, State
from tests.support import boxes
from tests.support.boxes import config, crd, deployment, secret
from tests.support.simulation import START

SPEC = {"image": "i", "parts": [], "replicas": 2, "free": {}}
FREE = {**boxes.SPEC, "required": ["image", "parts", "free"]}


def box_of(*resources: Any, scope: str = "Namespaced", **spec: Any) -> Box:
    """A box whose parents always have the field free, which may be anything."""
    return boxes.box_of(*resources, kind=crd(FREE, scope=scope), **spec)


def shop(**spec: Any) -> Manifest:
    """A parent in the namespace team."""
    meta = {"name": "shop", "namespace": "team", "uid": "u-1"}
    return {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": meta, "spec": {**SPEC, **spec}}


def node(box: Box, identifier: str) -> GraphNode:
    return graph_of(box).nodes[identifier]


def scope_of(box: Box, parent: Manifest, nodes: Any = None, **observed: Any) -> Scope:
    found = Evaluation(box, parent, None, Snapshot(**observed)).scope()
    return Scope(found.values, nodes or {})


def rendered(box: Box, identifier: str, parent: Manifest | None = None, **more: Any) -> Any:
    return node(box, identifier).render(scope_of(box, parent or shop(), **more))


def fault(message: str, path: str = "spec.resources[0]") -> tuple[HoldCause, str, str]:
    return HoldCause.FAULT, message, path


def hold(found: Any) -> tuple[HoldCause, str, str]:
    assert isinstance(found, Hold)
    return found.cause, found.message, found.place.path


# --- forEach ---------------------------------------------------------------------------------------------------------

EACH = box_of(config("a", "a-${p}", {"k": "${p}"}, forEach={"p": "${dyn(self.spec.free)}", "key": "${string(p)}"}))


def test_each_item_of_a_list_is_an_object_with_its_key() -> None:
    found = rendered(EACH, "a", shop(free=["x", "y"]))
    assert isinstance(found, Rendered)
    assert [(item.key, item.manifest["metadata"], item.bindings) for item in found.items] == [
        (name, {"name": f"a-{name}", "namespace": "team"}, {"p": name}) for name in ("x", "y")
    ]
    assert rendered(EACH, "a", shop(free=[])) == Rendered(())


@pytest.mark.parametrize(
    ("free", "message"),
    [
        ({"x": 1}, "forEach takes a list"),
        ([f"n{number}" for number in range(101)], "forEach takes at most 100 items, and there are 101"),
        (["a", "a"], "two items have the key 'a'"),
        (["a", ""], "the key of an item is a text that is not empty"),
    ],
)
def test_a_list_from_which_no_objects_can_be_made_is_told(free: Any, message: str) -> None:
    assert hold(rendered(EACH, "a", shop(free=free))) == fault(message)


def test_a_list_of_a_hundred_items_is_allowed() -> None:
    assert len(rendered(EACH, "a", shop(free=[f"n{number}" for number in range(100)])).items) == 100


def test_a_key_that_is_no_text_is_told() -> None:
    box = box_of(config("a", "a", forEach={"p": "${[1]}", "key": "${dyn(p)}"}))
    assert hold(rendered(box, "a")) == fault("the key of an item is a text that is not empty")


# --- names and namespaces --------------------------------------------------------------------------------------------


def config_in(namespace: Any, identifier: str = "a", name: str = "a", **more: Any) -> dict[str, Any]:
    made = config(identifier, name, owner="Label", **more)
    made["template"]["metadata"]["namespace"] = namespace
    return made


def test_an_object_without_a_name_is_told() -> None:
    box = box_of(config("a", "${self.spec.?host}"))
    assert hold(rendered(box, "a")) == fault("metadata.name has no value")
    assert hold(rendered(box, "a", shop(host=""))) == fault("metadata.name has no value")
    assert rendered(box, "a", shop(host="h")).items[0].manifest["metadata"]["name"] == "h"


def test_an_expression_without_a_value_holds_its_resource_at_its_place() -> None:
    box = box_of(config("a", data={"x": "${self.spec.free.x}"}))
    (cause, message, path) = hold(rendered(box, "a", shop(free={})))
    assert (cause, path) == (HoldCause.MISSING, "spec.resources[0].template.data.x")
    assert message == "no such key: x"


TRUSTED: dict[str, Any] = {"trustParents": list(Power)}


def test_an_object_is_in_the_namespace_of_its_parent_or_in_one_that_is_written_down() -> None:
    box = box_of(config("a"), config_in("there", "b", "b"), config_in("${self.?spec.?host}", "c", "c"), **TRUSTED)
    namespaces = [rendered(box, name).items[0].manifest["metadata"].get("namespace") for name in "abc"]
    assert namespaces == ["team", "there", "team"]


def test_a_parent_without_a_namespace_makes_objects_where_it_says_and_no_others() -> None:
    namespace = {"id": "n", "template": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}}
    box = box_of(config_in("${self.?spec.?host}"), namespace, scope="Cluster", **TRUSTED)
    parent = {**shop(), "metadata": {"name": "shop", "uid": "u"}}
    told = fault("metadata.namespace has no value, and the parent is in no namespace")
    assert hold(rendered(box, "a", parent)) == told
    there = rendered(box, "a", {**parent, "spec": {**SPEC, "host": "h"}})
    assert there.items[0].manifest["metadata"] == {"name": "a", "namespace": "h"}
    assert rendered(box, "n", parent).items == (Item("", {**NAMESPACE.manifest("n")}, {}),)


def test_the_data_of_a_secret_is_rendered_as_it_is_stored() -> None:
    box = box_of(secret("s", {"a": "${self.spec.image}"}))
    assert rendered(box, "s").items[0].manifest == {**SECRET.manifest("s", "team"), "data": {"a": "aQ=="}}


# --- the consent of namespaces and Secrets ---------------------------------------------------------------------------

AWAY = box_of(config_in("${self.spec.image}"), **TRUSTED)


def denied(namespace: str, names: str) -> tuple[HoldCause, str, str]:
    command = f"kubectl annotate --overwrite namespaces {namespace} box.vworkspace.io/peers={names}"
    return HoldCause.DENIED, f"namespace {namespace} has not let namespace team in: {command}", "spec.resources[0]"


def test_a_namespace_that_was_worked_out_has_to_consent() -> None:
    assert hold(rendered(AWAY, "a", shop(image="far"))) == denied("far", "team")
    live = {**NAMESPACE.manifest("far"), "metadata": {"annotations": {"box.vworkspace.io/peers": "zoo, abc"}}}
    observed = {"objects": {ObjectRef(NAMESPACE, None, "far"): live}}
    assert hold(rendered(AWAY, "a", shop(image="far"), **observed)) == denied("far", "abc,team,zoo")
    for allowed in (shop(image="team"), shop(image="peer")):
        assert isinstance(rendered(AWAY, "a", allowed, peers=frozenset({"peer"})), Rendered)


def test_a_namespace_that_the_box_makes_itself_consents() -> None:
    made = {"id": "n", "template": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}}}
    box = box_of({**made, "owner": "Label"}, config_in("${self.spec.image}", "b", "b"), **TRUSTED)
    ref = ObjectRef(NAMESPACE, None, "far")
    nodes = {"n": NodeChildren(NodeKnowledge.RENDERED, (Child("", ref, NAMESPACE.manifest("far")), Child("x")))}
    assert isinstance(rendered(box, "b", shop(image="far"), nodes=nodes), Rendered)
    assert hold(rendered(box, "b", shop(image="fare"), nodes=nodes))[0] is HoldCause.DENIED
    assert hold(rendered(box, "b", shop(image="far")))[0] is HoldCause.DENIED


def external(name: Any = "${self.spec.image}", kind: str = "Secret", **more: Any) -> dict[str, Any]:
    meta = {"name": name, **more.pop("meta", {})}
    return {"id": "e", "apiVersion": "v1", "kind": kind, "metadata": meta, **more}


READING = box_of(config("a"), externals=[external()])


def test_a_secret_that_a_parent_names_has_to_consent() -> None:
    ref = ObjectRef(SECRET, "team", "i")
    assert rendered(READING, "e") == Rendered((Item("", SECRET.manifest("i", "team")),))

    def found(names: str) -> Any:
        live = {**SECRET.manifest("i", "team"), "metadata": {"annotations": {"box.vworkspace.io/readers": names}}}
        return rendered(READING, "e", objects={ref: live})

    assert isinstance(found("x,shops.example.com"), Rendered)
    command = "kubectl annotate --overwrite secrets i -n team box.vworkspace.io/readers=b.c,shops.example.com"
    message = f"Secret team/i does not let Shop objects use it: {command}"
    assert hold(found("b.c")) == (HoldCause.DENIED, message, "spec.externals[0]")


@pytest.mark.parametrize(
    ("meta", "more", "must_agree"),
    [
        ({"name": "${self.spec.image}"}, {}, True),
        ({"name": "s"}, {}, False),
        ({"name": "${self.metadata.name}"}, {}, False),
        ({"name": "${self.spec.image}"}, {"trustParents": ["Secrets"]}, False),
    ],
)
def test_a_secret_has_to_consent_where_who_writes_parents_names_it(
    meta: dict[str, Any], more: dict[str, Any], must_agree: bool
) -> None:
    box = box_of(config("a"), externals=[{**external(), "metadata": meta}], **more)
    assert box.externals[0].must_agree is must_agree
    assert box.externals[0].fields == ((("metadata", "annotations"),) if must_agree else ())


def test_an_external_whose_name_is_not_known_is_waited_for_and_not_read() -> None:
    box = box_of(config("a"), externals=[external("${dyn(self.spec.free)}", "ConfigMap")], **TRUSTED)
    expected = (HoldCause.MISSING, "its name is not known yet", "spec.externals[0]")
    assert hold(rendered(box, "e")) == expected
    assert hold(rendered(box, "e", shop(free=""))) == expected

    def refs(parent: Manifest) -> list[str]:
        return [str(ref) for _, ref in external_refs(box, composite_of(box).read(parent))]

    assert refs(shop()) == refs(shop(free="")) == refs(shop(free=7)) == []
    assert refs(shop(free="h")) == ["ConfigMap team/h"]
    failing = box_of(config("a"), externals=[external("${self.spec.free.x}", "ConfigMap")], **TRUSTED)
    assert hold(rendered(failing, "e", shop(free={})))[0] is HoldCause.MISSING
    assert list(external_refs(failing, composite_of(failing).read(shop(free={})))) == []


def test_an_external_that_is_left_out_leaves_out_what_reads_it_and_is_not_waited_for_by_what_rolls_on_it() -> None:
    """PH-1. A parent without the name of an optional ConfigMap waited for ever."""
    optional = external("${self.spec.free.name}", "ConfigMap", includeWhen=["${has(self.spec.free.name)}"])
    pods = {**deployment("web"), "rollOn": ["e"]}
    box = box_of(config("a"), config("b", data={"x": "${e.data.x}"}), pods, externals=[optional], **TRUSTED)

    def applied(free: dict[str, str], *there: Manifest) -> tuple[list[str], list[str]]:
        meta = {**shop()["metadata"], "finalizers": [composite_of(box).finalizer]}
        parent = composite_of(box).read({**shop(free=free), "metadata": meta})
        read = [str(ref) for _, ref in external_refs(box, parent)]
        objects = {ObjectRef(CONFIG_MAP, "team", "h"): each for each in there}
        return read, [apply.ref.name for apply in decide(box, parent, Snapshot(objects=objects), START).applies]

    assert applied({}) == ([], ["a", "web"])
    assert applied({"name": "h"}) == (["ConfigMap team/h"], ["a"])
    live = {**CONFIG_MAP.manifest("h", "team"), "data": {"x": "1"}}
    assert applied({"name": "h"}, live) == (["ConfigMap team/h"], ["a", "b", "web"])


@pytest.mark.parametrize(
    ("meta", "kind", "ref"),
    [
        ({}, "ConfigMap", ObjectRef(CONFIG_MAP, "team", "e")),
        ({"namespace": "there"}, "ConfigMap", ObjectRef(CONFIG_MAP, "there", "e")),
        ({"namespace": "${dyn(self.spec.free)}"}, "ConfigMap", ObjectRef(CONFIG_MAP, "team", "e")),
        ({}, "Namespace", ObjectRef(NAMESPACE, None, "e")),
        ({"namespace": "there"}, "Namespace", ObjectRef(NAMESPACE, None, "e")),
    ],
)
def test_an_external_is_in_the_namespace_of_the_parent_unless_it_says_so(
    meta: dict[str, Any], kind: str, ref: ObjectRef
) -> None:
    box = box_of(config("a"), externals=[external("e", kind, meta=meta)], **TRUSTED)
    parent = composite_of(box).read(shop())
    assert [found for _, found in external_refs(box, parent)] == [ref]
    assert rendered(box, "e").items[0].manifest == ref.kind.manifest("e", ref.namespace)


def test_a_namespace_of_an_external_has_to_consent_where_it_was_worked_out() -> None:
    box = box_of(
        config("a"), externals=[external("e", "ConfigMap", meta={"namespace": "${self.spec.image}"})], **TRUSTED
    )
    cause, message, path = hold(rendered(box, "e", shop(image="far")))
    assert (cause, path) == (HoldCause.DENIED, "spec.externals[0]")
    assert message.startswith("namespace far has not let namespace team in: ")
    assert isinstance(rendered(box, "e", shop(image="far"), peers=frozenset({"far"})), Rendered)
    literal = box_of(config("a"), externals=[external("e", "ConfigMap", meta={"namespace": "far"})])
    assert isinstance(rendered(literal, "e"), Rendered)


def test_an_external_is_never_written_and_ready_as_it_says() -> None:
    box = box_of(config("a"), externals=[external("e", "ConfigMap", readyWhen=["${e.data['a'] == 'x'}"])])
    found = node(box, "e")
    assert (found.policy, found.title, found.place.path) == (ApplyPolicy.NEVER, "ConfigMap e", "spec.externals[0]")
    scope, item = scope_of(box, shop()), Item("", {})
    assert found.ready(scope, item, {"data": {"a": "x"}}) is True
    assert found.ready(scope, item, {"data": {"a": "y"}}) is False
    assert hold(found.ready(scope, item, {}))[0] is HoldCause.MISSING


# --- settings of a resource ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "attribute", "value"),
    [
        ({}, "policy", ApplyPolicy.ALWAYS),
        ({"apply": "IfAbsent"}, "policy", ApplyPolicy.IF_ABSENT),
        ({"apply": "Once"}, "policy", ApplyPolicy.ONCE),
        ({}, "removal", Removal.DELETE),
        ({"onDelete": "Orphan"}, "removal", Removal.ORPHAN),
        ({}, "prune", PruneTime.WHEN_READY),
        ({"prune": "AtOnce"}, "prune", PruneTime.AT_ONCE),
        ({}, "on_immutable", OnImmutable.FAIL),
        ({"onImmutable": "Recreate"}, "on_immutable", OnImmutable.RECREATE),
        ({}, "refers", True),
        ({"owner": "Label"}, "refers", False),
        ({}, "readiness", None),
        ({}, "is_choice", False),
        ({"when": ["${has(self.spec.host)}"]}, "is_choice", True),
        ({"when": ["${has(self.spec.host)}", "${isReady(web)}"]}, "is_choice", False),
        ({"rollOn": ["web"], "dependsOn": []}, "roll_on", ("web",)),
        ({}, "title", "Deployment b"),
        ({}, "id", "b"),
    ],
)
def test_a_setting_of_a_resource_is_one_of_its_node(more: dict[str, Any], attribute: str, value: Any) -> None:
    box = box_of(deployment("web"), deployment("b", **more))
    assert getattr(node(box, "b"), attribute) == value


def test_a_resource_that_exists_is_ready_where_its_box_asks_for_no_more() -> None:
    box = box_of(deployment("web", readiness="Exists"))
    readiness = node(box, "web").readiness
    assert readiness is not None
    assert readiness({}) == Readiness(State.READY, "Exists")
    assert node(box, "web").ready(scope_of(box, shop()), Item("", {}), {}) is True


@pytest.mark.parametrize(
    ("resource", "fields", "fills"),
    [
        (secret, {"data.a": {}}, (Fill(("data", "a"), 32, ALPHANUMERIC, base64=True),)),
        (secret, {"stringData.a": {"length": 5}}, (Fill(("stringData", "a"), 5, ALPHANUMERIC, base64=False),)),
        (secret, {"data.a": {"alphabet": "xy"}}, (Fill(("data", "a"), 32, "xy", base64=True),)),
    ],
)
def test_a_field_is_drawn_as_its_object_stores_it(resource: Any, fields: Any, fills: Any) -> None:
    assert node(box_of(resource("a", apply="Once", generate=fields)), "a").generate == fills


READ = "${self.spec.image == 'x' ? b.data.y : 'none'}"


@pytest.mark.parametrize(
    ("text", "image", "touched"),
    [
        (READ, "x", {"b"}),
        (READ, "i", set()),
        ("${b.data.y}", "i", None),
        ("${self.spec.image != 'x' || b.data.y == '' ? '' : 'a'}", "i", set()),
        ("${self.spec.image != 'x' || b.data.y == '' ? '' : 'a'}", "x", {"b"}),
        ("${self.spec.?host.orValue(b.data.y)}", "i", {"b"}),
        ("${self.spec.image.size() > 0 ? c.data.y : b.data.y}", "i", {"c"}),
    ],
)
def test_a_branch_that_was_not_taken_is_not_waited_for(text: str, image: str, touched: set[str] | None) -> None:
    box = box_of(config("b", data={"y": "v"}), config("c", data={"y": "v"}), config("a", data={"x": text}))
    nodes = {
        name: NodeChildren(NodeKnowledge.RENDERED, (Child("", None, {"data": {"y": "v"}}),)) for name in ("b", "c")
    }
    found = rendered(box, "a", shop(image=image), nodes=nodes)
    assert isinstance(found, Rendered)
    assert touched == (None if found.touched is None else {edge.to for edge in found.touched})


def test_what_is_read_besides_a_choice_is_always_waited_for() -> None:
    data = {"x": READ, "z": "${c.data.y}"}
    box = box_of(config("b", data={"y": "v"}), config("c", data={"y": "v"}), config("a", data=data))
    nodes = {"c": NodeChildren(NodeKnowledge.RENDERED, (Child("", None, {"data": {"y": "v"}}),))}
    found = rendered(box, "a", shop(), nodes=nodes)
    assert {edge.to for edge in found.touched} == {"c"}


# --- what runs before a deletion -------------------------------------------------------------------------------------


def test_each_phase_of_a_deletion_waits_for_the_one_before_it() -> None:
    first = {"name": "f", "on": "delete", "resources": [config("a"), config("b", data={"x": "${a.metadata.uid}"})]}
    second = {"resources": [config("c", apply="IfAbsent"), config("d", dependsOn=["c"])]}
    box = box_of(config("x"), phases=[first], deletion={"phases": [second]})
    graph = drains_of(box)

    def edges(name: str) -> list[tuple[str, Until, bool]]:
        return [(edge.to, edge.until, edge.declared) for edge in graph.nodes[name].edges]

    assert list(graph.nodes) == ["a", "b", "c", "d"]
    assert {each.policy for each in graph.nodes.values()} == {ApplyPolicy.ONCE}
    waits = [("a", Until.READY, True), ("b", Until.READY, True)]
    assert (edges("a"), edges("b")) == ([], [("a", Until.OBSERVED, False)])
    assert (edges("c"), edges("d")) == (waits, [("c", Until.READY, True), *waits])
    assert list(drains_of(box_of(config("x"))).nodes) == []


# --- the box as a composite ------------------------------------------------------------------------------------------


def test_kinds_of_children_are_those_of_resources_of_drains_and_declared_ones_that_are_not_read() -> None:
    declared = [
        {"apiVersion": "x.example.com/v1", "kind": "Thing", "plural": "things"},
        {"apiVersion": "v1", "kind": "Odd", "plural": "odds", "namespaced": False},
        {"apiVersion": "v1", "kind": "ConfigMap", "plural": "configmaps"},
    ]
    last = {"phases": [{"resources": [secret("s")]}]}
    box = box_of(deployment("web"), externals=[external("e", "ConfigMap")], kinds=declared, deletion=last)
    assert [str(kind.crd_name) for kind in box.child_kinds] == [
        "deployments.apps",
        "secrets.",
        "things.x.example.com",
        "odds.",
    ]
    assert box.child_kinds[2:] == (
        Kind("x.example.com", "v1", "Thing", "things"),
        Kind("", "v1", "Odd", "odds", namespaced=False),
    )


def test_a_composite_says_what_the_box_says() -> None:
    last = {"order": "Strict", "phases": [{"resources": [config_in("x", "b", "b")]}]}
    condition = {"type": "Open", "status": "${true}"}
    fields = {"ready": "${size(self.spec.parts)}"}
    box = box_of(
        deployment("web"),
        secret("s"),
        deletion=last,
        resync="90s",
        status={"fields": fields, "conditions": [condition]},
    )
    found = composite_of(box)
    assert (found.name, found.word, found.controller) == ("shop", "box", "box-shop")
    assert (found.finalizer, found.manager) == ("box.vworkspace.io/shop", "vworkspace-box.shop")
    assert (found.selector, found.role_command) == (
        "box.vworkspace.io/name=shop",
        "vworkspace-operator box rbac shop.yaml",
    )
    assert found.labels == {"app.kubernetes.io/managed-by": "vworkspace-box", "box.vworkspace.io/name": "shop"}
    assert (found.fields, found.conditions) == (("ready",), ("Open",))
    assert (found.anywhere, found.references, found.resync) == (frozenset({CONFIG_MAP}), False, 90.0)
    assert (found.account, found.namespaces, found.asks_namespaces) == (None, None, False)
    assert found.rounds == 4


@pytest.mark.parametrize(("count", "rounds"), [(1, 4), (2, 5), (3, 6)])
def test_a_pass_has_three_rounds_more_than_the_graph_is_deep(count: int, rounds: int) -> None:
    chain = [config(f"n{at}", dependsOn=[f"n{at - 1}"] if at else []) for at in range(count)]
    assert composite_of(box_of(*chain)).rounds == rounds
    last = [{"resources": [config(f"d{at}")]} for at in range(count)]
    assert composite_of(box_of(config("x"), deletion={"phases": last})).rounds == rounds


@pytest.mark.parametrize(
    ("text", "spec", "name"),
    [
        ("builder", {}, "builder"),
        ("${self.spec.image}", {"image": "acc"}, "acc"),
        ("${self.spec.image}", {"image": "Not A Name"}, None),
        ("${self.spec.image}", {"image": "a" * 253}, "a" * 253),
        ("${self.spec.image}", {"image": "a" * 254}, None),
        ("${self.spec.free.x}", {}, None),
        ("${dyn(self.spec.free)}", {"free": 3}, None),
    ],
)
def test_an_account_is_a_name_in_the_namespace_of_the_parent(text: str, spec: dict[str, Any], name: str | None) -> None:
    box = box_of(config("a"), serviceAccountName=text)
    parent: Parent = composite_of(box).read(shop(**spec))
    assert box.account is not None
    found = account_of(box, box.account, parent)
    assert (None if found is None else str(found)) == (None if name is None else f"ServiceAccount team/{name}")
    assert composite_of(box).account_of(parent) == found


@pytest.mark.parametrize(("image", "row"), [("acc", False), ("Not A Name", True)])
def test_a_parent_is_decided_once_its_account_has_a_name(image: str, row: bool) -> None:
    box = box_of(config("a"), serviceAccountName="${self.spec.image}")
    parent: Parent = composite_of(box).read(shop(image=image))
    decision = decide(box, parent, Snapshot(), START)
    assert ("NoServiceAccount" in decision.row) is row
    assert (decision.account is None) is row


def test_a_box_asks_for_namespaces_where_any_resource_external_or_drain_computes_one() -> None:
    there = config_in("${self.spec.image}", "b", "b")
    read = external("e", "ConfigMap", meta={"namespace": "${self.spec.image}"})
    assert box_of(there, **TRUSTED).asks_namespaces
    assert box_of(config("a"), externals=[read], **TRUSTED).asks_namespaces
    assert box_of(config("a"), deletion={"phases": [{"resources": [there]}]}, **TRUSTED).asks_namespaces
    assert not box_of(config_in("there"), **TRUSTED).asks_namespaces
    assert not box_of(there, scope="Cluster", **TRUSTED).asks_namespaces


# --- the values of variables -----------------------------------------------------------------------------------------


def test_variables_are_the_parent_the_bindings_the_objects_and_lists_of_them() -> None:
    each = config("each", "x-${p}", forEach={"p": "${['a']}", "key": "${p}"})
    box = box_of(deployment("web"), config("one"), each)
    evaluation = Evaluation(box, shop())
    first, second = {"metadata": {"name": "1"}}, {"metadata": {"name": "2"}}

    def children(*objects: Any, knowledge: NodeKnowledge = NodeKnowledge.RENDERED) -> NodeChildren:
        return NodeChildren(knowledge, tuple(Child(str(at), None, one) for at, one in enumerate(objects)))

    nodes = {"one": children(first), "each": children(first, second, None), "web": children()}
    names = ("self", "web", "one", "each", "children.configmap[*]", "children.deployment[*]", "p", "q")
    found = evaluation.variables(Scope({}, nodes), names, {"p": 3, "one": second})
    assert found == {
        "self": shop(),
        "one": second,
        "each": [first, second],
        "children.configmap[*]": [first, first, second],
        "children.deployment[*]": [],
        "p": 3,
    }
    for knowledge, expected in (
        (NodeKnowledge.UNKNOWN, {}),
        (NodeKnowledge.NOT_YET, {"each": [first]}),
        (NodeKnowledge.EXCLUDED, {"each": []}),
    ):
        scope = Scope({}, {"each": children(first, knowledge=knowledge)})
        assert evaluation.variables(scope, ("each",)) == expected
    excluded = Scope({}, {"one": children(first, knowledge=NodeKnowledge.EXCLUDED)})
    assert evaluation.variables(excluded, ("one",)) == {}
    assert evaluation.variables(Scope(), ("children.configmap[*]", "one")) == {"children.configmap[*]": []}


def test_an_object_is_what_lives_with_what_was_rendered_over_it_and_made_once() -> None:
    box = box_of(config("one"))
    evaluation = Evaluation(box, shop())
    child = Child("", None, {"data": {"a": "new"}}, {"data": {"a": "old", "b": "x"}, "metadata": {"uid": "u"}})
    scope = Scope({}, {"one": NodeChildren(NodeKnowledge.RENDERED, (child,))})
    first = evaluation.variables(scope, ("one",))["one"]
    assert first == {"data": {"a": "new", "b": "x"}, "metadata": {"uid": "u"}}
    assert evaluation.variables(scope, ("one",))["one"] is first


def test_all_expressions_of_a_decision_share_their_steps() -> None:
    box = box_of(config("a", data={"x": "${string(self.spec.parts.map(p, p.name).size())}"}))
    evaluation = Evaluation(box, shop())
    before = evaluation._left
    assert before == PASS_STEPS == 1_000_000
    evaluation.render(box.nodes[0].template, {"self": shop(parts=[{"name": "a"}] * 10)})
    assert 0 < before - evaluation._left < 1_000
    after = evaluation._left
    evaluation.evaluate(box.nodes[0].template.expressions[0], {"self": shop(parts=[{"name": "a"}] * 10)})
    assert 0 < after - evaluation._left <= before - after
