"""The request of each call of `KubeApi`, whole, and how a request is told of (RUN-9, S-42)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeAlias

import attrs
import pytest

from purekube.apimachinery.errors import Invalid, StatusCause
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, NAMESPACE, SERVICE_ACCOUNT
from purekube.ports import KubeApi, ListPage, PatchType, Propagation, WatchEvent
from purekube.ports.kube import KubeRequest, KubeVerb
from purekube.ports.kube_api import left_of

P = ParamSpec("P")
REF = ObjectRef(CONFIG_MAP, "shop", "settings")
ACCOUNT = ObjectRef(SERVICE_ACCOUNT, "shop", "writer")
OBJECT = {**CONFIG_MAP.manifest("settings", "shop"), "data": {"a": "b"}}
Params: TypeAlias = dict[str, str | int | None]
STRICT: Params = {"fieldManager": "me", "fieldValidation": "Strict"}


def run(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a test of a coroutine, without the plugin for them: the pure environment has none."""

    @wraps(test)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return wrapped


@attrs.define
class Line:
    """A transport that answers in turn, and keeps what it was sent."""

    answers: list[Any]
    sent: list[KubeRequest] = attrs.field(factory=list)

    async def send(self, request: KubeRequest) -> Manifest:
        self.sent.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    def watch(self, request: KubeRequest) -> AsyncIterator[WatchEvent]:
        self.sent.append(request)
        return self.answers.pop(0)  # type: ignore[no-any-return]


CALLS: list[tuple[str, Callable[[KubeApi], Awaitable[Any]], KubeRequest]] = [
    ("get", lambda api: api.get(REF), KubeRequest(KubeVerb.GET, CONFIG_MAP, "shop", "settings")),
    (
        "get from a cache",
        lambda api: api.get(REF, resource_version="0", metadata_only=True),
        KubeRequest(KubeVerb.GET, CONFIG_MAP, "shop", "settings", params={"resourceVersion": "0"}, metadata_only=True),
    ),
    (
        "create",
        lambda api: api.create(OBJECT, kind=CONFIG_MAP, field_manager="me"),
        KubeRequest(KubeVerb.CREATE, CONFIG_MAP, "shop", "settings", params=STRICT, body=OBJECT),
    ),
    (
        "update",
        lambda api: api.update(OBJECT, kind=CONFIG_MAP, field_manager="me"),
        KubeRequest(KubeVerb.UPDATE, CONFIG_MAP, "shop", "settings", params=STRICT, body=OBJECT),
    ),
    (
        "apply",
        lambda api: api.apply(OBJECT, kind=CONFIG_MAP, field_manager="me"),
        KubeRequest(
            KubeVerb.APPLY,
            CONFIG_MAP,
            "shop",
            "settings",
            params={**STRICT, "force": None, "dryRun": None},
            body=OBJECT,
        ),
    ),
    (
        "apply by force, dry",
        lambda api: api.apply(OBJECT, kind=CONFIG_MAP, field_manager="me", force=True, dry_run=True),
        KubeRequest(
            KubeVerb.APPLY,
            CONFIG_MAP,
            "shop",
            "settings",
            params={**STRICT, "force": "true", "dryRun": "All"},
            body=OBJECT,
        ),
    ),
    (
        "apply status by force",
        lambda api: api.apply_status(OBJECT, kind=CONFIG_MAP, field_manager="me", force=True),
        KubeRequest(
            KubeVerb.APPLY, CONFIG_MAP, "shop", "settings", "status", params={**STRICT, "force": "true"}, body=OBJECT
        ),
    ),
    (
        "patch",
        lambda api: api.patch(REF, {"a": 1}, patch_type=PatchType.MERGE, field_manager="me", subresource="status"),
        KubeRequest(
            KubeVerb.PATCH,
            CONFIG_MAP,
            "shop",
            "settings",
            "status",
            {"fieldManager": "me"},
            {"a": 1},
            PatchType.MERGE,
        ),
    ),
    (
        "review",
        lambda api: api.review(OBJECT, kind=CONFIG_MAP),
        KubeRequest(KubeVerb.CREATE, CONFIG_MAP, body=OBJECT),
    ),
]


