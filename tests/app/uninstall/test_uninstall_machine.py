"""`uninstall --keep-applications` takes no application with it, whatever happens between any two requests (RUN-7).

The command, passes of the operator on copies of any age, Flux, the garbage collector and people take turns, request by
request; the command is killed anywhere and begun again. The law: every HelmRelease keeps its uid and is not deleted, or
the command has refused; and what a HelmRelease names to be installed as is never deleted.
"""

import sys

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from purekube.apimachinery.manifest import Manifest, get_path, metadata
from tests.support.attack import attack, in_chunks
from tests.support.uninstall_world import ACCOUNT, APPLICATIONS, LAPTOP, Actor, Uninstalling
from vworkspace_app.uninstall import Stuck

NAMES = st.sampled_from(APPLICATIONS)
MOST_PASSES = 3


class UninstallMachine(RuleBasedStateMachine):
    """One cluster. `kept` holds the uids of all releases that ever belonged to an instance nobody deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.world: Uninstalling
        self.command: Actor | None = None
        self.passes: list[Actor] = []
        self.copies: list[Manifest] = []
        self.kept: dict[str, str] = {}

    @initialize(collects=st.booleans(), leads=st.booleans())
    def begin(self, collects: bool, leads: bool) -> None:
        self.world = Uninstalling(collects=collects, leads=leads)
        self._see()
        assert len(self.kept) == len(APPLICATIONS)

    # --- the command -------------------------------------------------------------------------------------------------

    @rule(requests=st.integers(1, 12))
    def uninstall_goes_on(self, requests: int) -> None:
        if self.command is None or self.command.is_over:
            self.command = self.world.uninstalling(keep_applications=True)
        for _ in range(requests):
            self.command.step()

    @precondition(lambda self: self.command is not None and not self.command.is_over)
    @rule()
    def uninstall_is_killed(self) -> None:
        assert self.command is not None
        self.command.kill()

    # --- the operator ------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.passes) < MOST_PASSES)
    @rule(age=st.integers(0, 6), requests=st.integers(0, 20))
    def a_pass_begins(self, age: int, requests: int) -> None:
        self._pass(self.copies[-1 - age % len(self.copies)], requests)

    @precondition(lambda self: len(self.passes) < MOST_PASSES)
    @rule(name=NAMES, requests=st.integers(0, 20))
    def a_pass_begins_on_the_newest_copy(self, name: str, requests: int) -> None:
        if (copy := self.world.look(self.world.instance(name))) is not None:
            self._pass(copy, requests)

    def _pass(self, copy: Manifest, requests: int) -> None:
        self.passes.append(self.world.passing(copy))
        self._work(self.passes[-1], requests)

    @precondition(lambda self: self.passes)
    @rule(number=st.integers(0, MOST_PASSES), requests=st.integers(1, 20))
    def a_pass_goes_on(self, number: int, requests: int) -> None:
        self._work(self.passes[number % len(self.passes)], requests)

    def _work(self, work: Actor, requests: int) -> None:
        for _ in range(requests):
            work.step()
        self.passes = [work for work in self.passes if not work.is_over]

    @rule()
    def the_operator_works(self) -> None:
        self.world.works()

    @precondition(lambda self: self.world.leads)
    @rule()
    def the_leader_ends(self) -> None:
        self.world.leads = False

    # --- everybody else ----------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from((0, 1, 10, 70)))
    def flux_works(self, seconds: float) -> None:
        self.world.pass_time(seconds)
        self.world.renew()

    @rule()
    def the_garbage_collector_comes_by(self) -> None:
        self.world.server.run_gc()

    @rule(name=NAMES, version=st.sampled_from(("6.6.0", "6.7.0")))
    def people_ask_for_a_version(self, name: str, version: str) -> None:
        self.world.ask_for(name, version)

    @rule()
    def people_install_again(self) -> None:
        self.world.install_again()

    @rule(name=NAMES)
    def people_take_the_owner_off(self, name: str) -> None:
        self.world.take_owners_off(name)

    # --- the law -----------------------------------------------------------------------------------------------------

    def _see(self) -> None:
        """Remember copies of instances, and the releases of those that are not going."""
        for uid, manifest in self.world.instances().items():
            if manifest not in self.copies[-12:]:
                self.copies.append(manifest)
            if get_path(manifest, "metadata", "deletionTimestamp"):
                continue
            release = self.world.release(str(metadata(manifest)["name"]))
            owners = get_path(release, "metadata", "ownerReferences") or ()
            if release is not None and any(owner["uid"] == uid for owner in owners):
                self.kept.setdefault(str(metadata(release)["name"]), str(metadata(release)["uid"]))

    @invariant()
    def every_release_keeps_its_uid(self) -> None:
        for name, uid in self.kept.items():
            release = self.world.release(name)
            assert get_path(release, "metadata", "uid") == uid, f"the release {name} was lost"
            assert not get_path(release, "metadata", "deletionTimestamp"), f"the release {name} is deleted"
        assert not self.world.missing_rights(), "Flux cannot install as this account any more"
        self._see()

    def teardown(self) -> None:
        if sys.exc_info()[0] is None and self.kept:
            self._uninstall_to_the_end()
            self._come_back()
            self._uninstall_without_instances()

    def _uninstall_to_the_end(self) -> None:
        """Refused while a replica leads; then it comes to its end, beside an operator that goes on."""
        if self.command is not None and not self.command.is_over:
            self.command.finish()
        if self.world.leads and self.world.has_definitions():
            self.world.renew()
            refused = self.world.uninstalling(keep_applications=True)
            refused.finish()
            assert isinstance(refused.error, Stuck), "it goes on while a replica leads"
            assert LAPTOP in str(refused.error)
            self.every_release_keeps_its_uid()
        self.world.leads = False
        self.world.pass_time(61)
        command = self.world.uninstalling(keep_applications=True)
        for request in range(5000):
            if command.is_over:
                break
            command.step()
            if request % 9 == 0:
                self.world.works(rounds=1)
                self.every_release_keeps_its_uid()
        assert command.is_over
        assert command.error is None, command.error
        self._settle()
        assert not self.world.has_definitions()

    def _settle(self) -> None:
        """Whatever was still on its way arrives, and everything is collected that may be."""
        for work in self.passes:
            work.finish()
        self.passes = []
        self.every_release_keeps_its_uid()
        assert not list(self.world.doomed())
        self.world.server.run_gc()
        self.world.pass_time(400)
        self.every_release_keeps_its_uid()
        running = {workload.release for workload in self.world.flux.workloads}
        assert set(self.kept) <= running, "an application does not run any more"

    def _come_back(self) -> None:
        """The operator is installed again, and goes on with the same releases."""
        self.world.install_again()
        name = APPLICATIONS[0]
        self.world.ask_for(name)
        self.world.settle(self.world.instance(name))
        assert self.world.condition(self.world.instance(name), "Ready") == ("True", "HelmReleaseReady")
        self.every_release_keeps_its_uid()

    def _uninstall_without_instances(self) -> None:
        """A plain uninstall takes what has an instance, and nothing else."""
        name = APPLICATIONS[0]
        del self.kept[name]
        command = self.world.uninstalling(keep_applications=False)
        for _ in range(5000):
            if command.is_over:
                break
            command.step()
            self.world.works(name, rounds=1)
        assert command.error is None, command.error
        assert self.world.release(name) is None
        left = {str(metadata(release)["name"]) for release in self.world.inventory().releases}
        assert left == set(self.kept)
        self._settle()


@pytest.mark.slow
@in_chunks(6, at_once=1)
def test_uninstall_keeps_every_release_whoever_is_at_work(chunk: int, runs: int) -> None:
    attack(UninstallMachine, chunk, runs, steps=40)


# --- what was thought of before it was found ------------------------------------------------------------------------


def begun(*, collects: bool = True, leads: bool = False) -> UninstallMachine:
    """A machine whose applications run; the garbage collector works at once, or when the test says so."""
    machine = UninstallMachine()
    machine.begin(collects=collects, leads=leads)
    return machine


def finished(machine: UninstallMachine) -> None:
    """The command comes to its end beside nobody, and then whatever was on its way arrives."""
    command = machine.world.uninstalling(keep_applications=True)
    command.finish()
    assert command.error is None
    machine.every_release_keeps_its_uid()
    machine._settle()


@pytest.mark.slow
@pytest.mark.parametrize("requests", range(24))
def test_uninstall_beside_a_pass_that_decided_before_and_writes_after(requests: int) -> None:
    machine = begun()
    machine.world.ask_for("one", "6.7.0")
    machine.a_pass_begins_on_the_newest_copy("one", requests)
    finished(machine)


@pytest.mark.slow
@pytest.mark.parametrize("requests", range(24))
def test_uninstall_beside_a_pass_that_takes_up_what_was_kept(requests: int) -> None:
    """The release has no owner that could be taken off, and the pass gives it one that has gone meanwhile."""
    machine = begun()
    finished(machine)
    machine.world.install_again()
    machine.world.ask_for("one")
    machine.a_pass_begins_on_the_newest_copy("one", requests)
    finished(machine)


@pytest.mark.slow
def test_uninstall_killed_at_any_request_and_repeated() -> None:
    machine = begun()
    command = machine.world.uninstalling(keep_applications=True)
    requests = 0
    while not command.is_over:
        command.kill()
        command, requests = machine.world.uninstalling(keep_applications=True), requests + 1
        for _ in range(requests):
            command.step()
        machine.every_release_keeps_its_uid()
    assert requests > 20
    machine._settle()
    assert not machine.world.has_definitions()


@pytest.mark.slow
@pytest.mark.parametrize("collects", [True, False])
def test_uninstall_beside_writes_of_flux_between_any_two_requests(collects: bool) -> None:
    """What is let go of has changed since it was listed: it is looked at again before its owner goes."""
    machine = begun(collects=collects)
    command = machine.world.uninstalling(keep_applications=True)
    for request in range(400):
        command.step()
        if not request % 5:
            machine.world.touch_releases()
        machine.every_release_keeps_its_uid()
    command.finish()
    assert command.error is None
    machine._settle()


@pytest.mark.slow
def test_uninstall_refuses_while_a_replica_leads_and_says_where() -> None:
    machine = begun(leads=True)
    assert machine.world.titles(keep_applications=True)[0] == (
        "wait until no replica leads any more (laptop_1f2e does now)"
    )
    command = machine.world.uninstalling(keep_applications=True)
    command.finish()
    assert str(command.error) == (
        "laptop_1f2e still renews Lease vworkspace-system/vworkspace-operator: "
        "an operator runs that no Deployment here started. Stop it"
    )
    assert len(machine.world.instances()) == len(APPLICATIONS)
    machine.every_release_keeps_its_uid()


@pytest.mark.slow
def test_uninstall_deletes_no_account_that_a_release_names_and_lists_the_release() -> None:
    """`--keep-applications`, installed again, and a plain `uninstall`: Flux could not even remove the releases."""
    machine = begun()
    finished(machine)
    machine.world.install_again()
    inventory = machine.world.inventory()
    assert [ref.name for ref in inventory.remaining_releases(keep_applications=False)] == sorted(APPLICATIONS)
    assert {ref.name for ref in inventory.needed_rights(keep_applications=False)} == {ACCOUNT}
    command = machine.world.uninstalling(keep_applications=False)
    command.finish()
    assert command.error is None
    machine.every_release_keeps_its_uid()
    assert machine.world.inventory().is_empty


@pytest.mark.slow
def test_uninstall_deletes_the_account_that_no_release_names_any_more() -> None:
    machine = begun()
    command = machine.world.uninstalling(keep_applications=False)
    while not command.is_over:
        command.step()
        machine.world.works(rounds=1)
    assert command.error is None
    assert machine.world.inventory().rights == {}
