"""The server of the webhooks. Every replica runs it, the leader and the standbys (RUN-4, RUN-6).

Its TLS certificate is read from files that change while it runs, since cert-manager or kubelet replaces them.
"""

import ssl
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import attrs
import structlog

from purekube.apimachinery.certificates import Validity, validities
from purekube.apimachinery.resources import service_account_user
from purekube.apimachinery.timestamps import format_time
from purekube.ports import Clock
from purekube_run.process.command_line import CommandError, parse_address
from purekube_run.process.http import ConnectionLimits, bind, serve, url_of
from purekube_run.process.machine import SystemClock
from vworkspace_app.settings import RunSettings
from vworkspace_app.webhooks.kinds import NO_KINDS, ServedKinds
from vworkspace_app.webhooks.webhook_answers import ReviewObserver, application
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.instances.context import Settings
from vworkspace_core.operations.templates import Templates
from vworkspace_core.webhook.admission import WebhookSettings

_RELOAD_SECONDS = 5.0
_WARNING_INTERVAL: Final = timedelta(days=1)
_log = structlog.get_logger("webhook")
_LIMITS: Final = ConnectionLimits(idle=90.0)
"""The limits for connections of an API server, which keeps and reuses them."""


@attrs.define
class CertificateFiles:
    """A folder with a certificate chain `tls.crt` and its key `tls.key`, such as a mounted TLS Secret.

    `authority` is a file with certificates of authorities. If it is given, each client must present a certificate that
    one of the authorities signed.
    """

    folder: Path
    authority: Path | None = None
    validity: Validity | None = attrs.field(default=None, init=False)
    """The validity of the certificate in use, or None if it cannot be read."""
    _current: ssl.SSLContext = attrs.field(init=False, repr=False)
    _content: tuple[bytes, ...] = attrs.field(default=(), init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Read chain and key for the first time. Raises CommandError if they are unusable."""
        try:
            self.reload()
        except (OSError, ssl.SSLError) as error:
            also = "" if self.authority is None else f", or {self.authority} no certificates of authorities"
            problem = f"{self.folder}: holds no usable tls.crt and tls.key{also}: {_problem(error)}"
            raise CommandError(problem) from error

    def context(self) -> ssl.SSLContext:
        """Return the server's TLS context. Every handshake uses the newest readable certificate."""
        outer = self._loaded()
        outer.sni_callback = self._choose
        return outer

    async def follow(self, clock: Clock, observer: ReviewObserver | None = None) -> None:
        """Read the files again whenever they change, until cancelled. Log a warning if the certificate expires soon.

        If the files cannot be read, the old certificate stays in use. `observer` gets its validity.
        """
        logged, warn_at = "", clock.now()
        while True:
            if (validity := self.validity) is not None:
                if observer is not None:
                    observer.certificate(validity)
                if (now := clock.now()) >= max(warn_at, validity.overdue):
                    message = "the certificate of the webhooks expires soon: the API server then refuses writes"
                    _log.warning(message, folder=str(self.folder), expires=format_time(validity.expires))
                    warn_at = now + _WARNING_INTERVAL
            await clock.sleep(_RELOAD_SECONDS)
            try:
                if self.reload():
                    _log.info("the certificate was replaced", folder=str(self.folder))
                logged = ""
            except (OSError, ssl.SSLError) as error:
                if (why := _problem(error)) != logged:
                    _log.warning("the new certificate cannot be used; the old one stays", why=why)
                logged = why

    def reload(self) -> bool:
        """Read the files again, and return whether the certificate is new. Raises OSError and ssl.SSLError."""
        content = self._read()
        if content == self._content:
            return False
        # A chain and a key that do not match, read while they were being replaced, are refused here.
        self._current = self._loaded()
        self._content = content
        self.validity = next(iter(validities(content[0])), None)
        return True

    def _choose(self, connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current

    def _read(self) -> tuple[bytes, ...]:
        further = () if self.authority is None else (self.authority,)
        return tuple(file.read_bytes() for file in (self.folder / "tls.crt", self.folder / "tls.key", *further))

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(self.folder / "tls.crt", self.folder / "tls.key")
        if self.authority is not None:
            context.load_verify_locations(self.authority)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _problem(error: OSError) -> str:
    """Return a description of the error that contains nothing from a file."""
    return error.reason if isinstance(error, ssl.SSLError) else f"{error.filename}: {error.strerror}"


def has_common_name(certificate: Mapping[str, Any], names: Collection[str]) -> bool:
    """Report whether a verified certificate's common name is in `names`. If `names` is empty, any name is accepted."""
    subject = (pair for part in certificate.get("subject", ()) for pair in part)
    return not names or any(key == "commonName" and value in names for key, value in subject)


async def serve_webhooks(
    settings: WebhookSettings | None,
    files: CertificateFiles,
    host: str,
    port: int,
    clock: Clock,
    *,
    ready: Callable[[str], None] = lambda url: None,
    observer: ReviewObserver | None = None,
    kinds: ServedKinds = NO_KINDS,
    client_names: Collection[str] = (),
) -> None:
    """Serve the webhooks by HTTPS until cancelled. `ready` is called with the URL when they are served.

    If `settings` is None, only the webhooks in `kinds` are served. `observer` gets every review, and the
    time at which the certificate expires. If `files` require client certificates, their common name must be in
    `client_names`, unless that is empty. Raises OSError if the address cannot be bound.
    """
    listener = bind(host, port)
    url = url_of(host, listener, "https")

    def tell() -> None:
        _log.info("webhooks are served", url=url)
        ready(url)

    knows = partial(has_common_name, names=client_names)
    async with anyio.create_task_group() as group:
        group.start_soon(files.follow, clock, observer)
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
