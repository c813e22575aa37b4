"""The HTTP face of the embedded API server: forms, headers, limits and streams, byte by byte (RUN-9)."""

import errno
import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from kubelab.http.serving import kubeconfig, serve_forever
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Kind
from tests.support.apiserver_world import GIZMO, RIG, crd
from tests.support.patience import PATIENCE
from tests.support.server_thread import Answer, Wire, served, wall_clock, wired

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GIZMOS = "/apis/tests.example/v1/namespaces/default/gizmos"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(ApiServer(now=wall_clock), bookmark_interval=0.2) as address:
        with wired(address) as wire:
            for kind in (GIZMO, RIG):
                assert wire.send("POST", CRDS, crd(kind)).status == 201
        yield address


@pytest.fixture
def wire(url: str) -> Iterator[Wire]:
    with wired(url) as connection:
        yield connection


def gizmo(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "tests.example/v1", "kind": "Gizmo", "metadata": {"name": name}, "spec": spec}


def apply(wire: Wire, name: str, **spec: Any) -> Answer:
    path = f"{GIZMOS}/{name}?fieldManager=m"
    return wire.send("PATCH", path, gizmo(name, **spec), content_type=APPLY)


def wait_for_404(wire: Wire, path: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while wire.send("GET", path).status != 404:
        assert time.monotonic() < deadline, f"{path} is still there"
        time.sleep(0.02)


# --- discovery ---------------------------------------------------------------------------------------------------


def test_health_and_version(wire: Wire) -> None:
    for path in ("/healthz", "/readyz", "/livez", "/readyz/ping"):
        assert (wire.send("GET", path).status, wire.send("GET", path).raw) == (200, b"ok")
    assert wire.send("GET", "/version").json["minor"] == "36"


def test_classic_discovery_names_what_is_served(wire: Wire) -> None:
    assert wire.send("GET", "/api").json["versions"] == ["v1"]
    groups = {group["name"]: group["preferredVersion"]["version"] for group in wire.send("GET", "/apis").json["groups"]}
    assert groups["tests.example"] == "v1"
    assert wire.send("GET", "/apis/tests.example").json["kind"] == "APIGroup"
    resources = {
        resource["name"]: resource for resource in wire.send("GET", "/apis/tests.example/v1").json["resources"]
    }
    assert set(resources) == {"gizmos", "gizmos/status", "gizmos/scale", "rigs", "rigs/status", "rigs/scale"}
    assert resources["gizmos"]["namespaced"]
    assert resources["gizmos/scale"]["kind"] == "Scale"


def test_aggregated_discovery_is_one_document(wire: Wire) -> None:
    answer = wire.send("GET", "/apis", accept=f"{DISCOVERY},application/json")
    assert answer.headers["content-type"] == DISCOVERY
    groups = {item["metadata"]["name"]: item["versions"] for item in answer.json["items"]}
    (version,) = groups["tests.example"]
    assert [resource["resource"] for resource in version["resources"]] == ["gizmos", "rigs"]


def test_a_definition_is_discovered_at_once_and_gone_at_once(wire: Wire) -> None:
    kind = Kind("late.example", "v1", "Late", "lates")
    wire.send("POST", CRDS, crd(kind))
    assert wire.send("GET", "/apis/late.example/v1").status == 200
    wire.send("DELETE", f"{CRDS}/{kind.crd_name}")
    assert wire.send("GET", "/apis/late.example/v1").status == 404


def test_openapi_v3_holds_the_schema_and_how_it_may_be_written(wire: Wire) -> None:
    index = wire.send("GET", "/openapi/v3").json["paths"]
    document = wire.send("GET", index["apis/tests.example/v1"]["serverRelativeURL"]).json
    schema = document["components"]["schemas"]["example.tests.v1.Gizmo"]
    assert schema["properties"]["spec"]["properties"]["size"] == {"type": "integer"}
    patch = document["paths"]["/apis/tests.example/v1/namespaces/{namespace}/gizmos/{name}"]["patch"]
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]


