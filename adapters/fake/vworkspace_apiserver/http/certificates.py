"""Certificates as data; `authority` makes them. A server without TLS does not wait for cryptography to load."""

import ssl
import tempfile
from pathlib import Path

import attrs


@attrs.frozen
class Certificates:
    """What a server shows and what its clients trust, each as PEM."""

    authority: bytes
    certificate: bytes
    key: bytes = attrs.field(repr=False)

    def server_context(self) -> ssl.SSLContext:
        """TLS for a server with this certificate. The key lies in a file of our own only while it is read."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        with tempfile.TemporaryDirectory(prefix="vworkspace-tls-") as folder:
            chain = Path(folder, "chain.pem")
            chain.touch(mode=0o600)
            chain.write_bytes(self.key + self.certificate)
            context.load_cert_chain(chain)
        return context
