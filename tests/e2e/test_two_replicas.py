"""RUN-4: two replicas never write at the same time, shown by the API server's own audit log; and how a replica ends.

Real processes over HTTP, on the embedded API server and, where KUBEBUILDER_ASSETS names one, on a kube-apiserver. The
leader is killed, paused between sending a request and reading its answer, or with a request on its way, cut off, or
asked to stop; in each case there is work in hand.
"""

import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.audit_log import Act
from tests.support.clusters_under_test import SITES, Site
from tests.support.commands import free_port
from tests.support.patience import PATIENCE
from tests.support.replicas import DURATION, OBJECTS, Replica, pair, replica, takeover, writes

pytestmark = pytest.mark.slow

SOURCE_OF = re.compile(r"-[0-9a-f]{8}$")
"""What a source's name has behind its instance's (REC-3)."""


@pytest.fixture(scope="module", params=SITES)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with request.param(tmp_path_factory.mktemp("site")) as found:
        yield found


def now() -> datetime:
    return datetime.now(UTC)


def check_turns(
    site: Site, since: datetime, former: Replica, next_one: Replica, *, was_paused: bool = False
) -> list[Act]:
    """What the former leader wrote stands before the takeover, with the margin between; all of the next one after.

    What of the former's came later is returned: nothing of it has changed anything. If the former `was_paused`, that
    may have been between the fence and the socket, with one write at most. Where this one creates an object that is not
    there, or changes one that the next leader has not written, no precondition refuses it (decision 54); it is left
    out here.
    """
    acts = site.acts(since)
    turn, place = takeover(acts, next_one.user)
    late = [act for act in writes(acts, former.user) if act.arrived >= turn.arrived]
    before = [act for act in writes(acts, former.user) if act not in late]
    after = writes(acts, next_one.user)
    assert [act for act in before if act.place is not None], "the former leader was at work"
    assert [act for act in after if act.place is not None], "the next one goes on with it"
    assert not [act for act in before if act.place is not None and act.place > place], "came early, took effect late"
    assert not [act for act in after if act.place is not None and act.place < place]
    assert not [act for act in after if act.arrived < turn.arrived], "refused ones, too, come after the takeover"
    untouched = [act for act in late if was_paused and act.place is not None and not written_before(act, after)]
    assert len(untouched) <= 1, "a process does one thing at a time"
    late = [act for act in late if act not in untouched]
    assert not [act for act in late if act.place is not None], "what comes after the takeover changes nothing"

    leases = [act for act in acts if act.user == former.user and act.is_lease and act.place is not None]
    assert max(act.place or 0 for act in leases) < place, "the Lease is not taken back"
    renewed = leases[-1].arrived
    assert (turn.arrived - renewed).total_seconds() >= DURATION - 0.1, "not taken before it had run out"
    assert (before[-1].arrived - renewed).total_seconds() < DURATION, "nothing written once another may begin"
    return late


def written_before(late: Act, acts: list[Act]) -> bool:
    """Whether one of `acts` wrote the object before `late` did, be it the object itself or its status."""
    target = late.path.removesuffix("/status")
    return any(
        act.path.removesuffix("/status") == target and act.place is not None and act.place < (late.place or 0)
        for act in acts
    )


def late_creates(site: Site, since: datetime, former: Replica, next_one: Replica) -> list[Act]:
    """What the former leader created after the takeover."""
    acts = site.acts(since)
    turn, _ = takeover(acts, next_one.user)
    return [act for act in writes(acts, former.user) if act.arrived >= turn.arrived and act.status == 201]


def is_there(site: Site, path: str) -> bool:
    objects, _, name = path.strip("/").rpartition("/")
    return name in [item["metadata"]["name"] for item in site.ask("GET", objects)["items"]]


def apply_all(site: Site, version: str) -> None:
    for number in range(OBJECTS):
        site.apply(number, version)


def wait_all_ready(site: Site, leader: Replica, version: str) -> None:
    leader.process.until(lambda: len(site.ready(version)) >= OBJECTS, f"all instances at {version}")


def test_a_killed_leader_is_followed_by_the_standby(site: Site, tmp_path: Path) -> None:
    since = now()
    with pair(site, tmp_path, "killed") as (leader, standby):
        leader.middle.after_write(16, lambda: leader.process.send(signal.SIGKILL))
        apply_all(site, "1.0.0")
        standby.process.until(lambda: standby.process.log("leading"), "the takeover")
        wait_all_ready(site, standby, "1.0.0")
        assert not check_turns(site, since, leader, standby)

        ended = standby.process.stop()
        assert (ended.status, ended.problems) == (0, [])
        last = max((act for act in site.acts(since) if act.user == standby.user), key=lambda act: act.arrived)
        assert last.is_lease, "the Lease is released after everything else"
        assert last.status < 300
        assert holder(site, "killed") == ""


def test_a_paused_leader_writes_nothing_when_it_runs_on_after_the_takeover(site: Site, tmp_path: Path) -> None:
    """The pause falls between sending a request and reading its answer, with more writes to come."""
    since = now()
    with pair(site, tmp_path, "paused") as (leader, standby):
        leader.middle.after_write(10, lambda: leader.process.send(signal.SIGSTOP))
        apply_all(site, "2.0.0")
        standby.process.until(lambda: standby.process.log("leading"), "the takeover")
        leader.process.send(signal.SIGCONT)
        ended = leader.process.end()

        assert ended.status == 1
        (problem,) = ended.problems
        assert "is lost: " in problem
        assert "is to be started again" in problem
        wait_all_ready(site, standby, "2.0.0")
        assert not check_turns(site, since, leader, standby, was_paused=True)


