"""The revisions of an applied box, the health of its parents, and the order in which they move (PH-10)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from purekube.apimachinery.definitions import BROUGHT_TO, PIN
from purekube.apimachinery.errors import Conflict, Forbidden, Invalid, NotFound, Permanent, Stale, Unavailable
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.structuring import read_meta
from purekube.apimachinery.timestamps import format_time
from purekube.boxes.rollout_policy import BoxRollout, RolloutOrder, RolloutWave
from purekube.boxes.rollouts.judgement import (
    DryRunResult,
    Foresight,
    Judgement,
    first_refusal,
    foresight_of,
    interruption_of,
    refusal_of,
)
from purekube.boxes.rollouts.members import BoxParent, ParentReading, members_of, parent_of, seconds_until_due
from purekube.boxes.rollouts.reasons import RolloutPhase
from purekube.boxes.rollouts.revisions import (
    CONTROLLER_REVISION,
    Assignments,
    BroughtTo,
    Revision,
    assignments_of,
    crd_name_of,
    definition_of,
    move,
    owner_of_kind,
    read_revisions,
    record_of,
    revision_manifest,
    revision_name,
    superfluous,
    way_back,
)
from purekube.boxes.rollouts.rollout import Health, RolloutCounts, RolloutMember, in_order, next_step
from purekube.controller.decision import Decision, Failure

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SHOP = Kind("example.com", "v1", "Shop", "shops")


def revision(name: str, **more: Any) -> Revision:
    return Revision(name, 1, {}, ObjectRef(CONTROLLER_REVISION, "team", name), "u", "7", **more)


# --- definitions -----------------------------------------------------------------------------------------------------


def test_a_revision_stores_what_a_box_does_and_not_how_it_is_rolled_out() -> None:
    spec = {"crd": "x", "rollout": {}, "deletionPolicy": "Delete", "resources": []}
    assert definition_of(spec) == {"crd": "x", "resources": []}


@pytest.mark.parametrize(
    ("definition", "name"),
    [
        ({"crd": {"name": "shops.a"}}, "shops.a"),
        ({"crd": {"name": "shops.a", "spec": {"group": "b", "names": {"plural": "shops"}}}}, "shops.a"),
        ({"crd": {"spec": {"group": "b", "names": {"plural": "shops"}}}}, "shops.b"),
        ({"crd": {"spec": {"names": {"plural": "shops"}}}}, ""),
        ({"crd": {"spec": {"group": "b"}}}, ""),
        ({"crd": "file.yaml"}, ""),
        ({}, ""),
    ],
)
def test_the_kind_of_a_definition_is_named_or_described(definition: dict[str, Any], name: str) -> None:
    assert crd_name_of(definition) == name


def owning(box: str, created: str) -> Manifest:
    return {"metadata": {"creationTimestamp": created, "labels": {"box.vworkspace.io/name": box}}}


@pytest.mark.parametrize(
    ("boxes", "owner"),
    [({"a", "b", "c"}, "b"), ({"a", "c"}, "a"), ({"c"}, "c"), ({"z"}, ""), (set(), "")],
)
def test_a_kind_belongs_to_the_box_that_was_accepted_first(boxes: set[str], owner: str) -> None:
    found = [owning("a", "2026-01-02"), owning("b", "2026-01-01"), owning("c", "2026-01-03"), owning("a", "2026-01-04")]
    assert owner_of_kind(found, boxes) == owner


def test_a_revision_is_named_after_its_box_and_its_content() -> None:
    name = revision_name("shop", {"a": 1})
    assert name.startswith("shop-")
    assert len(name) == len("shop-") + 10
    assert name == revision_name("shop", {"a": 1}) != revision_name("shop", {"a": 2})


def test_a_stored_revision_is_owned_by_its_box_and_read_again() -> None:
    made = revision_manifest(ObjectMeta(name="shop", uid="u-1"), "system", {"crd": "x"}, 3)
    name = revision_name("shop", {"crd": "x"})
    owner = {"apiVersion": "box.vworkspace.io/v1alpha1", "kind": "OperatorBox", "name": "shop", "uid": "u-1"}
    assert made == {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": "system",
            "labels": {"box.vworkspace.io/name": "shop"},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": False}],
        },
        "data": {"spec": {"crd": "x"}},
        "revision": 3,
    }
    ref = ObjectRef(CONTROLLER_REVISION, "system", name)
    assert read_revisions([made]) == (Revision(name, 3, {"crd": "x"}, ref, "", ""),)


def stored(name: str, number: Any, **annotations: str) -> Manifest:
    said = {f"box.vworkspace.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    meta = {"name": name, "namespace": "n", "uid": "u", "resourceVersion": "5", "annotations": said}
    return {"metadata": meta, "data": {"spec": {"n": name}}, "revision": number}


def test_revisions_are_read_oldest_first_with_what_became_of_them() -> None:
    others = [{"metadata": {"name": "x"}, "revision": 1}, stored("y", "3"), stored("z", None)]
    found = read_revisions(
        [stored("b", 2, proven=""), stored("c", 1, given_up="it"), stored("a", 2, refused="so"), *others]
    )
    assert [(each.name, each.number, each.is_proven, each.given_up, each.refused) for each in found] == [
        ("c", 1, False, "it", ""),
        ("a", 2, False, "", "so"),
        ("b", 2, True, "", ""),
    ]
    assert [each.is_sound for each in found] == [False, False, True]
    assert (found[0].uid, found[0].resource_version, found[0].definition) == ("u", "5", {"n": "c"})
    assert found[0].annotated(given_up=None, proven="x") == {
        "metadata": {
            "resourceVersion": "5",
            "annotations": {"box.vworkspace.io/given-up": None, "box.vworkspace.io/proven": "x"},
        }
    }


PROVEN: dict[str, Any] = {"is_proven": True}


@pytest.mark.parametrize(
    ("history", "back"),
    [
        ([], None),
        ([("now", {})], None),
        ([("a", {}), ("b", {}), ("now", {})], "b"),
        ([("a", {}), ("b", {"given_up": "x"}), ("now", {})], "a"),
        ([("a", {}), ("b", {"refused": "x"}), ("now", {})], "a"),
        ([("a", PROVEN), ("b", {}), ("now", {})], "a"),
        ([("a", {}), ("b", {}), ("now", PROVEN)], None),
        ([("a", {"is_proven": True, "given_up": "x"}), ("b", {}), ("now", {})], None),
        ([("now", {}), ("newer", {})], "newer"),
    ],
)
def test_the_way_back_is_the_newest_sound_revision_and_a_proven_one_if_there_ever_was_one(
    history: list[tuple[str, dict[str, Any]]], back: str | None
) -> None:
    found = way_back([revision(name, **more) for name, more in history], "now")
    assert (None if found is None else found.name) == back


@pytest.mark.parametrize(("unused", "gone"), [(0, 0), (10, 0), (11, 1), (13, 3)])
def test_ten_unused_revisions_are_kept(unused: int, gone: int) -> None:
    history = [revision("used"), *(revision(f"n{number:02}") for number in range(unused)), revision("other")]
    assert [each.name for each in superfluous(history, ["used", "other"])] == [
        f"n{number:02}" for number in range(gone)
    ]


@pytest.mark.parametrize(
    ("history", "in_use", "newcomers"),
    [
        ([], [], "target"),
        ([("a", {}), ("b", {})], [], "target"),
        ([("a", {}), ("b", {})], ["b"], "b"),
        ([("a", {}), ("b", {})], ["b", "a"], "a"),
        ([("a", PROVEN), ("b", {})], ["b"], "a"),
        ([("a", PROVEN), ("b", PROVEN), ("c", {})], ["a"], "b"),
        ([("a", {"is_proven": True, "given_up": "x"}), ("b", {})], ["a", "b"], "b"),
        ([("a", {"is_proven": True, "refused": "x"}), ("b", {})], ["b"], "a"),
    ],
)
def test_a_new_parent_gets_the_newest_proven_revision_or_the_oldest_in_use(
    history: list[tuple[str, dict[str, Any]]], in_use: list[str], newcomers: str
) -> None:
    found = assignments_of([revision(name, **more) for name, more in history], in_use, "target")
    assert found == Assignments(tuple(name for name, _ in history), newcomers)


def meta(**annotations: str) -> ObjectMeta:
    names = {"pin": PIN, "record": BROUGHT_TO}
    said = {names[key]: value for key, value in annotations.items()}
    return read_meta({"metadata": {"name": "x", "resourceVersion": "9", "annotations": said}})


ASSIGNED = Assignments(("a", "b", "c"), "b")


@pytest.mark.parametrize(
    ("annotations", "name", "told"),
    [
        ({}, "b", ("Recorded", "b")),
        ({"record": "a 2026-01-01T00:00:00Z"}, "a", ("Recorded", "a")),
        ({"record": "z"}, "b", ("Recorded", "b")),
        ({"pin": "c", "record": "a"}, "c", ("Pinned", f"c, pinned by the annotation {PIN}: the newest")),
        ({"pin": "a"}, "a", ("Pinned", f"a, pinned by the annotation {PIN}: 2 behind c")),
        ({"pin": "b"}, "b", ("Pinned", f"b, pinned by the annotation {PIN}: 1 behind c")),
        (
            {"pin": "z", "record": "a"},
            "a",
            ("NoSuchRevision", f"a, since the annotation {PIN} names z, which the box does not have"),
        ),
    ],
)
def test_a_parent_has_the_revision_to_which_it_is_pinned_or_that_is_recorded(
    annotations: dict[str, str], name: str, told: tuple[str, str]
) -> None:
    assert ASSIGNED.of(meta(**annotations)) == name
    assert ASSIGNED.told(meta(**annotations)) == told


@pytest.mark.parametrize(
    ("text", "brought"),
    [
        ("a 2026-01-01T12:00:00Z", BroughtTo("a", NOW)),
        ("a soon", BroughtTo("a", None)),
        ("a", BroughtTo("a", None)),
        ("", BroughtTo("", None)),
    ],
)
def test_the_record_of_a_parent_has_its_revision_and_a_time(text: str, brought: BroughtTo) -> None:
    assert BroughtTo.of(meta(record=text)) == brought


def test_a_move_is_a_patch_of_the_parent_as_it_was_read() -> None:
    patch = move(ObjectRef(SHOP, "n", "x"), meta(), "a", NOW)
    assert record_of("a", NOW) == "a 2026-01-01T12:00:00Z"
    assert patch.ref == ObjectRef(SHOP, "n", "x")
    assert patch.patch == {"metadata": {"resourceVersion": "9", "annotations": {BROUGHT_TO: "a 2026-01-01T12:00:00Z"}}}


# --- parents ---------------------------------------------------------------------------------------------------------


def condition(
    kind: str, status: str, message: str = "", ago: float = 0, generation: int = 3, reason: str = "Why"
) -> Any:
    since = format_time(NOW - timedelta(seconds=ago))
    said = {"type": kind, "status": status, "reason": reason, "message": message}
    return {**said, "lastTransitionTime": since, "observedGeneration": generation}


def parent(*conditions: Any, since: float | None = None, **more: Any) -> BoxParent:
    record = "a" if since is None else f"a {format_time(NOW - timedelta(seconds=since))}"
    said = {"name": "x", "namespace": "n", "generation": 3, "annotations": {BROUGHT_TO: record}, **more}
    manifest = {**SHOP.manifest("x", "n"), "metadata": said, "status": {"conditions": list(conditions)}}
    reading = ParentReading.of(manifest, SHOP)
    return parent_of(reading, Assignments(("a", "b"), "b"), BoxRollout(progress_deadline="100s"), NOW)


READY = condition("Ready", "True", "fine", 300)
NOT_READY = condition("Ready", "False", "web: none", 60)
JUDGED = condition("Revision", "True", "a, pinned")
STALLED = condition("Stalled", "True")


@pytest.mark.parametrize(
    ("conditions", "since", "health", "due"),
    [
        ((), None, Health.PROGRESSING, None),
        ((), 99, Health.PROGRESSING, 1),
        ((), 100, Health.FAILED, 0),
        ((), 101, Health.FAILED, -1),
        ((READY,), 10, Health.PROGRESSING, 90),
        ((READY, condition("Revision", "True", "b")), 10, Health.PROGRESSING, 90),
        ((READY, JUDGED), 10, Health.READY, None),
        ((READY, JUDGED, STALLED), 200, Health.READY, None),
        ((NOT_READY, JUDGED), 10, Health.PROGRESSING, 90),
        ((NOT_READY, JUDGED), 80, Health.PROGRESSING, 40),
        ((NOT_READY, JUDGED), None, Health.PROGRESSING, 40),
        ((NOT_READY, JUDGED, STALLED), 10, Health.FAILED, 90),
        ((NOT_READY, JUDGED, condition("Stalled", "False")), 10, Health.PROGRESSING, 90),
        ((NOT_READY, STALLED), 10, Health.PROGRESSING, 90),
        ((condition("Ready", "True", generation=2), JUDGED), 200, Health.PROGRESSING, None),
        ((condition("Ready", "False", generation=2), JUDGED, STALLED), 200, Health.PROGRESSING, None),
        ((condition("Ready", "False", ago=100), JUDGED), 500, Health.FAILED, 0),
        ((JUDGED,), 99, Health.PROGRESSING, 1),
    ],
)
def test_the_health_of_a_parent_is_that_of_its_revision_and_generation(
    conditions: tuple[Any, ...], since: float | None, health: Health, due: float | None
) -> None:
    found = parent(*conditions, since=since)
    assert (found.revision, found.health) == ("a", health)
    assert found.due == (None if due is None else NOW + timedelta(seconds=due))


@pytest.mark.parametrize(
    ("conditions", "more", "takes_part", "obstacle"),
    [
        ((), {}, True, "it has no status yet"),
        ((NOT_READY,), {}, True, "Why: web: none"),
        ((condition("Ready", "False", ""),), {}, True, "Why"),
        ((condition("Ready", "False", "far", reason="NamespaceNotSelected"),), {}, False, "NamespaceNotSelected: far"),
        ((NOT_READY,), {"deletionTimestamp": "2026-01-01T00:00:00Z"}, False, "Why: web: none"),
        ((NOT_READY,), {"annotations": {PIN: "a"}}, False, "Why: web: none"),
    ],
)
def test_a_parent_takes_part_unless_it_is_pinned_goes_or_is_out_of_scope(
    conditions: tuple[Any, ...], more: dict[str, Any], takes_part: bool, obstacle: str
) -> None:
    found = parent(*conditions, **more)
    assert (found.takes_part, found.obstacle) == (takes_part, obstacle)
    assert found.is_going is ("deletionTimestamp" in more)
    assert found.is_pinned is ("annotations" in more)


WAVES = BoxRollout(
    waves=(
        RolloutWave("first", objects={"matchLabels": {"tier": "test"}}),
        RolloutWave("second", namespaces={"matchLabels": {"zone": "a"}}, objects={"matchLabels": {"tier": "web"}}),
        RolloutWave("third", namespaces={"matchLabels": {"zone": "b"}}),
    )
)


@pytest.mark.parametrize(
    ("tier", "zone", "wave"),
    [("test", "a", 0), ("web", "a", 1), ("web", "b", 2), ("other", "b", 2), ("other", "a", 3), ("web", None, 3)],
)
def test_a_parent_is_in_the_first_wave_that_selects_it(tier: str, zone: str | None, wave: int) -> None:
    found = parent(NOT_READY, labels={"tier": tier}, creationTimestamp="2026-01-01T00:00:00Z")
    namespaces = {} if zone is None else {"n": {"metadata": {"labels": {"zone": zone}}}}
    expected = RolloutMember(found.ref, "2026-01-01T00:00:00Z", "b", Health.PROGRESSING, wave, "Why: web: none")
    assert found.metadata.annotations[BROUGHT_TO] == "a"
    assert list(members_of([found, parent(annotations={PIN: "a"})], WAVES, namespaces)) == [
        attrs.evolve(expected, revision="a")
    ]


@pytest.mark.parametrize(
    ("sinces", "seconds"), [([], None), ([None], None), ([40], 60.0), ([40, 90, None], 10.0), ([40, 200], 60.0)]
)
def test_the_next_deadline_is_that_of_a_parent_on_its_way(sinces: list[float | None], seconds: float | None) -> None:
    parents = [parent(since=since) for since in sinces]
    assert seconds_until_due([*parents, parent(READY, JUDGED, since=10)], NOW) == seconds
    late = attrs.evolve(parent(since=200), health=Health.PROGRESSING)
    assert seconds_until_due([late], NOW) == 0.0


# --- steps -----------------------------------------------------------------------------------------------------------


def member(name: str, at: str = "old", health: Health = Health.READY, **more: Any) -> RolloutMember:
    return RolloutMember(ObjectRef(SHOP, "n", name), more.pop("created", "1"), at, health, **more)


NEW_READY, NEW_ON = member("r", "new"), member("p", "new", Health.PROGRESSING)
NEW_FAILED = member("f", "new", Health.FAILED)
OLD = member("o")


@pytest.mark.parametrize(
    ("members", "more", "phase", "moves"),
    [
        ([], {}, RolloutPhase.COMPLETE, []),
        ([NEW_READY], {}, RolloutPhase.COMPLETE, []),
        ([NEW_READY, NEW_ON], {}, RolloutPhase.PROGRESSING, []),
        ([NEW_ON, NEW_FAILED], {}, RolloutPhase.STOPPED, []),
        ([OLD, NEW_FAILED], {"foresight": Foresight.REFUSED}, RolloutPhase.STOPPED, []),
        ([OLD, NEW_READY], {}, RolloutPhase.PROGRESSING, ["o"]),
        ([OLD], {"foresight": Foresight.PENDING}, RolloutPhase.JUDGING, []),
        ([OLD], {"foresight": Foresight.REFUSED}, RolloutPhase.REFUSED, []),
        ([OLD], {"gate": lambda counts: False}, RolloutPhase.GATED, []),
        ([OLD], {"gate": lambda counts: counts.waiting == 1 and counts.total == 1}, RolloutPhase.PROGRESSING, ["o"]),
        ([NEW_ON], {"gate": lambda counts: False}, RolloutPhase.PROGRESSING, []),
        ([OLD, member("b", "bad")], {"given_up": ["bad"]}, RolloutPhase.PROGRESSING, ["b"]),
        ([OLD, member("b", "bad")], {"given_up": ["bad"], "gate": lambda _: False}, RolloutPhase.PROGRESSING, ["b"]),
        ([NEW_READY], {"given_up": ["new"]}, RolloutPhase.COMPLETE, []),
    ],
)
def test_the_phase_of_a_roll_out_says_what_it_waits_for(
    members: list[RolloutMember], more: dict[str, Any], phase: RolloutPhase, moves: list[str]
) -> None:
    step = next_step(BoxRollout(max_unavailable=5), "new", members, **more)
    assert (step.phase, [ref.name for ref in step.moves]) == (phase, moves)
    assert step.failed == tuple(each for each in members if each is NEW_FAILED)


def test_a_pause_stops_moves_and_not_the_way_back() -> None:
    paused = BoxRollout(pause=True)
    assert next_step(paused, "new", [OLD]).phase is RolloutPhase.PAUSED
    assert next_step(paused, "new", [OLD], foresight=Foresight.PENDING).phase is RolloutPhase.JUDGING
    assert next_step(paused, "new", [member("b", "bad")], given_up=("bad",)).phase is RolloutPhase.PROGRESSING


def test_the_counts_of_a_roll_out_are_of_the_target() -> None:
    old_failed = member("x", health=Health.FAILED)
    step = next_step(BoxRollout(), "new", [OLD, old_failed, NEW_READY, NEW_ON, NEW_FAILED, NEW_FAILED], pinned=7)
    assert step.counts == RolloutCounts(total=6, moved=4, ready=1, failed=2, pinned=7)
    assert step.counts.scope == {"total": 6, "moved": 4, "ready": 1, "failed": 2, "pinned": 7, "waiting": 2}


@pytest.mark.parametrize(
    ("policy", "old", "ready", "unready", "moves"),
    [
        ({"max_unavailable": 1}, 3, 0, 0, 1),
        ({"max_unavailable": 2}, 3, 0, 1, 1),
        ({"max_unavailable": 2}, 3, 1, 2, 0),
        ({"max_unavailable": 1}, 3, 1, 2, 0),
        ({"max_unavailable": "50%"}, 3, 1, 0, 2),
        ({"max_unavailable": "10%"}, 3, 0, 0, 1),
        ({"max_unavailable": "100%"}, 3, 0, 0, 3),
        ({"max_unavailable": 9, "pace": "linear(2)"}, 5, 0, 0, 2),
        ({"max_unavailable": 9, "pace": "linear(2)"}, 5, 1, 0, 1),
        ({"max_unavailable": 9, "pace": "linear(2)"}, 5, 2, 0, 2),
        ({"max_unavailable": 9, "pace": "linear(2)"}, 5, 1, 1, 0),
        ({"max_unavailable": 9, "pace": "exponential(1)"}, 9, 0, 0, 1),
        ({"max_unavailable": 9, "pace": "exponential(1)"}, 9, 1, 0, 2),
        ({"max_unavailable": 9, "pace": "exponential(1)"}, 9, 3, 0, 4),
        ({"max_unavailable": 9, "pace": "exponential(1)"}, 9, 2, 1, 0),
        ({"max_unavailable": 9, "pace": "exponential(1)"}, 9, 1, 1, 1),
        ({"max_unavailable": 9, "pace": "exponential(2)"}, 9, 2, 0, 4),
    ],
)
def test_as_many_move_as_the_batch_and_the_parents_that_are_not_ready_permit(
    policy: dict[str, Any], old: int, ready: int, unready: int, moves: int
) -> None:
    members = [member(f"o{number}") for number in range(old)]
    members += [member(f"r{number}", "new") for number in range(ready)]
    members += [member(f"u{number}", "new", Health.PROGRESSING) for number in range(unready)]
    step = next_step(BoxRollout(**policy), "new", members)
    assert [ref.name for ref in step.moves] == [f"o{number}" for number in range(moves)]


@pytest.mark.parametrize(
    ("percentage", "total", "count"),
    [
        ("10%", 9, 1),
        ("10%", 19, 1),
        ("10%", 20, 2),
        ("1%", 0, 1),
        ("33%", 10, 3),
        ("100%", 7, 7),
        (3, 1, 3),
        ("4", 1, 4),
    ],
)
def test_a_percentage_is_rounded_down_and_at_least_one(percentage: Any, total: int, count: int) -> None:
    assert BoxRollout(max_unavailable=percentage).unavailable_of(total) == count


def test_a_wave_moves_once_all_of_the_former_ones_are_ready() -> None:
    policy = BoxRollout(max_unavailable=9)
    first, second = member("a", wave=0), member("b", wave=1)

    def moves(*members: RolloutMember) -> list[str]:
        return [ref.name for ref in next_step(policy, "new", members).moves]

    assert moves(second, first) == ["a"]
    assert moves(second, attrs.evolve(first, revision="new")) == ["b"]
    assert moves(second, attrs.evolve(first, revision="new", health=Health.PROGRESSING)) == []
    assert moves(second, attrs.evolve(second, revision="new", health=Health.PROGRESSING)) == ["b"]
    assert moves(first, attrs.evolve(second, revision="new", health=Health.PROGRESSING)) == ["a"]


@pytest.mark.parametrize(
    ("order", "names"),
    [(RolloutOrder.OLDEST_FIRST, ["d", "a", "b", "c"]), (RolloutOrder.NEWEST_FIRST, ["d", "c", "a", "b"])],
)
def test_parents_move_by_wave_by_age_and_by_name(order: RolloutOrder, names: list[str]) -> None:
    members = [
        member("b", created="1", wave=1),
        member("c", created="2", wave=1),
        member("a", created="1", wave=1),
        member("d", created="1", wave=0),
    ]
    assert [each.ref.name for each in in_order(order, members)] == names


# --- judgement -------------------------------------------------------------------------------------------------------


def test_a_judgement_counts_and_names_ten_refusals() -> None:
    refused = [DryRunResult(ObjectRef(SHOP, "n", f"x{number:02}"), 1, 2, 3, 4, f"why {number}") for number in range(11)]
    fields = Judgement("a", (DryRunResult(ObjectRef(SHOP, "n", "ok"), 5, 6, 7, 8), *refused)).fields
    assert {name: fields[name] for name in fields if name != "refusals"} == {
        "revision": "a",
        "objects": 12,
        "creates": 16,
        "changes": 28,
        "deletes": 40,
        "deletesAfterwards": 52,
        "refused": 11,
    }
    assert fields["refusals"] == [
        {"object": f"Shop n/x{number:02}", "message": f"why {number}"} for number in range(10)
    ]
    assert first_refusal(fields) == "Shop n/x00 would fail: why 0"


@pytest.mark.parametrize("judgement", [{}, {"refusals": None}, {"refusals": []}])
def test_without_a_refusal_none_is_told(judgement: dict[str, Any]) -> None:
    assert first_refusal(judgement) == ""


@pytest.mark.parametrize(
    ("judgement", "foresight"),
    [
        (None, Foresight.PENDING),
        ("x", Foresight.PENDING),
        ({}, Foresight.PENDING),
        ({"revision": "b"}, Foresight.PENDING),
        ({"revision": "a"}, Foresight.SOUND),
        ({"revision": "a", "refused": 0}, Foresight.SOUND),
        ({"revision": "a", "refused": 1}, Foresight.REFUSED),
        ({"revision": "b", "refused": 1}, Foresight.PENDING),
    ],
)
def test_the_foresight_is_what_the_status_records_of_the_revision(judgement: Any, foresight: Foresight) -> None:
    assert foresight_of({"status": {"judgement": judgement}}, "a") is foresight


REF = ObjectRef(SHOP, "n", "x")


def failing(*errors: Exception) -> list[Failure]:
    return [Failure(REF, "apply", error) for error in errors]  # type: ignore[arg-type]


def stalled(reason: str, status: str = "True") -> Decision:
    said = {"type": "Stalled", "status": status, "reason": reason, "message": f"it is {reason}"}
    return Decision(status={"status": {"conditions": [{"type": "Ready", "status": "True"}, said]}})


@pytest.mark.parametrize(
    ("decision", "errors", "told"),
    [
        (Decision(), [], ""),
        (Decision(), [Unavailable("later"), Stale("old"), NotFound("none")], ""),
        (Decision(), [Unavailable("later"), Invalid("no")], "apply Shop n/x: no"),
        (Decision(), [Conflict("held", ())], "apply Shop n/x: held"),
        (Decision(), [Forbidden("a quota")], "apply Shop n/x: a quota"),
        (Decision(), [Forbidden("it ends", namespace_terminating=True)], ""),
        (Decision(), [Permanent("no")], "apply Shop n/x: no"),
        (stalled("Other"), [Invalid("no")], "it is Other"),
        (stalled("Other", "False"), [Invalid("no")], "apply Shop n/x: no"),
        (stalled("ExpressionFailed"), [], "it is ExpressionFailed"),
        (stalled("NameTaken"), [], "it is NameTaken"),
        (stalled("Other"), [], ""),
        (stalled("NameTaken", "False"), [], ""),
    ],
)
def test_a_refusal_is_final_or_a_hopeless_reason(decision: Decision, errors: list[Exception], told: str) -> None:
    assert refusal_of(decision, failing(*errors)) == told


def test_an_interruption_is_the_first_error_that_may_pass() -> None:
    assert interruption_of([]) == ""
    assert interruption_of([Invalid("no"), Conflict("held", ())]) == ""
    assert interruption_of([Invalid("no"), Unavailable("later"), Stale("old")]) == "later"
    assert interruption_of([Forbidden("it ends", namespace_terminating=True)]) == "it ends"
