"""PH-7: the decision of a pure reconciler from data: what its function is given, what becomes of its nodes, and each
answer that cannot be carried out.
"""

import base64
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from math import inf, nan
from typing import Any

import attrs
import pytest

from purekube.apimachinery.definitions import CONTROLLER_NAME
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, DEPLOYMENT, JOB, SECRET
from purekube.composites.parent import Parent, read_parent
from purekube.controller.decision import Decision, Fill, Finalizer, Requeue, RequeuePace, Snapshot
from purekube.graph.node import ApplyPolicy, OnImmutable, PruneTime, Removal, Until
from purekube.graph.owner import label_text
from purekube.reconcilers import (
    Children,
    Desired,
    Node,
    Object,
    PureReconciler,
    Read,
    Terminal,
    pure_reconciler,
    resource,
)
from purekube.reconcilers.decide_pure import children_of, composite_of, decide_pure
from purekube.reconcilers.pure import as_kind, without_secrets

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TYPES = frozenset({"Ready", "Reconciling", "Stalled", "Deleting"})


@attrs.frozen
class ShopSpec:
    """What a shop is to be."""

    image: str = "x"


@attrs.frozen
class ShopStatus:
    """How a shop stands."""

    ready: int = 0


SHOP = resource("example.com", "v1", "Shop", ShopSpec, ShopStatus)
ZONE = resource("example.com", "v1", "Zone", ShopSpec, ShopStatus, namespaced=False)
OWNED = (CONFIG_MAP, SECRET, DEPLOYMENT, JOB, SHOP)
META = {"name": "shop", "namespace": "team", "uid": "u-1", "generation": 1, "finalizers": ["example.com/shops"]}
Function = Callable[[Object[Any, Any], Children], Any]


HERE = "test_pure_decision.py"


def config(name: str = "a", **more: Any) -> dict[str, Any]:
    return {**CONFIG_MAP.manifest(name), **more}


def pure(function: Function, kind: Any = SHOP, **more: Any) -> PureReconciler[Any, Any]:
    made: Any = pure_reconciler(kind, owns=OWNED, name="shops", **more)
    return made(function)  # type: ignore[no-any-return]


def of(*nodes: Any, **more: Any) -> PureReconciler[Any, Any]:
    """Return a reconciler that always wants these nodes."""
    return pure(lambda shop, children: Desired(nodes, ShopStatus()), **more)


def parent(meta: dict[str, Any] | None = None, kind: Any = SHOP, **more: Any) -> Parent:
    manifest = {
        "apiVersion": kind.kind.api_version,
        "kind": kind.kind.kind,
        "metadata": {**META, **(meta or {})},
        "spec": {"image": "r"},
        **more,
    }
    return read_parent(manifest, TYPES)


def decided(one: PureReconciler[Any, Any], meta: dict[str, Any] | None = None, **observed: Any) -> Decision:
    return decide_pure(one, parent(meta), Snapshot(**observed), NOW)


def told(decision: Decision) -> dict[str, tuple[str, str, str]]:
    """Return the conditions that are written."""
    assert decision.status is not None
    return {
        one["type"]: (one["status"], one["reason"], one.get("message", ""))
        for one in decision.status["status"]["conditions"]
    }


def sent(*nodes: Node) -> list[Any]:
    """Return what is applied, in order, without the marks of the owner."""
    return [_plain(apply.manifest) for apply in decided(of(*nodes)).applies]


def _plain(manifest: Manifest) -> dict[str, Any]:
    meta = {key: value for key, value in manifest["metadata"].items() if key in ("name", "namespace")}
    return {**manifest, "metadata": meta}


GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


# --- what the controller is -------------------------------------------------------------------------------------------