@pytest.mark.parametrize(
    "path", ["/apis/nobody.example/v1", "/apis/nobody.example", "/nowhere", "/openapi/v3/apis/x/v1"]
)
def test_what_is_not_served_is_plain_text_W_38(wire: Wire, path: str) -> None:
    answer = wire.send("GET", path)
    assert (answer.status, answer.raw) == (404, b"404 page not found\n")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["audit-id"], "by which a client tells it from the same text of a proxy"


# --- forms of answers --------------------------------------------------------------------------------------------


def test_a_table_has_the_columns_of_the_definition(wire: Wire) -> None:
    apply(wire, "tabled", size=1)
    table = wire.send("GET", f"{GIZMOS}/tabled", accept=TABLE).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]
    assert table["rows"][0]["cells"][0] == "tabled"
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


def test_only_metadata_can_be_asked_for(wire: Wire) -> None:
    apply(wire, "partial", size=1)
    listed = wire.send("GET", f"{GIZMOS}?fieldSelector=metadata.name%3Dpartial", accept=PARTIAL).json
    assert listed["kind"] == "PartialObjectMetadataList"
    assert "spec" not in listed["items"][0]


def test_an_answer_can_be_yaml(wire: Wire) -> None:
    apply(wire, "written", size=1)
    answer = wire.send("GET", f"{GIZMOS}/written", accept="application/yaml")
    assert answer.headers["content-type"] == "application/yaml"
    assert b"name: written\n" in answer.raw


def test_a_form_that_is_not_there_is_406(wire: Wire) -> None:
    assert wire.send("GET", GIZMOS, accept="text/html").status == 406


def test_a_large_answer_is_compressed_for_who_can_read_it(wire: Wire) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"a": "x" * 200_000}}
    path = "/api/v1/namespaces/default/configmaps"
    wire.send("POST", path, body)
    zipped = wire.send("GET", f"{path}/large", accept_encoding="gzip")
    plain = wire.send("GET", f"{path}/large")
    assert zipped.headers["content-encoding"] == "gzip"
    assert len(zipped.raw) < 10_000
    assert gzip.decompress(zipped.raw) == plain.raw
    assert "content-encoding" not in plain.headers


def test_warnings_come_as_headers_W_36(wire: Wire) -> None:
    answer = wire.send("POST", GIZMOS, {**gizmo("warned", size=1), "bogus": 1})
    assert (answer.status, answer.headers["warning"]) == (201, '299 - "unknown field \\"bogus\\""')


# --- bodies ------------------------------------------------------------------------------------------------------


def test_an_apply_may_be_yaml_whose_dates_stay_text(wire: Wire) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: y\n  annotations: {when: 2026-01-01}\n"
    answer = wire.send("PATCH", "/api/v1/namespaces/default/configmaps/y?fieldManager=m", text, content_type=APPLY)
    assert (answer.status, answer.json["metadata"]["annotations"]) == (201, {"when": "2026-01-01"})


def test_a_duplicate_key_is_refused_warned_of_or_passed_S_14(wire: Wire) -> None:
    text = '{"apiVersion":"tests.example/v1","kind":"Gizmo","metadata":{"name":"twice"},"spec":{"size":1,"size":2}}'
    path = f"{GIZMOS}/twice?fieldManager=m&fieldValidation="
    strict, warned, ignored = (
        wire.send("PATCH", path + how, text, content_type=APPLY) for how in ("Strict", "Warn", "Ignore")
    )
    assert (strict.status, 'duplicate field \\"spec.size\\"' in strict.raw.decode()) == (400, True)
    assert warned.headers["warning"] == '299 - "duplicate field \\"spec.size\\""'
    assert (ignored.json["spec"]["size"], "warning" in ignored.headers) == (2, False)
    merged = wire.send("PATCH", path + "Strict", '{"spec":{"size":1,"size":2}}', content_type=MERGE)
    assert (merged.status, merged.json["details"]["causes"][0]["field"]) == (422, "patch")


