"""Whom we trust: the TLS context of a configuration, and the file of authorities that changes while we run."""

import ssl
import time
from collections.abc import Callable
from pathlib import Path

from lightkube.config.client_adapter import verify_cluster
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from vworkspace_core.apimachinery.errors import Permanent
from vworkspace_kube.authorization import MAX_AGE


def tls_context(config: SingleConfig) -> ssl.SSLContext | None:
    """The context of an https:// server, with our certificate where one is configured; None for a plain one.

    Raises Permanent when certificates or keys of the configuration cannot be loaded.
    """
    if config.cluster.server.lower().startswith("http://"):
        return None  # no trust store is read, which is most of a client's start
    try:
        return verify_cluster(config.cluster, config.user or User(), config.abs_file, trust_env=False)
    except (OSError, ValueError, ConfigError) as error:  # ssl.SSLError is an OSError; ValueError: broken base64
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise Permanent(f"certificates of context {config.context_name} cannot be loaded: {reason}") from error


def authority_file(config: SingleConfig, context: ssl.SSLContext | None, max_age: float) -> "AuthorityFile | None":
    """The file behind `context`, looked at again after `max_age` seconds; None where none is named."""
    path = config.cluster.certificate_auth
    return AuthorityFile(Path(config.abs_file(path)), context, max_age=max_age) if path and context else None


class AuthorityFile:
    """The file of certificate authorities behind a TLS context: when it changes, what it holds is trusted as well.

    What was trusted before stays trusted until the process ends, which bridges a rotation. lightkube reads
    the file once.
    """

    def __init__(
        self,
        path: Path,
        context: ssl.SSLContext,
        *,
        max_age: float = MAX_AGE,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._context = context
        self._max_age = max_age
        self._monotonic = monotonic
        self._looked_at = monotonic()
        self._stamp = self._modified()

    def refresh(self) -> None:
        """Trust what the file holds now. A file that is being written is left for the next look."""
        if self._monotonic() - self._looked_at < self._max_age:
            return
        self._looked_at = self._monotonic()
        stamp = self._modified()
        if stamp in (None, self._stamp):
            return
        try:
            self._context.load_verify_locations(self._path)
        except (OSError, ssl.SSLError):
            return  # half written: the stamp stays as it was, so the next look tries again
        self._stamp = stamp

    def _modified(self) -> tuple[int, int] | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_ino
