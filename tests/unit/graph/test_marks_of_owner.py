"""PH-3, OPS-1: the labels and annotations of an owner, which of the existing objects are its own, and how one is let
go.
"""

from itertools import product
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import Kind, ObjectRef, content_hash
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.resources import CONFIG_MAP, NAMESPACE
from purekube.controller.decision import MergePatch, Snapshot
from purekube.controller.ownership import UNRECORDED
from purekube.graph.node import ApplyPolicy, Item, Removal
from purekube.graph.owner import Marks, label_text
from tests.support.graph_snapshots import MARKS, OWNER, REFERENCE, SHOP, named, node, written

A = named("a")
LABEL = {MARKS.owner_uid: "u-1"}
THEIRS = {**REFERENCE, "uid": "u-2"}
UNCONTROLLED = {"uid": "u-3"}
CLUSTER_SHOP = attrs.evolve(SHOP, namespaced=False)
CLUSTER_OWNER = attrs.evolve(OWNER, kind=CLUSTER_SHOP, meta=ObjectMeta("shop", "", "u-1"))


def found(**meta: Any) -> dict[str, Any]:
    return {**written(), "metadata": {"name": "a", "namespace": "team", **meta}}


def test_the_marks_are_named_below_the_domain_OPS_1() -> None:
    names = [MARKS.owner_uid, MARKS.node, MARKS.item, MARKS.wave, MARKS.removal, MARKS.owner, MARKS.roll]

    assert [name.removeprefix("box.example/") for name in names] == [
        "owner-uid",
        "node",
        "item",
        "wave",
        "on-delete",
        "owner",
        "roll-hash",
    ]
    assert (MARKS.applied_hash, Marks("x", "y").applied_hash) == ("vworkspace.io/applied-hash", "y")


@pytest.mark.parametrize("text", ["a", "a" * 63, "A.b-c_9"])
def test_a_text_that_is_no_label_becomes_its_hash(text: str) -> None:
    assert label_text(text) == text
    for other in (f"{text}/", f"-{text}", "a" * 64, ""):
        assert label_text(other) == content_hash(other)
    assert attrs.evolve(OWNER, meta=ObjectMeta("shop", "team", "a/b")).label == content_hash("a/b")


@pytest.mark.parametrize(
    ("owner", "namespace", "may"),
    [
        (OWNER, "team", True),
        (OWNER, "other", False),
        (OWNER, None, False),
        (CLUSTER_OWNER, "team", True),
        (CLUSTER_OWNER, None, True),
        (attrs.evolve(OWNER, references=False), "team", False),
        (attrs.evolve(CLUSTER_OWNER, references=False), "team", False),
    ],
)
def test_a_reference_is_given_where_kubernetes_permits_one(owner: Any, namespace: str | None, may: bool) -> None:
    ref = ObjectRef(CONFIG_MAP, namespace, "a")
    sent = owner.rendered(node(), Item("", written()), ref, 0)["metadata"]

    assert owner.may_refer(ref) is may
    assert ("ownerReferences" in sent) == may


LABELS: list[dict[str, str] | None] = [None, {}, LABEL, {MARKS.owner_uid: "u-2"}]
OWNERS: list[list[dict[str, Any]] | None] = [None, [UNCONTROLLED], [UNCONTROLLED, REFERENCE], [THEIRS]]
BY_LABEL: list[dict[str, str] | None] = [None, {MARKS.owner: "Label"}, {MARKS.owner: "Other"}]


@pytest.mark.parametrize("referring", [False, True], ids=["no reference is permitted", "a reference is permitted"])
def test_its_own_is_what_it_controls_or_what_its_label_names_REC_4(referring: bool) -> None:
    """A second and simpler implementation of both questions, on every combination of marks."""
    owner = attrs.evolve(OWNER, references=referring)
    for labels, owners, annotations in product(LABELS, OWNERS, BY_LABEL):
        live = found(labels=labels, ownerReferences=owners, annotations=annotations)
        controlled = bool(owners) and owners[-1] in (REFERENCE, THEIRS)
        mine = bool(owners) and owners[-1] is REFERENCE
        labelled = labels == LABEL
        kept = referring and annotations != BY_LABEL[1]

        assert owner.is_ours(live) == (mine if controlled else labelled)
        assert owner.holds(A, live) == (labelled and (mine if controlled else not kept))


