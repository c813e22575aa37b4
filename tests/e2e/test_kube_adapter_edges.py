"""The adapter against a scripted socket: lightkube's sharp edges do not reach us, every
answer becomes an error of the core's closed set, and no token is ever shown."""

import asyncio
import json
import sys
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User

from purekube.apimachinery.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    FieldConflict,
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Permanent,
    Stale,
    Unauthorized,
    Unavailable,
)
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.nesting import too_deep
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE, OCI_REPOSITORY, SECRET
from purekube.ports import PatchType, Propagation, WatchEventType
from purekube_http import KubeApiClient
from tests.support.patience import PATIENCE
from tests.support.scripted_server import (
    Script,
    Wire,
    answer,
    close,
    error_event,
    event,
    reply,
    reset,
    silence,
    status,
    stream,
    wire,
)
from vworkspace_core.api.kinds import CLUSTER

pytestmark = pytest.mark.anyio

TOKEN = "sekret-t0ken"
RELEASE = ObjectRef(HELM_RELEASE, "n", "a")
MANIFEST = {
    **HELM_RELEASE.manifest("a", "n"),
    "metadata": {"name": "a", "namespace": "n", "uid": "u-1", "resourceVersion": "2"},
}


def listed(kind: Kind, *items: Any, **meta: Any) -> dict[str, Any]:
    """A page as the API server sends it."""
    found = {"resourceVersion": "9", **meta}
    return {"apiVersion": kind.api_version, "kind": f"{kind.kind}List", "metadata": found, "items": list(items)}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def config_of(url: str, **user: Any) -> SingleConfig:
    config = KubeConfig.from_one(cluster=Cluster(server=url), user=User(**(user or {"token": TOKEN}))).get()
    assert config is not None
    return config


@asynccontextmanager
async def served(*scripts: Script, **settings: Any) -> AsyncIterator[tuple[Wire, KubeApiClient]]:
    """A wire with these scripts, for requests and watches alike, and an adapter connected to it."""
    async with wire() as peer:
        peer.scripts.extend(scripts)
        peer.watch_scripts.extend(scripts)
        async with KubeApiClient(config_of(peer.url), **settings) as api:
            yield peer, api


async def watched(api: KubeApiClient, **options: Any) -> list[tuple[WatchEventType, str]]:
    return [
        (one.type, one.object["metadata"]["resourceVersion"])
        async for one in api.watch(HELM_RELEASE, **{"resource_version": "1", **options})
    ]


async def collect(api: KubeApiClient, came: list[WatchEventType], **options: Any) -> None:
    """Watch, and keep what came even when it ends badly."""
    async for one in api.watch(HELM_RELEASE, resource_version="1", **options):
        came.append(one.type)


# -- requests as they go out ---------------------------------------------------------------------------------------


async def test_edge_1_a_status_apply_goes_to_the_namespace_of_its_manifest() -> None:
    async with served(reply(MANIFEST)) as (peer, api):
        await api.apply_status(MANIFEST, kind=HELM_RELEASE, field_manager="m")

    (request,) = peer.requests
    assert request.path == "/apis/helm.toolkit.fluxcd.io/v2/namespaces/n/helmreleases/a/status"
    assert request.query == {"fieldManager": "m", "fieldValidation": "Strict"}
    assert request.headers["content-type"] == "application/apply-patch+yaml"
    assert request.json == MANIFEST


async def test_an_apply_is_strict_and_forces_only_when_asked() -> None:
    async with served(reply(MANIFEST), reply(MANIFEST)) as (peer, api):
        await api.apply(MANIFEST, kind=HELM_RELEASE, field_manager="m")
        await api.apply(MANIFEST, kind=HELM_RELEASE, field_manager="m", force=True, dry_run=True)

    first, second = (request.query for request in peer.requests)
    assert first == {"fieldManager": "m", "fieldValidation": "Strict"}
    assert second == {"fieldManager": "m", "fieldValidation": "Strict", "force": "true", "dryRun": "All"}


async def test_create_and_update_are_strict_about_unknown_fields() -> None:
    async with served(reply(MANIFEST, 201), reply(MANIFEST)) as (peer, api):
        await api.create(MANIFEST, kind=HELM_RELEASE, field_manager="m")
        await api.update(MANIFEST, kind=HELM_RELEASE, field_manager="m")

    post, put = peer.requests
    assert (post.method, put.method) == ("POST", "PUT")
    assert post.path == "/apis/helm.toolkit.fluxcd.io/v2/namespaces/n/helmreleases"
    assert put.path == f"{post.path}/a"
    assert post.query == put.query == {"fieldManager": "m", "fieldValidation": "Strict"}


