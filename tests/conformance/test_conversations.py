"""Conversations of our own, made from the measured rules: in process, over HTTP, with a real server (RUN-8, RUN-9).

Each is named by the rule that it shows.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from kubelab.model.calls import RequestTarget
from kubelab.server import ApiServer
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from tests.support.cluster_choice import real_server
from tests.support.conversations import MISSING, SAMPLE, InProcess, OverHttp, Partner, Turn, definition, hold
from tests.support.effort import unused_name
from tests.support.server_thread import served, wall_clock

ONE = {"spec": {"size": 1}}
TWO = {"spec": {"size": 2}}
HELD: dict[str, Any] = {"metadata": {"finalizers": ["talks.vworkspace.test/held"]}, **ONE}
SIZE = {"spec.size"}


def apply(body: Any = None, status: int = 200, **more: Any) -> Turn:
    return Turn("apply", ONE if body is None else body, status, **more)


FIRST = apply(status=201)

CONVERSATIONS: dict[str, list[Turn]] = {
    "S-01 an apply creates, then changes": [FIRST, apply(TWO, says={"spec.size": 2})],
    "S-02 an apply names its manager": [apply(manager="", status=422, reason="Invalid", fields={"fieldManager"})],
    "S-03 a manager's name has at most 128 bytes": [
        apply(manager="é" * 65, status=422),
        apply(manager="é x", status=201),
    ],
    "S-05 an applied configuration has no managedFields": [
        apply({"metadata": {"managedFields": []}, **ONE}, 400, reason="BadRequest"),
    ],
    "S-06 an applied configuration is of this kind": [apply({"kind": "Other", **ONE}, 400, reason="BadRequest")],
    "S-07 the name is that of the URL": [apply({"metadata": {"name": "b"}, **ONE}, 400, reason="BadRequest")],
    "S-08 a uid guards against coming back to life": [
        FIRST,
        Turn("delete"),
        apply({"metadata": {"uid": "$uid"}, **ONE}, 409, reason="Conflict"),
        Turn("get", status=404, reason="NotFound"),
    ],
    "S-09 another uid is a change of it": [
        FIRST,
        apply({"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}, **ONE}, 422, fields={"metadata.uid"}),
    ],
    "S-10 a resourceVersion locks what is there": [
        FIRST,
        apply({"metadata": {"resourceVersion": "$version"}, **TWO}, version="moved"),
        apply({"metadata": {"resourceVersion": "1"}, **ONE}, 409, reason="Conflict", fields=set()),
    ],
    "S-12 an apply of status creates nothing": [apply({"status": {"note": "n"}}, 404, subresource="status")],
    "S-13 a dry run tells and stores nothing": [
        apply(dry=True, status=201, says={"spec.size": 1, "metadata.resourceVersion": MISSING}),
        Turn("get", status=404),
        FIRST,
        apply(TWO, manager="two", dry=True, status=409),
        apply(TWO, manager="two", dry=True, force=True, says={"spec.size": 2, "metadata.generation": 2}),
        Turn("get", says={"spec.size": 1, "metadata.generation": 1}, version="same"),
    ],
    "S-15 an unknown field does not fit the schema": [apply({"spec": {"nope": 1}}, 500, reason="")],
    "S-16 nor does a wrong type": [apply({"spec": {"size": "many"}}, 500, reason="")],
    "S-17 nor an item of a set that comes twice": [apply({"spec": {"tags": ["a", "a"]}}, 500, reason="")],
    "S-19 a namespace must be there": [apply(status=404, namespace="talks-in-no-namespace", reason="NotFound")],
    "S-20 an applier owns its leaves": [
        apply(
            {"spec": {"size": 1, "tags": ["a"], "words": ["w"], "whole": {"k": "v"}, "loose": {"k": "v"}}},
            201,
            owns={"one": {"spec.size", "spec.tags[a]", "spec.words", "spec.whole", "spec.loose.k"}},
        ),
    ],
    "S-22 defaults belong to updaters and to no applier": [
        apply(status=201, says={"spec.mode": "normal"}, owns={"one": SIZE}),
        Turn("post", ONE, 201, name="b", owns={"one!": {"spec.", "spec.mode", "spec.size"}}),
    ],
    "S-25 labels and finalizers are owned one by one": [
        apply(
            {**HELD, "metadata": {**HELD["metadata"], "labels": {"l": "1"}}},
            201,
            owns={"one": {"metadata.finalizers[talks.vworkspace.test/held]", "metadata.labels.l", "spec.size"}},
        ),
        Turn("merge", {"metadata": {"finalizers": None}}),
    ],
    "S-26 status has an endpoint of its own": [
        apply({**ONE, "status": {"note": "n"}}, 201, says={"status": MISSING}, owns={"one": SIZE}),
        apply(
            {**TWO, "status": {"note": "n"}},
            subresource="status",
            says={"spec.size": 1, "status.note": "n", "metadata.generation": 1},
            owns={"one": SIZE, "one/status": {"status.note"}},
        ),
    ],
    "S-28 a default can be owned by saying it": [
        FIRST,
        apply({"spec": {"mode": "normal"}}, manager="two", owns={"one": SIZE, "two": {"spec.mode"}}),
    ],
    "S-29 who says the same shares": [FIRST, apply(manager="two", owns={"one": SIZE, "two": SIZE})],
    "S-30 who says another thing is refused": [
        FIRST,
        apply(TWO, 409, manager="two", reason="Conflict", fields={".spec.size"}),
        Turn("get", says={"spec.size": 1}, version="same"),
    ],
    "S-31 force takes, and leaves shared what is equal": [
        apply({"spec": {"size": 1, "mode": "fast"}}, 201),
        apply(
            {"spec": {"size": 2, "mode": "fast"}},
            manager="two",
            force=True,
            owns={"one": {"spec.mode"}, "two": {"spec.size", "spec.mode"}},
        ),
    ],
    "S-32 an update by the same manager is another owner": [
        Turn("post", {"spec": {"mode": "fast"}}, 201, manager="two"),
        Turn("merge", ONE, owns={"one!": SIZE, "two!": {"spec.", "spec.mode"}}),
        apply(TWO, 409, fields={".spec.size"}),
        apply(TWO, force=True, owns={"one": SIZE, "two!": {"spec.", "spec.mode"}}),
    ],
    "S-34 ownership is handed over": [
        FIRST,
        apply(manager="two"),
        apply({"spec": {"mode": "fast"}}, owns={"one": {"spec.mode"}, "two": SIZE}),
        apply(TWO, manager="two", says={"spec.size": 2, "spec.mode": "fast"}),
    ],
    "S-37 what only one owned goes, or back to its default": [
        apply({"spec": {"size": 1, "mode": "fast"}}, 201),
        apply({"spec": {"size": 1}}, says={"spec.mode": "normal"}),
        apply({"spec": {"mode": "fast"}}, says={"spec.size": MISSING}),
    ],
    "S-38 what another owns stays": [FIRST, apply(manager="two"), apply({}, says={"spec.size": 1}, owns={"two": SIZE})],
    "S-39 what an updater took stays": [
        FIRST,
        Turn("merge", TWO, manager="two"),
        apply({}, says={"spec.size": 2}, owns={"two!": SIZE}),
    ],
    "S-40 an apply of nothing leaves nothing": [
        FIRST,
        apply({}, says={"spec": MISSING, "metadata.managedFields": MISSING}),
    ],
    "S-41 an item goes with all that others put into it": [
        apply({"spec": {"ports": [{"port": 1, "name": "n"}]}}, 201),
        Turn("json", [{"op": "add", "path": "/spec/ports/0/note", "value": "t"}], manager="two"),
        apply(status=422, reason="Invalid", fields={"spec.ports"}),
    ],
    "S-42 what an apply empties becomes null": [
        apply({"spec": {"free": {"m": {"a": 1}, "n": {"a": {"b": 1}}}}}, 201),
        apply({"spec": {"free": {"m": {}, "n": {"a": {}}}}}, says={"spec.free": {"m": None, "n": {"a": None}}}),
        apply({"spec": {"free": {"m": {}, "n": {"a": {}}}}}, says={"spec.free": {"m": {}, "n": {"a": {}}}}),
    ],
    "S-42 which a schema that wants a map refuses": [
        apply({"spec": {"loose": {"a": "1"}}}, 201),
        apply({"spec": {"loose": {}}}, 422, reason="Invalid", fields={"spec.loose"}),
        apply({"spec": {}}, says={"spec.loose": MISSING}),
        apply({"spec": {"loose": {}}}, says={"spec.loose": {}}),
    ],
    "S-42 a list that an apply empties goes": [
        apply({"spec": {"size": 1, "tags": ["a"]}}, 201),
        apply({"spec": {"size": 1, "tags": []}}, says={"spec.tags": MISSING}),
    ],
    "S-43 a map keeps what others put into it": [
        apply({"spec": {"loose": {"a": "1"}}}, 201),
        Turn("merge", {"spec": {"loose": {"b": "2"}}}, manager="two"),
        apply({"spec": {"size": 1}}, says={"spec.loose": {"b": "2"}}),
    ],
    "S-46 status stays when all else is dropped": [
        FIRST,
        apply({"status": {"note": "n"}}, subresource="status"),
        apply({}, says={"status.note": "n"}, owns={"one/status": {"status.note"}}),
    ],
    "S-47 updates take what they change": [
        FIRST,
        Turn("merge", TWO, manager="two", says={"spec.size": 2}, owns={"two!": SIZE}),
    ],
    "S-48 updates that change nothing own nothing": [
        FIRST,
        Turn("merge", ONE, manager="two", owns={"one": SIZE}, version="same"),
    ],
    "S-50 an atomic list is one thing": [
        apply({"spec": {"words": ["a"]}}, 201),
        Turn(
            "json", [{"op": "add", "path": "/spec/words/-", "value": "b"}], manager="two", owns={"two!": {"spec.words"}}
        ),
    ],
    "S-55 so is an atomic map": [
        apply({"spec": {"whole": {"a": "1"}}}, 201),
        apply({"spec": {"whole": {"b": "2"}}}, 409, manager="two", fields={".spec.whole"}),
        apply({"spec": {"whole": {"b": "2"}}}, manager="two", force=True, says={"spec.whole": {"b": "2"}}),
    ],
    "S-56 a set is a union, each item in its place": [
        apply({"spec": {"tags": ["a", "b"]}}, 201),
        apply({"spec": {"tags": ["z"]}}, manager="two"),
        apply({"spec": {"tags": ["b", "n", "a"]}}, says={"spec.tags": ["b", "z", "n", "a"]}),
    ],
    "S-59 a list map needs each of its keys": [
        apply({"spec": {"ports": [{"port": 1}]}}, 422, reason="Invalid"),
        apply({"spec": {"ports": [{"note": "n"}]}}, 500, reason=""),
    ],
    "S-62 null where a default is becomes the default": [
        apply({"spec": {"mode": None}}, 201, says={"spec.mode": "normal"}, owns={"one": {"spec.mode"}}),
    ],
    "S-65 what changes nothing writes nothing": [
        FIRST,
        apply(version="same"),
        Turn("merge", {}, version="same"),
        Turn("merge", ONE, version="same"),
    ],
    "S-66 a new owner is a write without a new generation": [
        FIRST,
        apply(manager="two", version="moved", says={"metadata.generation": 1}),
    ],
    "S-68 an empty entry resets ownership": [
        FIRST,
        Turn("merge", {"metadata": {"managedFields": [{}]}}, says={"metadata.managedFields": MISSING}),
    ],
    "S-70 nothing is left of an object that comes again": [
        FIRST,
        Turn("delete"),
        apply(TWO, 201, manager="two", owns={"two": SIZE}, says={"metadata.generation": 1}),
    ],
    "S-72 generation follows the spec": [
        FIRST,
        Turn("merge", {"metadata": {"labels": {"l": "1"}}}, says={"metadata.generation": 1}),
        Turn("merge", {"metadata": {"generation": 7}}, says={"metadata.generation": 1}),
        Turn("merge", {"status": {"note": "n"}}, subresource="status", says={"metadata.generation": 1}),
        apply(TWO, says={"metadata.generation": 2}),
    ],
    "S-74 a replacement names the version that it saw": [
        Turn("put", ONE, 404),
        FIRST,
        Turn("put", TWO, 422, fields={"metadata.resourceVersion"}),
        Turn("put", {"metadata": {"resourceVersion": "1"}, **TWO}, 409, reason="Conflict"),
        Turn("put", {"metadata": {"resourceVersion": "$version"}, **TWO}, says={"metadata.generation": 2}),
    ],
    "S-75 the last finalizer lets a deleted object go": [
        apply(HELD, 201),
        Turn("delete", status=200),
        Turn("merge", {"metadata": {"finalizers": ["talks.vworkspace.test/held", "talks.vworkspace.test/more"]}}, 422),
        apply(),
        Turn("get", status=404),
    ],
    "S-77 a conflict has causes, a stale version has none": [
        FIRST,
        apply(TWO, 409, manager="two", reason="Conflict", fields={".spec.size"}),
        Turn("merge", {"metadata": {"resourceVersion": "1"}, **TWO}, 409, reason="Conflict", fields=set()),
    ],
    "W-30 a deletion can name whom it means": [
        FIRST,
        Turn("delete", {"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}}, 409, reason="Conflict"),
        Turn("delete", {"preconditions": {"resourceVersion": "1"}}, 409, reason="Conflict"),
        Turn("delete", {"preconditions": {"uid": "$uid", "resourceVersion": "$version"}}, says={"kind": "Status"}),
    ],
    "W-31 a held object is marked, once": [
        apply(HELD, 201),
        Turn("delete", says={"kind": SAMPLE.kind, "metadata.generation": 2}, version="moved"),
        Turn("delete", version="same"),
        Turn("merge", {"metadata": {"finalizers": None}}),
        Turn("get", status=404),
    ],
    "W-33 a dry deletion deletes nothing": [FIRST, Turn("delete", dry=True), Turn("get", version="same")],
    "W-35 a creation needs a new, good name": [
        Turn("post", ONE, 201),
        Turn("post", ONE, 409, reason="AlreadyExists"),
        Turn("post", ONE, 422, name="Not_A_Name", reason="Invalid", fields={"metadata.name"}),
    ],
    "W-36 unknown fields are dropped, or refused on request": [
        Turn("post", {"spec": {"nope": 1}}, 400, validation="Strict", reason="BadRequest"),
        Turn("post", {"spec": {"nope": 1}}, 201, validation="Ignore", says={"spec.nope": MISSING}),
    ],
    "a bound is a rule of the kind": [apply({"spec": {"size": 10}}, 422, reason="Invalid", fields={"spec.size"})],
}


@contextmanager
def _in_process() -> Iterator[Partner]:
    server = ApiServer(now=lambda: datetime.now(UTC))
    server.create(RequestTarget(server.resource(CUSTOM_RESOURCE_DEFINITION)), definition())
    yield InProcess(server)


@contextmanager
def _over_http() -> Iterator[Partner]:
    with served(ApiServer(now=wall_clock)) as url:
        yield _introduced(OverHttp(url))


@contextmanager
def _real() -> Iterator[Partner]:
    real = real_server()
    trust = ssl.create_default_context(cadata=real.authority.decode())
    yield _introduced(OverHttp(real.url, real.token, trust))


_PARTNERS = {"in process": _in_process, "over HTTP": _over_http, "kube-apiserver": _real}


@pytest.fixture(scope="module", params=list(_PARTNERS.values()), ids=list(_PARTNERS))
def partner(request: pytest.FixtureRequest) -> Iterator[Partner]:
    """A server that knows the kind that is talked about."""
    with request.param() as partner:
        yield partner


def _introduced(partner: OverHttp) -> OverHttp:
    """Tell a server of the kind, and wait until it serves it."""
    made = partner.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    assert made.status in (201, 409), made
    partner.until_served()
    return partner


@pytest.fixture
def namespace(partner: Partner) -> Iterator[str]:
    """A new one, deleted afterwards."""
    name = unused_name("talk")
    if isinstance(partner, InProcess):
        partner.server.create(RequestTarget(partner.server.resource(NAMESPACE)), NAMESPACE.manifest(name))
        yield name
        return
    assert isinstance(partner, OverHttp)
    assert partner.send("POST", "/api/v1/namespaces", NAMESPACE.manifest(name)).status == 201
    yield name
    assert partner.send("DELETE", f"/api/v1/namespaces/{name}").status == 200


@pytest.mark.parametrize("about", CONVERSATIONS)
def test_as_a_real_server_answers(partner: Partner, namespace: str, about: str) -> None:
    hold(partner, CONVERSATIONS[about], namespace)


def test_a_body_of_a_built_in_kind_may_omit_kind_and_version_W_36(partner: Partner, namespace: str) -> None:
    if isinstance(partner, InProcess):
        pytest.skip("it is about the bodies of requests")
    assert isinstance(partner, OverHttp)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    body = {"metadata": {"name": "a"}, "data": {"a": "b"}}

    made = partner.send("POST", path, body)
    assert (made.status, made.body["kind"], made.body["apiVersion"]) == (201, "ConfigMap", "v1")
    assert partner.send("PUT", f"{path}/a", {**body, "kind": "ConfigMap"}).status == 200
    assert partner.send("POST", path, {**body, "kind": "Secret"}).status == 400
    assert (
        partner.send("POST", f"/apis/{SAMPLE.api_version}/namespaces/{namespace}/{SAMPLE.plural}", body).status == 400
    )