def test_a_pure_reconciler_is_described_by_its_name_and_kind() -> None:
    read = Read("given", SECRET, lambda shop: "given")
    one = of(reads=[read], across_namespaces=True, namespaces={"a": "b"}, strict_order=True, resync=7.0)
    composite = composite_of(one)

    assert (composite.name, composite.word, composite.controller) == ("shops", "controller", "controller-shops")
    assert (composite.kind, composite.manager) == (SHOP.kind, "vworkspace-controller.shops")
    assert composite.finalizer == "example.com/shops"
    assert composite.labels == {"app.kubernetes.io/managed-by": "vworkspace-controller", CONTROLLER_NAME: "shops"}
    assert composite.selector == f"{CONTROLLER_NAME}=shops"
    assert composite.child_kinds == (CONFIG_MAP, SECRET, DEPLOYMENT, JOB, SHOP.kind)
    assert composite.fields == ("ready",)
    assert composite.role_command == "vworkspace-operator controllers rbac shops"
    assert (composite.externals, composite.anywhere) == ((read,), frozenset(composite.child_kinds))
    assert (composite.namespaces, composite.references, composite.resync) == ({"a": "b"}, False, 7.0)
    plain = composite_of(of())
    assert (plain.externals, plain.anywhere, plain.namespaces) == ((), frozenset(), None)
    assert (plain.references, plain.resync) == (True, 60.0)
    assert composite_of(one) is composite, "made once"


def refs(*reads: Read, kind: Any = SHOP, **more: Any) -> list[tuple[str, ObjectRef]]:
    composite = composite_of(of(reads=reads, kind=kind))
    return [(read.id, ref) for read, ref in composite.external_refs(parent(kind=kind, **more))]  # type: ignore[attr-defined]


def test_what_is_read_has_a_reference_once_its_name_is_known() -> None:
    cluster = Kind("x.example", "v1", "Cluster", "clusters", namespaced=False)
    near = Read("near", SECRET, lambda shop: shop.spec.image)
    far = Read("far", SECRET, lambda shop: "b", lambda shop: "elsewhere")
    wide = Read("wide", cluster, lambda shop: "c", lambda shop: "elsewhere")
    unnamed, empty = Read("none", SECRET, lambda shop: None), Read("empty", SECRET, lambda shop: "")
    placeless = Read("placeless", SECRET, lambda shop: "d", lambda shop: "")
    broken, lost = Read("broken", SECRET, lambda shop: shop.no), Read("lost", SECRET, lambda shop: "e", lambda s: s.no)
    found = [
        ("near", ObjectRef(SECRET, "team", "r")),
        ("far", ObjectRef(SECRET, "elsewhere", "b")),
        ("wide", ObjectRef(cluster, None, "c")),
    ]

    assert refs(broken, lost, near, unnamed, empty, placeless, far, wide) == found
    assert refs(near, spec={"image": 1}) == [], "an object that cannot be read has none"
    assert refs() == []
    assert refs(wide, kind=ZONE, meta={"namespace": ""}) == [found[2]]
    assert refs(near, kind=ZONE, meta={"namespace": ""}) == []