@pytest.mark.parametrize(("call", "request_sent"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
@pytest.mark.parametrize("account", [None, ACCOUNT], ids=["own rights", "as an account"])
@run
async def test_each_call_sends_this_request(
    call: Callable[[KubeApi], Awaitable[Any]], request_sent: KubeRequest, account: ObjectRef | None
) -> None:
    line = Line([OBJECT])
    api = KubeApi(line)

    assert await call(api if account is None else api.impersonating(account)) == OBJECT
    assert line.sent == [attrs.evolve(request_sent, account=account)]


@run
async def test_a_list_is_a_page_and_its_token_decides_the_version_W_04() -> None:
    line = Line([{"items": [OBJECT], "metadata": {"resourceVersion": 7, "continue": "more"}}] * 2)
    api = KubeApi(line)

    assert await api.list(CONFIG_MAP) == ListPage([OBJECT], "7", "more")
    await api.list(
        CONFIG_MAP,
        namespace="shop",
        label_selector="a=b",
        field_selector="c=d",
        limit=5,
        continue_token="more",
        resource_version="7",
        metadata_only=True,
    )

    nothing: Params = {"labelSelector": "", "fieldSelector": "", "limit": None, "continue": "", "resourceVersion": ""}
    some: Params = {
        "labelSelector": "a=b",
        "fieldSelector": "c=d",
        "limit": 5,
        "continue": "more",
        "resourceVersion": "",
    }
    assert line.sent == [
        KubeRequest(KubeVerb.LIST, CONFIG_MAP, params=nothing),
        KubeRequest(KubeVerb.LIST, CONFIG_MAP, "shop", params=some, metadata_only=True),
    ]


def test_a_watch_asks_for_bookmarks_and_five_minutes() -> None:
    line = Line([None, None])
    KubeApi(line).watch(CONFIG_MAP, resource_version="7")
    KubeApi(line).impersonating(ACCOUNT).watch(CONFIG_MAP, resource_version="7")

    params: Params = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "labelSelector": "",
        "fieldSelector": "",
        "resourceVersion": "7",
        "timeoutSeconds": 300,
    }
    assert line.sent == [KubeRequest(KubeVerb.WATCH, CONFIG_MAP, params=params, account=of) for of in (None, ACCOUNT)]


DATA = StatusCause("data", "must be an object")
GOING = {**OBJECT, "metadata": {"name": "settings", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a"]}}


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (GOING, GOING),
        ({"kind": "Status", "status": "Success"}, None),
        ({"metadata": {**GOING["metadata"], "finalizers": []}}, None),
        ({"metadata": {"finalizers": ["a"]}}, None),
    ],
)
@run
async def test_a_delete_names_its_object_and_returns_what_is_left(answer: Manifest, left: Manifest | None) -> None:
    line = Line([answer, answer])
    api = KubeApi(line)

    assert await api.delete(REF) == left
    await api.delete(REF, uid="u", resource_version="7", propagation=Propagation.ORPHAN)

    options = {"apiVersion": "v1", "kind": "DeleteOptions"}
    assert [request.body for request in line.sent] == [
        {**options, "propagationPolicy": "Background"},
        {**options, "propagationPolicy": "Orphan", "preconditions": {"uid": "u", "resourceVersion": "7"}},
    ]
    assert {(request.verb, request.ref) for request in line.sent} == {(KubeVerb.DELETE, REF)}


EMPTIED = {**OBJECT, "data": {}}
NULLED = {**OBJECT, "data": None}


@run
async def test_an_apply_that_made_null_of_a_map_is_sent_twice_but_not_a_dry_one_S_42() -> None:
    line = Line([NULLED, EMPTIED])
    assert await KubeApi(line).apply(EMPTIED, kind=CONFIG_MAP, field_manager="me") == EMPTIED
    assert [request.body for request in line.sent] == [EMPTIED, EMPTIED]

    line = Line([NULLED])
    assert await KubeApi(line).apply(EMPTIED, kind=CONFIG_MAP, field_manager="me", dry_run=True) == NULLED
    assert len(line.sent) == 1


VERSIONED = {**EMPTIED, "metadata": {**EMPTIED["metadata"], "resourceVersion": "1"}, "spec": {"a": {"b": {}}, "c": {}}}


@run
async def test_the_second_apply_names_the_version_of_the_first_one_S_42() -> None:
    stored = {**NULLED, "metadata": {**NULLED["metadata"], "resourceVersion": "2"}}
    line = Line([stored, EMPTIED])

    await KubeApi(line).apply(VERSIONED, kind=CONFIG_MAP, field_manager="me")

    second = {**VERSIONED, "metadata": {**VERSIONED["metadata"], "resourceVersion": "2"}}
    assert [request.body for request in line.sent] == [VERSIONED, second]


@run
async def test_a_refused_null_is_first_applied_without_its_map_S_42() -> None:
    causes = tuple(StatusCause(field, "must be an object") for field in ("data", "spec.a.b", "metadata.name"))
    refusal, stored = Invalid("refused", causes), {"metadata": {"resourceVersion": "2"}}
    line = Line([refusal, stored, EMPTIED])

    assert await KubeApi(line).apply(VERSIONED, kind=CONFIG_MAP, field_manager="me") == EMPTIED

    without = {key: value for key, value in VERSIONED.items() if key != "data"} | {"spec": {"a": {}, "c": {}}}
    second = {**VERSIONED, "metadata": {**VERSIONED["metadata"], "resourceVersion": "2"}}
    assert [request.body for request in line.sent] == [VERSIONED, without, second]


@pytest.mark.parametrize("answers", [[Invalid("first")], [Invalid("first", (DATA,)), Invalid("second")]])
@run
async def test_what_is_refused_without_the_map_too_is_the_first_refusal_S_42(answers: list[Invalid]) -> None:
    line, expected = Line(list(answers)), len(answers)

    with pytest.raises(Invalid, match="first"):
        await KubeApi(line).apply(EMPTIED, kind=CONFIG_MAP, field_manager="me")

    assert len(line.sent) == expected


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (NAMESPACE.manifest("a"), "a manifest of v1 Namespace was given as v1 ConfigMap"),
        (CONFIG_MAP.manifest("a/b", "shop"), "update ConfigMap: 'a/b' is not a name an object can have"),
        (CONFIG_MAP.manifest("..", "shop"), "update ConfigMap: '..' is not a name an object can have"),
        (CONFIG_MAP.manifest("a%", "shop"), "update ConfigMap: 'a%' is not a name an object can have"),
        (
            CONFIG_MAP.manifest("a", "x/y"),
            "update ConfigMap a: a namespaced object needs a metadata.namespace, not 'x/y'",
        ),
    ],
)
@run
async def test_what_no_server_accepts_is_not_sent(manifest: Manifest, message: str) -> None:
    line = Line([])

    with pytest.raises(Invalid) as refused:
        await KubeApi(line).update(manifest, kind=CONFIG_MAP, field_manager="me")

    assert refused.value.message == message
    assert line.sent == []


