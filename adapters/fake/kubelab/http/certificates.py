"""The certificates of a TLS server as PEM texts, and the TLS context that is built from them.

The module `authority` creates the certificates. It is separate, because it imports the library `cryptography`, which a
server without TLS does not need.
"""

import ssl
import tempfile
from pathlib import Path

import attrs


@attrs.frozen
class Certificates:
    """The certificate and private key of a TLS server, and the certificate of the authority that its clients trust.

    Each is a PEM text as bytes.
    """

    authority: bytes
    certificate: bytes
    key: bytes = attrs.field(repr=False)

    def server_context(self) -> ssl.SSLContext:
        """Return a TLS context for a server that shows this certificate.

        While the key is loaded, it is in a temporary file that only this user can read.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # This server speaks HTTP/1.1 only, and says so to a client that offers HTTP/2 as well, as Go's does.
        context.set_alpn_protocols(["http/1.1"])
        # Python's ssl loads a chain from a file only: SSLContext.load_cert_chain takes no bytes.
        with tempfile.TemporaryDirectory(prefix="kubelab-tls-") as folder:
            chain = Path(folder, "chain.pem")
            chain.touch(mode=0o600)
            chain.write_bytes(self.key + self.certificate)
            context.load_cert_chain(chain)
        return context
