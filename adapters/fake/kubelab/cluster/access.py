"""Access to the embedded API server: its callers, its certificate, and the audit log of requests."""

import csv
import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec
import yaml

from kubelab.access.audit_log import AuditEntry, AuditLog
from kubelab.access.authorization import service_account
from kubelab.cluster.definitions import KubelabError
from kubelab.http.certificates import Certificates
from kubelab.http.serving import kubeconfig
from kubelab.model.calls import ADMIN, Caller
from purekube.apimachinery.resources import SERVICE_ACCOUNT_USERS

_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


@attrs.frozen
class ClusterAccess:
    """The access to a server: its callers and its certificate.

    `tokens` maps bearer tokens to callers; the kubeconfig uses the first of them by default. If `tokens` is None, every
    caller is the administrator. `tls` is the server's certificate; without it the server speaks plain HTTP.
    """

    tokens: Mapping[str, Caller] | None = attrs.field(default=None, repr=False)
    tls: Certificates | None = None

    def kubeconfig(self, url: str) -> dict[str, Any]:
        """Return the kubeconfig for the server at `url`: a context for every user, named like the user."""
        authority = None if self.tls is None else self.tls.authority
        callers = [*(self.tokens or {}).items()]
        # Over HTTPS kubectl asks for a user name, and ends without one, unless there is a credential.
        needless = None if authority is None else "anyone"
        config = kubeconfig(url, callers[0][0] if callers else needless, authority=authority)
        for token, caller in callers[1:]:
            context = {"cluster": config["clusters"][0]["name"], "user": caller.user, "namespace": "default"}
            config["users"].append({"name": caller.user, "user": {"token": token}})
            config["contexts"].append({"name": caller.user, "context": context})
        return config


OPEN: Final = ClusterAccess()
"""The access over plain HTTP, where every caller is the administrator."""


def access_for(host: str, *, tls: bool, tokens: Mapping[str, Caller] | None, rbac: bool) -> ClusterAccess:
    """Return the callers and the certificate of a server that listens on `host`.

    `tls` asks for a certificate, without which the server speaks plain HTTP. `tokens` maps bearer tokens to callers;
    without it every caller is the administrator. `rbac` says that the server will enforce roles. Raises KubelabError
    for `rbac` without tokens, for a `host` other than this machine without tokens, and for `tls` without the package
    that it needs.
    """
    if rbac and not tokens:
        raise KubelabError(
            "needs tokens: without them every caller is the administrator", option="rbac", is_misuse=True
        )
    if not tokens and not _is_loopback(host):
        raise KubelabError(
            f"{host}: every client that reaches it would be the administrator: give tokens, or listen on 127.0.0.1",
            option="listen",
            is_misuse=True,
        )
    return ClusterAccess(tokens or None, _certificates(host) if tls else None)


def callers(token: str, tokens: Path | None) -> Mapping[str, Caller]:
    """Return the callers by token: those in the file `tokens`, and the administrator with `token`.

    The file is CSV with token, user, uid and groups, as for kube-apiserver's `--token-auth-file`; None adds no callers.
    An empty `token` adds no administrator. Raises KubelabError if the file cannot be used.
    """
    return ({token: ADMIN} if token else {}) | ({} if tokens is None else _read_tokens(tokens))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _certificates(host: str) -> Certificates:
    try:
        from kubelab.http.authority import certificates_for  # a sixth of a plain server's start
    except ModuleNotFoundError as error:
        raise KubelabError("needs the package cryptography: pip install 'kubelab[tls]'", option="tls") from error
    return certificates_for(tuple(dict.fromkeys((host, *_LOCAL))), datetime.now(UTC))


def write_kubeconfig(path: Path, url: str, access: ClusterAccess = OPEN) -> None:
    """Write a kubeconfig for the server at `url` into the file `path`, readable by its owner only.

    `access` has the users and the certificate. Raises KubelabError if the writing fails.
    """
    text = yaml.safe_dump(access.kubeconfig(url), sort_keys=False)
    try:
        # No symbolic links: in a folder that others may write to, a link would choose which file is overwritten.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)  # an existing file may have been readable by others
            file.write(text)
    except OSError as error:
        why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise KubelabError(f"{path}: cannot be written: {why}", option="kubeconfig-out") from error


@contextmanager
def audited(log: AuditLog, path: Path | None) -> Iterator[None]:
    """Append each new entry of `log` to the file `path` as a line of JSON, until the `with` block ends.

    With `path` None nothing is written. Raises KubelabError if the file cannot be opened.
    """
    if path is None:
        yield
        return
    try:
        file = path.open("ab", buffering=0)
    except OSError as error:
        raise KubelabError(f"{path}: cannot be written: {error.strerror}", option="audit-log") from error

    def write(entry: AuditEntry) -> None:
        file.write(msgspec.json.encode(entry) + b"\n")

    with file:
        log.on_entry = write
        try:
            yield
        finally:
            log.on_entry = None


def _read_tokens(path: Path) -> dict[str, Caller]:
    """Return the callers by token of a file like kube-apiserver's `--token-auth-file`: token,user,uid,"group,group"."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except OSError as error:
        raise _bad_tokens(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise _bad_tokens(f"{path}: is no CSV file: {type(error).__name__}") from error
    callers: dict[str, Caller] = {}
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        fields = [field.strip() for field in row]
        if len(fields) < 3 or not fields[0] or not fields[1]:
            raise _bad_tokens(f'{path}:{number}: give token,user,uid or token,user,uid,"group,group"')
        if fields[0] in callers:
            raise _bad_tokens(f"{path}:{number}: the token is there twice")
        # apiserver: authentication/token/tokenfile/tokenfile.go: the fourth column has all groups; the uid is read and
        # has no use here.
        callers[fields[0]] = Caller(fields[1], _groups(fields[1], ",".join(fields[3:])))
    if not callers:
        raise _bad_tokens(f"{path}: holds no token")
    return callers


def _bad_tokens(text: str) -> KubelabError:
    return KubelabError(text, option="tokens")


def _groups(user: str, named: str) -> tuple[str, ...]:
    """Return the groups of `user`: those in the text `named`, separated by commas, and those that the server adds."""
    given = tuple(group for group in (part.strip() for part in named.split(",")) if group)
    if not user.startswith(SERVICE_ACCOUNT_USERS):
        return (*given, "system:authenticated")
    namespace, _, name = user.removeprefix(SERVICE_ACCOUNT_USERS).partition(":")
    return (*given, *service_account(namespace, name).groups)