def test_what_is_read_is_watched_unless_it_is_a_secret() -> None:
    one = Read("a", "v1/ConfigMap", lambda shop: "a")

    assert (one.kind, one.watch, one.elsewhere, one.fields, one.selector) == (CONFIG_MAP, True, False, ((),), {})
    assert [Read("a", SECRET, str, watch=watch).watch for watch in (False, True)] == [False, True]
    assert not Read("a", SECRET, str).watch
    assert Read("a", SECRET, str, str).elsewhere


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (SECRET, SECRET),
        (SHOP, SHOP.kind),
        ("v1/Secret", SECRET),
        ("apps/v1/Deployment", DEPLOYMENT),
        ("batch/v1/Job", JOB),
    ],
)
def test_a_kind_is_given_as_it_is_or_by_its_name(given: Any, kind: Kind) -> None:
    assert as_kind(given) == kind


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("Secret", "did you mean v1/Secret?"),
        ("v2/Secret", "did you mean v1/Secret?"),
        ("apps/Deployment", "did you mean apps/v1/Deployment?"),
        ("HorizontalPodAutoscaler", "did you mean autoscaling/v2/HorizontalPodAutoscaler?"),
        ("v1/Secrets", "write such as apps/v1/Deployment, or give Kind"),
        ("", "write such as apps/v1/Deployment, or give Kind"),
    ],
)
def test_a_kind_of_others_is_not_known_by_its_name(given: str, hint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{given!r} is no kind that is known here: {hint}")):
        as_kind(given)


def test_a_pure_reconciler_is_named_after_its_function() -> None:
    def Shop_audit(shop: Any, children: Any) -> Any:
        return Desired((), ShopStatus(3))

    one = pure_reconciler(SHOP, owns=["v1/Secret", SECRET, SHOP])(Shop_audit)
    assert (one.name, one.owns, dict(one.schemas)) == ("shop-audit", (SECRET, SHOP.kind), {SHOP.kind: SHOP.schema})
    shop = SHOP.new("a", ShopSpec())
    assert one(shop).status == one(shop, Children()).status == ShopStatus(3)
    for name in ("a" * 40, "a", "a-1"):
        assert pure_reconciler(SHOP, owns=[], name=name)(Shop_audit).name == name
    for name in ("a" * 41, "-a", "a-", "A", "1a"):
        with pytest.raises(ValueError, match=f"the name {name!r} must be such as shop-audit, 40 letters at most"):
            pure_reconciler(SHOP, owns=[], name=name)(Shop_audit)


# --- what the function is given ---------------------------------------------------------------------------------------


def made(node: Node, uid: str = "u-a") -> tuple[ObjectRef, dict[str, Any]]:
    (apply,) = decided(of(node)).applies
    meta = {**apply.manifest["metadata"], "uid": uid, "resourceVersion": "5"}
    return apply.ref, {**apply.manifest, "metadata": meta}


def test_the_function_is_given_its_children_by_node_and_what_it_reads() -> None:
    ref, live = made(Node("x", config()))
    strange = ObjectRef(CONFIG_MAP, "team", "b"), config("b")
    given = ObjectRef(CONFIG_MAP, "team", "given"), config("given", data={"k": "v"})
    read = Read("given", CONFIG_MAP, lambda shop: "given")
    one = of(reads=[read, Read("absent", CONFIG_MAP, lambda shop: "absent")])
    found = SHOP.read(parent().manifest)
    children = children_of(one, parent(), found, Snapshot(objects=dict([(ref, live), strange, given])))

    assert children.found == {"x": [live], "given": [given[1]]}
    assert children.schemas == {("example.com/v1", "Shop"): SHOP.schema}
    assert children.get("x") is children.get(Node("x", config())) is live
    assert children.get(Node("x", config("renamed"))) is None
    assert children.get(Node("x", {**SECRET.manifest("a")})) is None
    assert children.get("absent") is None
    assert (children.dig("given", "data", "k"), children.dig("given", "no"), children.dig("no", "a")) == (
        "v",
        None,
        None,
    )
    assert (children.is_ready("x"), children.is_ready("no")) == (True, False)


def test_a_child_with_a_status_to_come_is_not_ready_by_its_schema() -> None:
    live = {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "a", "generation": 1}}
    known = Children({"a": [live]}, {("example.com/v1", "Shop"): SHOP.schema})

    assert not known.is_ready("a")
    assert Children({"a": [live]}).is_ready("a")
    long = "x" * 64
    assert Children({label_text(long): [live]}).get(long) is live


def test_an_object_tells_its_reference_its_deletion_and_its_conditions() -> None:
    shop = SHOP.read(parent({**GOING}, status={"conditions": [condition("Ready"), condition("Warm")]}).manifest)
    zone = ZONE.new("a", ShopSpec())

    assert (shop.ref, zone.ref) == (ObjectRef(SHOP.kind, "team", "shop"), ObjectRef(ZONE.kind, None, "a"))
    assert (shop.is_deleting, zone.is_deleting) == (True, False)
    assert [shop.condition(name) for name in ("Ready", "Warm", "No")] == [*shop.conditions, None]
    unreadable = SHOP.read_leniently(parent(GOING, spec={"image": 1}).manifest)
    assert (unreadable.ref, unreadable.is_deleting) == (shop.ref, True)
    calm = SHOP.read_leniently(parent({"namespace": ""}, spec={"image": 1}).manifest)
    assert (calm.ref, calm.is_deleting) == (ObjectRef(SHOP.kind, None, "shop"), False)


