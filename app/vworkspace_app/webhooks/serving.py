"""Serving the webhooks until cancelled. Every replica does, the leader and those that stand by (RUN-4, RUN-6)."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import structlog
import uvicorn

from vworkspace_app.runtime.clock import SystemClock
from vworkspace_app.serving import address
from vworkspace_app.settings import RunSettings
from vworkspace_app.webhooks.answers import application
from vworkspace_app.webhooks.tls import CertificateFiles
from vworkspace_core.operations.templates import Templates
from vworkspace_core.ports import Clock
from vworkspace_core.reconcile import Settings
from vworkspace_core.webhook.validating import WebhookSettings
from vworkspace_fake.serving import bind, serve_until_cancelled, url_of

__all__ = ["serve_webhooks", "webhooks"]

_log = structlog.get_logger("webhook")


async def serve_webhooks(
    settings: WebhookSettings,
    files: CertificateFiles,
    host: str,
    port: int,
    clock: Clock,
    *,
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve HTTPS until cancelled; `ready` gets the URL. Raises OSError when the address cannot be bound."""
    listener = bind(host, port)
    url = url_of(host, listener, "https")
    config = uvicorn.Config(
        application(settings),
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
        ssl_context_factory=lambda *_: files.context(),
    )

    def tell() -> None:
        _log.info("webhooks are served", url=url)
        ready(url)

    async with anyio.create_task_group() as group:
        group.start_soon(files.follow, clock)
        await serve_until_cancelled(config, listener, ready=tell, ending=lambda: None)


@asynccontextmanager
async def webhooks(settings: RunSettings, decisions: Settings, templates: Templates) -> AsyncIterator[None]:
    """The webhooks that `settings` ask for, as long as the block runs, judging as the reconciler does.

    Raises CommandError for certificates that cannot be used.
    """
    if not settings.webhook_listen or settings.webhook_certificates is None:
        yield
        return
    host, port = address(settings.webhook_listen)
    files = CertificateFiles(settings.webhook_certificates)
    judged = WebhookSettings(decisions.cluster_id, decisions.admission, templates)
    async with anyio.create_task_group() as group:
        group.start_soon(serve_webhooks, judged, files, host, port, SystemClock(), name="webhooks")
        yield
        group.cancel_scope.cancel()
