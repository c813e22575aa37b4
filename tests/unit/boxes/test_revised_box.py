"""PH-10: which revision of a box decides about a parent."""

from datetime import UTC, datetime
from typing import Any

import pytest

from purekube.apimachinery.definitions import BROUGHT_TO
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, DEPLOYMENT, SECRET
from purekube.boxes.decision.decide import composite_of
from purekube.boxes.rollouts.revised import RevisedBox, retired_kinds
from purekube.boxes.rollouts.revisions import Assignments
from purekube.composites.composite import SecretUse
from purekube.composites.parent import kinds_annotation
from purekube.controller.decision import Decision, Snapshot
from tests.support.boxes import box_of, config, deployment, secret

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NEW = box_of(config("settings", data={"value": "new"}))


def decided(record: str, **boxes: Any) -> Decision:
    """The decision on a parent with this record, by a box with the revisions `old` and `new`, of which some run."""
    composite = RevisedBox(boxes, lambda: Assignments(("old", "new"), "new")).composite
    meta = {
        "name": "shop",
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "1",
        "generation": 1,
        "finalizers": [composite.finalizer],
        "annotations": {BROUGHT_TO: record} if record else {},
    }
    spec = {"image": "r/x:1", "parts": []}
    manifest = {"apiVersion": NEW.kind.api_version, "kind": NEW.kind.kind, "metadata": meta, "spec": spec}
    return composite.decide(composite.read(manifest), Snapshot(), NOW)


def conditions(decision: Decision) -> dict[str, Any]:
    assert decision.status is not None
    return {each["type"]: each for each in decision.status["status"]["conditions"]}


def test_parent_of_a_revision_that_is_not_served_is_left_alone_PH_10() -> None:
    decision = decided("old 2026-01-01T00:00:00Z", new=NEW)

    assert not decision.writes_downstream
    said = conditions(decision)
    assert (said["Stalled"]["status"], said["Stalled"]["reason"]) == ("True", "RevisionNotServed")
    assert said["Stalled"]["message"].startswith("revision old of the box")
    assert said["Revision"]["message"] == "old"


def test_new_parent_gets_its_record_before_anything_is_written_and_an_old_one_keeps_it_PH_10() -> None:
    assert decided("", new=NEW).annotations[BROUGHT_TO] == "new 2026-01-01T00:00:00Z"
    assert BROUGHT_TO not in decided("new 2025-01-01T00:00:00Z", new=NEW).annotations


# --- one controller for several revisions ----------------------------------------------------------------------------

READ: dict[str, Any] = {"id": "e", "apiVersion": "v1", "kind": "ConfigMap"}
LABELLED = config("far", owner="Label")
LABELLED["template"]["metadata"]["namespace"] = "far"
OLD = box_of(
    deployment("web"),
    LABELLED,
    externals=[{**READ, "metadata": {"name": "old"}}],
    status={"fields": {"address": "a", "ready": "${1}"}, "conditions": [{"type": "Open", "status": "${true}"}]},
    namespaces={"matchLabels": {"a": "b"}},
    resync="30s",
)
LATER = box_of(
    secret("s", apply="IfAbsent"),
    config("a"),
    config("b", dependsOn=["a"]),
    config("c", dependsOn=["b"]),
    externals=[{**READ, "metadata": {"name": "new"}}],
    status={"fields": {"ready": "${2}"}, "conditions": [{"type": "Told", "status": "${true}"}]},
)


def revised(**boxes: Any) -> RevisedBox:
    return RevisedBox(boxes, lambda: Assignments(("old", "new", "gone"), "new"))


def parent(revision: str, **meta: Any) -> Any:
    """A parent at this revision, as the composite reads it."""
    said = {"name": "shop", "namespace": "team", "uid": "u", "annotations": {BROUGHT_TO: revision}, **meta}
    return {**NEW.kind.manifest("shop", "team"), "metadata": said, "spec": {"image": "i", "parts": []}}


def test_a_controller_follows_what_any_of_its_revisions_needs() -> None:
    found = revised(old=OLD, new=LATER).composite
    assert found.child_kinds == (SECRET, CONFIG_MAP, DEPLOYMENT)
    assert found.fields == ("address", "ready")
    assert found.conditions == ("Open", "Told", "Revision")
    assert [each.kind for each in found.externals] == [CONFIG_MAP, CONFIG_MAP]
    assert found.anywhere == frozenset({CONFIG_MAP})
    assert found.namespaces == {"matchLabels": {"a": "b"}}
    assert (found.resync, found.rounds) == (30.0, 6)
    assert (found.asks_namespaces, found.account) == (False, None)
    assert found.manager == LATER.field_manager