def test_a_delete_with_a_body_ignores_the_query(wire: Wire) -> None:
    apply(wire, "thing")
    query = "?dryRun=All&propagationPolicy=Foreground"
    assert wire.send("DELETE", f"{GIZMOS}/thing{query}").json["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert wire.send("DELETE", f"{GIZMOS}/thing{query}", {"kind": "DeleteOptions"}).json["status"] == "Success"
    assert wire.send("GET", f"{GIZMOS}/thing").status == 404


@pytest.mark.parametrize(
    ("method", "path", "status", "is_status"),
    [
        ("DELETE", "/api/v1/secrets", 405, True),
        ("POST", "/api/v1/secrets", 405, True),
        ("DELETE", "/api/v1/namespaces", 405, True),
        ("GET", "/api/v1/namespaces/default/finalize", 405, True),
        ("GET", "/api/v1/secrets/x", 404, True),
        ("GET", "/api/v1/namespaces/default/configmaps/x/status", 404, True),
        ("DELETE", "/apis/tests.example/v1/gizmos", 404, False),
        ("POST", "/apis/tests.example/v1/gizmos", 404, False),
        ("GET", "/apis/tests.example/v1/gizmos/x", 404, False),
    ],
)
def test_paths_that_no_write_can_name(wire: Wire, method: str, path: str, status: int, is_status: bool) -> None:
    answer = wire.send(method, path, "{}" if method == "POST" else None)
    assert (answer.status, "application/json" in answer.headers["content-type"]) == (status, is_status)


@pytest.mark.parametrize(
    ("method", "path", "content_type", "status"),
    [
        ("PATCH", f"{GIZMOS}/x", "application/strategic-merge-patch+json", 415),
        ("PATCH", f"{GIZMOS}/x", "text/plain", 415),
        ("POST", GIZMOS, "application/x-www-form-urlencoded", 415),
        ("PATCH", f"{GIZMOS}/x", "application/json-patch+json", 404),
        ("PUT", GIZMOS, "application/json", 405),
        ("POST", f"{GIZMOS}/x", "application/json", 405),
        ("PATCH", GIZMOS, "application/merge-patch+json", 405),
    ],
)
def test_what_a_request_may_carry_where_S_11(
    wire: Wire, method: str, path: str, content_type: str, status: int
) -> None:
    answer = wire.send(method, path, "{}", content_type=content_type)
    assert (answer.status, answer.json["kind"]) == (status, "Status")


def test_a_body_over_three_mebibytes_is_413_and_one_over_etcds_limit_500_W_37(wire: Wire) -> None:
    def secretive(size: int) -> Answer:
        body = {
            "apiVersion": "tests.example/v1",
            "kind": "Rig",
            "metadata": {"name": "big"},
            "status": {"x": "y" * size},
        }
        wire.send("POST", "/apis/tests.example/v1/rigs", {**body, "status": {}})
        return wire.send("PATCH", "/apis/tests.example/v1/rigs/big/status?fieldManager=m", body, content_type=APPLY)

    too_much, too_large = secretive(4_000_000), secretive(2_000_000)
    assert (too_much.status, too_much.json["reason"]) == (413, "RequestEntityTooLarge")
    assert (too_large.status, too_large.json["message"]) == (500, "etcdserver: request is too large")
    assert "reason" not in too_large.json


def test_a_gzipped_body_is_read(wire: Wire) -> None:
    raw = gzip.compress(json.dumps(gizmo("zipped", size=1)).encode())
    answer = wire.send("POST", GIZMOS, raw, content_encoding="gzip")
    assert (answer.status, answer.json["spec"]["size"]) == (201, 1)


@pytest.mark.parametrize("body", ["", "[]", "{}", "nonsense", '"text"', "null", "1"])
def test_a_body_that_is_no_object_is_400(wire: Wire, body: str) -> None:
    assert wire.send("POST", GIZMOS, body).status == 400


@pytest.mark.parametrize("body", ["{{{{", "[]", "- a", "\t", "nonsense", "", "null"])
def test_an_apply_that_is_no_object_is_400(wire: Wire, body: str) -> None:
    assert wire.send("PATCH", f"{GIZMOS}/x?fieldManager=m", body, content_type=APPLY).status == 400


def test_namespaces_finalize_and_end(wire: Wire) -> None:
    path = "/api/v1/namespaces"
    wire.send("POST", path, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "room"}})
    gone = wire.send("DELETE", f"{path}/room")
    assert gone.json["status"]["phase"] == "Terminating"
    wait_for_404(wire, f"{path}/room")