def test_what_is_held_has_an_order_by_kind_namespace_and_name() -> None:
    other = Kind("a.example", "v1", "Other", "others")
    later = Kind("a.example", "v2", "Other", "others")
    last = Kind("a.example", "v2", "Part", "others")
    parts = Kind("a.example", "v2", "Part", "parts")
    refs = [
        ObjectRef(NAMESPACE, None, "z"),
        ObjectRef(CONFIG_MAP, "a", "z"),
        ObjectRef(CONFIG_MAP, "team", "a"),
        ObjectRef(CONFIG_MAP, "team", "b"),
        ObjectRef(other, "z", "z"),
        ObjectRef(later, "a", "a"),
        ObjectRef(last, "team", "x"),
        ObjectRef(parts, "", "a"),
    ]
    refs.sort(key=lambda ref: (ref.kind.group, ref.kind.version, ref.kind.kind, ref.kind.plural))
    live = found(labels=LABEL, ownerReferences=[REFERENCE])
    strange = ObjectRef(CONFIG_MAP, "team", "strange")
    observed = Snapshot(objects={strange: found(), **dict.fromkeys(reversed(refs), live)})

    held = list(OWNER.held(observed))
    assert [ref for ref, _ in held] == refs
    assert all(each is live for _, each in held)


@pytest.mark.parametrize(
    ("kind", "meta", "namespace", "name"),
    [
        (CONFIG_MAP, {"name": "a"}, "team", "a"),
        (CONFIG_MAP, {"name": "a", "namespace": "other"}, "other", "a"),
        (CONFIG_MAP, {"namespace": ""}, "team", ""),
        (NAMESPACE, {"name": "a", "namespace": "other"}, None, "a"),
        (NAMESPACE, {"name": None}, None, ""),
    ],
)
def test_an_object_lives_next_to_its_owner_unless_it_says_otherwise(
    kind: Kind, meta: dict[str, Any], namespace: str | None, name: str
) -> None:
    assert OWNER.ref_of(kind, {"metadata": meta}) == ObjectRef(kind, namespace, name)


@pytest.mark.parametrize(
    ("text", "wave"),
    [("0", 0), ("7", 7), ("99999", 99999), ("100000", 0), ("-1", 0), ("1.5", 0), ("²", 0), ("", 0), (3, 0), (None, 0)],
)
def test_a_wave_that_is_none_counts_as_the_last_to_be_removed_PH_3(text: Any, wave: int) -> None:
    assert OWNER.wave_of(found(annotations={MARKS.wave: text})) == wave
    assert OWNER.wave_of(found()) == 0


def test_the_marks_of_an_object_are_read_from_it() -> None:
    assert OWNER.node_of(found(labels={MARKS.node: "web"})) == "web"
    assert OWNER.node_of(found(labels={MARKS.node: None})) == ""
    assert OWNER.node_of(found()) == ""
    table = [
        ({MARKS.removal: "Orphan"}, True),
        ({MARKS.removal: "orphan"}, False),
        ({"x": "Orphan"}, False),
        ({}, False),
    ]
    for annotations, orphaned in table:
        assert OWNER.is_orphaned(found(annotations=annotations)) is orphaned


def test_what_is_sent_keeps_what_the_author_wrote_and_adds_the_marks_OPS_1() -> None:
    theirs = {
        "labels": {"own": "1", "made-by": "me", MARKS.node: "forged"},
        "annotations": {"own": "2", MARKS.wave: "99"},
        "ownerReferences": [UNCONTROLLED],
        "finalizers": ["x/y"],
    }
    item = Item("key one", {**written(), "metadata": {"name": "a", **theirs}})
    sent = OWNER.rendered(node(removal=Removal.ORPHAN, policy=ApplyPolicy.IF_ABSENT), item, A, 12)

    assert sent == {
        **written(),
        "metadata": {
            "name": "a",
            "namespace": "team",
            "finalizers": ["x/y"],
            "labels": {
                "own": "1",
                "made-by": "box",
                MARKS.owner_uid: "u-1",
                MARKS.node: "a",
                MARKS.item: content_hash("key one"),
            },
            "annotations": {"own": "2", MARKS.wave: "12", MARKS.removal: "Orphan"},
            "ownerReferences": [UNCONTROLLED, REFERENCE],
        },
    }


