"""SEE-3: the pods of an open object: read in bounded time, and none that is left out goes unmentioned."""

from typing import Any

import anyio

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, ref_of
from purekube.apimachinery.resources import HELM_RELEASE, JOB, POD
from purekube.ports import ListPage
from tests.support.run_by import run_by
from vworkspace_app.page.surroundings import PodReader

NS = "org-myteam"


def objects(jobs: int) -> dict[ObjectRef, Manifest]:
    live = [(HELM_RELEASE, HELM_RELEASE.manifest("shop", NS))]
    live += [(JOB, JOB.manifest(f"job-{number}", NS)) for number in range(jobs)]
    return {ref_of(manifest, kind): manifest for kind, manifest in live}


class Silent:
    """An API server that answers no list."""

    async def list(self, kind: Kind, **fields: Any) -> ListPage:
        await anyio.sleep(3600)
        raise AssertionError


class Many:
    """An API server with `number` pods of a release, of which the last one, by name, fails."""

    def __init__(self, number: int) -> None:
        self.number = number

    async def list(self, kind: Kind, **fields: Any) -> ListPage:
        begin = int(fields.get("continue_token") or 0)
        end = min(self.number, begin + fields["limit"])
        pods = [
            {**POD.manifest(f"shop-{at:05}", NS), "status": {"phase": "Failed" if at == self.number - 1 else "Running"}}
            for at in range(begin, end)
        ]
        return ListPage(tuple(pods), "1", str(end) if end < self.number else "")


@run_by(anyio.run)
async def test_a_silent_api_server_does_not_hold_up_the_page_of_an_object_with_many_jobs_SEE_3() -> None:
    """The page gives up on the whole read after five seconds, and then shows nothing at all."""
    reader = PodReader(Silent(), anyio.current_time, patience=0.1)  # type: ignore[arg-type]  # what it asks for
    with anyio.fail_after(1):
        _, problem = await reader.below(objects(20))
    assert problem == "the API server has not answered"
    with anyio.fail_after(1):  # nor do viewers of many objects wait for each other
        async with anyio.create_task_group() as group:
            for number in range(21, 41):
                group.start_soon(reader.below, objects(number))


@run_by(anyio.run)
async def test_a_pod_that_fails_is_found_among_thousands_SEE_3() -> None:
    reader = PodReader(Many(900), lambda: 0.0)  # type: ignore[arg-type]  # what it asks for
    found, problem = await reader.below(objects(0))
    assert ObjectRef(POD, NS, "shop-00899") in found
    assert problem == "the 700 healthiest of 900 with the label app.kubernetes.io/instance=shop"
    assert len(found) == 200, "pods are large, and many pages may be open"


@run_by(anyio.run)
async def test_pods_beyond_the_bound_are_mentioned_SEE_3() -> None:
    reader = PodReader(Many(100_000), lambda: 0.0)  # type: ignore[arg-type]  # what it asks for
    found, problem = await reader.below(objects(0))
    assert len(found) == 200
    assert problem == ("the 1800 healthiest of 2000 with the label app.kubernetes.io/instance=shop, and all later ones")
