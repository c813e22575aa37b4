"""The address of a webhook: the `clientConfig` of admission webhooks and of conversions."""

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import attrs


@attrs.frozen
class WebhookClient:
    """A URL, or a service (namespace, name) with a path; `ca` is the PEM bundle that signs its certificate."""

    url: str
    service: tuple[str, str] | None
    ca: str
    timeout: float


def client_of(config: Mapping[str, Any], timeout: float) -> WebhookClient:
    """Return the client of a `clientConfig`; `timeout` is in seconds."""
    service = config.get("service")
    where = (service["namespace"], service["name"]) if service else None
    path = f":{service.get('port', 443)}{service.get('path') or '/'}" if service else ""
    return WebhookClient(config.get("url") or path, where, b64decode(config.get("caBundle") or "").decode(), timeout)