def test_what_refers_to_nobody_says_so_itself_OPS_1() -> None:
    sent = OWNER.rendered(node("x/y", refers=False, policy=ApplyPolicy.ONCE), Item("key", written()), A, 0)

    assert sent["metadata"] == {
        "name": "a",
        "namespace": "team",
        "labels": {"made-by": "box", MARKS.owner_uid: "u-1", MARKS.node: content_hash("x/y"), MARKS.item: "key"},
        "annotations": {MARKS.wave: "0", MARKS.owner: "Label"},
    }
    clusterwide = OWNER.rendered(node(refers=False), Item("", written()), ObjectRef(NAMESPACE, None, "a"), 0)
    assert "namespace" not in clusterwide["metadata"]


def test_only_what_is_applied_whenever_it_differs_has_a_hash_of_what_is_sent_PH_2() -> None:
    for policy in ApplyPolicy:
        sent = OWNER.rendered(node(policy=policy), Item("", written()), A, 0)
        digest = sent["metadata"]["annotations"].pop(MARKS.applied_hash, None)
        assert digest == (content_hash(sent) if policy is ApplyPolicy.ALWAYS else None)


POD = {"metadata": {"annotations": {"own": "1"}, "labels": {"app": "web"}}, "spec": {"x": 1}}
ROLLED = {"metadata": {"annotations": {"own": "1", MARKS.roll: "h"}, "labels": {"app": "web"}}, "spec": {"x": 1}}
BARE = {"metadata": {"annotations": {MARKS.roll: "h"}}}


@pytest.mark.parametrize(
    ("spec", "rolled"),
    [
        ({"template": POD, "replicas": 2}, {"template": ROLLED, "replicas": 2}),
        ({"template": {}}, {"template": BARE}),
        ({"template": {"metadata": None}}, {"template": BARE}),
        ({"jobTemplate": {"spec": {"template": POD}}}, {"jobTemplate": {"spec": {"template": ROLLED}}}),
        ({"template": POD, "jobTemplate": {"spec": {"template": POD}}},
         {"template": ROLLED, "jobTemplate": {"spec": {"template": POD}}}),
        ({"template": "text"}, {"template": "text"}),
        ({"jobTemplate": {"spec": {}}}, {"jobTemplate": {"spec": {}}}),
        (None, None),
    ],
)  # fmt: skip
def test_the_hash_that_replaces_pods_is_put_on_their_template(spec: Any, rolled: Any) -> None:
    item = Item("", {**written(), "spec": spec})
    one = node(policy=ApplyPolicy.IF_ABSENT)

    assert OWNER.rendered(one, item, A, 0, "h")["spec"] == rolled
    assert OWNER.rendered(one, item, A, 0)["spec"] == spec
    assert item.manifest["spec"] is spec, "what was rendered stays as it is"


def test_what_is_let_go_of_loses_reference_label_and_lock_PH_3() -> None:
    live = found(resourceVersion="5", ownerReferences=[THEIRS, REFERENCE, UNCONTROLLED], labels=LABEL, finalizers=["x"])
    meta = {"resourceVersion": "5", "ownerReferences": [THEIRS, UNCONTROLLED], "labels": {MARKS.owner_uid: None}}

    assert OWNER.disowning(A, live) == MergePatch(A, {"metadata": meta})
    locked = found(resourceVersion="5", finalizers=["x", UNRECORDED])
    assert OWNER.disowning(A, locked) == MergePatch(
        A, {"metadata": {**meta, "ownerReferences": [], "finalizers": ["x"]}}
    )