@pytest.mark.parametrize(
    ("first", "second", "use"),
    [
        ("Always", "IfAbsent", SecretUse.CONTENT),
        ("IfAbsent", "Always", SecretUse.CONTENT),
        ("IfAbsent", "IfAbsent", SecretUse.METADATA),
    ],
)
def test_as_much_is_read_of_secrets_as_one_of_the_revisions_reads(first: str, second: str, use: SecretUse) -> None:
    boxes = {name: box_of(secret("s", apply=apply)) for name, apply in (("old", first), ("new", second))}
    assert revised(**boxes).composite.secrets is use


def test_each_parent_has_the_kinds_and_externals_of_its_revision() -> None:
    found = revised(old=OLD, new=LATER).composite

    def kinds(revision: str) -> list[Kind]:
        return list(found.present_kinds(found.read(parent(revision))))

    def externals(revision: str) -> list[str]:
        return [ref.name for _, ref in found.external_refs(found.read(parent(revision)))]

    assert kinds("old") == [DEPLOYMENT, CONFIG_MAP]
    assert kinds("new") == kinds("unknown") == [SECRET, CONFIG_MAP]
    assert kinds("gone") == []
    assert (externals("old"), externals("new"), externals("gone")) == (["old"], ["new"], [])


def test_each_parent_has_the_account_of_its_revision() -> None:
    boxes = {name: box_of(config("a"), serviceAccountName=f"{name}-builder") for name in ("old", "new")}
    found = revised(**boxes).composite
    accounts = [found.account_of(found.read(parent(name))) for name in ("old", "new", "gone")]
    assert [None if each is None else each.name for each in accounts] == ["old-builder", "new-builder", None]


def test_a_parent_is_explained_by_its_revision_or_by_the_newest() -> None:
    found = revised(old=OLD, new=LATER).composite
    assert found.explain is not None
    for revision, names in (("old", {"e", "web", "far"}), ("gone", {"e", "s", "a", "b", "c"})):
        explained = found.explain(found.read(parent(revision)), Snapshot(), NOW)
        assert set(explained.graph.nodes) == names
        assert set(explained.phases) == set(explained.when_conditions) == names - {"e"}


@pytest.mark.parametrize(
    ("present", "revisions", "recorded", "retired"),
    [
        (NEW, [], [], ()),
        (NEW, ["old"], [], (DEPLOYMENT,)),
        (NEW, ["new"], [], (SECRET,)),
        (NEW, ["old", "new"], [], (DEPLOYMENT, SECRET)),
        (NEW, ["other"], [], ()),
        (NEW, ["other"], [DEPLOYMENT], (DEPLOYMENT,)),
        (LATER, ["old", "new"], [SECRET], (DEPLOYMENT,)),
        (box_of(config("a"), serviceAccountName="builder"), ["old"], [DEPLOYMENT], ()),
    ],
)
def test_kinds_of_former_revisions_are_retired_while_parents_may_own_objects_of_them(
    present: Any, revisions: list[str], recorded: list[Kind], retired: tuple[Kind, ...]
) -> None:
    composite = composite_of(present)
    parents = []
    for revision in revisions:
        said = {BROUGHT_TO: revision, composite.kinds_annotation: kinds_annotation(tuple(recorded))}
        fields: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{composite.kinds_annotation}": {}}}}
        entry = {"manager": composite.manager, "operation": "Apply", "fieldsV1": fields}
        parents.append(parent(revision, annotations=said, managedFields=[entry]))
    assert retired_kinds(present, {"old": OLD, "new": LATER}, parents) == retired


def test_a_parent_that_is_held_keeps_its_fields_and_names_its_revision() -> None:
    found = revised(old=OLD).composite
    stood = {**parent("gone"), "status": {"address": "a", "ready": 1, "other": 2}}
    decision = found.decide(found.read(stood), Snapshot(), NOW)
    said = conditions(decision)["Ready"]
    assert said["message"] == (
        "revision gone of the box shop does not compile any more, or rights that it needs are missing: until it is "
        "served, nothing is made, changed or removed"
    )
    assert decision.status is not None
    assert {name: decision.status["status"].get(name) for name in ("address", "ready", "other")} == {
        "address": "a",
        "ready": 1,
        "other": None,
    }
    assert decision.annotations == {}


def test_a_parent_that_goes_gets_no_record() -> None:
    found = revised(new=NEW).composite
    going = parent("", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[found.finalizer])
    live = {**CONFIG_MAP.manifest("settings", "team")}
    owner = {"apiVersion": "example.com/v1", "kind": "Shop", "name": "shop", "uid": "u", "controller": True}
    meta = {"uid": "c", "resourceVersion": "1", "labels": {found.marks.owner_uid: "u"}, "ownerReferences": [owner]}
    live["metadata"] = {**live["metadata"], **meta}
    observed = Snapshot(objects={ObjectRef(CONFIG_MAP, "team", "settings"): live})
    decision = found.decide(found.read(going), observed, NOW)
    assert [delete.ref.name for delete in decision.deletes] == ["settings"]
    assert BROUGHT_TO not in decision.annotations
