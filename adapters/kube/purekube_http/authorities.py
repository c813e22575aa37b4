"""The TLS context of a kubeconfig, and its files, the client certificate and the CA file, reloaded when they change."""

import ssl
import time
from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path

from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import FileStr, User
from lightkube.core import exceptions

from purekube.apimachinery.errors import Permanent
from purekube_http.authorization import MAX_AGE


def tls_context(config: SingleConfig) -> ssl.SSLContext | None:
    """Return the TLS context for an https:// server, or None for http://.

    The context has our client certificate if one is configured. Raises Permanent if certificates or keys of the
    configuration cannot be loaded.
    """
    if config.cluster.server.lower().startswith("http://"):
        return None  # loading a trust store takes most of a client's start
    try:
        return _context(config, config.user or User())
    except (
        OSError,
        ValueError,
        exceptions.ConfigError,
    ) as error:  # ssl.SSLError is an OSError; ValueError: broken base64
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise Permanent(f"certificates of context {config.context_name} cannot be loaded: {reason}") from error


def _context(config: SingleConfig, user: User) -> ssl.SSLContext:
    """Return the TLS context as lightkube makes it, without its HTTP client where the cluster names its authority."""
    cluster = config.cluster
    # As in client-go, data wins over a file (client-go: transport/transport.go, loadTLSFiles).
    if cluster.certificate_auth_data:
        context = trusting(cafile=FileStr(cluster.certificate_auth_data))
    elif cluster.certificate_auth:
        context = trusting(cafile=config.abs_file(cluster.certificate_auth))
    else:
        from lightkube.config.client_adapter import verify_cluster  # slow to import

        return verify_cluster(cluster, user, config.abs_file, trust_env=False)
    if user.client_cert or user.client_cert_data:
        context.load_cert_chain(*_client_files(config, user))
    return context


def trusting(cafile: str | PathLike[str]) -> ssl.SSLContext:
    """Return a TLS context that trusts the authorities in `cafile`, as client-go does."""
    context = ssl.create_default_context(cafile=cafile)
    # Since Python 3.13 the default is strict, and refuses authorities without a key usage, which many clusters have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # Go trusts each certificate of the file, also an intermediate authority; OpenSSL only those that signed themselves.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _client_files(config: SingleConfig, user: User) -> tuple[str, str]:
    """Return the files of the client certificate and its key. Data in the kubeconfig is written to temporary files."""
    pairs = ((user.client_cert_data, user.client_cert), (user.client_key_data, user.client_key))
    certificate, key = (FileStr(data) if data else config.abs_file(path or "") for data, path in pairs)
    return str(certificate), str(key)


def client_certificate(config: SingleConfig, context: ssl.SSLContext | None, max_age: float) -> "RotatedFile | None":
    """Return the file of the client certificate, which `context` shows to the server.

    Return None if no file has it or `context` is None. The file is checked for changes at most once in `max_age`
    seconds. lightkube reads it only once, so that a short-lived certificate would expire with the process.
    """
    user = config.user or User()
    if context is None or not user.client_cert or user.client_cert_data:
        return None
    certificate, key = _client_files(config, user)

    def load() -> None:
        # A certificate without its key would take the old one from the context.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key)
        context.load_cert_chain(certificate, key)

    return RotatedFile(Path(certificate), load, max_age=max_age)


def authority_file(config: SingleConfig, context: ssl.SSLContext | None, max_age: float) -> "RotatedFile | None":
    """Return the configured CA file. When it changes, `context` trusts its new authorities in addition to the old ones.

    The old authorities stay trusted until the process ends, so that servers with old and new certificates are accepted
    during a rotation. Return None if no file is configured or `context` is None. The file is checked for changes at
    most once in `max_age` seconds. lightkube reads it only once.
    """
    if not config.cluster.certificate_auth or config.cluster.certificate_auth_data or context is None:
        return None
    path = Path(config.abs_file(config.cluster.certificate_auth))
    return RotatedFile(path, partial(context.load_verify_locations, path), max_age=max_age)


class RotatedFile:
    """A file of a TLS context, which `load` reads into the context again when the file changes."""

    def __init__(self, path: Path, load: Callable[[], None], *, max_age: float = MAX_AGE) -> None:
        self._path = path
        self._load = load
        self._max_age = max_age
        self._looked_at = time.monotonic()
        self._stamp = self._modified()

    def refresh(self) -> bool:
        """Load the file again if it has changed, and report whether that happened.

        The file is checked at most once in `max_age` seconds. A half-written file is read again at the next check.
        """
        if time.monotonic() - self._looked_at < self._max_age:
            return False
        self._looked_at = time.monotonic()
        stamp = self._modified()
        if stamp in (None, self._stamp):
            return False
        try:
            self._load()
        except (OSError, ssl.SSLError):
            return False
        self._stamp = stamp
        return True

    def _modified(self) -> tuple[int, int] | None:
        """Return a value that changes whenever the file's content does, or None if the file does not exist."""
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_ino
