"""The admission webhooks over HTTPS: the pure judgements of `vworkspace_core.webhook`, served (RUN-6)."""

from vworkspace_app.webhooks.answers import DEFAULT_PATH, GATED_PATH, UNGATED_PATH
from vworkspace_app.webhooks.serving import serve_webhooks, webhooks
from vworkspace_app.webhooks.tls import CertificateFiles

__all__ = ["DEFAULT_PATH", "GATED_PATH", "UNGATED_PATH", "CertificateFiles", "serve_webhooks", "webhooks"]
