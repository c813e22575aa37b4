"""RUN-11: who gets one of a port's places, and who gives its own up: laws about the policy alone, without sockets.

Nobody can starve a port by holding connections, at whatever stage: `tests/app/process/test_starve.py` has the sockets.
"""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube_run.process.connection_limit import Client, ConnectionLimit, ConnectionStage, address_of

TOTAL = 8
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "honest")

LEAVE_FIRST = (ConnectionStage.UNREAD, ConnectionStage.UNHEARD, ConnectionStage.IDLE, ConnectionStage.LEAVING)
STAGES = [stage for stage in ConnectionStage if stage is not ConnectionStage.LEAVING]
"""The stages that a client reaches by itself."""

Move = tuple[str, ConnectionStage | None]
"""A connection from an address, or what its connections do next."""

MOVES = st.lists(st.tuples(st.sampled_from(ADDRESSES), st.sampled_from([None, *STAGES])), max_size=60)


def client(address: str, stage: ConnectionStage = ConnectionStage.UNHEARD) -> Client:
    return Client(address, lambda: None, stage)


def filled(*stages: tuple[str, ConnectionStage], total: int = TOTAL) -> tuple[ConnectionLimit, list[Client]]:
    places, clients = ConnectionLimit(total), [client(address) for address, _ in stages]
    for each, (_, stage) in zip(clients, stages, strict=True):
        assert places.enter(each) is None
        if stage is not ConnectionStage.UNHEARD:
            assert places.move(each, stage) is None
    return places, clients


def played(moves: list[Move], *, at_once: bool = True) -> ConnectionLimit:
    """The places after these moves. The laws hold after each.

    Whoever has to leave does, at once or, while it is still told so, never: a server closes a socket at once, and a
    request that runs is first answered.
    """
    places = ConnectionLimit(TOTAL)
    for address, stage in moves:
        of_address = [each for each in places if each.address == address and each.stage is not stage]
        if stage is None:
            leaving = places.enter(newcomer := client(address))
            probes = sum(each.stage is ConnectionStage.PROBE for each in places)
            held = Counter(each.address for each in places)
            modest = all(held[address] < held[each.address] for each in places if each.stage in LEAVE_FIRST)
            assert newcomer in places or probes >= TOTAL // 4 or not modest, "it finds room beside any crowd but probes"
        elif of_address:
            leaving = places.move(of_address[0], stage)
        else:
            continue
        if leaving is not None:
            assert leaving.stage is not ConnectionStage.PROBE
            if at_once:
                places.forget(leaving)
        stages = Counter(each.stage for each in places)
        assert stages.total() <= TOTAL
        assert stages[ConnectionStage.BUSY] <= TOTAL * 3 // 4
    return places


ALL_BUSY: list[Move] = [("10.0.0.1", None), ("10.0.0.1", ConnectionStage.BUSY)] * TOTAL
SHARED: list[Move] = [("10.0.0.2", None), *[("10.0.0.1", None)] * 3, *[("10.0.0.2", None), ("10.0.0.3", None)] * 2]
"""Three addresses that hold about as much."""


@given(MOVES, st.booleans())
@example(ALL_BUSY, True)
@example([*ALL_BUSY, ("honest", None)], False)
@example([*SHARED, ("10.0.0.1", None)], False)
def test_no_crowd_can_starve_a_newcomer_RUN_11(moves: list[Move], at_once: bool) -> None:
    played(moves, at_once=at_once)


@given(MOVES, st.booleans())
def test_who_makes_room_is_of_the_address_that_has_most_of_its_stage_RUN_11(moves: list[Move], at_once: bool) -> None:
    """An address gains nothing by opening more: what it opens is what is closed."""
    places = played(moves, at_once=at_once)
    before = list(places)
    leaving = places.enter(client("honest"))
    if leaving is None or leaving not in before:
        return
    assert leaving.stage in LEAVE_FIRST, "what is being answered stays"
    counts = Counter(each.address for each in before if each.stage is leaving.stage)
    assert counts[leaving.address] == max(counts.values())
    earlier = LEAVE_FIRST[: LEAVE_FIRST.index(leaving.stage)]
    assert not any(each.stage in earlier for each in before)


@pytest.mark.parametrize("stage", [ConnectionStage.UNHEARD, ConnectionStage.IDLE])
def test_a_thousand_newcomers_of_one_address_do_not_starve_another_RUN_11(stage: ConnectionStage) -> None:
    places, (honest, *_) = filled(("honest", stage), *[("hostile", ConnectionStage.UNHEARD)] * (TOTAL - 1))
    for _ in range(1_000):
        places.enter(client("hostile"))
    assert honest in places


@pytest.mark.parametrize("stage", [ConnectionStage.UNHEARD, ConnectionStage.IDLE])
def test_a_crowd_that_is_being_answered_takes_no_place_of_another_by_opening_more_RUN_11(
    stage: ConnectionStage,
) -> None:
    """A probe that has just connected is the only one that nothing was heard of, beside a crowd of busy ones."""
    busy = TOTAL * 3 // 4
    idle = [("hostile", ConnectionStage.PROBE)] * (TOTAL - busy - 1)
    places, (honest, *_) = filled(("honest", stage), *[("hostile", ConnectionStage.BUSY)] * busy, *idle)
    newcomer = client("hostile")
    assert places.enter(newcomer) is newcomer
    assert honest in places


def test_an_answer_that_is_not_read_leaves_before_a_connection_that_has_just_come_RUN_11() -> None:
    """Each connection of a crowd has an address of its own: whoever has only connected was there for no time at all."""
    places, (*crowd, probe) = filled(
        *[(f"10.0.0.{at}", ConnectionStage.UNREAD) for at in range(TOTAL - 1)], ("honest", ConnectionStage.UNHEARD)
    )
    for at in range(TOTAL - 1):
        assert places.enter(client(f"10.0.1.{at}")) is crowd[at]
    assert probe in places


def test_what_has_been_answered_stays_longer_than_what_was_never_heard_RUN_11() -> None:
    places, (kept, *_) = filled(("a", ConnectionStage.IDLE), *[("b", ConnectionStage.UNHEARD)] * (TOTAL - 1))
    assert (leaving := places.enter(client("c"))) is not None
    assert leaving is not kept


def test_too_many_busy_ones_send_the_oldest_of_the_greediest_away_RUN_11() -> None:
    places, clients = filled(
        ("a", ConnectionStage.BUSY), *[("b", ConnectionStage.BUSY)] * 5, ("honest", ConnectionStage.UNHEARD)
    )
    assert places.move(clients[-1], ConnectionStage.BUSY) is clients[1]


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        (("10.1.2.3", 4), "10.1.2.3"),
        (("2001:db8:1:2:3:4:5:6", 4, 0, 0), "2001:db8:1:2::"),
        (("2001:db8:1:2:ffff::", 4, 0, 0), "2001:db8:1:2::"),
        (("fe80::1%eth0", 4, 0, 2), "fe80::"),
        (("::ffff:10.1.2.3", 4, 0, 0), "10.1.2.3"),
        (("", 0), ""),
        (None, ""),
    ],
)
def test_one_host_is_one_address_however_many_it_can_write_RUN_11(peer: object, address: str) -> None:
    assert address_of(peer) == address
