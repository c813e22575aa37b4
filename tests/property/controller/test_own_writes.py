"""RUN-3: a key is not woken by its own writes, and by everything else it is, in whatever order things come."""

from collections import deque

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.controller.queue.own_writes import EventOrigin, ObjectEvent, OwnWrites

KIND = Kind("t.example.com", "v1", "Thing", "things")
KEY = "key"


def ref(name: str) -> ObjectRef:
    return ObjectRef(KIND, "n", name)


def news(name: str, version: str | None) -> ObjectEvent:
    return ObjectEvent(ref(name), version)


def passed(own_writes: OwnWrites[str], *wrote: tuple[str, str], settled: bool = True) -> None:
    own_writes.begin(KEY)
    for name, version in wrote:
        own_writes.record(KEY, (ref(name), version))
    if not settled:
        own_writes.disown(KEY)
    assert own_writes.end(KEY) == ()


def test_the_event_of_an_own_write_after_the_pass_is_own_and_only_once() -> None:
    own_writes: OwnWrites[str] = OwnWrites()
    passed(own_writes, ("a", "5"))

    assert own_writes.origin_of("another", news("a", "5")) is EventOrigin.FOREIGN, "somebody else's write is news"
    assert own_writes.origin_of(KEY, news("a", "5")) is EventOrigin.OWN
    assert own_writes.origin_of(KEY, news("a", "5")) is EventOrigin.FOREIGN
    assert not len(own_writes)


def test_an_event_that_overtakes_the_answer_to_its_write_is_decided_when_the_pass_ends() -> None:
    own_writes: OwnWrites[str] = OwnWrites()
    own_writes.begin(KEY)
    assert own_writes.origin_of(KEY, news("a", "5")) is EventOrigin.DEFERRED
    assert own_writes.origin_of(KEY, news("b", "6")) is EventOrigin.DEFERRED
    own_writes.record(KEY, (ref("a"), "5"))

    assert own_writes.end(KEY) == (news("b", "6"),)
    assert not len(own_writes)


@pytest.mark.parametrize("version", ["4", "6", None], ids=["older", "newer", "deleted"])
def test_another_version_of_what_was_written_is_foreign(version: str | None) -> None:
    own_writes: OwnWrites[str] = OwnWrites()
    passed(own_writes, ("a", "5"))

    assert own_writes.origin_of(KEY, news("a", version)) is EventOrigin.FOREIGN


def test_a_pass_that_did_not_settle_is_woken_by_its_own_writes() -> None:
    own_writes: OwnWrites[str] = OwnWrites()
    passed(own_writes, ("a", "5"), settled=False)

    assert own_writes.origin_of(KEY, news("a", "5")) is EventOrigin.FOREIGN
    assert not len(own_writes)


def test_a_write_outside_of_a_pass_is_nobodys() -> None:
    own_writes: OwnWrites[str] = OwnWrites()
    own_writes.record(KEY, (ref("a"), "5"))

    assert own_writes.origin_of(KEY, news("a", "5")) is EventOrigin.FOREIGN


@attrs.define
class World:
    """A server that numbers writes, a watch that delivers them late and in order, and one key that works."""

    own_writes: OwnWrites[str] = attrs.field(factory=OwnWrites)
    version: int = 0
    stream: deque[tuple[ObjectEvent, bool]] = attrs.field(factory=deque)
    in_hand: bool = False
    unanswered: list[tuple[ObjectRef, str]] = attrs.field(factory=list)
    to_wake: list[ObjectEvent] = attrs.field(factory=list)
    """Foreign changes that were delivered and for which no pass has begun yet."""
    woken: bool = False

    def write(self, name: str, *, own: bool) -> None:
        self.version += 1
        object_event = news(name, str(self.version))
        self.stream.append((object_event, not own))
        if own:
            self.unanswered.append((object_event.ref, str(self.version)))

    def answer(self) -> None:
        if self.unanswered:
            self.own_writes.record(KEY, self.unanswered.pop(0))

    def deliver(self) -> None:
        if self.stream:
            told, foreign = self.stream.popleft()
            self.woken |= self.own_writes.origin_of(KEY, told) is EventOrigin.FOREIGN
            if foreign:
                self.to_wake.append(told)

    def begin(self) -> None:
        if not self.in_hand and (self.woken or not self.version):
            while self.stream and not self.stream[0][1]:
                self.deliver()  # read your writes: the cache has seen them before a key is decided again
            self.in_hand, self.woken, self.to_wake = True, False, []
            self.own_writes.begin(KEY)

    def end(self, *, settled: bool) -> None:
        if self.in_hand:
            while self.unanswered:
                self.answer()
            self.in_hand = False
            if not settled:
                self.own_writes.disown(KEY)
            self.woken |= bool(self.own_writes.end(KEY))

    def check(self) -> None:
        if self.to_wake and not self.in_hand:
            assert self.woken, f"{self.to_wake} came and nobody looks"


STEPS = st.lists(
    st.sampled_from(["begin", "own a", "own b", "foreign a", "answer", "deliver", "end", "fail"]), max_size=40
)


@given(STEPS)
@example(["begin", "own a", "deliver", "foreign a", "answer", "deliver", "end"])
@example(["begin", "own a", "foreign a", "own b", "end", "deliver", "deliver"])
def test_what_somebody_else_did_always_wakes_the_key(steps: list[str]) -> None:
    world = World()
    for step in steps:
        match step.split():
            case ["own", name] if world.in_hand:
                world.write(name, own=True)
            case ["foreign", name]:
                world.write(name, own=False)
            case ["end"] | ["fail"]:
                world.end(settled=step == "end")
            case ["begin" | "answer" | "deliver"]:
                getattr(world, step)()
        world.check()


@given(STEPS)
def test_alone_and_at_the_fixed_point_a_key_is_not_woken_and_nothing_is_remembered(steps: list[str]) -> None:
    world = World()
    world.begin()
    for step in steps:
        match step.split():
            case ["own", name]:
                world.write(name, own=True)
            case ["answer" | "deliver"]:
                getattr(world, step)()
    world.end(settled=True)
    while world.stream:
        world.deliver()

    assert not world.woken
    assert not len(world.own_writes)