@pytest.mark.parametrize(
    ("request_told", "text"),
    [
        (KubeRequest(KubeVerb.GET, CONFIG_MAP, "shop", "settings"), "get ConfigMap shop/settings"),
        (KubeRequest(KubeVerb.APPLY, CONFIG_MAP, "shop", "a", "status"), "apply status of ConfigMap shop/a"),
        (KubeRequest(KubeVerb.LIST, CONFIG_MAP), "list ConfigMap"),
        (KubeRequest(KubeVerb.LIST, CONFIG_MAP, "shop"), "list ConfigMap shop"),
        (KubeRequest(KubeVerb.DELETE, NAMESPACE, None, "shop"), "delete Namespace shop"),
    ],
)
def test_a_request_as_text(request_told: KubeRequest, text: str) -> None:
    assert str(request_told) == text


@pytest.mark.parametrize(
    ("verb", "params", "writes"),
    [
        (KubeVerb.GET, {}, False),
        (KubeVerb.LIST, {}, False),
        (KubeVerb.WATCH, {}, False),
        *((verb, {}, True) for verb in ("create", "update", "apply", "patch", "delete")),
        (KubeVerb.APPLY, {"dryRun": "All"}, False),
        (KubeVerb.APPLY, {"dryRun": None}, True),
    ],
)
def test_what_writes(verb: str, params: dict[str, Any], writes: bool) -> None:
    request = KubeRequest(KubeVerb(verb), CONFIG_MAP, "shop", "settings", params=params)

    assert request.writes is writes
    assert not request.is_review


