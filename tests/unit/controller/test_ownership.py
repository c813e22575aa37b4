"""Who owns a live object, and the patches that change it (REC-4, REC-10)."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.resources import CONFIG_MAP, SECRET
from purekube.controller.decision import MergePatch
from purekube.controller.ownership import (
    UNRECORDED,
    adoption,
    belongs_to,
    controlled,
    controller_of,
    foreign_owner,
    is_controlled_by,
    is_locked,
    locked,
    owner_reference,
    owners_without,
    unlocked_finalizers,
    unlocking,
)

REF = ObjectRef(CONFIG_MAP, "ns", "a")
MINE = {"uid": "me", "controller": True}
THEIRS = {"uid": "they", "controller": True}
BESIDE = {"uid": "me"}


def live(**meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "resourceVersion": "7", **meta}}


@pytest.mark.parametrize(
    ("owners", "controller"),
    [
        (None, None),
        ("x", None),
        ((MINE,), None),
        ([], None),
        ([BESIDE], None),
        ([{**MINE, "controller": "true"}], None),
        (["x", BESIDE, MINE, THEIRS], MINE),
    ],
)
def test_the_controller_is_the_first_owner_that_is_called_so(owners: Any, controller: Any) -> None:
    found = live(ownerReferences=owners)

    assert controller_of(found) == controller
    assert is_controlled_by(found, "me") is (controller is not None)
    assert not is_controlled_by(found, "they")


def test_an_object_without_a_controller_is_controlled_by_nobody() -> None:
    assert is_controlled_by(live(), "") is False


MARKS = ({"app": "a", "made-by": "me"}, {"old": "1", "new": None})


@pytest.mark.parametrize(
    ("meta", "is_ours"),
    [
        ({"ownerReferences": [MINE]}, True),
        ({"ownerReferences": [THEIRS]}, False),
        ({"ownerReferences": [THEIRS], "labels": MARKS[0]}, False),
        ({"ownerReferences": [{"controller": True}]}, False),
        ({"labels": {**MARKS[0], "more": "x"}}, True),
        ({"ownerReferences": [BESIDE], "labels": MARKS[0]}, True),
        ({"labels": {"app": "a"}}, False),
        ({"labels": {"app": "a", "made-by": "they"}}, False),
        ({"labels": {"old": "1"}}, True),
        ({"labels": {"old": "1", "new": "x"}}, False),
        ({"labels": "x"}, False),
        ({}, False),
    ],
)
def test_an_object_without_a_controller_is_ours_by_any_of_the_marks_REC_4(meta: dict[str, Any], is_ours: bool) -> None:
    assert belongs_to(live(**meta), "me", lambda: MARKS) is is_ours


def test_marks_are_only_asked_for_where_there_is_no_controller() -> None:
    def marks() -> tuple[dict[str, str], ...]:
        raise AssertionError("a controller decides alone")

    assert not belongs_to(live(ownerReferences=[THEIRS]), "me", marks)
    assert belongs_to(live(ownerReferences=[MINE]), "me", marks)
    assert not belongs_to(live(labels={"a": "b"}), "me", tuple)


def test_the_reference_to_an_owner_makes_it_the_controller() -> None:
    meta = ObjectMeta(name="n", namespace="ns", uid="u")

    assert owner_reference(CONFIG_MAP, meta) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "n",
        "uid": "u",
        "controller": True,
        "blockOwnerDeletion": True,
    }


@pytest.mark.parametrize("owners", [[], [BESIDE]])
def test_adoption_keeps_other_owners_and_is_refused_for_a_changed_object(owners: list[Any]) -> None:
    found = live(ownerReferences=owners) if owners else live()

    assert adoption(REF, found, MINE, {"app": "a"}) == MergePatch(
        REF, {"metadata": {"resourceVersion": "7", "labels": {"app": "a"}, "ownerReferences": [*owners, MINE]}}
    )


def test_owners_without_one_are_all_others_in_order() -> None:
    assert owners_without(live(), "me") == []
    assert owners_without(live(ownerReferences=[THEIRS, MINE, BESIDE, "x", {}]), "me") == [THEIRS, "x", {}]


def test_controlled_objects_come_by_kind_and_then_by_name() -> None:
    refs = [ObjectRef(SECRET, "ns", "b"), ObjectRef(CONFIG_MAP, "ns", "z"), ObjectRef(CONFIG_MAP, "ns", "a")]
    objects = {ref: live(ownerReferences=[MINE]) for ref in refs}
    objects[ObjectRef(CONFIG_MAP, "ns", "theirs")] = live(ownerReferences=[THEIRS])

    assert [ref for ref, _ in controlled(objects, "me", (CONFIG_MAP, SECRET))] == [refs[2], refs[1], refs[0]]
    assert list(controlled(objects, "me", (SECRET,))) == [(refs[0], objects[refs[0]])]
    assert list(controlled({}, "me", (SECRET,))) == []


def test_an_object_is_locked_until_its_uid_is_recorded() -> None:
    free, kept = live(), live(finalizers=["other"])

    assert locked(free) == live(finalizers=[UNRECORDED])
    assert locked(kept) == live(finalizers=["other", UNRECORDED])
    assert [is_locked(one) for one in (free, kept, locked(free), locked(kept), live(finalizers=None))] == [
        False,
        False,
        True,
        True,
        False,
    ]
    assert unlocked_finalizers(free) == []
    assert unlocked_finalizers(locked(kept)) == ["other"]
    assert unlocking(REF, locked(kept)) == MergePatch(
        REF, {"metadata": {"resourceVersion": "7", "finalizers": ["other"]}}
    )


def owned(*owners: dict[str, Any], managers: tuple[str, ...] = ()) -> dict[str, Any]:
    return live(ownerReferences=list(owners), managedFields=[{"manager": manager} for manager in managers])


OTHERS = {"kind": "Shop", "name": "b", "uid": "they"}


@pytest.mark.parametrize(
    ("live", "wanted", "refusal"),
    [
        (owned(BESIDE), owned(MINE), ""),
        (owned(OTHERS | THEIRS), owned(BESIDE), "controlled by Shop b (uid they)"),
        (owned(OTHERS | THEIRS), owned(), ""),
        (owned(), owned(BESIDE), "another owner or none"),
        (live(), owned(BESIDE), "another owner or none"),
        (owned(managers=("kubectl", "shops")), owned(BESIDE), ""),
        (owned(managers=("kubectl",)), owned(BESIDE), "another owner or none"),
        (owned(OTHERS), owned(BESIDE), ""),
        (owned(OTHERS), owned(MINE), "another owner or none"),
    ],
)
def test_an_apply_takes_over_no_object_of_another_owner(
    live: dict[str, Any], wanted: dict[str, Any], refusal: str
) -> None:
    message = foreign_owner(live, wanted, "shops")

    assert (refusal in message) if refusal else message == ""
