"""The admission webhooks over HTTPS: an HTTP server for the decisions of `vworkspace_core.webhook` (RUN-6)."""

from vworkspace_app.webhooks.answers import DEFAULT_PATH, GATED_PATH, UNGATED_PATH
from vworkspace_app.webhooks.serving import serve_webhooks, webhooks
from vworkspace_app.webhooks.tls import CertificateFiles

__all__ = ["DEFAULT_PATH", "GATED_PATH", "UNGATED_PATH", "CertificateFiles", "serve_webhooks", "webhooks"]