@pytest.mark.parametrize("patch_type", PatchType)
async def test_a_patch_says_its_type(patch_type: PatchType) -> None:
    async with served(reply(MANIFEST)) as (peer, api):
        await api.patch(RELEASE, {"x": 1}, patch_type=patch_type, field_manager="m", subresource="status")

    (request,) = peer.requests
    assert request.headers["content-type"] == patch_type.value
    assert request.path.endswith("/a/status")
    assert request.query == {"fieldManager": "m"}


async def test_a_delete_carries_its_preconditions() -> None:
    gone = {**CLUSTER.manifest("main"), "metadata": {"name": "main", "uid": "u", "resourceVersion": "8"}}
    async with served(status(200, "", "ok"), reply(gone)) as (peer, api):
        await api.delete(RELEASE, uid="u", resource_version="7", propagation=Propagation.FOREGROUND)
        await api.delete(ObjectRef(CLUSTER, None, "main"))

    first, second = peer.requests
    assert first.json["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert first.json["propagationPolicy"] == "Foreground"
    assert second.path == "/apis/ops.vworkspace.io/v1alpha1/clusters/main"
    assert "preconditions" not in second.json
    assert second.json["propagationPolicy"] == "Background"


async def test_a_list_asks_for_all_namespaces_pages_and_selectors() -> None:
    empty = reply(listed(SECRET))
    async with served(empty, empty) as (peer, api):
        await api.list(SECRET, limit=500, resource_version="0", label_selector="a in (b,c)", field_selector="x=y")
        await api.list(SECRET, namespace="n", limit=500, resource_version="0", continue_token="t")

    first, second = peer.requests
    assert first.path == "/api/v1/secrets"
    assert first.query == {
        "limit": "500",
        "resourceVersion": "0",
        "labelSelector": "a in (b,c)",
        "fieldSelector": "x=y",
    }
    assert second.path == "/api/v1/namespaces/n/secrets"
    assert second.query == {"limit": "500", "continue": "t"}, "a token and a resourceVersion together are refused"


async def test_edge_9_a_watch_asks_for_bookmarks() -> None:
    async with served(stream()) as (peer, api):
        await watched(api, namespace="n", timeout_seconds=42, label_selector="a=b")

    assert peer.requests[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "1",
        "timeoutSeconds": "42",
        "labelSelector": "a=b",
    }


async def test_who_we_are_is_said_in_every_request() -> None:
    async with served(reply(MANIFEST), user_agent="shops/1.0") as (peer, api):
        await api.get(RELEASE)

    assert peer.requests[0].headers["user-agent"] == "shops/1.0"
    assert peer.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


async def test_a_program_without_a_name_is_known_by_the_framework() -> None:
    async with served(reply(MANIFEST)) as (peer, api):
        await api.get(RELEASE)

    assert peer.requests[0].headers["user-agent"] == f"purekube/{version('purekube')}"


async def test_a_program_without_metadata_of_its_packages_has_a_name_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a zip file, and where only the framework is installed: nothing asks for the metadata of the product."""
    monkeypatch.setattr(sys, "path", [])
    async with served(reply(MANIFEST)) as (peer, api):
        await api.get(RELEASE)

    assert peer.requests[0].headers["user-agent"] == "purekube"


@pytest.mark.parametrize("name", ["x?force=true", "x#y", "a b", "é"])
async def test_a_name_cannot_leave_its_path_segment(name: str) -> None:
    async with served(status(404, "NotFound", "no", details={"name": name})) as (peer, api):
        with pytest.raises(NotFound):
            await api.get(ObjectRef(HELM_RELEASE, "n", name))

    assert peer.requests[0].query == {}
    assert unquote(peer.requests[0].path) == f"/apis/helm.toolkit.fluxcd.io/v2/namespaces/n/helmreleases/{name}"


@pytest.mark.parametrize(
    "ref",
    [
        ObjectRef(HELM_RELEASE, "n", "../secrets/x"),
        ObjectRef(HELM_RELEASE, "n", ".."),
        ObjectRef(HELM_RELEASE, "n", "a%2fb"),
        ObjectRef(HELM_RELEASE, "n", ""),
        ObjectRef(HELM_RELEASE, "../x", "a"),
        ObjectRef(HELM_RELEASE, None, "a"),
        ObjectRef(HELM_RELEASE, "", "a"),
    ],
)
async def test_a_reference_no_server_could_hold_is_refused_before_it_is_sent(ref: ObjectRef) -> None:
    async with served() as (peer, api):
        with pytest.raises(Invalid):
            await api.delete(ref)

    assert peer.requests == []


async def test_a_manifest_of_another_kind_is_refused_before_it_is_sent() -> None:
    async with served() as (peer, api):
        with pytest.raises(Invalid, match="Secret"):
            await api.apply(SECRET.manifest("a", "n"), kind=HELM_RELEASE, field_manager="m")
        with pytest.raises(Invalid, match=r"metadata\.namespace"):
            await api.create(HELM_RELEASE.manifest("a"), kind=HELM_RELEASE, field_manager="m")

    assert peer.requests == []


async def test_two_definitions_of_one_kind_do_not_meet_in_a_global_registry() -> None:
    kind = Kind("t.example.com", "v1", "Thing", "things", namespaced=True)
    other = Kind("t.example.com", "v1", "Thing", "thingies", namespaced=False)
    meta = {"name": "a", "uid": "u", "resourceVersion": "1"}
    first = {**kind.manifest("a", "n"), "metadata": {**meta, "namespace": "n"}}
    async with served(reply(first), reply({**other.manifest("a"), "metadata": meta})) as (peer, api):
        await api.get(ObjectRef(kind, "n", "a"))
        await api.get(ObjectRef(other, None, "a"))

    assert [request.path for request in peer.requests] == [
        "/apis/t.example.com/v1/namespaces/n/things/a",
        "/apis/t.example.com/v1/thingies/a",
    ]


# -- answers -------------------------------------------------------------------------------------------------------


async def test_edge_2_objects_are_plain_mappings() -> None:
    async with served(reply({**MANIFEST, "spec": {"x": 1}})) as (_, api):
        release = await api.get(RELEASE)

    assert type(release) is dict
    assert type(release["metadata"]) is dict


async def test_edge_10_a_list_whose_items_are_null_is_empty() -> None:
    async with served(reply({**listed(HELM_RELEASE, **{"continue": ""}), "items": None})) as (_, api):
        page = await api.list(HELM_RELEASE)

    assert (list(page.items), page.resource_version, page.continue_token) == ([], "9", "")


async def test_items_of_built_in_lists_get_the_type_the_server_leaves_out() -> None:
    meta = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "3"}
    async with served(reply(listed(CONFIG_MAP, {"metadata": meta}, **{"continue": "t"}))) as (_, api):
        page = await api.list(CONFIG_MAP)

    assert page.items == [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}]
    assert page.continue_token == "t"


@pytest.mark.parametrize(
    "body",
    [
        {"items": []},
        {"items": 7},
        {"metadata": {"resourceVersion": "1"}, "items": []},
        listed(OCI_REPOSITORY),
        {**listed(HELM_RELEASE), "kind": "HelmRelease"},
        {**listed(HELM_RELEASE), "kind": 7},
        {**listed(HELM_RELEASE), "metadata": {}},
        {**listed(HELM_RELEASE), "items": {"a": 1}},
        {**listed(HELM_RELEASE), "items": [1]},
        listed(HELM_RELEASE, {**MANIFEST, "kind": "Secret"}),
        listed(HELM_RELEASE, {**MANIFEST, "metadata": {"name": "a", "namespace": "n"}}),
        listed(HELM_RELEASE, {**MANIFEST, "metadata": {**MANIFEST["metadata"], "namespace": "another"}}),
        listed(HELM_RELEASE, {**MANIFEST, "metadata": {**MANIFEST["metadata"], "name": ""}}),
    ],
)
async def test_a_list_that_is_none_is_not_taken_for_an_empty_one(body: Any) -> None:
    """An empty list believed in error would be a delete of everything."""
    async with served(reply(body)) as (_, api):
        with pytest.raises(Unavailable, match="something other than the API server answered"):
            await api.list(HELM_RELEASE, namespace="n")


async def test_a_list_has_the_name_that_its_definition_gives_it() -> None:
    """`spec.names.listKind` is free: `WebApp` may be listed as `WebAppCollection`."""
    page = {**listed(HELM_RELEASE, MANIFEST), "kind": "HelmReleaseCollection"}
    async with served(reply(page), reply({**page, "items": []})) as (_, api):
        assert (await api.list(HELM_RELEASE, namespace="n")).items == [MANIFEST]
        assert (await api.list(HELM_RELEASE, namespace="n")).items == []


async def test_a_built_in_list_has_the_name_of_its_kind() -> None:
    async with served(reply({**listed(CONFIG_MAP), "kind": "SecretList"})) as (_, api):
        with pytest.raises(Unavailable, match="it says that it is 'v1' 'SecretList'"):
            await api.list(CONFIG_MAP)


ANOTHER: list[Any] = [
    {"items": 7},
    {},
    {"kind": "Status", "apiVersion": "v1", "status": "Success"},
    {**MANIFEST, "kind": "OCIRepository"},
    {**MANIFEST, "apiVersion": "helm.toolkit.fluxcd.io/v1"},
    {**MANIFEST, "metadata": {**MANIFEST["metadata"], "name": "another"}},
    {**MANIFEST, "metadata": {**MANIFEST["metadata"], "namespace": "another"}},
    {**MANIFEST, "metadata": {"name": "a", "namespace": "n"}},
    {**MANIFEST, "metadata": {**MANIFEST["metadata"], "resourceVersion": 7}},
    {**MANIFEST, "metadata": 7},
]
"""Answers of 200 that are about something else, as login pages and meshes send them."""
NAMED = 5
"""The one of another name, which a watch may well bring."""


@pytest.mark.parametrize("body", ANOTHER)
async def test_an_object_that_was_not_asked_for_is_not_believed(body: Any) -> None:
    """`{"items": 7}` passed for the object: `applied`, and then `Deleted` for what was never there."""
    calls: list[Callable[[KubeApiClient], Awaitable[Any]]] = [
        lambda api: api.get(RELEASE),
        lambda api: api.create(MANIFEST, kind=HELM_RELEASE, field_manager="m"),
        lambda api: api.update(MANIFEST, kind=HELM_RELEASE, field_manager="m"),
        lambda api: api.apply(MANIFEST, kind=HELM_RELEASE, field_manager="m"),
        lambda api: api.apply_status(MANIFEST, kind=HELM_RELEASE, field_manager="m"),
        lambda api: api.patch(RELEASE, {}, patch_type=PatchType.MERGE, field_manager="m"),
    ]
    async with served(*[reply(body)] * len(calls)) as (_, api):
        for call in calls:
            with pytest.raises(Unavailable, match="something other than the API server answered"):
                await call(api)


@pytest.mark.parametrize("body", [one for number, one in enumerate(ANOTHER) if number != NAMED])
async def test_an_event_of_another_object_is_not_believed(body: Any) -> None:
    line = json.dumps({"type": "MODIFIED", "object": body}).encode() + b"\n"
    async with served(stream(line)) as (_, api):
        with pytest.raises(Unavailable):
            await collect(api, [], namespace="n")


async def test_a_delete_that_something_else_answered_has_not_happened() -> None:
    async with served(reply({"items": 7}), answer(200, b"<html>log in</html>", "text/html")) as (_, api):
        for _ in range(2):
            with pytest.raises(Unavailable, match="something other than the API server answered"):
                await api.delete(RELEASE)


CAUSES = [
    {"reason": "FieldManagerConflict", "field": ".spec.b", "message": 'conflict with "kubectl" using v1'},
    {"reason": "FieldManagerConflict", "field": ".spec.a", "message": 'conflict with "a \\"quoted\\" one"'},
    {
        "reason": "FieldManagerConflict",
        "field": ".spec.replicas",
        "message": 'conflict with "hpa" with subresource "scale" using apps/v1 at 2026-01-01T00:00:00Z',
    },
]
TYPED = "failed to create typed patch object (n/a; v2): .spec.nope: field not declared in schema"


async def speak_smtp(request: Any, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example.com ESMTP\r\n")


ANSWERS: list[tuple[str, Script, OperatorError]] = [
    ("object not found", status(404, "NotFound", "gone", details={"name": "a", "kind": "helmreleases"}), NotFound("")),
    ("namespace not found", status(404, "NotFound", "no n", details={"name": "n", "kind": "namespaces"}), NotFound("")),
    (
        "kind not served, text",
        answer(404, b"404 page not found\n", "text/plain; charset=utf-8", audit_id="4f1c"),
        KindMissing(""),
    ),
    (
        "the 404 of a router in Go, such as Traefik's",
        answer(404, b"404 page not found\n", "text/plain; charset=utf-8"),
        Unavailable("", status=404),
    ),
    ("kind not served, Status", status(404, "NotFound", "could not find the requested resource"), KindMissing("")),
    ("a proxy's 404", answer(404, b"<html>nope</html>", "text/html"), Unavailable("", status=404)),
    ("a mesh's 404 without a route", answer(404, b"", None), Unavailable("", status=404)),
    (
        "an ingress's 404",
        answer(404, b"default backend - 404", "text/plain; charset=utf-8"),
        Unavailable("", status=404),
    ),
    ("a gateway's 404", reply({"message": "no Route matched"}, 404), Unavailable("", status=404)),
    ("unauthorized", status(401, "Unauthorized", "Unauthorized"), Unauthorized("")),
    ("forbidden", status(403, "Forbidden", "cannot patch"), Forbidden("")),
    (
        "namespace is terminating",
        status(403, "Forbidden", "is being terminated", details={"causes": [{"reason": "NamespaceTerminating"}]}),
        Forbidden("", namespace_terminating=True),
    ),
    ("already exists", status(409, "AlreadyExists", "exists"), AlreadyExists("")),
    ("stale", status(409, "Conflict", "the object has been modified"), Stale("")),
    ("uid mismatch", status(409, "Conflict", "uid mismatch", details={"causes": [{"reason": "X"}]}), Stale("")),
    (
        "field conflict",
        status(409, "Conflict", "Apply failed with 3 conflicts", details={"causes": CAUSES}),
        Conflict(
            "",
            (
                FieldConflict('a "quoted" one', ".spec.a", CAUSES[1]["message"]),
                FieldConflict("hpa", ".spec.replicas", CAUSES[2]["message"]),
                FieldConflict("kubectl", ".spec.b", CAUSES[0]["message"]),
            ),
        ),
    ),
    ("expired", status(410, "Expired", "too old"), Expired("")),
    ("bad request", status(400, "BadRequest", "strict decoding error"), Invalid("")),
    ("plain HTTP to a TLS port", answer(400, b"Client sent an HTTP request", "text/plain"), Permanent("", status=400)),
    ("too large", answer(413, b"", None), Invalid("")),
    ("invalid", status(422, "Invalid", "spec.x is wrong", details={"causes": [{"field": "spec.x"}]}), Invalid("")),
    ("unsupported media type", status(415, "UnsupportedMediaType", "no"), Permanent("", status=415)),
    ("does not fit the schema", status(500, "", TYPED), Invalid("")),
    ("too large for etcd", status(500, "", "etcdserver: request is too large"), Invalid("")),
    ("internal error", status(500, "InternalError", "boom"), Unavailable("", status=500)),
    ("a proxy's 403", answer(403, b"<html>log in</html>", "text/html"), Unavailable("", status=403)),
    ("a mesh's 409", reply({"error": "no"}, 409), Unavailable("", status=409)),
    (
        "a gateway's maintenance for a day",
        answer(503, b"<html>", "text/html", retry_after="86400"),
        Unavailable("", retry_after=300.0, status=503),
    ),
    (
        "a number without an end",
        answer(429, b'{"kind":"Status","details":{"retryAfterSeconds":' + b"9" * 400 + b"}}"),
        Unavailable("", retry_after=300.0, status=429),
    ),
    ("nested without an end", answer(403, b'{"a":' * 20_000 + b"1" + b"}" * 20_000), Unavailable("", status=403)),
    ("too many requests", status(429, "TooManyRequests", "slow", retry_after="7"), Unavailable("", retry_after=7.0)),
    (
        "asked to wait by the body",
        status(504, "Timeout", "too large RV", details={"retryAfterSeconds": 1}),
        Unavailable("", retry_after=1.0, status=504),
    ),
    (
        "odd details",
        status(503, "X", "", details={"retryAfterSeconds": "1s", "causes": 5}),
        Unavailable("", status=503),
    ),
    ("a gateway's page", answer(502, b"<html>Bad Gateway</html>", "text/html"), Unavailable("", status=502)),
    ("no content type", answer(503, b"", None), Unavailable("", status=503)),
    ("a login page", answer(200, b"<html>please log in</html>", "text/html"), Unavailable("")),
    ("broken JSON", answer(200, b'{"kind": "Helm'), Unavailable("")),
    ("a JSON list", answer(200, b"[]"), Unavailable("")),
    ("not UTF-8", answer(200, b'{"kind": "\xff\xfe"}'), Unavailable("")),
    ("redirect", answer(302, b"", None, location="https://login.example/"), Unavailable("", status=302)),
    ("a proxy's 407", answer(407, b"<html>log in</html>", "text/html"), Unavailable("", status=407)),
    ("a verb that is not served", answer(405, b"405: no", "text/plain", audit_id="4f1c"), Permanent("", status=405)),
    ("reset", reset, Unavailable("")),
    ("closed without a word", close, Unavailable("")),
    ("an empty body", answer(200, b""), Unavailable("")),
    ("not HTTP", speak_smtp, Unavailable("")),
]


@pytest.mark.parametrize(("script", "expected"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
async def test_every_answer_is_an_error_of_the_closed_set(script: Script, expected: OperatorError) -> None:
    """Edges 6, 11, 12 among them."""
    async with served(script) as (peer, api):
        with pytest.raises(OperatorError) as caught:
            await api.apply(MANIFEST, kind=HELM_RELEASE, field_manager="m")

    error = caught.value
    assert type(error) is type(expected)
    assert len(peer.requests) == 1
    assert "HelmRelease n/a" in error.message
    for name in ("conflicts", "namespace_terminating", "retry_after"):
        assert getattr(error, name, None) == getattr(expected, name, None)
    desired = getattr(expected, "status", None)
    assert desired is None or getattr(error, "status", None) == desired
    assert TOKEN not in f"{error!r} {error.__cause__!r}"


async def test_a_redirect_says_where_it_leads_without_what_is_secret_there() -> None:
    there = "https://odoo:hunter2@login.example/?token=sekret"
    async with served(answer(302, b"", None, location=there)) as (_, api):
        with pytest.raises(Unavailable, match=r"302 .*redirects to https://\S*login\.example/.*login page") as caught:
            await api.get(RELEASE)

    assert "hunter2" not in caught.value.message
    assert "sekret" not in caught.value.message


async def test_an_invalid_object_says_which_fields() -> None:
    causes = [{"reason": "FieldValueInvalid", "field": "spec.x", "message": "Invalid value: 7: no"}]
    async with served(status(422, "Invalid", "spec.x: Invalid value: 7: no", details={"causes": causes})) as (_, api):
        with pytest.raises(Invalid) as caught:
            await api.apply(MANIFEST, kind=HELM_RELEASE, field_manager="m")

    assert [(cause.field, cause.message) for cause in caught.value.causes] == [("spec.x", "Invalid value: 7: no")]


async def test_what_is_refused_in_a_secret_is_named_but_not_shown() -> None:
    causes = [{"reason": "FieldValueInvalid", "field": "data.x", "message": "Invalid value: hunter2"}]
    refused = status(422, "Invalid", "data.x: Invalid value: hunter2", details={"causes": causes})
    async with served(refused, status(400, "BadRequest", "illegal base64: hunter2")) as (_, api):
        for _ in range(2):
            with pytest.raises(Invalid) as caught:
                await api.apply(SECRET.manifest("a", "n"), kind=SECRET, field_manager="m")
            assert "hunter2" not in f"{caught.value!r} {caught.value.causes!r} {caught.value.__cause__!r}"


async def test_a_long_message_is_cut() -> None:
    async with served(status(500, "InternalError", "x" * 100_000)) as (_, api):
        with pytest.raises(Unavailable) as caught:
            await api.get(RELEASE)

    assert len(caught.value.message) < 1200


async def test_edge_14_an_expired_token_is_an_error_of_its_page() -> None:
    page = reply(listed(HELM_RELEASE, MANIFEST, **{"continue": "t"}))
    async with served(page, status(410, "Expired", "the token is too old")) as (_, api):
        first = await api.list(HELM_RELEASE, limit=1)
        with pytest.raises(Expired):
            await api.list(HELM_RELEASE, limit=1, continue_token=first.continue_token)


async def test_connection_refused_is_unavailable_and_says_why() -> None:
    async with wire() as peer:
        await peer.refuse()
        async with KubeApiClient(config_of(peer.url)) as api:
            with pytest.raises(Unavailable, match=r"get HelmRelease n/a: connect error"):
                await api.get(RELEASE)


@pytest.mark.slow
async def test_a_server_that_does_not_answer_is_unavailable_in_bounded_time() -> None:
    async with served(silence, request_timeout=1.0) as (_, api):
        with pytest.raises(Unavailable, match="read timeout"):
            await api.get(RELEASE)


async def test_requests_are_counted_and_writes_can_be_fenced_RUN_4_RUN_5() -> None:
    seen: list[tuple[str, str]] = []

    def fence() -> None:
        raise Unavailable("the lease is not held")

    def observe(method: str, code: str, seconds: float) -> None:
        seen.append((method, code))

    settings: dict[str, Any] = {"observe": observe, "before_write": fence}
    async with served(reply(MANIFEST), reset, **settings) as (peer, api):
        await api.get(RELEASE)
        with pytest.raises(Unavailable, match="lease"):
            await api.delete(RELEASE)
        with pytest.raises(Unavailable):
            await api.get(RELEASE)

    assert [request.method for request in peer.requests] == ["GET", "GET"], "the fenced write never left"
    assert seen == [("GET", "200"), ("GET", "<error>")]


# -- watches -------------------------------------------------------------------------------------------------------


async def test_events_come_as_they_are_however_the_stream_is_cut() -> None:
    lines = event("ADDED", version=2) + event("BOOKMARK", version=3) + event("DELETED", version=4)
    expected = [(WatchEventType.ADDED, "2"), (WatchEventType.BOOKMARK, "3"), (WatchEventType.DELETED, "4")]
    for size in (1, 7, 64, len(lines)):
        chunks = [lines[start : start + size] for start in range(0, len(lines), size)]
        async with served(stream(*chunks)) as (_, api):
            assert await watched(api) == expected


async def test_edge_8_a_clean_end_is_the_end_and_nothing_is_asked_again() -> None:
    async with served(stream(), stream()) as (peer, api):
        assert await watched(api) == []

    assert len(peer.requests) == 1


async def test_edge_9_a_bookmark_needs_nothing_but_its_version() -> None:
    bare = {"apiVersion": HELM_RELEASE.api_version, "kind": "HelmRelease", "metadata": {"resourceVersion": "5"}}
    line = json.dumps({"type": "BOOKMARK", "object": bare})
    async with served(stream(line.encode() + b"\n")) as (_, api):
        assert await watched(api) == [(WatchEventType.BOOKMARK, "5")]


STREAMS: list[tuple[str, Script, OperatorError, int]] = [
    ("edge 3: reset at the start", reset, Unavailable(""), 0),
    ("edge 3: closed at the start", close, Unavailable(""), 0),
    ("edge 4: 410 in the stream", stream(event("ADDED"), error_event(410, "Expired")), Expired(""), 1),
    ("edge 4: Gone in the stream", stream(error_event(0, "Gone")), Expired(""), 0),
    ("edge 5: HTTP 410", status(410, "Expired", "too old"), Expired(""), 0),
    ("edge 6: HTTP 403", status(403, "Forbidden", "cannot watch"), Forbidden(""), 0),
    ("edge 12: HTTP 429", status(429, "TooManyRequests", "slow", retry_after="3"), Unavailable(""), 0),
    ("kind not served", answer(404, b"404 page not found\n", "text/plain", audit_id="4f1c"), KindMissing(""), 0),
    ("no route in Traefik", answer(404, b"404 page not found\n", "text/plain"), Unavailable(""), 0),
    ("500 in the stream", stream(error_event(500, "InternalError")), Unavailable(""), 0),
    ("an ERROR without a Status", stream(b'{"type":"ERROR","object":{}}\n'), Unavailable(""), 0),
    ("garbage", stream(event("ADDED"), b"\x00\xffgarbage\n", event("ADDED")), Unavailable("", status=200), 1),
    ("a line of another shape", stream(b'{"type":"ADDED","object":[]}\n'), Unavailable(""), 0),
    ("an unknown type", stream(b'{"type":"MOVED","object":{}}\n'), Unavailable(""), 0),
    ("no resourceVersion", stream(b'{"type":"ADDED","object":{"metadata":{}}}\n'), Unavailable(""), 0),
    ("an end within a line", stream(event("ADDED"), event("ADDED")[:-9]), Unavailable(""), 1),
    ("HTML instead of a stream", answer(200, b"<html></html>\n", "text/html"), Unavailable(""), 0),
]


@pytest.mark.parametrize(
    ("script", "expected", "events"), [row[1:] for row in STREAMS], ids=[row[0] for row in STREAMS]
)
async def test_every_bad_end_of_a_watch_is_an_error_and_nothing_is_asked_again(
    script: Script, expected: OperatorError, events: int
) -> None:
    async with served(script) as (peer, api):
        came: list[WatchEventType] = []
        with pytest.raises(OperatorError) as caught:
            await collect(api, came)

    assert type(caught.value) is type(expected)
    assert getattr(expected, "status", None) in (None, getattr(caught.value, "status", None))
    assert len(came) == events
    assert len(peer.requests) == 1


async def test_a_stream_cut_by_a_reset_gives_what_came_before() -> None:
    async def cut_off(request: Any, writer: Any) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        line = event("ADDED", version=2)
        writer.write(b"%x\r\n%s\r\n" % (len(line), line))
        await writer.drain()
        await asyncio.sleep(0.1)
        await reset(request, writer)

    async with served(cut_off) as (_, api):
        came: list[WatchEventType] = []
        with pytest.raises(Unavailable):
            await collect(api, came)

    assert came == [WatchEventType.ADDED]


@pytest.mark.slow
async def test_edge_7_a_half_open_connection_ends_after_the_servers_timeout() -> None:
    async with served(stream(event("ADDED"), hang=True), watch_grace=0.2) as (_, api):
        began = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable, match="read timeout"):
            await watched(api, timeout_seconds=1)

    assert 1.1 <= asyncio.get_running_loop().time() - began < PATIENCE, "the peer is silent for an hour"


@pytest.mark.slow
async def test_edge_13_many_watches_do_not_starve_requests() -> None:
    async def respond(request: Any, writer: Any) -> None:
        await (stream(event("ADDED"), hang=True) if request.is_watch else reply(MANIFEST))(request, writer)

    async with wire(respond) as peer, KubeApiClient(config_of(peer.url), connections=2) as api:
        watches = [api.watch(HELM_RELEASE, resource_version="1") for _ in range(120)]
        first = await asyncio.gather(*(anext(watch) for watch in watches))
        assert len(first) == 120
        assert await api.get(RELEASE) == MANIFEST
        for watch in watches:
            await watch.aclose()  # type: ignore[attr-defined]


async def test_a_watch_that_is_left_gives_its_connection_back() -> None:
    closed = asyncio.Event()

    async def respond(request: Any, writer: Any) -> None:
        try:
            await stream(event("ADDED"), *[b"\n"] * 200, pause=0.05, hang=True)(request, writer)
        finally:
            closed.set()

    async with wire(respond) as peer, KubeApiClient(config_of(peer.url)) as api:
        watch = api.watch(HELM_RELEASE, resource_version="1")
        await anext(watch)
        await watch.aclose()  # type: ignore[attr-defined]
        await asyncio.wait_for(closed.wait(), PATIENCE)


# -- credentials ---------------------------------------------------------------------------------------------------


async def test_a_rotated_token_is_read_after_a_401(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")

    async def respond(request: Any, writer: Any) -> None:
        good = request.headers["authorization"] == "Bearer second"
        await (reply(MANIFEST) if good else status(401, "Unauthorized", "Unauthorized"))(request, writer)

    async with wire(respond) as peer, KubeApiClient(config_of(peer.url, token_file=str(file))) as api:
        with pytest.raises(Unauthorized):
            await api.get(RELEASE)
        assert len(peer.requests) == 1, "the same token is not sent twice"
        file.write_text("second\n")
        assert await api.get(RELEASE) == MANIFEST


@pytest.mark.parametrize("content", [b"", b"two\nlines", b"\xff\xfe\x00", b"a b"])
async def test_a_token_file_without_a_token_is_named_and_not_shown(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    async with wire() as peer, KubeApiClient(config_of(peer.url, token_file=str(file))) as api:
        with pytest.raises(Unauthorized, match="token file") as caught:
            await api.get(RELEASE)

    assert "two" not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert peer.requests == []


async def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    async with wire() as peer, KubeApiClient(config_of(peer.url, token_file=str(tmp_path / "none"))) as api:
        with pytest.raises(Unauthorized, match="No such file"):
            await api.get(RELEASE)


# -- objects that no decoder can follow ------------------------------------------------------------------------------


def deep(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize("levels", [1_200, 9_983])
async def test_one_object_that_is_too_deep_keeps_no_other_from_being_read(levels: int) -> None:
    """In a list, in a watch, read alone, and as the answer to a write."""
    good = json.dumps({**MANIFEST, "spec": {"values": {"a": 1}}}).encode()
    bad = json.dumps({**MANIFEST, "spec": {"values": "DEEP"}}).replace('"DEEP"', deep(levels).decode()).encode()
    page = json.dumps(listed(HELM_RELEASE, "ONE", "TWO")).encode().replace(b'"ONE"', bad).replace(b'"TWO"', good)
    lines = [b'{"type":"ADDED","object":' + one + b"}\n" for one in (bad, good)]
    async with wire(answer(200, bad)) as peer, KubeApiClient(config_of(peer.url)) as api:
        peer.scripts.append(answer(200, page))
        peer.watch_scripts.append(stream(*lines))
        first, second = (await api.list(HELM_RELEASE)).items
        streamed = [one.object async for one in api.watch(HELM_RELEASE, resource_version="1")]
        alone = await api.get(RELEASE)
        written = await api.apply(MANIFEST, kind=HELM_RELEASE, field_manager="m")

    assert [too_deep(one) for one in (first, streamed[0], alone, written)] == [("spec.values",)] * 4
    assert first["metadata"] == MANIFEST["metadata"]
    assert second == streamed[1] == json.loads(good)


async def test_a_page_is_bounded_by_bytes_not_by_objects() -> None:
    """150 objects of a megabyte were held at once, undecoded and decoded."""
    asked: list[int] = []
    item = json.dumps({**MANIFEST, "spec": {"values": "x" * 1_000_000}}).encode()

    async def respond(request: Any, writer: asyncio.StreamWriter) -> None:
        limit = int(request.query["limit"])
        asked.append(limit)
        head = json.dumps({**listed(HELM_RELEASE, **{"continue": "more"}), "items": None}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n")
        writer.write(head[:-5] + b"[")  # the list in the place of null
        for number in range(limit):
            writer.write((b"," if number else b"") + item)
            await writer.drain()
        writer.write(b"]}")

    async with wire(respond) as peer, KubeApiClient(config_of(peer.url)) as api:
        tracemalloc.start()
        page = await api.list(HELM_RELEASE, limit=150)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert asked == [150, 37, 9, 2]
    assert len(page.items) == 2
    assert page.continue_token == "more"
    assert peak < 40_000_000, "a few times the 4 MiB that a page may have"