def condition(kind: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "reason": "Good", "lastTransitionTime": "2026-01-01T00:00:00Z"}


# --- what becomes of a node -------------------------------------------------------------------------------------------


def test_nodes_are_applied_in_the_order_of_their_dependencies_PH_1() -> None:
    first, second = Node("x", config("a")), Node("y", config("b"), depends_on="x", until=Until.APPLIED)
    third = Node("z", config("c"), depends_on=[first, second], until=Until.APPLIED)

    assert [manifest["metadata"]["name"] for manifest in sent(third, second, first)] == ["a", "b", "c"]
    assert first.name == "a"
    assert Node("x", {"metadata": {"name": None}}).name == ""
    waits = decided(of(first, attrs.evolve(second, until=Until.READY)))
    assert [apply.ref.name for apply in waits.applies] == ["a"]
    assert told(waits)["Ready"][2] == "ConfigMap team/a: Pending. Waiting behind it: y"


UNSAID = "its `when` is False; a text there would say what it waits for"


@pytest.mark.parametrize(("when", "message"), [(True, ""), (False, UNSAID), ("not yet", "not yet")])
def test_a_node_is_held_with_the_reason_that_when_gives(when: bool | str, message: str) -> None:
    decision = decided(of(Node("x", config(), when=when)))

    assert len(decision.applies) == (when is True)
    if message:
        assert told(decision)["Ready"] == ("False", "WaitingForGate", f"ConfigMap team/a: {message}")


@pytest.mark.parametrize("when", ["", None, {"kind": "Secret"}])
def test_a_when_that_says_neither_yes_nor_why_not_is_refused(when: Any) -> None:
    with pytest.raises(ValueError, match="`when` of node x must be True, False, or a text that says what the node"):
        Node("x", config(), when=when)


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ({}, "apply"),
        ({"generate": [Fill("data.k")]}, "create"),
        ({"generate": [Fill("data.k")], "apply": ApplyPolicy.ONCE}, "once"),
        ({"apply": ApplyPolicy.IF_ABSENT}, "create"),
        ({"apply": ApplyPolicy.NEVER}, "read"),
        ({"apply": ApplyPolicy.NEVER, "generate": [Fill("data.k")]}, "read"),
    ],
)
def test_a_node_with_random_text_is_only_created(given: dict[str, Any], policy: str) -> None:
    decision = decided(of(Node("x", config(), **given)))

    assert (len(decision.applies), len(decision.creates)) == (policy == "apply", policy == "create")
    assert ("x" in str(decision.annotations.get(composite_of(of()).created_annotation))) == (policy == "once")


def test_random_text_of_a_secret_is_encoded_where_the_server_wants_it() -> None:
    fills = [Fill("data.k"), Fill("stringData.k"), Fill("data.l", base64=True)]
    secret = {**SECRET.manifest("a"), "stringData": {"a": "b"}, "data": {"c": "ZA=="}}
    of_secret = decided(of(Node("x", secret, generate=fills))).creates[0]
    of_map = decided(of(Node("x", config(), generate=fills))).creates[0]

    assert [fill.base64 for fill in of_secret.fill] == [True, False, True]
    assert [fill.base64 for fill in of_map.fill] == [False, False, True]
    assert of_secret.manifest["data"] == {"c": "ZA==", "a": base64.b64encode(b"b").decode()}
    assert "stringData" not in of_secret.manifest
    assert secret["stringData"] == {"a": "b"}, "what the function returned stays as it is"
    assert sent(Node("x", config(stringData={"a": "b"})))[0]["stringData"] == {"a": "b"}


