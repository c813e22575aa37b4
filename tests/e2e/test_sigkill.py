"""The process is ended with SIGKILL at every request of the pull sequence in turn, and started again (PULL-2, PULL-4).

A story is played undisturbed; its trace says how many requests there are (tests/support/kill_proxy.py says which pass
uncounted, and why). Then it is played with an object of its own for every k, once with the process killed before the
k-th of them is forwarded and once after: the objects, how often each was created and deleted, and the results must be
those of the undisturbed run. A request that does not come again is a failure.

A watch event that comes late makes a reconciler look once more at what is done, and repeat reads and writes that
change nothing. Hence the requests are those of the shortest of three undisturbed runs, which must all end the same.
A run before these has written what the first job in a cluster creates and later ones change.

`make test` tries three k of the main job; `make test-long` tries every k of every story and prints `k of n`.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import attrs
import pytest

from kubelab.cluster.access import ClusterAccess, write_kubeconfig
from kubelab.model.calls import Caller
from kubelab.simulation.running import run_simulator
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.meta import APPLIED_HASH
from purekube.apimachinery.resources import HELM_RELEASE, OCI_REPOSITORY
from purekube.ports import WatchEventType
from purekube_run.process.machine import SystemClock
from tests.support.commands import Running
from tests.support.e2e_world import AGENT_TOKEN, CLUSTER, NS, OPERATOR, QUICK, World, instance
from tests.support.effort import EFFORT
from tests.support.kill_proxy import Killer, killing, sigkill
from tests.support.patience import PATIENCE
from tests.support.servers import OPERATOR_TOKEN, alone, serving
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_fake.controlplane import JobEntry

pytestmark = pytest.mark.slow

KINDS = (APPLICATION_INSTANCE, OCI_REPOSITORY, HELM_RELEASE)
A, B = "6.6.0", "6.6.1"
IN_FULL = EFFORT.long
SAMPLE = ("/ack ", "PATCH .*/applicationinstances/", "/result ")


@attrs.frozen
class Ask:
    """One thing that the control plane asks for, and waits for the result of."""

    verb: str
    generation: int
    version: str = A


def apply(generation: int, version: str = A) -> Ask:
    return Ask("apply", generation, version)


def delete(generation: int) -> Ask:
    return Ask("delete", generation)


def offer_again(generation: int) -> Ask:
    """The control plane lost what it knew of the job of that generation, and offers it under the same id."""
    return Ask("offer again", generation)


@attrs.frozen
class Story:
    """What is asked for before requests are counted, and while they are."""

    before: Sequence[Ask]
    counted: Sequence[Ask]


STORIES = {
    "the main job": Story([], [apply(1)]),
    "redelivery after the result": Story([apply(1)], [offer_again(1), apply(1)]),
    "a delete": Story([apply(1)], [delete(2)]),
    "redelivery after a delete": Story([apply(1), delete(2)], [apply(1), offer_again(2)]),
    "A, B, A": Story([apply(1, A)], [apply(2, B), apply(1, A)]),
    "a second life": Story([apply(1), delete(2)], [apply(3)]),
}


@attrs.frozen
class End:
    """What a story leaves behind, without what differs from run to run: uids, times, versions, the object's name."""

    objects: Mapping[str, Any]
    created: Mapping[str, int]
    deleted: Mapping[str, int]
    results: Sequence[Any]
    running: Sequence[str]


@attrs.define
class Stage:
    """Servers, proxies and the operator's process, which is started again after each end."""

    world: World
    folder: Path
    urls: list[str] = attrs.field(factory=list)
    killer: Killer = attrs.field(init=False)
    operator: Running | None = None
    _starts: int = 0

    def __attrs_post_init__(self) -> None:
        self.killer = Killer(self._kill)

    def _kill(self) -> None:
        assert self.operator is not None
        sigkill(self.operator.pid)
        self.operator.__exit__(None, None, None)
        self.operator = None

    async def ensure_operator(self) -> None:
        """Have a process that polls."""
        if self.operator is None:
            self._starts += 1
            files = ("--kubeconfig", self.folder / "kubeconfig", "--token-file", self.folder / "token")
            where = ("--control-plane-url", self.urls[1], "--cluster-id", CLUSTER)
            self.operator = Running(self.folder / f"operator-{self._starts}", "run", *files, *where)
        await self.world.until(self._polls, "a long poll", seconds=PATIENCE)

    def _polls(self) -> bool:
        assert self.operator is not None
        assert self.operator.is_running, self.operator.err
        return self.world.control.waiting > 0

    async def play(self, story: Story, name: str, at: str = "", *, after: bool = False) -> End:
        """Play it with an object of that name, and kill at the request `at`, if any."""
        await self.ensure_operator()
        round_ = _Round(self, name, len(self.world.history))
        for ask in story.before:
            await round_.perform(ask)
        await round_.quiet()
        self.killer.arm(at, after=after)
        for ask in story.counted:
            await round_.perform(ask)
        await round_.quiet()
        self.killer.disarm()
        return round_.end()


