"""Asking admission webhooks over HTTPS, in threads, between deciding a write and storing it."""

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import attrs
from anyio import to_thread

from vworkspace_apiserver.admission.request import AdmissionAttributes
from vworkspace_apiserver.admission.webhooks import Webhook, denial, patch_of, unreachable
from vworkspace_apiserver.model.calls import Caller, DeleteOptions, RequestTarget
from vworkspace_apiserver.model.failure import ApiFailure, internal
from vworkspace_apiserver.model.records import Record, encode
from vworkspace_apiserver.model.replies import Reply
from vworkspace_apiserver.server import ApiServer
from vworkspace_apiserver.storage.listing import ListOptions
from vworkspace_apiserver.storage.selection import selection_of
from vworkspace_apiserver.writes.writer import Prepared, WriteCall

Services = Mapping[tuple[str, str], str]
"""Where in-cluster services are found: (namespace, name) to a base URL."""

_ATTEMPTS = 5


async def perform(server: ApiServer, call: WriteCall, services: Services) -> Reply:
    """A write with the consent of the webhooks it concerns. Raises ApiFailure."""
    call = attrs.evolve(call, defers=True)
    for _ in range(_ATTEMPTS):
        prepared = server.prepare(call)
        try:
            prepared, warnings = await _consented(server, prepared, services)
        except ApiFailure as failure:
            server.refuse(call, failure)
            raise
        reply = server.commit(prepared)
        if reply is not None:
            return Reply(reply.status, reply.raw, (*reply.warnings, *warnings))
    raise internal("the object changed each time while admission webhooks were asked about it")


@attrs.frozen
class DeleteCall:
    """A DELETE of one object or, without a name, of what the selector chooses."""

    target: RequestTarget
    selector: ListOptions
    options: DeleteOptions
    caller: Caller

    def requests(self, server: ApiServer) -> list[AdmissionAttributes]:
        """One request for every object that would go."""
        resource = self.target.resource
        selection = selection_of(self.target, self.selector)
        records = [
            record for record in server.store.scan(resource.storage, self.target.namespace) if self._means(record)
        ]
        return [
            AdmissionAttributes(
                "DELETE",
                attrs.evolve(self.target, namespace=record.key[0] or None, name=record.key[1]),
                record.key[1],
                self.caller,
                None,
                resource.live(record),
                self.options.dry_run,
            )
            for record in records
            if selection.matches(record)
        ]

    def _means(self, record: Record) -> bool:
        return self.target.name in ("", record.key[1])


async def admit_delete(server: ApiServer, call: DeleteCall, services: Services) -> None:
    """Ask the webhooks that a DELETE concerns. Raises ApiFailure when one denies it."""
    for request in call.requests(server):
        for webhook in server.webhooks(request):
            await _ask(webhook, request, services)


async def _consented(server: ApiServer, prepared: Prepared, services: Services) -> tuple[Prepared, tuple[str, ...]]:
    """The write after every webhook has agreed, with the patches of the mutating ones in it, and their warnings.

    The object is validated between the two, as a real server does: a default may be what makes it whole.
    """
    warnings: list[str] = []
    for mutating in (True, False):
        for webhook in server.webhooks(prepared.request()):
            if webhook.mutating is not mutating:
                continue
            response = await _ask(webhook, prepared.request(), services)
            warnings += response.get("warnings") or ()
            if mutating and response.get("patch"):
                prepared = _mutated(server, prepared, webhook, response)
        prepared.check()
    return prepared, tuple(warnings)


def _mutated(server: ApiServer, prepared: Prepared, webhook: Webhook, response: Mapping[str, Any]) -> Prepared:
    try:
        return server.mutated(prepared, patch_of(response))
    except ValueError as error:
        raise internal(f'Internal error occurred: admission webhook "{webhook.name}": {error}') from error


async def _ask(webhook: Webhook, request: AdmissionAttributes, services: Services) -> Mapping[str, Any]:
    """What a webhook answers. Raises ApiFailure when it denies or, unless its policy is to ignore that, fails."""
    uid = str(uuid4())
    body = encode(request.review(uid, webhook.version))
    try:
        answer = await to_thread.run_sync(_post, webhook, body, services)
        response = _response_of(answer, uid)
    except (OSError, http.client.HTTPException, ValueError) as error:
        refusal = unreachable(webhook, f"{type(error).__name__}: {error}")
        if refusal is not None:
            raise refusal from error
        return {"allowed": True}
    refusal = denial(webhook, response)
    if refusal is not None:
        raise refusal
    return response


def _response_of(answer: Any, uid: str) -> Mapping[str, Any]:
    response = answer.get("response") if isinstance(answer, dict) else None
    if not isinstance(response, dict):
        raise ValueError("the webhook's answer holds no response")
    if response.get("uid") != uid:
        raise ValueError(f"expected response.uid={uid!r}, got {response.get('uid')!r}")
    return response


def _post(webhook: Webhook, body: bytes, services: Services) -> Any:
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
    """Trusts the webhook's own authority; a service has to show a certificate for its name in the cluster."""

    def __init__(self, webhook: Webhook, host: str, port: int) -> None:
        self._trust = ssl.create_default_context(cadata=webhook.ca or None)
        super().__init__(host, port, timeout=webhook.timeout, context=self._trust)
        self._shown = host if webhook.service is None else "{1}.{0}.svc".format(*webhook.service)

    def connect(self) -> None:
        """Connect to the address, and greet whoever it is to be."""
        http.client.HTTPConnection.connect(self)
        self.sock = self._trust.wrap_socket(self.sock, server_hostname=self._shown)


def _address(webhook: Webhook, services: Services) -> str:
    if webhook.service is None:
        return webhook.url
    base = services.get(webhook.service)
    if base is None:
        namespace, name = webhook.service
        raise ValueError(f'service "{name}" in namespace "{namespace}" is not known to this API server')
    return base.rstrip("/") + "/" + webhook.url.partition("/")[2]
