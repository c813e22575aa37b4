"""What a live read may take for "nothing is there", by error and method; whose token is refused has seen nothing."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import attrs
import pytest

from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import (
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Permanent,
    Unauthorized,
    Unavailable,
)
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.controller.informer.outline import PAGE_SIZE
from purekube.controller.live_reads import LiveReads
from purekube.ports import KubeApi, KubeRequest, WatchEvent

REF = ObjectRef(CONFIG_MAP, "default", "a")

READS: dict[str, Callable[[LiveReads], Awaitable[Any]]] = {
    "get": lambda reading: reading.get(REF),
    "add": lambda reading: reading.add(REF),
    "add_labelled": lambda reading: reading.add_labelled(CONFIG_MAP, "default", "a=b"),
    "add_selected": lambda reading: reading.add_selected(CONFIG_MAP, "default"),
}
ERRORS: list[OperatorError] = [
    Unauthorized("the token is refused"),
    Unavailable("no answer"),
    Permanent("redirected"),
    Forbidden("no"),
    NotFound("no such thing"),
    Invalid("no such name"),
    KindMissing("not served"),
]
NOTHING = {
    "get": (NotFound, Invalid, KindMissing),
    "add": (NotFound, Invalid, KindMissing),
    "add_labelled": (KindMissing,),
    "add_selected": (KindMissing, Forbidden),
}
"""What means that nothing is there."""


@attrs.frozen
class Answering:
    """An API server with one answer."""

    error: OperatorError

    async def send(self, request: KubeRequest) -> Manifest:
        raise self.error

    def watch(self, request: KubeRequest) -> AsyncIterator[WatchEvent]:
        raise self.error


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("read", READS)
def test_an_error_is_nothing_there_exactly_where_it_says_so(read: str, error: OperatorError, lenient: bool) -> None:
    """Unauthorized is a Forbidden by class; taken for nothing, what is there would be made again or let go of."""
    reading = LiveReads(KubeApi(Answering(error)), lenient=lenient)
    absent = isinstance(error, NOTHING[read]) or (lenient and isinstance(error, Forbidden))

    if absent and not isinstance(error, Unauthorized):
        assert not run_sync(READS[read](reading))  # type: ignore[arg-type]
    else:
        with pytest.raises(type(error)):
            run_sync(READS[read](reading))  # type: ignore[arg-type]
    assert reading.objects == {}
    assert reading.missing == ({CONFIG_MAP} if isinstance(error, KindMissing) and read != "add_selected" else set())


@attrs.define
class Listing:
    """An API server with one list in pages, which keeps what it is asked."""

    pages: list[dict[str, Any]]
    asked: list[KubeRequest] = attrs.field(factory=list)

    async def send(self, request: KubeRequest) -> Manifest:
        self.asked.append(request)
        return self.pages.pop(0)

    def watch(self, request: KubeRequest) -> AsyncIterator[WatchEvent]:
        raise NotImplementedError


def test_one_object_is_read_as_old_and_as_whole_as_it_is_asked_for() -> None:
    server = Listing([{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}])
    reading = LiveReads(KubeApi(server))

    assert run_sync(reading.get(REF)) == {"metadata": {"name": "a"}}
    assert run_sync(reading.get(REF, resource_version="0", metadata_only=True)) == {"metadata": {"name": "b"}}
    assert [(dict(request.params), request.metadata_only, request.ref) for request in server.asked] == [
        ({}, False, REF),
        ({"resourceVersion": "0"}, True, REF),
    ]


def page(*names: str, token: str = "") -> dict[str, Any]:
    items = [{"metadata": {"name": name, "namespace": "default"}} for name in names]
    return {"metadata": {"resourceVersion": "7", "continue": token}, "items": items}


def found(reading: LiveReads) -> list[str]:
    return [ref.name for ref in reading.objects]


def test_selected_objects_are_read_in_one_list_of_that_size() -> None:
    server = Listing([page("b"), page("a", "b")])
    reading = LiveReads(KubeApi(server))
    run_sync(reading.add_selected(CONFIG_MAP, "default", label_selector="a=b", field_selector="c=d", limit=3))
    run_sync(reading.add_selected(CONFIG_MAP, "other"))

    assert found(reading) == ["b", "a"]
    assert reading.objects[ObjectRef(CONFIG_MAP, "default", "a")]["metadata"]["name"] == "a"
    assert [(request.namespace, {k: v for k, v in request.params.items() if v}) for request in server.asked] == [
        ("default", {"labelSelector": "a=b", "fieldSelector": "c=d", "limit": 3}),
        ("other", {}),
    ]


def test_labelled_objects_are_read_page_after_page() -> None:
    server = Listing([page("a", token="t"), page("b")])
    reading = LiveReads(KubeApi(server))
    run_sync(reading.add_labelled(CONFIG_MAP, "default", "a=b"))

    assert found(reading) == ["a", "b"]
    assert [request.params.get("continue") for request in server.asked] == ["", "t"]
    assert {request.params.get("limit") for request in server.asked} == {PAGE_SIZE}
    assert {(request.namespace, request.params.get("labelSelector")) for request in server.asked} == {
        ("default", "a=b")
    }