@attrs.define
class _Round:
    stage: Stage
    name: str
    since: int
    jobs: list[JobEntry] = attrs.field(factory=list)
    results: list[Any] = attrs.field(factory=list)

    async def perform(self, ask: Ask) -> None:
        job = self._ask(ask)
        limit = anyio.current_time() + PATIENCE
        while job.result is None:
            assert anyio.current_time() < limit, f"no result of {ask}: {self.stage.world.told()}"
            if self.stage.operator is None:
                await self.stage.ensure_operator()
            await anyio.sleep(0.02)
        self.results.append(self._told(job))

    def _ask(self, ask: Ask) -> JobEntry:
        world, key = self.stage.world, f"ApplicationInstance/{NS}/{self.name}@{ask.generation}"
        match ask.verb:
            case "offer again":
                job = next(job for job in self.jobs if job.raw["idempotencyKey"] == key)
                job.acked_at = job.closed_at = job.offered_at = job.result = None
                world.control.wake()
                return job
            case "delete":
                kind = {"apiVersion": APPLICATION_INSTANCE.api_version, "kind": APPLICATION_INSTANCE.kind}
                payload: Any = {**kind, "namespace": NS, "name": self.name}
            case _:
                payload = instance(ask.version, metadata={"name": self.name, "namespace": NS})
                payload["spec"]["release"]["name"] = self.name
        job = world.control.enqueue(CLUSTER, kind=ask.verb, payload=payload, idempotency_key=key)
        self.jobs.append(job)
        return job

    def _told(self, job: JobEntry) -> Any:
        """Outcome, error, and whether the reference names the object as it is."""
        found = job.result
        live = self._live().get("ApplicationInstance")
        is_live = live is not None and get_path(found, "appliedRef", "uid") == live["metadata"]["uid"]
        return found["outcome"], found.get("error", ""), get_path(found, "appliedRef", "generation"), is_live

    async def quiet(self) -> None:
        """Wait until nothing is open and nothing has been asked or written for a moment."""
        world, seen, since = self.stage.world, -1, anyio.current_time()
        limit = since + PATIENCE
        while anyio.current_time() - since < 0.4:
            assert anyio.current_time() < limit, f"no peace: {world.told()}"
            if self.stage.operator is None:
                await self.stage.ensure_operator()
            count = len(world.history) + len(self.stage.killer.trace)
            if count != seen or world.open_records() or world.control.waiting == 0:
                seen, since = count, anyio.current_time()
            await anyio.sleep(0.02)

    def _live(self) -> dict[str, Manifest]:
        found = (self.stage.world.find(ObjectRef(kind, NS, self.name)) for kind in KINDS)
        return {live["kind"]: live for live in found if live is not None}

    def end(self) -> End:
        history = self.stage.world.history.events(since=self.since)
        mine = [
            (event.type, event.object["kind"])
            for event in history
            if event.object["metadata"]["name"] == self.name and event.object["kind"] != "Event"
        ]
        return End(
            {kind: self._plain(live) for kind, live in self._live().items()},
            Counter(kind for type_, kind in mine if type_ is WatchEventType.ADDED),
            Counter(kind for type_, kind in mine if type_ is WatchEventType.DELETED),
            self.results,
            [load.version.partition("+")[0] for load in self.stage.world.flux.workloads if load.release == self.name],
        )

    def _plain(self, live: Manifest) -> Any:
        meta = live["metadata"]
        annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k != APPLIED_HASH}
        conditions = [] if live["kind"] != "ApplicationInstance" else _conditions(live)
        kept = [live["spec"], annotations, meta.get("finalizers"), meta.get("generation"), conditions]
        return _renamed(kept, self.name)