# --- credentials -------------------------------------------------------------------------------------------------


def test_a_bearer_token_says_who_is_calling_W_38() -> None:
    server = ApiServer(now=wall_clock)
    with served(server, tokens={"s3cret": Caller("alice")}) as url, wired(url) as wire:
        path = "/api/v1/namespaces/default/configmaps"
        refused = [
            wire.send("GET", path),
            wire.send("GET", path, authorization="Bearer wrong"),
            wire.send("GET", path, authorization="Basic s3cret"),
        ]
        assert {(answer.status, answer.json["reason"]) for answer in refused} == {(401, "Unauthorized")}
        assert wire.send("GET", path, authorization="Bearer s3cret").status == 200
        assert wire.send("GET", "/readyz").status == 200
    assert [(entry.user, entry.status) for entry in server.audit] == [("", 401), ("", 401), ("", 401), ("alice", 200)]


def test_a_kubeconfig_holds_the_address_and_the_token() -> None:
    config = kubeconfig("http://127.0.0.1:1", "s3cret")
    assert config["clusters"][0]["cluster"] == {"server": "http://127.0.0.1:1"}
    assert config["users"][0]["user"] == {"token": "s3cret"}
    assert kubeconfig("http://127.0.0.1:1")["users"][0]["user"] == {}


# --- watches -----------------------------------------------------------------------------------------------------


def lines(answer: Answer) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.raw.splitlines()]


@pytest.mark.slow
def test_a_watch_is_chunked_lines_until_its_timeout_W_19(wire: Wire) -> None:
    first = apply(wire, "seen", size=1).json["metadata"]["resourceVersion"]
    apply(wire, "seen", size=2)
    wire.send("DELETE", f"{GIZMOS}/seen")
    path = f"{GIZMOS}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dseen&resourceVersion={first}"
    answer = wire.send("GET", path)
    assert (answer.status, answer.headers["transfer-encoding"]) == (200, "chunked")
    assert [event["type"] for event in lines(answer)] == ["MODIFIED", "DELETED"]


@pytest.mark.slow
def test_bookmarks_come_while_nothing_happens(wire: Wire) -> None:
    path = f"{GIZMOS}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&fieldSelector=metadata.name%3Dnone"
    events = lines(wire.send("GET", path))
    assert {event["type"] for event in events} == {"BOOKMARK"}
    assert len(events) >= 3
    assert events[0]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_from_beyond_the_history_is_one_error_line_W_11() -> None:
    server = ApiServer(now=wall_clock)
    server.store.compact()
    with served(server) as url, wired(url) as wire:
        answer = wire.send("GET", "/api/v1/namespaces?watch=true&resourceVersion=1")
    (event,) = lines(answer)
    assert (answer.status, event["type"], event["object"]["code"]) == (200, "ERROR", 410)


def test_a_watch_from_nonsense_is_500_W_02(wire: Wire) -> None:
    assert wire.send("GET", f"{GIZMOS}?watch=true&resourceVersion=abc").status == 500


