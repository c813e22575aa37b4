"""The admission webhooks over HTTPS: an HTTP server for the decisions of `vworkspace_core.webhook` (RUN-6)."""

from vworkspace_app.webhooks.answers import DEFAULT_PATH, GATED_PATH, UNGATED_PATH
from vworkspace_app.webhooks.kinds import CONVERT_PATH, NO_KINDS, ServedKinds, default_path, validate_path
from vworkspace_app.webhooks.serving import serve_webhooks, webhooks, webhooks_of_kinds
from vworkspace_app.webhooks.tls import CertificateFiles

__all__ = [
    "CONVERT_PATH",
    "DEFAULT_PATH",
    "GATED_PATH",
    "NO_KINDS",
    "UNGATED_PATH",
    "CertificateFiles",
    "ServedKinds",
    "default_path",
    "serve_webhooks",
    "validate_path",
    "webhooks",
    "webhooks_of_kinds",
]
