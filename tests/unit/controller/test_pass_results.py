"""What a pass writes, in which order, and what it leaves for the next decision and the next pass (REC-6, REC-13)."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import attrs
import pytest

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    OperatorError,
    Permanent,
    Stale,
    StatusCause,
    Unavailable,
)
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.resources import CONFIG_MAP, NAMESPACE, SECRET
from purekube.apimachinery.structuring import read_meta
from purekube.controller.decision import (
    Apply,
    Create,
    Decision,
    Delete,
    Failure,
    Finalizer,
    MergePatch,
    Requeue,
    RequeuePace,
    Snapshot,
    chained,
    requeue_for,
)
from purekube.controller.execute import PassRules, ReconcilePass, write_own_status
from purekube.controller.reconcile import ReconcileResult, ResultLabel, _message_of, run_pass
from purekube.ports import EventSink, KubeApi, KubeRequest, KubernetesEvent, PatchType, Send, WatchEvent
from tests.support.apiserver_world import NOW

SOURCE = ObjectRef(CONFIG_MAP, "default", "source")
FINALIZER = "test/finalizer"


def ref(name: str) -> ObjectRef:
    return ObjectRef(SECRET, "default", name)


def body(name: str, **meta: Any) -> dict[str, Any]:
    made = SECRET.manifest(name, "default")
    return {**made, "metadata": {**made["metadata"], **meta}, "stringData": {"a": "1"}}


@attrs.frozen
class Source:
    metadata: ObjectMeta


def read(manifest: Manifest) -> Source:
    return Source(read_meta(manifest))


@attrs.define
class Events(EventSink):
    told: list[str] = attrs.field(factory=list)

    async def emit(self, event: KubernetesEvent) -> None:
        self.told.append(event.note)


@attrs.define
class World:
    """A strict API server with a source and some Secrets, and what was asked of it."""

    api: InProcessKube = attrs.field(factory=lambda: InProcessKube(ApiServer(now=lambda: NOW)))
    sent: list[tuple[str, str]] = attrs.field(factory=list)
    seen: list[Snapshot] = attrs.field(factory=list)
    requests: list[KubeRequest] = attrs.field(factory=list)
    early: list[ObjectRef] = attrs.field(factory=list)
    events: Events = attrs.field(factory=Events)
    refuse: Callable[[str, str], OperatorError | None] = lambda verb, name: None

    def source(self, **meta: Any) -> Source:
        made = CONFIG_MAP.manifest(SOURCE.name, "default")
        made["metadata"] |= meta
        return read(run_sync(self.api.create(made, kind=CONFIG_MAP, field_manager="user")))

    def secret(self, name: str, **meta: Any) -> Manifest:
        return run_sync(self.api.create(body(name, **meta), kind=SECRET, field_manager="user"))

    def live(self, name: str) -> Manifest:
        return run_sync(self.api.get(ref(name)))

    def run(self, source: Source, *decisions: Decision, objects: Any = None, **rules: Any) -> ReconcileResult:
        """Decide as told, one decision after the other."""
        answers = iter([*decisions, *[Decision()] * 9])

        def decide(_: Source, seen: Snapshot) -> Decision:
            self.seen.append(seen)
            return next(answers)

        async def note(request: KubeRequest, proceed: Send) -> Manifest:
            name = request.ref.name if request.ref is not None else ""
            self.requests.append(request)
            error = self.refuse(request.action, name)
            if error is not None:
                raise error
            answer = await proceed(request)
            if request.action != "get":
                self.sent.append((request.action, name))
            return answer

        made = PassRules(CONFIG_MAP, read, decide, "test", FINALIZER, **rules)
        backlogged = self.refuse("backlog", "") is not None
        return run_sync(
            run_pass(
                made,
                source,
                Snapshot(objects=objects or {}),
                self.api.through(note),
                self.events,
                lambda written: self.early.append(written[0]),
                lambda: backlogged,
            )
        )


def test_writes_come_in_their_order_and_each_is_told_at_once() -> None:
    world = World()
    old, kept = world.secret("old"), world.secret("kept")
    source = world.source(finalizers=["other/x"])
    decision = Decision(
        finalizer=Finalizer.ADD,
        annotations={"a": "b"},
        patches=(MergePatch(ref("kept"), {"metadata": {"labels": {"l": "1"}}}),),
        applies=(Apply(SECRET, body("applied")),),
        creates=(Create(SECRET, body("created")),),
        deletes=(Delete(ref("old"), old["metadata"]["uid"]),),
    )

    result = world.run(source, decision, objects={ref("old"): old, ref("kept"): kept})

    order = [("add finalizer", SOURCE)] + [
        (verb, ref(name)) for verb, name in (("patch", "kept"), ("apply", "applied"), ("create", "created"))
    ]
    assert list(result.executed) == [*order, ("delete", ref("old"))]
    assert [written for written, _ in result.written] == world.early == [one for _, one in order]
    assert result.writes == 5
    meta = run_sync(world.api.get(SOURCE))["metadata"]
    assert (meta["finalizers"], meta["annotations"]) == (["other/x", FINALIZER], {"a": "b"})
    assert sorted(one.name for one in world.seen[1].objects) == ["applied", "created", "kept"]
    assert world.seen[1].objects[ref("kept")]["metadata"]["labels"] == {"l": "1"}
    versions = dict(result.written)
    assert versions[ref("applied")] == world.live("applied")["metadata"]["resourceVersion"]


def test_annotations_alone_are_one_write_and_the_removed_finalizer_ends_the_pass() -> None:
    world = World()
    source = world.source(finalizers=["other/x", FINALIZER], annotations={"gone": "1"})

    result = world.run(source, Decision(annotations={"a": "b", "gone": None}), Decision(finalizer=Finalizer.REMOVE))

    assert [verb for verb, _ in result.executed] == ["annotate", "remove finalizer"]
    meta = run_sync(world.api.get(SOURCE))["metadata"]
    assert (meta["finalizers"], meta["annotations"]) == (["other/x"], {"a": "b"})
    assert len(world.seen) == 2, "nothing is decided of what may be gone"


def test_an_object_that_a_finalizer_keeps_is_left_in_the_snapshot() -> None:
    world = World()
    held = world.secret("held", finalizers=["other/x"])

    world.run(
        world.source(), Decision(deletes=(Delete(ref("held"), held["metadata"]["uid"]),)), objects={ref("held"): held}
    )

    assert world.seen[1].objects[ref("held")]["metadata"]["deletionTimestamp"]


def test_what_is_gone_already_is_gone() -> None:
    world = World()
    gone = body("gone")

    result = world.run(
        world.source(),
        Decision(patches=(MergePatch(ref("gone"), {}),), deletes=(Delete(ref("gone"), "u"),)),
        objects={ref("gone"): gone, ref("other"): gone},
    )

    assert (result.executed, sorted(one.name for one in world.seen[1].objects)) == ((), ["other"])


def test_an_object_that_is_deleted_leaves_the_snapshot_whether_or_not_it_was_there() -> None:
    world = World()
    there = world.secret("there")
    gone = body("gone")

    result = world.run(
        world.source(),
        Decision(deletes=(Delete(ref("there"), there["metadata"]["uid"]), Delete(ref("gone"), "u"))),
        objects={ref("there"): there, ref("gone"): gone, ref("other"): gone},
    )

    assert result.executed == (("delete", ref("there")),)
    assert [one.name for one in world.seen[1].objects] == ["other"]


def test_an_object_that_a_patch_does_not_find_leaves_the_snapshot_and_what_waits_for_it_goes_on() -> None:
    world = World()
    after = frozenset({ref("gone")})

    result = world.run(
        world.source(),
        Decision(patches=(MergePatch(ref("gone"), {}),), applies=(Apply(SECRET, body("a"), after=after),)),
        objects={ref("gone"): body("gone")},
    )

    assert result.executed == (("apply", ref("a")),)
    assert [one.name for one in world.seen[1].objects] == ["a"]


@pytest.mark.parametrize("account", [ref("runner"), None])
def test_all_but_the_source_is_written_as_the_account_of_the_decision(account: ObjectRef | None) -> None:
    world = World()
    decision = Decision(finalizer=Finalizer.ADD, applies=(Apply(SECRET, body("a"), force=True),), account=account)
    world.run(world.source(), decision)

    accounts = {request.action: request.account for request in world.requests}
    assert accounts == {"patch": None, "apply": account}
    forced = {request.action: request.params.get("force") for request in world.requests}
    assert forced == {"patch": None, "apply": "true"}


def test_a_write_of_the_source_is_of_the_version_that_was_decided_on() -> None:
    world = World()
    source = world.source()
    world.run(source, Decision(finalizer=Finalizer.ADD), Decision(annotations={"a": "b"}))

    first, second = (request.body["metadata"] for request in world.requests)
    assert first == {"resourceVersion": source.metadata.resource_version, "finalizers": [FINALIZER]}
    assert second["annotations"] == {"a": "b"}
    assert second["resourceVersion"] != first["resourceVersion"]


def test_a_source_of_the_cluster_is_written_without_a_namespace() -> None:
    api = InProcessKube(ApiServer(now=lambda: NOW))
    made = run_sync(api.create(NAMESPACE.manifest("source"), kind=NAMESPACE, field_manager="user"))
    answers = iter([Decision(finalizer=Finalizer.ADD, only_if_current=True), Decision(annotations={"a": "b"})])
    rules: PassRules[Source, Snapshot] = PassRules(
        NAMESPACE, read, lambda source, seen: next(answers, Decision()), "test", FINALIZER
    )
    result = run_sync(run_pass(rules, read(made), Snapshot(), api, Events()))

    where = ObjectRef(NAMESPACE, None, "source")
    assert result.executed == (("add finalizer", where), ("annotate", where))
    assert run_sync(api.get(where))["metadata"]["finalizers"] == [FINALIZER]


@pytest.mark.parametrize("verb", ["patch", "apply", "create", "delete"])
def test_a_stale_write_ends_the_pass_at_once(verb: str) -> None:
    world = World()
    old = world.secret("old")
    world.refuse = failing(verb, Stale("moved on"), "old")
    writes: dict[str, dict[str, Any]] = {
        "patch": {"patches": (MergePatch(ref("old"), {}),)},
        "apply": {"applies": (Apply(SECRET, body("old")),)},
        "create": {"creates": (Create(SECRET, body("old")),)},
        "delete": {"deletes": (Delete(ref("old"), old["metadata"]["uid"]),)},
    }
    result = world.run(world.source(), Decision(**writes[verb]), objects={ref("old"): old})

    assert isinstance(result.error, Stale)
    assert (len(world.seen), result.executed) == (1, ())


def test_an_apply_to_another_object_of_that_name_is_stale() -> None:
    """S-09: the server calls it invalid, with the uid as its cause."""
    world = World()
    world.refuse = failing("apply", Invalid("another uid", (StatusCause("metadata.uid", "immutable"),)))
    result = world.run(world.source(), Decision(applies=(Apply(SECRET, body("a")),)))
    assert isinstance(result.error, Stale)
    assert result.error.message == "another uid"

    world = World()
    world.refuse = failing("apply", Invalid("bad", (StatusCause("metadata.name", "long"),)))
    world.run(world.source(), Decision(applies=(Apply(SECRET, body("a")),)))
    assert [failure.error.message for failure in world.seen[1].failures] == ["bad"]


@pytest.mark.parametrize("error", [Unavailable("down"), Conflict("held", ()), Invalid("bad")])
def test_what_waits_for_an_apply_that_failed_is_left_out(error: OperatorError) -> None:
    world = World()
    world.refuse = failing("apply", error, "a")
    applies = (Apply(SECRET, body("a")), Apply(SECRET, body("b"), after=frozenset({ref("a")})))
    result = world.run(world.source(), Decision(applies=applies))

    assert result.executed == ()
    assert [(one.ref, one.error) for one in world.seen[1].failures] == [(ref("a"), error)]


@pytest.mark.parametrize("error", [Stale("there"), Conflict("held", ()), Invalid("bad")])
@pytest.mark.parametrize("exists", [True, False])
def test_an_unseen_object_that_refuses_an_apply_is_shown_to_the_next_decision_PH_2(
    error: OperatorError, exists: bool
) -> None:
    world = World()
    if exists:
        world.secret("a")
    world.refuse = failing("apply", error, "a")
    applies = (Apply(SECRET, body("a")), Apply(SECRET, body("b"), after=frozenset({ref("a")})))
    result = world.run(world.source(), Decision(applies=applies), looks_up=True)

    assert result.executed == ()
    if not exists and isinstance(error, Stale):
        assert isinstance(result.error, Stale)
        return
    assert list(world.seen[1].objects) == ([ref("a")] if exists else [])
    assert [one.ref for one in world.seen[1].failures] == ([] if exists else [ref("a")])


def test_an_object_that_was_seen_is_not_looked_up_again_when_it_refuses_an_apply() -> None:
    world = World()
    seen = world.secret("a")
    world.refuse = failing("apply", Conflict("held", ()), "a")
    world.run(world.source(), Decision(applies=(Apply(SECRET, body("a")),)), objects={ref("a"): seen}, looks_up=True)

    assert [one.ref for one in world.seen[1].failures] == [ref("a")]


def test_what_waits_for_a_create_is_made_once_that_went_through_and_its_failure_is_forgotten() -> None:
    world = World()
    busy = [Unavailable("first")]
    world.refuse = lambda verb, name: busy.pop() if verb == "create" and name == "a" and busy else None
    creates = (Create(SECRET, body("a")), Create(SECRET, body("b"), after=frozenset({ref("a")})))
    result = world.run(world.source(), Decision(creates=creates), Decision(creates=creates))

    assert result.executed == (("create", ref("a")), ("create", ref("b")))
    assert [[one.ref.name for one in seen.failures] for seen in world.seen] == [[], ["a"], []]


def test_each_object_that_failed_is_told() -> None:
    world = World()
    world.refuse = failing("apply", Unavailable("down"))
    applies = tuple(Apply(SECRET, body(name)) for name in "abc")
    world.run(world.source(), Decision(applies=applies), Decision(applies=applies[1:2]))

    told = [[failure.ref.name for failure in seen.failures] for seen in world.seen]
    assert told == [[], ["a", "b", "c"], ["a", "c", "b"]]


def test_a_patch_that_waits_for_a_refused_one_is_not_sent() -> None:
    world = World()
    world.secret("b")
    world.refuse = failing("patch", Unavailable("down"), "a")
    patches = (MergePatch(ref("a"), {}), MergePatch(ref("b"), {"data": {}}, after=frozenset({ref("a")})))
    result = world.run(world.source(), Decision(patches=patches))

    assert result.executed == ()
    assert [request.name for request in world.requests if request.action == "patch"] == ["a"]


@pytest.mark.parametrize("verb", ["patch", "apply", "create"])
def test_nothing_is_made_after_a_refused_write_nor_deleted_after_its_own(verb: str) -> None:
    world = World()
    old = world.secret("old")
    world.refuse = failing(verb, Invalid("no"), "old")
    after = frozenset({ref("old")})
    writes: dict[str, dict[str, Any]] = {
        "patch": {"patches": (MergePatch(ref("old"), {}), MergePatch(ref("old"), {}, after=after))},
        "apply": {"applies": (Apply(SECRET, body("old")), Apply(SECRET, body("a"), after=after))},
        "create": {"creates": (Create(SECRET, body("old")), Create(SECRET, body("a"), after=after))},
    }

    result = world.run(
        world.source(),
        Decision(**writes[verb], deletes=(Delete(ref("old"), old["metadata"]["uid"]),)),
        objects={ref("old"): old},
    )

    assert result.executed == ()
    assert [(failure.ref, failure.verb) for failure in world.seen[1].failures] == [(ref("old"), verb)]


def test_a_delete_is_of_the_life_and_the_version_that_were_decided_on() -> None:
    world = World()
    old, other = world.secret("old"), world.secret("other")
    version = old["metadata"]["resourceVersion"]
    deletes = (
        Delete(ref("old"), old["metadata"]["uid"], version),
        Delete(ref("other"), other["metadata"]["uid"]),
    )
    world.run(world.source(), Decision(deletes=deletes))

    assert [request.body["preconditions"] for request in world.requests] == [
        {"uid": old["metadata"]["uid"], "resourceVersion": version},
        {"uid": other["metadata"]["uid"]},
    ]


@attrs.define
class Storing:
    """An API server that stores whatever it is sent, at version 9 unless it tells none."""

    version: str = "9"
    sent: list[KubeRequest] = attrs.field(factory=list)

    async def send(self, request: KubeRequest) -> Manifest:
        self.sent.append(request)
        return {"metadata": {"name": request.name, **({"resourceVersion": self.version} if self.version else {})}}

    def watch(self, request: KubeRequest) -> AsyncIterator[WatchEvent]:
        raise NotImplementedError


@pytest.mark.parametrize(("kind", "namespace"), [(SECRET, "default"), (NAMESPACE, "")])
@pytest.mark.parametrize("version", ["9", ""])
def test_a_status_is_applied_as_the_manager_and_told_with_its_version(kind: Kind, namespace: str, version: str) -> None:
    server, told = Storing(version), list[tuple[ObjectRef, str]]()
    rules: PassRules[Source, Snapshot] = PassRules(kind, read, lambda source, seen: Decision(), "me", FINALIZER)
    source = read({"metadata": {"name": "a", "namespace": namespace}})
    api = KubeApi(server)
    work = ReconcilePass(rules, api, source, Snapshot(), told.append)
    status = {**kind.manifest("a", namespace or None), "status": {"x": 1}}
    assert work.downstream is api

    run_sync(write_own_status(work, status))

    where = ObjectRef(kind, namespace or None, "a")
    assert (told, work.written, work.executed) == ([(where, version)], [(where, version)], [("status", where)])
    assert work.observed == Snapshot(), "the source is no part of the snapshot"
    (request,) = server.sent
    assert (request.action, request.ref, request.body) == ("apply status", where, status)
    assert (request.params["fieldManager"], request.params["force"]) == ("me", None)


def test_a_refused_delete_is_a_failure_and_the_object_stays() -> None:
    world = World()
    old = world.secret("old")
    world.refuse = failing("delete", Forbidden("no"))

    world.run(
        world.source(), Decision(deletes=(Delete(ref("old"), old["metadata"]["uid"]),)), objects={ref("old"): old}
    )

    assert [(one.verb, one.error.message) for one in world.seen[1].failures] == [("delete", "no")]
    assert list(world.seen[1].objects) == [ref("old")]


def test_a_pass_that_is_refused_ends_with_the_missing_right() -> None:
    world = World()
    refusal = Forbidden('User "sa" cannot patch resource "secrets" in API group "" in the namespace "default"')
    world.refuse = failing("apply", refusal)
    applies = (Apply(SECRET, body("a")),)

    result = world.run(world.source(), Decision(applies=applies), Decision(requeue=Requeue.REFUSED))

    assert result.error is refusal
    assert result.requeue == Requeue.REFUSED


def failing(verb: str, error: OperatorError, name: str = "") -> Callable[[str, str], OperatorError | None]:
    return lambda asked, about: error if asked == verb and name in ("", about) else None


def test_a_failure_is_replaced_by_the_next_and_forgotten_after_a_success() -> None:
    world = World()
    busy = [Unavailable("first"), Unavailable("second")]
    world.refuse = lambda verb, name: busy.pop(0) if verb == "apply" and name == "a" and busy else None
    decision = Decision(applies=(Apply(SECRET, body("a")), Apply(SECRET, body("b"))))

    world.run(world.source(), decision, decision, decision)

    told = [[(one.ref.name, one.verb, one.error.message) for one in seen.failures] for seen in world.seen]
    assert told == [[], [("a", "apply", "first")], [("a", "apply", "second")], []]


def test_a_refused_apply_that_others_explain_comes_with_the_live_object_and_the_manifest() -> None:
    world = World()
    live = world.secret("a")
    world.refuse = failing("apply", Invalid("no"))

    world.run(world.source(), Decision(applies=(Apply(SECRET, body("a")),)), objects={ref("a"): live})

    (failure,) = world.seen[1].failures
    assert failure.live is not None
    assert failure.live["metadata"]["uid"] == live["metadata"]["uid"]
    assert failure.live["metadata"]["managedFields"]
    assert failure.wanted == body("a")


def test_a_create_of_what_exists_shows_it_to_the_next_decision() -> None:
    world = World()
    there = world.secret("a")

    world.run(world.source(), Decision(creates=(Create(SECRET, body("a")),)))

    (failure,) = world.seen[1].failures
    assert (failure.verb, failure.ref) == ("create", ref("a"))
    assert isinstance(failure.error, AlreadyExists)
    assert failure.live is not None
    assert failure.live["metadata"]["uid"] == there["metadata"]["uid"]
    assert failure.wanted is None
    assert world.seen[1].objects[ref("a")]["metadata"]["uid"] == there["metadata"]["uid"]


@pytest.mark.parametrize(
    ("verb", "write"),
    [
        ("create", {"creates": (Create(SECRET, body("a")),)}),
        ("apply", {"applies": (Apply(SECRET, body("a")),)}),
        ("patch", {"patches": (MergePatch(ref("a"), {"metadata": {"labels": {"a": "b"}}}),)}),
    ],
)
def test_a_write_that_the_server_forbids_is_a_failure_with_its_error_alone(verb: str, write: Any) -> None:
    world, error = World(), Forbidden("no")
    world.secret("a")
    world.refuse = failing(verb, error, "a")

    world.run(world.source(), Decision(**write))

    assert world.seen[1].failures == (Failure(ref("a"), verb, error),)


def test_a_refused_dry_run_writes_nothing_at_all() -> None:
    world = World()
    source = world.source()
    world.refuse = failing("apply", Invalid("no"), "dry")
    rest: dict[str, Any] = {"finalizer": Finalizer.ADD, "applies": (Apply(SECRET, body("a")),)}

    result = world.run(source, Decision(dry_runs=(Apply(SECRET, body("dry")),), **rest))
    assert (result.executed, [one.verb for one in world.seen[1].failures]) == ((), ["apply"])

    world.refuse = lambda verb, name: None
    result = world.run(source, Decision(dry_runs=(Apply(SECRET, body("dry")),), **rest))
    assert [verb for verb, _ in result.executed] == ["add finalizer", "apply"]
    with pytest.raises(NotFound):
        world.live("dry")


@pytest.mark.parametrize("change", ["edited", "replaced", "deleted", ""])
def test_only_a_current_source_is_acted_on_where_that_is_asked(change: str) -> None:
    world = World()
    source = world.source()
    if change == "edited":
        run_sync(world.api.patch(SOURCE, {"data": {"a": "b"}}, patch_type=PatchType.MERGE, field_manager="user"))
    elif change:
        run_sync(world.api.delete(SOURCE))
        if change == "replaced":
            world.source()

    result = world.run(source, Decision(applies=(Apply(SECRET, body("a")),), only_if_current=True))

    assert bool(result.executed) is not bool(change)
    if change in ("edited", "replaced"):
        assert isinstance(result.error, Stale)
        assert result.requeue == Requeue.IMMEDIATE.no_later_than(60.0)
    elif change:
        assert (result.error, result.requeue) == (None, Requeue.NO)


NO_RIGHT = Forbidden(
    'configmaps "x" is forbidden: User "op" cannot patch resource "configmaps" in API group "" in the namespace '
    '"default"'
)


@pytest.mark.parametrize(
    ("error", "after", "requeue"),
    [
        (Unavailable("down"), None, Requeue.BACKOFF),
        (Unavailable("down", retry_after=7), 5.0, Requeue(RequeuePace.BACKOFF, 5.0, 7)),
        (NO_RIGHT, None, Requeue.REFUSED),
        (NO_RIGHT, 9.0, Requeue(RequeuePace.REFUSED, 9.0)),
        (Forbidden("quota"), None, Requeue(RequeuePace.BACKOFF, 60.0)),
        (Invalid("bad"), None, Requeue(RequeuePace.NONE, 60.0)),
        (Permanent("bad"), 90.0, Requeue(RequeuePace.NONE, 60.0)),
        (Stale("old"), 30.0, Requeue(RequeuePace.IMMEDIATE, 30.0)),
    ],
)
def test_a_refused_write_of_the_source_ends_the_pass_and_says_when_the_next_is(
    error: OperatorError, after: float | None, requeue: Requeue
) -> None:
    world = World()
    source = world.source()
    world.refuse = failing("patch", error)

    result = world.run(source, Decision(finalizer=Finalizer.ADD, requeue=Requeue.at_latest(after)))

    assert (result.error, result.requeue, result.executed) == (error, requeue, ())
    assert (result.at_fixed_point, result.is_reported) == (False, False)


EVENT = KubernetesEvent(SOURCE, "u", "Normal", "R", "A", "note")


@pytest.mark.parametrize(("wait", "busy", "is_told"), [(9.0, True, False), (9.0, False, True), (0.0, True, True)])
def test_a_status_that_may_wait_is_left_to_a_later_pass_while_others_wait(
    wait: float, busy: bool, is_told: bool
) -> None:
    world = World()
    source = world.source()
    world.refuse = failing("backlog" if busy else "", Unavailable("others wait"))
    last = Decision(events=(EVENT,), status_may_wait=wait, status=None if is_told else {"status": {}})

    result = world.run(source, Decision(applies=(Apply(SECRET, body("a")),)), last)

    assert (world.events.told == ["note"]) is is_told
    if not is_told:
        assert (result.decision.status, result.decision.events, result.requeue.after) == (None, (), 9.0)


AWAITED = ObjectRef(SECRET, "default", "awaited")
BEGUN = Decision(
    applies=(Apply(SECRET, body("a")),), events=(EVENT,), status_may_wait=9.0, awaits=(AWAITED,), row="installing"
)


@pytest.mark.parametrize(
    ("begun", "busy", "idempotent", "decisions"),
    [
        (BEGUN, True, True, 1),
        (BEGUN, False, True, 2),
        (BEGUN, True, False, 2),
        (attrs.evolve(BEGUN, status_may_wait=0.0), True, True, 2),
    ],
)
def test_what_only_reports_a_beginning_is_not_decided_while_others_wait(
    begun: Decision, busy: bool, idempotent: bool, decisions: int
) -> None:
    world = World()
    source = world.source()
    world.refuse = failing("backlog" if busy else "", Unavailable("others wait"))

    result = world.run(source, begun, Decision(row="decided again"), idempotent=idempotent)

    assert len(world.seen) == decisions
    assert [one.name for _, one in result.executed] == ["a"]
    if decisions == 1:
        assert result.decision == Decision(requeue=Requeue(after=9.0), awaits=(AWAITED,))
        assert (result.decision.row, result.at_fixed_point, world.events.told) == ("installing", True, [])


def test_a_refused_write_is_decided_on_even_while_others_wait() -> None:
    world = World()
    source = world.source()
    world.refuse = lambda verb, name: Unavailable("others wait") if verb in ("backlog", "apply") else None

    world.run(source, BEGUN, Decision(row="after the refusal"), idempotent=True)

    assert len(world.seen) == 2


@pytest.mark.parametrize(
    ("last", "idempotent", "fixed"),
    [
        (Decision(), True, True),
        (Decision(), False, False),
        (Decision(requeue=Requeue(after=5.0)), True, True),
        (Decision(requeue=Requeue.BACKOFF), True, False),
        (Decision(requeue=Requeue.SLOW), True, False),
    ],
)
def test_a_pass_after_which_nothing_is_left_is_at_a_fixed_point(last: Decision, idempotent: bool, fixed: bool) -> None:
    world = World()

    result = world.run(world.source(), last, idempotent=idempotent)

    assert result.at_fixed_point is fixed
    assert result.requeue == last.requeue


def test_a_pass_decides_at_most_so_often() -> None:
    world = World()
    again = [Decision(applies=(Apply(SECRET, body(name)),)) for name in "abcde"]

    result = world.run(world.source(), *again, rounds=2, idempotent=True)

    assert [one.name for _, one in result.executed] == ["a", "b"]
    assert (len(world.seen), result.at_fixed_point) == (3, False)


@pytest.mark.parametrize(
    ("requeue", "error", "label"),
    [
        (Requeue.NO, None, ResultLabel.SUCCESS),
        (Requeue(after=5.0), None, ResultLabel.REQUEUE_AFTER),
        (Requeue.SLOW, None, ResultLabel.REQUEUE_AFTER),
        (Requeue.NO, Invalid("x"), ResultLabel.TERMINAL),
        (Requeue(after=5.0), Invalid("x"), ResultLabel.TERMINAL),
        (Requeue.IMMEDIATE, Stale("x"), ResultLabel.REQUEUE),
        (Requeue.BACKOFF, None, ResultLabel.ERROR),
        (Requeue.REFUSED, None, ResultLabel.ERROR),
        (Requeue(RequeuePace.TOLD), None, ResultLabel.ERROR),
    ],
)
def test_a_result_has_its_label(requeue: Requeue, error: OperatorError | None, label: ResultLabel) -> None:
    assert ReconcileResult(error=error, requeue=requeue).label is label
    assert ReconcileResult(error=error).requeue == requeue_for(error)


def test_what_is_retried_without_a_status_points_to_it_in_the_log() -> None:
    world = World()

    result = world.run(world.source(), Decision(requeue=Requeue.BACKOFF))

    assert isinstance(result.error, Unavailable)
    assert result.error.message == "it is tried again; the status says why"


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ([("False", "f"), ("True", ""), ("True", "a"), ("True", "b")], "a"),
        ([("False", "f"), ("Unknown", "u")], "it is tried again; the status says why"),
        ([("True", "")], "it is tried again; the status says why"),
        ([], "it is tried again; the status says why"),
    ],
)
def test_what_is_retried_tells_the_log_what_is_true(conditions: list[tuple[str, str]], message: str) -> None:
    told = [{"type": "X", "status": status, "message": text} for status, text in conditions]

    assert _message_of(Decision(status={"status": {"conditions": told}})) == message


def test_a_chain_holds_each_apply_after_all_earlier_ones() -> None:
    applies = chained(Apply(SECRET, body(name)) for name in "abc")

    assert [sorted(one.name for one in apply.after) for apply in applies] == [[], ["a"], ["a", "b"]]