@pytest.mark.slow
def test_a_table_watch_describes_its_columns_once_W_21(wire: Wire) -> None:
    first = apply(wire, "rows", size=1).json["metadata"]["resourceVersion"]
    apply(wire, "rows", size=2)
    apply(wire, "rows", size=3)
    path = f"{GIZMOS}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Drows&resourceVersion={first}"
    events = lines(wire.send("GET", path, accept=TABLE))
    assert [len(event["object"]["rows"]) for event in events] == [1, 1]
    assert [bool(event["object"]["columnDefinitions"]) for event in events] == [True, False]


@pytest.mark.slow
def test_a_bookmark_is_no_row_of_a_table(wire: Wire) -> None:
    path = f"{GIZMOS}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&fieldSelector=metadata.name%3Dnone"
    events = lines(wire.send("GET", path, accept=TABLE))
    assert {event["type"] for event in events} == {"BOOKMARK"}
    assert {len(event["object"]["rows"]) for event in events} == {0}
    assert int(events[0]["object"]["metadata"]["resourceVersion"]) > 0


def test_a_deprecated_version_says_so(wire: Wire) -> None:
    kind = Kind("old.example", "v1beta1", "Old", "olds")
    definition = crd(kind, versions=("v1beta1",))
    definition["spec"]["versions"][0]["deprecated"] = True
    wire.send("POST", CRDS, definition)
    answer = wire.send("GET", "/apis/old.example/v1beta1/olds")
    assert answer.headers["warning"] == '299 - "old.example/v1beta1 Old is deprecated"'


def test_a_change_arrives_while_the_watch_is_open(url: str) -> None:
    """Each is read before the next one is written: nothing waits for more, or for the end of the watch."""
    with wired(url) as wire, wired(url) as stream:
        stream.connection.request("GET", f"{GIZMOS}?watch=true&labelSelector=live%3D1&timeoutSeconds=3600")
        reply = stream.connection.getresponse()
        for number in range(20):
            body = {**gizmo(f"live-{number}", size=1)}
            body["metadata"]["labels"] = {"live": "1"}
            assert wire.send("POST", GIZMOS, body).status == 201
            assert json.loads(reply.readline())["object"]["metadata"]["name"] == f"live-{number}"
        stream.close()


# --- life of the server ------------------------------------------------------------------------------------------


def test_an_address_in_use_is_an_os_error_that_says_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use") as caught:
            anyio.run(lambda: serve_forever(ApiServer(now=wall_clock), "127.0.0.1", taken.getsockname()[1]))
    assert caught.value.errno == errno.EADDRINUSE


def test_cancelling_ends_open_watches_cleanly_and_soon() -> None:
    ended: list[bytes] = []
    is_open = threading.Event()

    def read(url: str) -> None:
        with wired(url) as stream:
            stream.connection.request("GET", "/api/v1/namespaces?watch=true")
            reply = stream.connection.getresponse()
            is_open.set()
            ended.append(reply.read())

    with served(ApiServer(now=wall_clock)) as url:
        reader = threading.Thread(target=read, args=(url,))
        reader.start()
        assert is_open.wait(PATIENCE)
    reader.join(PATIENCE)
    assert not reader.is_alive(), "a watch without a timeout ends by itself after half an hour"
    assert ended[0].endswith(b"\n")


def test_garbage_is_collected_soon_after_a_write(wire: Wire) -> None:
    parent = apply(wire, "parent", size=1).json
    child = gizmo("child", size=1)
    child["metadata"]["ownerReferences"] = [
        {"apiVersion": "tests.example/v1", "kind": "Gizmo", "name": "parent", "uid": parent["metadata"]["uid"]}
    ]
    assert wire.send("POST", GIZMOS, child).status == 201
    wire.send("DELETE", f"{GIZMOS}/parent")
    wait_for_404(wire, f"{GIZMOS}/child")
