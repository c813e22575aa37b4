"""Calls of webhooks over HTTPS."""

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from kubelab.model.webhook_client import WebhookClient

Services = Mapping[tuple[str, str], str]
"""The base URL of each in-cluster service, by (namespace, name)."""


def post(webhook: WebhookClient, body: bytes, services: Services) -> Any:
    """Send a review to a webhook and return its answer. Raises OSError, HTTPException and ValueError."""
    parts = urlsplit(_address(webhook, services))
    if parts.hostname is None:
        raise ValueError("the webhook's address names no host")
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = _Secure(webhook, parts.hostname, parts.port or 443)
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=webhook.timeout)
    try:
        connection.request("POST", parts.path or "/", body, {"content-type": "application/json"})
        reply = connection.getresponse()
        raw = reply.read()
    finally:
        connection.close()
    if reply.status != 200:
        raise ValueError(f"the server answered HTTP {reply.status}")
    return json.loads(raw)


class _Secure(http.client.HTTPSConnection):
    """A TLS connection that trusts the webhook's own authority.

    An in-cluster service must present a certificate for its name in the cluster.
    """

    def __init__(self, webhook: WebhookClient, host: str, port: int) -> None:
        self._trust = ssl.create_default_context(cadata=webhook.ca or None)
        super().__init__(host, port, timeout=webhook.timeout, context=self._trust)
        self._shown = host if webhook.service is None else "{1}.{0}.svc".format(*webhook.service)

    def connect(self) -> None:
        """Connect to the address, and verify the certificate for the name that the webhook should have."""
        http.client.HTTPConnection.connect(self)
        self.sock = self._trust.wrap_socket(self.sock, server_hostname=self._shown)


def _address(webhook: WebhookClient, services: Services) -> str:
    if webhook.service is None:
        return webhook.url
    base = services.get(webhook.service)
    if base is None:
        namespace, name = webhook.service
        raise ValueError(f'service "{name}" in namespace "{namespace}" is not known to this API server')
    return base.rstrip("/") + "/" + webhook.url.partition("/")[2]
