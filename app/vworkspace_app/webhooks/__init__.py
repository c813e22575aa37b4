"""The admission webhooks over HTTPS: an HTTP server for the decisions of `vworkspace_core.webhook` (RUN-6)."""

from vworkspace_app.webhooks.kinds import NO_KINDS, ServedKinds
from vworkspace_app.webhooks.serving import CertificateFiles, serve_webhooks, webhooks, webhooks_of_kinds

__all__ = [
    "NO_KINDS",
    "CertificateFiles",
    "ServedKinds",
    "serve_webhooks",
    "webhooks",
    "webhooks_of_kinds",
]