@pytest.mark.parametrize(("plural", "version"), [("helmreleases", "7"), ("applicationinstances", "8")])
def test_a_write_on_its_way_that_arrives_after_the_takeover_changes_nothing(
    site: Site, tmp_path: Path, plural: str, version: str
) -> None:
    """The fence lets it leave, and the process is paused; when it arrives the next leader has written what is new."""
    since = now()
    with pair(site, tmp_path, f"late-{plural}") as (leader, standby):
        leader.middle.before_write(plural, lambda: leader.process.send(signal.SIGSTOP))
        apply_all(site, f"{version}.0.0")
        leader.process.until(lambda: leader.middle.caught, "the write that is held")
        apply_all(site, f"{version}.1.0")
        standby.process.until(lambda: standby.process.log("leading"), "the takeover")
        wait_all_ready(site, standby, f"{version}.1.0")
        assert not check_turns(site, since, leader, standby, was_paused=True)

        leader.middle.let_go()
        standby.process.until(
            lambda: check_turns(site, since, leader, standby, was_paused=True), "the late write's arrival"
        )
        leader.process.send(signal.SIGCONT)
        assert leader.process.end().status == 1
        (late,) = check_turns(site, since, leader, standby, was_paused=True)
        assert plural in late.path
        assert late.status == 409


def test_an_object_that_a_former_leader_creates_late_is_taken_away_by_the_next(site: Site, tmp_path: Path) -> None:
    """Nothing refuses the create of an object that is not there: the source of a version that nobody wants any more."""
    since = now()
    with pair(site, tmp_path, "late-create") as (leader, standby):
        leader.middle.before_write("ocirepositories", lambda: leader.process.send(signal.SIGSTOP))
        apply_all(site, "9.0.0")
        leader.process.until(lambda: leader.middle.caught, "the write that is held")
        apply_all(site, "9.1.0")
        standby.process.until(lambda: standby.process.log("leading"), "the takeover")
        wait_all_ready(site, standby, "9.1.0")

        leader.middle.let_go()
        standby.process.until(lambda: late_creates(site, since, leader, standby), "the late create's arrival")
        (late,) = late_creates(site, since, leader, standby)
        assert "/ocirepositories/" in late.path
        standby.process.until(lambda: not is_there(site, late.path), "the object's end")
        leader.process.send(signal.SIGCONT)
        assert leader.process.end().status == 1
        wait_all_ready(site, standby, "9.1.0")


def test_a_leader_that_is_cut_off_stops_before_the_takeover(site: Site, tmp_path: Path) -> None:
    since = now()
    with pair(site, tmp_path, "partitioned") as (leader, standby):
        leader.middle.after_write(10, leader.middle.fall_silent)
        apply_all(site, "3.0.0")
        ended = leader.process.end()
        assert ended.status == 1
        assert "could not be renewed within 3 s" in ended.problems[0]
        standby.process.until(lambda: standby.process.log("leading"), "the takeover")
        wait_all_ready(site, standby, "3.0.0")
        assert not check_turns(site, since, leader, standby)


def lone(site: Site, folder: Path, lease: str, *more: str) -> AbstractContextManager[Replica]:
    """Run a replica that nobody follows: it keeps its Lease on a busy machine, too."""
    return replica(site, folder, "replica-a", lease, *more, times=())


def busy(site: Site, leader: Replica, version: str, *, hold: int) -> None:
    """Wait for the leader, and give it work; SIGTERM comes when a write is under way, whose answer is held."""
    leader.process.until(lambda: leader.process.log("leading"), "the Lease")
    leader.process.until(lambda: leader.process.log("connected to the control plane"), "the agent at work")
    leader.middle.after_write(hold, lambda: leader.process.send(signal.SIGTERM), hold=True)
    apply_all(site, version)


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def holder(site: Site, lease: str) -> str:
    path = f"apis/coordination.k8s.io/v1/namespaces/vworkspace-system/leases/{lease}"
    found: str = site.ask("GET", path)["spec"].get("holderIdentity", "")
    return found


def test_sigterm_finishes_what_is_in_hand_and_nothing_else(site: Site, tmp_path: Path) -> None:
    listen = f"127.0.0.1:{free_port()}"
    with lone(site, tmp_path, "stopped", "--listen", listen, "--workers", "1") as leader:
        busy(site, leader, "4.0.0", hold=5)
        leader.process.until(lambda: leader.process.log("stopping: what is in hand is finished first"), "the signal")
        since = now()
        assert status_of(f"http://{listen}/readyz") == 503, "not ready from the signal on"
        assert status_of(f"http://{listen}/healthz") == 200, "and healthy: it ends by itself"
        assert holder(site, "stopped").startswith("replica-a"), "the Lease is held while work is in hand"

        leader.middle.let_go()
        ended = leader.process.end()

    assert (ended.status, ended.problems) == (0, [])
    after = sorted((act for act in site.acts(since) if act.user == leader.user), key=lambda act: act.arrived)
    assert after[-1].is_lease, "the Lease comes last"
    assert holder(site, "stopped") == ""
    touched = {
        action.path.split("/namespaces/")[1] for action in after if not action.is_lease and "/events" not in action.path
    }
    names = {path.split("/")[2] for path in touched}
    instances = {SOURCE_OF.sub("", name) for name in names}
    assert len(instances) <= 1, f"one worker had one object in hand, but {names} were written"


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
        ended = leader.process.stop(signal.SIGTERM, seconds=PATIENCE)

    assert ended.status == -signal.SIGTERM