def test_a_node_keeps_what_it_says_of_its_removal_adoption_and_health() -> None:
    found = ObjectRef(CONFIG_MAP, "team", "a"), config()
    assert decided(of(Node("x", config())), objects=dict([found])).applies == ()
    assert len(decided(of(Node("x", config(), adopt=True)), objects=dict([found])).applies) == 1

    orphan = decided(of(Node("x", config(), removal=Removal.ORPHAN))).applies[0].manifest
    assert "Orphan" in orphan["metadata"]["annotations"].values()
    ref, live = made(Node("x", config()))
    sick = decided(of(Node("x", config(), healthy=lambda seen: seen["metadata"]["uid"] != "u-a")), objects={ref: live})
    assert told(sick)["Ready"][2] == "ConfigMap team/a: its readiness condition does not hold yet"
    for prune in PruneTime:
        waiting = of(Node("y", config("y")), Node("x", config("renamed"), prune=prune))
        deletes = decided(waiting, objects={ref: live}).deletes
        assert [delete.ref.name for delete in deletes] == (["a"] if prune is PruneTime.AT_ONCE else [])
    assert Node("x", config(), on_immutable=OnImmutable.RECREATE).on_immutable is OnImmutable.RECREATE


def test_pods_are_replaced_for_the_nodes_of_roll_on() -> None:
    pods = {**DEPLOYMENT.manifest("web"), "spec": {"template": {}}}
    settings = Node("s", config("s"))
    for roll_on in (settings, "s", ["s"]):
        _, web = (apply.manifest for apply in decided(of(settings, Node("w", pods, roll_on=roll_on))).applies)
        (name,) = web["spec"]["template"]["metadata"]["annotations"]
        assert name.endswith("roll-hash")
    assert sent(Node("w", pods))[0]["spec"] == {"template": {}}


def test_what_is_read_is_waited_for_only_by_the_nodes_that_name_it() -> None:
    reads = [Read("given", CONFIG_MAP, lambda shop: "given"), Read("unnamed", CONFIG_MAP, lambda shop: None)]
    free, waits, lost = (
        Node(one, config(one), depends_on=on) for one, on in (("a", ()), ("b", "given"), ("c", "unnamed"))
    )

    assert told(decided(of(free, reads=reads)))["Ready"][2] == "ConfigMap team/a: Pending"
    missing = told(decided(of(waits, reads=reads)))["Ready"]
    assert missing == (
        "False",
        "WaitingForExternal",
        "ConfigMap team/given: it does not exist. Waiting behind it: b",
    )
    unnamed = told(decided(of(lost, reads=reads)))["Ready"]
    assert unnamed[1:] == (
        "WaitingForExternal",
        "ConfigMap unnamed: its name is not known yet. Waiting behind it: c",
    )
    there = {ObjectRef(CONFIG_MAP, "team", "given"): config("given")}
    assert [apply.ref.name for apply in decided(of(waits, reads=reads), objects=there).applies] == ["b"]


def test_a_change_of_what_is_read_replaces_the_pods_of_the_nodes_that_roll_on_it() -> None:
    reads = [Read("given", CONFIG_MAP, lambda shop: "given")]
    web = Node("w", {**DEPLOYMENT.manifest("web"), "spec": {"template": {}}}, roll_on="given")

    def hash_with(data: dict[str, str]) -> str:
        there = {ObjectRef(CONFIG_MAP, "team", "given"): config("given", data=data)}
        (apply,) = decided(of(web, reads=reads), objects=there).applies
        (found,) = apply.manifest["spec"]["template"]["metadata"]["annotations"].values()
        return str(found)

    assert hash_with({"a": "1"}) == hash_with({"a": "1"}) != hash_with({"a": "2"})
    missing = told(decided(of(web, reads=reads)))["Ready"]
    assert missing[1:] == ("WaitingForExternal", "ConfigMap team/given: it does not exist. Waiting behind it: w")


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [None, 0.0, 5.0, 90.0])
def test_a_function_is_asked_again_when_it_wants_to(seconds: float | None) -> None:
    quiet = decided(pure(lambda shop, children: Desired([], ShopStatus(3), seconds)))

    assert quiet.requeue.after == seconds
    assert quiet.status is not None
    assert quiet.status["status"]["ready"] == 3
    assert told(quiet)["Ready"] == ("True", "ResourcesReady", "")


