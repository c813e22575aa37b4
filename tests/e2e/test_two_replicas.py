"""RUN-4: two replicas never write at the same time, shown by the API server's own audit log; and how a replica ends.

Real processes over HTTP. The leader is killed, paused between sending a request and reading its answer, cut off, or
asked to stop; in each case there is work in hand.
"""

import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.e2e.commands import call, free_port
from tests.e2e.replicas import (
    ADMIN,
    DURATION,
    OBJECTS,
    Replica,
    Site,
    is_lease,
    open_site,
    pair,
    replica,
    taken_at,
    writes,
)

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with open_site(tmp_path_factory.mktemp("site")) as found:
        yield found


def check_turns(site: Site, since: int, former: Replica, next_one: Replica) -> None:
    """What the former leader wrote stands before the takeover, with the margin between; all of the next one after."""
    entries = site.entries(since)
    turn = taken_at(entries, next_one.user)
    before, after = writes(entries, former.user), writes(entries, next_one.user)
    assert before, "the former leader was at work"
    assert after, "the next one goes on with it"
    last = max(index for index, one in enumerate(entries) if one in before)
    first = min(index for index, one in enumerate(entries) if one in after)
    assert last < turn < first, (entries[last], entries[turn], entries[first])
    renewed = [one.at for one in entries[:turn] if one.user == former.user and is_lease(one) and one.status < 300]
    assert (entries[turn].at - renewed[-1]).total_seconds() >= DURATION - 0.1, "not taken before it had run out"
    assert (before[-1].at - renewed[-1]).total_seconds() < DURATION, "nothing written once another may begin"
    assert not [one for one in entries[turn:] if one.user == former.user and is_lease(one) and one.status < 300]


def wait_all_ready(site: Site, leader: Replica, version: str) -> None:
    leader.process.until(lambda: len(site.ready(version)) >= OBJECTS, f"all instances at {version}")


def test_a_killed_leader_is_followed_by_the_standby(site: Site, tmp_path: Path) -> None:
    since = site.position()
    with pair(site, tmp_path, "killed") as (leader, standby):
        leader.middle.after_write(16, lambda: leader.process.send(signal.SIGKILL))
        for number in range(OBJECTS):
            site.apply(number, "1.0.0")
        standby.process.until(lambda: standby.process.log("leading"), "the takeover")
        wait_all_ready(site, standby, "1.0.0")
        check_turns(site, since, leader, standby)

        ended = standby.process.stop()
        assert (ended.status, ended.problems) == (0, [])
        last = [one for one in site.entries(since) if one.user == standby.user and one.verb.writes][-1]
        assert is_lease(last), "the Lease is released after everything else"
        assert last.status < 300
        assert holder(site, "killed") == ""


def test_a_paused_leader_writes_nothing_when_it_runs_on_after_the_takeover(site: Site, tmp_path: Path) -> None:
    """The pause falls between sending a request and reading its answer, with more writes to come."""
    since = site.position()
    with pair(site, tmp_path, "paused") as (leader, standby):
        leader.middle.after_write(10, lambda: leader.process.send(signal.SIGSTOP))
        for number in range(OBJECTS):
            site.apply(number, "2.0.0")
        standby.process.until(lambda: standby.process.log("leading"), "the takeover")
        leader.process.send(signal.SIGCONT)
        ended = leader.process.end()

        assert ended.status == 1
        (problem,) = ended.problems
        assert "is lost: " in problem
        assert "is to be started again" in problem
        wait_all_ready(site, standby, "2.0.0")
        check_turns(site, since, leader, standby)


def test_a_leader_that_is_cut_off_stops_before_the_takeover(site: Site, tmp_path: Path) -> None:
    since = site.position()
    with pair(site, tmp_path, "partitioned") as (leader, standby):
        leader.middle.after_write(10, leader.middle.fall_silent)
        for number in range(OBJECTS):
            site.apply(number, "3.0.0")
        ended = leader.process.end()
        assert ended.status == 1
        assert "could not be renewed within 3 s" in ended.problems[0]
        standby.process.until(lambda: standby.process.log("leading"), "the takeover")
        wait_all_ready(site, standby, "3.0.0")
        check_turns(site, since, leader, standby)


def lone(site: Site, folder: Path, lease: str, *more: str) -> AbstractContextManager[Replica]:
    return replica(site, folder, "replica-a", lease, *more)


def busy(site: Site, leader: Replica, version: str, *, hold: int) -> None:
    """Wait for the leader, and give it work; SIGTERM comes when a write is under way, whose answer is held."""
    leader.process.until(lambda: leader.process.log("leading"), "the Lease")
    leader.process.until(lambda: leader.process.log("connected to the control plane"), "the agent at work")
    leader.middle.after_write(hold, lambda: leader.process.send(signal.SIGTERM), hold=True)
    for number in range(OBJECTS):
        site.apply(number, version)


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def holder(site: Site, lease: str) -> str:
    path = f"apis/coordination.k8s.io/v1/namespaces/vworkspace-system/leases/{lease}"
    found: str = call("GET", f"{site.url}/{path}", token=ADMIN)["spec"]["holderIdentity"]
    return found


def test_sigterm_finishes_what_is_in_hand_and_nothing_else(site: Site, tmp_path: Path) -> None:
    listen = f"127.0.0.1:{free_port()}"
    with lone(site, tmp_path, "stopped", "--listen", listen, "--workers", "1") as leader:
        busy(site, leader, "4.0.0", hold=5)
        leader.process.until(lambda: leader.process.log("stopping: what is in hand is finished first"), "the signal")
        since = site.position()
        assert status_of(f"http://{listen}/readyz") == 503, "not ready from the signal on"
        assert status_of(f"http://{listen}/healthz") == 200, "and healthy: it ends by itself"
        assert holder(site, "stopped").startswith("replica-a"), "the Lease is held while work is in hand"

        leader.middle.let_go()
        ended = leader.process.end()

    assert (ended.status, ended.problems) == (0, [])
    after = [one for one in site.entries(since) if one.user == leader.user and one.verb.writes]
    assert is_lease(after[-1]), "the Lease comes last"
    assert holder(site, "stopped") == ""
    touched = {one.path.split("/namespaces/")[1] for one in after if not is_lease(one) and "/events" not in one.path}
    names = {path.split("/")[2] for path in touched}
    assert len(names) <= 1, f"one worker had one object in hand, but {names} were written"


def test_what_does_not_finish_within_the_grace_period_is_told_and_the_lease_is_left_to_run_out(
    site: Site, tmp_path: Path
) -> None:
    with lone(site, tmp_path, "graceless", "--grace-period", "1s") as leader:
        busy(site, leader, "5.0.0", hold=5)
        ended = leader.process.end()

    assert ended.status == 1
    assert ended.problems == ["error: stopped, with work unfinished after the grace period of 1 s"]
    assert holder(site, "graceless").startswith("replica-a"), "a write may be on its way: nobody may begin at once"


def test_a_second_signal_ends_the_process_at_once(site: Site, tmp_path: Path) -> None:
    with lone(site, tmp_path, "impatient") as leader:
        busy(site, leader, "6.0.0", hold=5)
        leader.process.until(lambda: leader.process.log("stopping: what is in hand is finished first"), "the signal")
        began = time.monotonic()
        ended = leader.process.stop(signal.SIGTERM, seconds=10)

    assert time.monotonic() - began < 10
    assert ended.status == -signal.SIGTERM
