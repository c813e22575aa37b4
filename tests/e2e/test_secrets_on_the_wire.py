"""RUN-12, L21: of Secrets whose data no expression reads, none crosses the wire to the operator."""

import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import aiohttp
import anyio
import attrs
import pytest
from aiohttp import web
from lightkube.config.kubeconfig import KubeConfig
from lightkube.config.models import Cluster, User

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import SECRET
from purekube.boxes.box import Box
from purekube_http import KubeApiClient
from purekube_run.process.machine import SystemClock
from tests.support.box_site import NS, BoxSite
from tests.support.boxes import SPEC, box_of, config, crd, secret
from tests.support.embedded_server import config_of, embedded
from tests.support.lent_server import lent

_END_TO_END = ("Accept", "Authorization", "Content-Type", "Impersonate-User")


@attrs.define
class Answered:
    """What was answered to one request, as far as it has come."""

    method: str
    path: str
    accept: str
    body: bytearray = attrs.field(factory=bytearray)


@asynccontextmanager
async def recorded(upstream: str, trust: ssl.SSLContext | None) -> AsyncIterator[tuple[str, list[Answered]]]:
    """Yield the URL of a server before `upstream`, and what it has passed on so far."""
    answers: list[Answered] = []

    async def pass_on(request: web.Request) -> web.StreamResponse:
        answered = Answered(request.method, request.path_qs, request.headers.get("Accept", ""))
        answers.append(answered)
        headers = {name: request.headers[name] for name in _END_TO_END if name in request.headers}
        url = f"{upstream}{request.raw_path}"
        async with session.request(
            request.method, url, headers=headers, data=await request.read() or None, ssl=trust or True
        ) as answer:
            names = [name for name in ("Content-Type", "Audit-Id") if name in answer.headers]
            reply = web.StreamResponse(status=answer.status, headers={name: answer.headers[name] for name in names})
            await reply.prepare(request)
            async for chunk in answer.content.iter_any():
                answered.body += chunk
                await reply.write(chunk)
        return reply

    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{any:.*}", pass_on)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}", answers
        finally:
            await runner.cleanup()


LOOT: Final = "dG9wLXNlY3JldA=="
DRAWN: Final = {**secret("pw"), "apply": "IfAbsent", "generate": {"data.p": {"length": 8}}}
TLS: Final = {"id": "tls", "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "given"}}
NAMES: Final = config("names", data={"pw": "${pw.metadata.name}", "tls": "${tls.metadata.name}"})
COPY: Final = secret("copy", {"p": "${pw.data.p}"}, apply="IfAbsent")

Wired = Callable[[], AbstractAsyncContextManager[tuple[BoxSite, list[Answered]]]]


@asynccontextmanager
async def _embedded() -> AsyncIterator[tuple[BoxSite, list[Answered]]]:
    async with (
        embedded() as (_, url),
        recorded(url, None) as (before, answers),
        KubeApiClient(config_of(url)) as admin,
        KubeApiClient(config_of(before)) as api,
    ):
        yield BoxSite(admin, api, SystemClock()), answers


@asynccontextmanager
async def _real() -> AsyncIterator[tuple[BoxSite, list[Answered]]]:
    with lent() as server:
        trust = ssl.create_default_context(cadata=server.authority.decode())
        hands = KubeConfig.from_dict(server.kubeconfig()).get()
        async with recorded(server.url, trust) as (before, answers):
            through = KubeConfig.from_one(cluster=Cluster(server=before), user=User(token=server.token)).get()
            assert hands is not None
            assert through is not None
            async with KubeApiClient(hands) as admin, KubeApiClient(through) as api:
                yield BoxSite(admin, api, SystemClock()), answers


on_both = pytest.mark.parametrize(
    "server", [pytest.param(_embedded, id="embedded"), pytest.param(_real, id="kube-apiserver")]
)


def read_of_secrets(answers: Sequence[Answered]) -> list[Answered]:
    return [answer for answer in answers if answer.method == "GET" and "/secrets" in answer.path]


def play(server: Wired, box: Box) -> list[Answered]:
    """Let a box make a Secret and read another, both of which are changed while it is at work."""
    answers: list[Answered] = []

    async def main() -> None:
        async with server() as (site, seen):
            await site.namespace()
            await site.install(box.crd)
            meta = {"name": "given", "namespace": NS}
            made = {**SECRET.manifest("given", NS), "metadata": meta, "type": "Opaque", "data": {"p": LOOT}}
            await site.admin.create(made, kind=SECRET, field_manager="setup")
            async with site.running(box, namespaces=(NS,)):
                await site.until_ready(await site.create(box.kind, "shop", spec={"image": "i", "parts": []}))
                await site.edit(ObjectRef(SECRET, NS, "pw"), {"metadata": {"labels": {"mark": "seen"}}})

                async def is_told() -> bool:
                    return any(b'"MODIFIED"' in one.body and b'"mark"' in one.body for one in read_of_secrets(seen))

                await site.until(is_told)
            answers.extend(seen)

    anyio.run(main)
    return read_of_secrets(answers)


@on_both
@pytest.mark.slow
@pytest.mark.parametrize("watch", [False, True], ids=["read", "watched"])
def test_no_data_of_secrets_crosses_the_wire_for_a_box_whose_expressions_read_none_RUN_12(
    server: Any, watch: bool
) -> None:
    answers = play(server, box_of(DRAWN, NAMES, kind=crd(SPEC), externals=[{**TLS, "watch": watch}]))
    assert {"watch=" in answer.path for answer in answers} == {True, False}
    for answer in answers:
        assert "as=PartialObjectMetadata" in answer.accept, answer.path
        assert b'"data"' not in answer.body, answer.path
        assert LOOT.encode() not in answer.body


@on_both
@pytest.mark.slow
def test_a_box_that_reads_data_of_secrets_is_sent_it(server: Any) -> None:
    """What the other test does not see would be seen."""
    answers = play(server, box_of(DRAWN, COPY, kind=crd(SPEC), externals=[TLS]))
    assert any(b'"data"' in answer.body for answer in answers)