@pytest.mark.parametrize("seconds", [-1.0, nan, inf, "60", timedelta(minutes=1), True])
def test_a_time_that_is_no_number_of_seconds_fails_for_its_object_alone(seconds: Any) -> None:
    def answer(shop: Any, children: Any) -> Any:
        return Desired([], ShopStatus(), seconds)

    odd = decided(pure(answer))
    line = f"({HERE}:{answer.__code__.co_firstlineno + 1})"

    message = f"shops: ValueError: requeue_after must be seconds, 0 or more, not {seconds!r} {line}"
    assert told(odd) == retried(message)
    assert odd.requeue == Requeue.BACKOFF


def stopped(reason: str, message: str) -> dict[str, tuple[str, str, str]]:
    return {
        "Ready": ("False", reason, message),
        "Reconciling": ("False", reason, ""),
        "Stalled": ("True", reason, message),
    }


def retried(message: str) -> dict[str, tuple[str, str, str]]:
    return {
        "Ready": ("False", "ReconcileFailed", message),
        "Reconciling": ("True", "ReconcileFailed", message),
        "Stalled": ("False", "ReconcileFailed", ""),
    }


INVALID: list[tuple[Any, str]] = [
    ([Node("x", config())], "the function returned list, not Desired(nodes, status)"),
    (None, "the function returned NoneType, not Desired(nodes, status)"),
    (Desired([], {"ready": 1}), "the status is of dict, not of ShopStatus"),
    (Desired([], ShopStatus(object())), "the status is no JSON: Encoding objects of type object is unsupported"),  # type: ignore[arg-type]
    (Desired([config()], ShopStatus()), "there is a dict among the nodes: write Node(id, manifest)"),  # type: ignore[list-item]
    (Desired([Node("x", Kind("a.b", "v1", "C", "cs").manifest("a"))], ShopStatus()),
     "node x is a C of a.b/v1: add a.b/v1/C to owns=[…]"),
    (Desired([Node("x", {"kind": "ConfigMap", "metadata": {"name": "a"}})], ShopStatus()),
     "the manifest of node x has no apiVersion"),
    (Desired([Node("x", {"apiVersion": "v1", "metadata": {"name": "a"}})], ShopStatus()),
     "the manifest of node x has no kind"),
    (Desired([Node("given", config())], ShopStatus()),
     "node given has the id of something that is read: give it another one"),
    (Desired([Node("x", CONFIG_MAP.manifest("a", "other"))], ShopStatus()),
     "node x is in namespace other: give across_namespaces=True"),
    (Desired([Node("x", config()), Node("x", config("b"))], ShopStatus()), "two resources have the id x"),
    (Desired([Node("x", config(), depends_on="z")], ShopStatus()), "x depends on z, and there is no such resource"),
    (Desired([Node("x", config(), depends_on="x")], ShopStatus()), "these wait for each other: x -> x"),
    (Desired([Node("x", config(""))], ShopStatus()), "node x: its manifest has no metadata.name"),
    (Desired([Node("x", {**config(), "metadata": "a"})], ShopStatus()), "node x: its manifest has no metadata.name"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "message"), INVALID)
@pytest.mark.parametrize("deleting", [False, True])
def test_an_answer_that_cannot_be_carried_out_stops_with_its_mistake(answer: Any, message: str, deleting: bool) -> None:
    reads = [Read("given", CONFIG_MAP, lambda shop: "given")]
    present = decided(pure(lambda shop, children: answer, reads=reads))

    assert told(present) == stopped("DesiredInvalid", f"shops: {message}")
    assert present.requeue == Requeue.NO
    assert not present.writes_downstream
    if deleting and isinstance(answer, Desired) and answer.nodes:
        drained = pure(lambda shop, children: None, reads=reads, drain=lambda shop, children: answer.nodes)
        reason = "DesiredInvalid", f"shops: {message}"
        going = decided(drained, GOING)
        assert told(going) == {**stopped(*reason), "Deleting": ("True", *reason)}


