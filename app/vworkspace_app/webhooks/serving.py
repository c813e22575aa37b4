"""The server of the webhooks. Every replica runs it, the leader and the standbys (RUN-4, RUN-6)."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio
import structlog

from purekube.apimachinery.resources import service_account_user
from purekube.ports import Clock
from purekube_run.process.command_line import parse_address
from purekube_run.process.http import ConnectionLimits, bind, serve, url_of
from purekube_run.process.machine import SystemClock
from vworkspace_app.settings import RunSettings
from vworkspace_app.webhooks.certificate_files import CertificateFiles, has_common_name
from vworkspace_app.webhooks.kinds import NO_KINDS, ServedKinds
from vworkspace_app.webhooks.webhook_answers import UNWATCHED, ReviewObserver, application
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.instances.context import Settings
from vworkspace_core.operations.templates import Templates
from vworkspace_core.webhook.validating import WebhookSettings

_log = structlog.get_logger("webhook")

_LIMITS: Final = ConnectionLimits(idle=90.0)
"""The limits for connections of an API server, which keeps and reuses them."""


async def serve_webhooks(
    settings: WebhookSettings | None,
    files: CertificateFiles,
    host: str,
    port: int,
    clock: Clock,
    *,
    ready: Callable[[str], None] = lambda url: None,
    observer: ReviewObserver = UNWATCHED,
    kinds: ServedKinds = NO_KINDS,
    client_names: Collection[str] = (),
) -> None:
    """Serve the webhooks by HTTPS until cancelled. `ready` is called with the URL when they are served.

    If `settings` is None, only the webhooks in `kinds` are served. `observer` is called for every review. If `files`
    require client certificates, their common name must be in `client_names`, unless that is empty. Raises OSError if
    the address cannot be bound.
    """
    listener = bind(host, port)
    url = url_of(host, listener, "https")

    def tell() -> None:
        _log.info("webhooks are served", url=url)
        ready(url)

    knows = partial(has_common_name, names=client_names)
    async with anyio.create_task_group() as group:
        group.start_soon(files.follow, clock)
        app = application(settings, observer, clock.monotonic, kinds)
        await serve(app, listener, limits=_LIMITS, tls=files.context(), knows=knows, ready=tell)


@asynccontextmanager
async def webhooks(
    settings: RunSettings,
    decisions: Settings,
    templates: Templates,
    observer: ReviewObserver,
    kinds: ServedKinds = NO_KINDS,
) -> AsyncIterator[None]:
    """Serve the webhooks that `settings` enable while the block runs. They apply the same rules as the reconciler.

    `decisions` are the settings of the reconciler, `templates` the known templates of Operations, and `kinds` further
    webhooks for users' kinds. `observer` is called for every review. Raises CommandError for unusable certificates.
    """
    itself = service_account_user(settings.namespace, FIELD_MANAGER)
    writers = frozenset((*settings.writers, itself)) if settings.writers else frozenset()
    judged = WebhookSettings(decisions.cluster_id, decisions.admission, templates, writers)
    async with _serving(settings, judged, observer, kinds):
        yield


@asynccontextmanager
async def webhooks_of_kinds(settings: RunSettings, observer: ReviewObserver, kinds: ServedKinds) -> AsyncIterator[None]:
    """Serve the webhooks in `kinds`, but not the operator's own, while the block runs. Without any, serve nothing.

    `observer` is called for every review. Raises the same errors as `webhooks`.
    """
    if not kinds:
        yield
        return
    async with _serving(settings, None, observer, kinds):
        yield


@asynccontextmanager
async def _serving(
    settings: RunSettings, judged: WebhookSettings | None, observer: ReviewObserver, kinds: ServedKinds
) -> AsyncIterator[None]:
    if not settings.webhook_listen or settings.webhook_certificates is None:
        yield
        return
    host, port = parse_address(settings.webhook_listen)
    files = CertificateFiles(settings.webhook_certificates, settings.webhook_client_authority)
    names = settings.webhook_client_names
    serve = partial(
        serve_webhooks, judged, files, host, port, SystemClock(), observer=observer, kinds=kinds, client_names=names
    )
    async with anyio.create_task_group() as group:
        group.start_soon(serve, name="webhooks")
        yield
        group.cancel_scope.cancel()
