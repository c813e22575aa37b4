"""A plain HTTP server before an API server that passes everything on and keeps what was answered, streams included."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import attrs
from aiohttp import web

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