@pytest.mark.parametrize(
    ("verb", "subresource", "group", "is_review"),
    [
        ("create", "", "authorization.k8s.io", True),
        ("create", "", "authentication.k8s.io", True),
        ("get", "", "authorization.k8s.io", False),
        ("patch", "", "authentication.k8s.io", False),
        ("create", "status", "authorization.k8s.io", False),
        ("create", "", "apps", False),
    ],
)
def test_a_review_is_created_and_stored_nowhere(verb: str, subresource: str, group: str, is_review: bool) -> None:
    request = KubeRequest(KubeVerb(verb), Kind(group, "v1", "X", "xs"), subresource=subresource)

    assert request.is_review is is_review
    assert request.writes is (verb != "get" and not is_review)


@pytest.mark.parametrize("name", ["", ".", "a/b"])
def test_nobody_is_impersonated_whom_no_server_knows(name: str) -> None:
    with pytest.raises(Invalid, match=r"^impersonate ServiceAccount: .* is not a name an object can have"):
        KubeApi(Line([])).impersonating(ObjectRef(SERVICE_ACCOUNT, "shop", name))
    with pytest.raises(Invalid, match=r"^impersonate ServiceAccount a: a namespaced object needs a metadata.namespace"):
        KubeApi(Line([])).impersonating(ObjectRef(SERVICE_ACCOUNT, None, "a"))


@pytest.mark.parametrize(
    ("meta", "is_left"),
    [
        ({"deletionTimestamp": "2026-06-01T00:00:00Z", "finalizers": ["f"]}, True),
        ({"deletionTimestamp": "2026-06-01T00:00:00Z", "finalizers": []}, False),
        ({"deletionTimestamp": "2026-06-01T00:00:00Z"}, False),
        ({"finalizers": ["f"]}, False),
        # A Pod that its kubelet still has to stop, and one that was deleted at once.
        ({"deletionTimestamp": "2026-06-01T00:00:00Z", "deletionGracePeriodSeconds": 30}, True),
        ({"deletionTimestamp": "2026-06-01T00:00:00Z", "deletionGracePeriodSeconds": 0}, False),
        ({"deletionGracePeriodSeconds": 30}, False),
    ],
)
def test_an_object_is_left_after_its_delete_where_a_finalizer_keeps_it(meta: dict[str, Any], is_left: bool) -> None:
    answer = {"metadata": meta}

    assert left_of(answer) == (answer if is_left else None)


@pytest.mark.parametrize(
    ("kind", "finalizers", "is_left"),
    [("Namespace", ["kubernetes"], True), ("Namespace", [], False), ("Shop", ["kubernetes"], False)],
)
def test_a_namespace_is_left_while_its_content_is_deleted(kind: str, finalizers: list[str], is_left: bool) -> None:
    meta = {"name": "n", "deletionTimestamp": "2026-06-01T00:00:00Z"}
    answer = {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": {"finalizers": finalizers}}

    assert left_of(answer) == (answer if is_left else None)
