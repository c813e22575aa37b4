"""TLS certificates from files that change while a server runs, since cert-manager or kubelet replaces them (RUN-6)."""

import ssl
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import attrs
import structlog

from purekube.ports import Clock
from purekube_run.process.command_line import CommandError

_log = structlog.get_logger("webhook")

_RELOAD_SECONDS = 5.0


@attrs.define
class CertificateFiles:
    """A folder with a certificate chain `tls.crt` and its key `tls.key`, such as a mounted TLS Secret.

    `authority` is a file with certificates of authorities. If it is given, each client must present a certificate that
    one of the authorities signed.
    """

    folder: Path
    authority: Path | None = None
    _current: ssl.SSLContext = attrs.field(init=False, repr=False)
    _content: tuple[bytes, ...] = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Read chain and key for the first time. Raises CommandError if they are unusable."""
        try:
            self._content = self._read()
            self._current = self._loaded()
        except (OSError, ssl.SSLError) as error:
            also = "" if self.authority is None else f", or {self.authority} no certificates of authorities"
            problem = f"{self.folder}: holds no usable tls.crt and tls.key{also}: {_problem(error)}"
            raise CommandError(problem) from error

    def context(self) -> ssl.SSLContext:
        """Return the server's TLS context. Every handshake uses the newest readable certificate."""
        outer = self._loaded()
        outer.sni_callback = self._choose
        return outer

    async def follow(self, clock: Clock) -> None:
        """Read the files again whenever they change, until cancelled.

        If that fails, the old certificate stays in use.
        """
        logged = ""
        while True:
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