def test_a_manifest_that_is_no_json_is_a_mistake() -> None:
    loop: dict[str, Any] = config()
    loop["data"] = loop
    for data in ({"k": object()}, {1: 2}, loop):
        answer = of(Node("x", config(data=data) if data is not loop else loop))
        assert told(decided(answer))["Ready"][2].startswith("shops: node x: its manifest is no JSON: ")


@pytest.mark.parametrize("place", ["name", "namespace"])
def test_nothing_is_pruned_where_the_name_of_what_is_read_cannot_be_computed(place: str) -> None:
    """The function would find nothing, leave out what needs it, and lose a child that it made before."""
    functions: dict[str, Any] = {"name": lambda shop: "given", place: lambda shop: shop.spec.nothing}
    owner = pure(
        lambda shop, children: Desired([Node("a", config())] if children.get("given") else [], ShopStatus()),
        reads=[Read("given", CONFIG_MAP, **functions)],
    )
    (made,) = decided(of(Node("a", config()))).applies
    live = {**made.manifest, "metadata": {**made.manifest["metadata"], "uid": "u-2", "resourceVersion": "1"}}
    found = decided(owner, objects={ObjectRef(CONFIG_MAP, "team", "a"): live})

    message = "the name of given, which is read: AttributeError: 'ShopSpec' object has no attribute 'nothing'"
    assert told(found) == retried(f"shops: RuntimeError: {message} ({HERE}:{functions[place].__code__.co_firstlineno})")
    assert not found.writes_downstream


def raising(error: BaseException) -> PureReconciler[Any, Any]:
    def function(shop: Any, children: Any) -> Any:
        raise error

    return pure(function, drain=function)


RAISED = f"({HERE}:{raising.__code__.co_firstlineno + 2})"


@pytest.mark.parametrize(
    ("error", "conditions"),
    [
        (ValueError("no"), retried(f"shops: ValueError: no {RAISED}")),
        (SystemExit(3), retried(f"shops: RuntimeError: SystemExit: 3 {RAISED}")),
        (Terminal("TooLarge", "at most 5"), stopped("TooLarge", "at most 5")),
        (Terminal("TooLarge"), stopped("TooLarge", "TooLarge")),
        (ValueError("the key is hunter22"), retried(f"shops: ValueError: the key is *** {RAISED}")),
        (Terminal("Bad", "the key is hunter22"), stopped("Bad", "the key is ***")),
    ],
)
def test_a_function_that_raises_changes_nothing(error: BaseException, conditions: dict[str, Any]) -> None:
    value = base64.b64encode(b"hunter22").decode()
    secret = {ObjectRef(SECRET, "team", "s"): {**SECRET.manifest("s"), "data": {"k": value}}}
    present, going = (decided(raising(error), meta, objects=secret) for meta in ({}, GOING))

    assert told(present) == conditions
    assert told(going) == {**conditions, "Deleting": ("True", *conditions["Ready"][1:])}
    pace = RequeuePace.BACKOFF if conditions["Reconciling"][0] == "True" else RequeuePace.NONE
    assert (present.requeue.pace, going.requeue.pace) == (pace, pace)
    assert not present.writes_downstream
    assert not going.writes_downstream


def test_a_defect_of_the_function_is_named_with_its_lines() -> None:
    def helper(shop: Any) -> Any:
        return dict[str, Any]()["image"]

    def function(shop: Any, children: Any) -> Any:
        return helper(shop)

    lines = [f"{HERE}:{each.__code__.co_firstlineno + 1}" for each in (function, helper)]
    assert told(decided(pure(function))) == retried(f"shops: KeyError: 'image' ({lines[0]}, {lines[1]})")


def test_a_person_who_interrupts_is_heard() -> None:
    with pytest.raises(KeyboardInterrupt):
        decided(raising(KeyboardInterrupt()))


