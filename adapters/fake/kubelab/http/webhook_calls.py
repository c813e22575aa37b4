"""Calls of webhooks over HTTPS, and requests that need conversions by a webhook.

Such a request is run, its missing conversions are fetched from the webhook, and the request is run again.
"""

import http.client
import json
import ssl
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from anyio import to_thread

from kubelab.model.conversion import ConversionAnswers, ConversionNeeded, WebhookClient, failed
from kubelab.model.failure import internal
from kubelab.model.records import encode
from kubelab.server import ApiServer

Services = Mapping[tuple[str, str], str]
"""The base URL of each in-cluster service, by (namespace, name)."""


def post(webhook: WebhookClient, body: bytes, services: Services) -> Any:
    """POST a review to a webhook, and return its answer, decoded from JSON. `body` is the review as JSON.

    `services` maps (namespace, name) of in-cluster services to the base URLs at which their webhooks are called. Raises
    OSError or HTTPException if the webhook cannot be reached, and ValueError if its address is unusable or its answer
    is not a 200 with JSON.
    """
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
    """A TLS connection to a webhook. It trusts the certificate authority in the webhook's configuration.

    The certificate of an in-cluster service must be for the service's name in the cluster, `<name>.<namespace>.svc`.
    """

    def __init__(self, webhook: WebhookClient, host: str, port: int) -> None:
        # An empty caBundle means the authorities of the system (admissionregistration v1: WebhookClientConfig).
        self._trust = ssl.create_default_context(cadata=webhook.ca or None)
        super().__init__(host, port, timeout=webhook.timeout, context=self._trust)
        self._shown = host if webhook.service is None else "{1}.{0}.svc".format(*webhook.service)

    def connect(self) -> None:
        """Connect, and verify that the certificate is for the name that the webhook should have."""
        # HTTPSConnection.connect verifies the host of the URL, which is where a test serves the webhook, and not the
        # name of the service.
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


_ROUNDS = 50
"""The largest number of times that one request is run.

Each run may need further conversions: an apply compares fields in every version of a kind.
"""

T = TypeVar("T")


async def converted(
    server: ApiServer, act: Callable[[], T], services: Services, answers: ConversionAnswers | None = None
) -> T:
    """Return the result of `act`. If `act` needs conversions by webhooks, call the webhooks and run `act` again.

    `act` must change nothing before it has all conversions, because it may run several times. `services` maps
    (namespace, name) of in-cluster services to the base URLs at which their webhooks are called. `answers` are the
    conversions that webhooks have returned already; new ones are added to it. Raises ApiFailure if a webhook fails, or
    if `act` still needs further conversions after 50 runs.
    """
    known = ConversionAnswers() if answers is None else answers
    for _ in range(_ROUNDS):
        try:
            with server.conversions.answered_by(known):
                return act()
        except ConversionNeeded as need:
            await _ask(need, known, services)
    raise internal("the objects changed each time while their conversion was asked for")


async def _ask(need: ConversionNeeded, answers: ConversionAnswers, services: Services) -> None:
    uid = str(uuid4())
    try:
        # http.client blocks, and a webhook may call this very server before it answers.
        answer = await to_thread.run_sync(post, need.webhook.client, encode(need.review(uid)), services)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise failed(need.objects[0], f"{type(error).__name__}: {error}") from error
    answers.learn(need, answer, uid)
