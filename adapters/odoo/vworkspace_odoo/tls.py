"""TLS to the control plane: the trusted authority, the client certificate (PULL-8), the refusal of plain http://.

The control plane is the Odoo server that sends jobs (units of work) to the cluster.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from urllib.parse import urlsplit

from purekube.apimachinery.errors import Permanent
from purekube.apimachinery.secret_material import without_user


def tls_context(ca: str, certificate: str, private_key: str) -> ssl.SSLContext | None:
    """Return a TLS context that trusts the authority `ca` and presents `certificate` to the server.

    All parameters are PEM strings, and an empty string means none. Without `ca` the system's authorities are trusted,
    otherwise only `ca`. Without `ca` and `certificate` the result is None: the HTTP client then uses its default.
    Raises Permanent if a string is unusable. The message names the key of the text in the credentials Secret, but shows
    nothing of its value.
    """
    if bool(certificate) != bool(private_key):
        raise Permanent(
            f"the credentials have {'tls.crt without tls.key' if certificate else 'tls.key without tls.crt'}"
        )
    if not ca and not certificate:
        return None
    context = _context_for(ca)
    if certificate:
        _load_certificate(context, certificate, private_key)
    return context


def default_verify(url: str) -> ssl.SSLContext | bool:
    """Return the parameter `verify` of httpx for `url`: True for https://, so that the system authorities are trusted.

    For http://, return a TLS context without authorities, because loading them takes tens of milliseconds.
    """
    return url.lower().startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _context_for(ca: str) -> ssl.SSLContext:
    try:
        # PEM is ASCII. What is not is a comment, as bundles have the names of authorities there.
        context = ssl.create_default_context(cadata=_only_ascii(ca) if ca else None)
    except (ssl.SSLError, ValueError):
        raise Permanent("the credentials' ca.crt is no PEM certificate") from None
    # As for other clients of the same server: a certificate of the authorities need not have signed itself, nor have a
    # key usage, on which Python insists since 3.13.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _only_ascii(pem: str) -> str:
    # An empty text would load the system's authorities instead of failing.
    return pem.encode("ascii", "ignore").decode() or "-"


def _load_certificate(context: ssl.SSLContext, certificate: str, private_key: str) -> None:
    with _readable_path(f"{certificate}\n{private_key}\n") as path:
        try:
            # With a callback OpenSSL never prompts for a password on a terminal: a key that needs one is unusable here.
            context.load_cert_chain(path, password=lambda: b"")
        except (ssl.SSLError, ValueError, OSError):
            what = "tls.crt and tls.key are no PEM certificate with its private key"
            raise Permanent(f"the credentials' {what}") from None


@contextmanager
def _readable_path(text: str) -> Iterator[str]:
    """Yield the path of a file with the content `text`. It exists only while the block runs.

    OpenSSL loads keys from files only. The file is in memory where the system can do that, because a pod's file system
    is read-only and a key on a disk would stay there.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("vworkspace-tls")
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile("w", prefix="vworkspace-tls-") as file:
            file.write(text)
            file.flush()
            yield file.name


def cleartext_problem(base_url: str, *, allow_http: bool) -> str:
    """Return the problem of a URL that would send the token unencrypted, or an empty string if there is none (PULL-9).

    That is an http:// URL of another machine, unless `allow_http` is True.
    """
    parts = urlsplit(base_url.strip())
    if allow_http or parts.scheme != "http" or is_loopback(parts.hostname or ""):
        return ""
    return (
        f"{without_user(base_url)}: over http:// whoever is on the way reads the token and every job, and can change"
        " them; use https://, or allow it with --allow-http-control-plane"
    )


def is_loopback(host: str) -> bool:
    """Report whether a URL's host is this machine, so that requests to it cannot be read on the way."""
    name = host.rstrip(".")
    # RFC 6761, section 6.3: names below localhost are loopback, too.
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
