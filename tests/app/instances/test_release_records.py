"""REC-4: reconciles that wait together read Helm's records by one request, and each gets its own release's."""

import re
from datetime import UTC, datetime

import anyio
import attrs
import pytest

from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube.ports import KubeApi, KubeRequest, Send
from vworkspace_app.instances.controller import MOST_NAMES, SharedRecords

pytestmark = pytest.mark.anyio


@attrs.define
class Site:
    """An API server with records of Helm, whose lists wait until they are let through."""

    api: KubeApi
    asked: list[list[str]] = attrs.field(factory=list)
    fails: list[bool] = attrs.field(factory=list)
    gate: anyio.Event = attrs.field(factory=anyio.Event)

    def records(self) -> SharedRecords:
        """Return the reader under test."""
        return SharedRecords(self.api.through(self._send))

    async def _send(self, request: KubeRequest, proceed: Send) -> Manifest:
        selector = re.fullmatch(r"owner=helm,name in \(([^)]*)\)", str(request.params["labelSelector"]))
        assert selector is not None, request
        self.asked.append(selector[1].split(","))
        fails = bool(self.fails) and self.fails.pop(0)
        await self.gate.wait()
        if fails:
            raise Unavailable("the API server is gone")
        return await proceed(request)


@pytest.fixture
async def site() -> Site:
    api = InProcessKube(ApiServer(now=lambda: datetime(2026, 11, 30, tzinfo=UTC)))
    for namespace in ("team", "other"):
        await api.create(NAMESPACE.manifest(namespace), kind=NAMESPACE, field_manager="test")
        for release in ("a", "b", "c"):
            name = f"sh.helm.release.v1.{release}.v1"
            record = SECRET.manifest(name, namespace)
            record["metadata"]["labels"] = {"owner": "helm", "name": release}
            await api.create(record, kind=SECRET, field_manager="helm")
    return Site(api)


async def ask(records: SharedRecords, release: str, answers: dict[str, list[str]], namespace: str = "team") -> None:
    """Read a release's records, and keep their names, or the error, by the release."""
    try:
        found = await records.read(namespace, release)
    except Unavailable as error:
        answers[release] = [error.message]
        return
    assert all(record["metadata"]["namespace"] == namespace for record in found)
    answers[release] = [record["metadata"]["name"] for record in found]


def stored(release: str) -> list[str]:
    return [f"sh.helm.release.v1.{release}.v1"]


async def test_who_waits_for_a_request_shares_the_next_one_and_gets_its_own_release(site: Site) -> None:
    records, answers = site.records(), dict[str, list[str]]()
    async with anyio.create_task_group() as group:
        for releases in (["a"], ["b", "nobodys"], ["c"]):
            for release in releases:
                group.start_soon(ask, records, release, answers)
            await anyio.wait_all_tasks_blocked()
        assert site.asked == [["a"]], "one request at a time"
        site.gate.set()
    assert site.asked == [["a"], ["b", "c", "nobodys"]]
    assert answers == {"a": stored("a"), "b": stored("b"), "nobodys": [], "c": stored("c")}


async def test_who_comes_after_a_request_began_is_not_answered_from_it(site: Site) -> None:
    records, answers = site.records(), dict[str, list[str]]()
    async with anyio.create_task_group() as group:
        group.start_soon(ask, records, "a", answers)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(ask, records, "a", answers)
        await anyio.wait_all_tasks_blocked()
        site.gate.set()
    assert site.asked == [["a"], ["a"]]


async def test_namespaces_do_not_wait_for_each_other(site: Site) -> None:
    records, answers = site.records(), dict[str, list[str]]()
    async with anyio.create_task_group() as group:
        group.start_soon(ask, records, "a", answers)
        group.start_soon(ask, records, "b", answers, "other")
        await anyio.wait_all_tasks_blocked()
        assert sorted(site.asked) == [["a"], ["b"]]
        site.gate.set()
    assert answers == {"a": stored("a"), "b": stored("b")}


async def test_an_error_reaches_one_reader_and_the_next_asks_again(site: Site) -> None:
    records, answers = site.records(), dict[str, list[str]]()
    site.fails = [True, True, False]
    async with anyio.create_task_group() as group:
        for releases in ("a", "bc"):
            for release in releases:
                group.start_soon(ask, records, release, answers)
            await anyio.wait_all_tasks_blocked()
        site.gate.set()
    assert site.asked == [["a"], ["b", "c"], ["b", "c"]]
    refused, read = sorted("bc", key=lambda release: answers[release] == stored(release))
    assert answers == {"a": ["the API server is gone"], refused: ["the API server is gone"], read: stored(read)}


async def test_a_reader_that_is_cancelled_takes_no_answer_from_the_others(site: Site) -> None:
    records, answers = site.records(), dict[str, list[str]]()
    async with anyio.create_task_group() as group:
        async with anyio.create_task_group() as ending:
            ending.start_soon(ask, records, "a", answers)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(ask, records, "b", answers)
            await anyio.wait_all_tasks_blocked()
            ending.cancel_scope.cancel()
        site.gate.set()
    assert answers == {"b": stored("b")}


async def test_no_request_names_more_releases_than_a_request_line_has_room_for(site: Site) -> None:
    records, answers = site.records(), dict[str, list[str]]()
    async with anyio.create_task_group() as group:
        for number in range(MOST_NAMES + 2):
            group.start_soon(ask, records, f"app-{number}", answers)
        await anyio.wait_all_tasks_blocked()
        site.gate.set()
    assert [len(names) for names in site.asked] == [MOST_NAMES, 2]
    assert set(answers) == {f"app-{number}" for number in range(MOST_NAMES + 2)}


async def test_nothing_is_kept_of_namespaces_in_which_nobody_reads(site: Site) -> None:
    records = site.records()
    site.gate.set()
    site.fails = [True]
    with pytest.raises(Unavailable):
        await records.read("team", "a")
    await records.read("other", "a")
    assert records._lanes == {}