def _conditions(live: Manifest) -> list[str]:
    conditions = get_path(live, "status", "conditions") or ()
    return sorted(f"{condition['type']}={condition['status']}/{condition['reason']}" for condition in conditions)


def _renamed(value: Any, name: str) -> Any:
    match value:
        case str():
            return value.replace(name, "NAME")
        case list() | tuple():
            return [_renamed(item, name) for item in value]
        case dict():
            return {key: _renamed(item, name) for key, item in value.items()}
        case _:
            return value


@asynccontextmanager
async def staged(folder: Path) -> AsyncIterator[Stage]:
    """The servers with their proxies; the operator's process is started when a story is played."""
    world = World.create(SystemClock(), QUICK)
    stage = Stage(world, folder)
    async with serving(world) as urls, killing(stage.killer, *(urlsplit(url).port or 0 for url in urls)) as proxies:
        stage.urls = proxies
        write_kubeconfig(folder / "kubeconfig", proxies[0], ClusterAccess({OPERATOR_TOKEN: Caller(OPERATOR)}))
        (folder / "token").write_text(AGENT_TOKEN, encoding="utf-8")
        async with anyio.create_task_group() as group:
            group.start_soon(run_simulator, world.flux_witness, world.clock, world.flux)
            try:
                yield stage
            finally:
                if stage.operator is not None:
                    stage.operator.__exit__(None, None, None)
                group.cancel_scope.cancel()


def points(trace: Sequence[str]) -> list[tuple[str, bool]]:
    """Where to kill: a request, and whether after it has been forwarded.

    Both sides of every request in `make test-long`. Otherwise three ends that the servers know more after than the
    process that comes back was told: the ack, the write of the object and the result had arrived, and nobody heard the
    answer.
    """
    if IN_FULL:
        return [(at, after) for at in trace for after in (False, True)]
    return [(next(at for at in trace if re.search(one, at)), True) for one in SAMPLE]


async def attack(stage: Stage, title: str, story: Story, say: Callable[[str], None]) -> None:
    """Play `story` undisturbed, then with an end of the process at each of its `points`."""
    names = (_name(title, number) for number in count())
    began = anyio.current_time()
    expected, trace = await reference(stage, story, names)
    n, desired, killed = len(trace), points(trace), set()
    for at, after in desired:
        for _ in range(4):
            found = await stage.play(story, next(names), at, after=after)
            where = f"{trace.index(at) + 1} of {n}, {'after' if after else 'before'} {at}"
            assert found == expected, f"{title}: {where}"
            if stage.killer.fired:
                killed.add((at, after))
                say(f"{title}: {where}")
                break
    assert killed == set(desired), f"{title}: requests {sorted(set(desired) - killed)} of {n} did not come"
    say(f"{title}: {len({at for at, _ in killed})} of {n}, {len(killed)} kills, {anyio.current_time() - began:.0f} s")


async def reference(stage: Stage, story: Story, names: Iterator[str]) -> tuple[End, Sequence[str]]:
    """How `story` ends when nothing disturbs it, and the requests that it takes at the least."""
    expected, traces = await stage.play(story, next(names)), [stage.killer.trace]
    for _ in range(3 if IN_FULL else 0):
        assert await stage.play(story, next(names)) == expected, "two undisturbed runs end differently"
        traces.append(stage.killer.trace)
    return expected, min(traces[-3:], key=len)


def _name(title: str, number: int) -> str:
    return f"{re.sub('[^a-z]+', '-', title.lower())}-{number}"


@pytest.mark.parametrize("title", STORIES if IN_FULL else ["the main job"])
def test_a_process_killed_at_any_request_loses_nothing_and_repeats_nothing_PULL_4(
    title: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(line: str) -> None:
        with capsys.disabled():
            if IN_FULL:
                print(line, flush=True)

    async def main() -> None:
        async with staged(tmp_path) as stage:
            await attack(stage, title, STORIES[title], say)

    try:
        anyio.run(main)
    except BaseExceptionGroup as group:
        raise alone(group) from None