def test_an_object_that_does_not_fit_its_classes_stops_and_a_status_never_does() -> None:
    one = of(Node("x", config()))
    unread = decide_pure(one, parent(spec={"image": 1}), Snapshot(), NOW)
    message = "the object does not fit Shop: spec.image: must be a string, not a number"

    assert told(unread) == stopped("ObjectUnreadable", message)
    assert len(decide_pure(one, parent(status={"ready": "no"}), Snapshot(), NOW).applies) == 1


def test_the_finalizer_is_on_before_anything_and_off_once_nothing_is_left_PH_3() -> None:
    one = of(Node("x", config()))
    ref, live = made(Node("x", config()))

    assert decided(one, {"finalizers": []}).finalizer is Finalizer.ADD
    assert decided(one).finalizer is None
    assert decided(one, {**GOING, "finalizers": ["x/y"]}) == Decision()
    assert decided(one, GOING).finalizer is Finalizer.REMOVE
    left = decided(one, GOING, objects={ref: live})
    assert (left.finalizer, [delete.ref for delete in left.deletes]) == (None, [ref])
    kept = decided(one, {**GOING, "annotations": {"vworkspace.io/abandon": "true"}}, objects={ref: live})
    assert (len(kept.patches), kept.deletes, kept.status) == (1, (), None)


def test_what_drains_runs_before_anything_is_deleted_PH_3() -> None:
    job = Node("bye", JOB.manifest("bye"))
    ref, live = made(Node("x", config()))

    def drain(shop: Any, children: Children) -> Sequence[Node]:
        return [job] if children.get("x") is live else []

    going = decided(pure(lambda shop, children: None, drain=drain), GOING, objects={ref: live})
    assert (told(going)["Deleting"][:2], going.deletes) == (("True", "Draining"), ())
    assert told(going)["Deleting"][2].startswith("Job team/bye: ")


def test_an_object_in_a_namespace_that_is_not_selected_is_told_so() -> None:
    one = of(Node("x", config()), namespaces={"matchLabels": {"shop": "yes"}})
    namespace: dict[str, Any] = {"metadata": {"name": "team", "labels": {"shop": "no"}}}

    other = decided(one, namespace=namespace)
    assert told(other)["Stalled"][1] == "NamespaceNotSelected"
    assert other.applies == ()
    namespace["metadata"]["labels"]["shop"] = "yes"
    assert len(decided(one, namespace=namespace).applies) == 1
    gone = decided(one, GOING, namespace={"metadata": {"name": "team"}})
    assert gone.finalizer is Finalizer.REMOVE, "it is cleaned up wherever it is"


# --- secrets in texts -------------------------------------------------------------------------------------------------


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("data", "text", "masked"),
    [
        ({"k": encoded("hunter22")}, "a hunter22 b", "a *** b"),
        ({"k": encoded("hunter22")}, f"a {encoded('hunter22')} b", "a *** b"),
        ({"k": encoded("abcd")}, "abcd", "***"),
        ({"k": encoded("abc")}, "abc YWJj", "abc ***"),
        ({"k": "YWI="}, "YWI= ab", "*** ab"),
        ({"k": "no base64!"}, "no base64! here", "*** here"),
        ({"k": "abc"}, "abc", "abc"),
        ({"k": encoded("first\nsecond")}, "first or second", "*** or ***"),
        ({"k": encoded("first\nsecond")}, r"first\nsecond", "***"),
        ({"k": encoded("longer-text"), "l": encoded("text")}, "longer-text text", "*** ***"),
        ({"k": base64.b64encode(b"\xff\xfe\xfd\xfc").decode()}, "//79/A==", "***"),
        ({"k": 12345}, "12345", "12345"),
        ("hunter22", "hunter22", "hunter22"),
        (None, "None", "None"),
    ],
)
def test_the_values_of_secrets_are_masked_in_each_of_their_forms(data: Any, text: str, masked: str) -> None:
    ref = ObjectRef(SECRET, "team", "s")

    assert without_secrets(text, {ref: {"data": data}}) == masked
    assert without_secrets(text, {attrs.evolve(ref, kind=CONFIG_MAP): {"data": data}}) == text
