"""Calls of admission webhooks over HTTPS, in threads, after a write is prepared and before it is stored."""

import http.client
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import attrs
from anyio import to_thread

from kubelab.admission.admission_request import AdmissionAttributes
from kubelab.admission.webhooks import Webhook, denial, patch_of, unreachable
from kubelab.http.webhook_calls import Services, converted, post
from kubelab.model.calls import Caller, DeleteOptions, Reply, RequestTarget
from kubelab.model.conversion import ConversionAnswers
from kubelab.model.failure import ApiFailure, internal
from kubelab.model.records import encode
from kubelab.server import ApiServer
from kubelab.storage.listing import ListOptions
from kubelab.storage.streams import selection_of
from kubelab.writes.writer import Prepared, WriteCall

# kube-apiserver repeats a write for ever, until its timeout of 34 seconds (requestTimeoutUpperBound); five writes
# between two steps are no accident.
_ATTEMPTS = 5

T = TypeVar("T")


@attrs.frozen
class _Converting:
    """The conversions of one write. Webhooks convert an object once, however many steps of the write need it."""

    server: ApiServer
    services: Services
    answers: ConversionAnswers = attrs.field(factory=ConversionAnswers)

    async def run(self, act: Callable[[], T]) -> T:
        """Return the result of `act`. If `act` needs a conversion, fetch it from a webhook and run `act` again."""
        return await converted(self.server, act, self.services, self.answers)


async def perform(server: ApiServer, call: WriteCall, services: Services) -> Reply:
    """Perform the write `call` if all admission webhooks that match it agree, and return the server's answer.

    `services` maps (namespace, name) of in-cluster services to the base URLs at which their webhooks are called. Raises
    ApiFailure if a webhook or the server refuses the write.
    """
    call, converting = attrs.evolve(call, defers=True), _Converting(server, services)
    for _ in range(_ATTEMPTS):
        prepared = await converting.run(partial(server.prepare, call))
        try:
            prepared, warnings = await _consented(prepared, converting)
            reply = await converting.run(partial(server.commit, prepared))
        except ApiFailure as failure:
            if not failure.audited:
                server.refuse(call, failure)
            raise
        if reply is not None:
            return Reply(reply.status, reply.raw, (*reply.warnings, *warnings))
    raise internal("the object changed each time while admission webhooks were asked about it")


@attrs.frozen
class DeleteCall:
    """A DELETE request of `caller` for one object.

    If `target` has no name, it is a request for all objects that `selector` matches.
    """

    target: RequestTarget
    selector: ListOptions
    options: DeleteOptions
    caller: Caller

    def requests(self, server: ApiServer) -> list[AdmissionAttributes]:
        """Return one admission request for each object that this DELETE would delete."""
        resource = self.target.resource
        selection = selection_of(self.target, self.selector)
        found = server.store.scan(resource.storage, self.target.namespace)
        records = [record for record in found if self.target.name in ("", record.key[1])]
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


async def admit_delete(server: ApiServer, call: DeleteCall, services: Services) -> None:
    """Call the webhooks that match a DELETE, for each object to delete. Raises ApiFailure if one of them denies it.

    `services` maps (namespace, name) of in-cluster services to the base URLs at which their webhooks are called.
    """
    converting = _Converting(server, services)
    for request in await converting.run(partial(call.requests, server)):
        for webhook in await converting.run(partial(server.webhooks, request)):
            asked = await converting.run(partial(request.in_version, webhook.asked_in))
            await _ask(webhook, asked, services)


async def _consented(prepared: Prepared, converting: _Converting) -> tuple[Prepared, tuple[str, ...]]:
    """Ask every admission webhook about the write `prepared`. Return two values: the write, and the webhooks' warnings.

    The returned write contains the patches of mutating webhooks. The object is validated after the mutating webhooks,
    as in kube-apiserver, because a patch may add required fields. Raises ApiFailure if a webhook denies the write.
    """
    warnings: list[str] = []
    server = converting.server
    if not server.has_webhooks:
        prepared.check()
        return prepared, ()
    # All mutating webhooks come before all validating ones, and each of the former sees the patches of those before it.
    for mutating in (True, False):
        request = await converting.run(prepared.request)
        for webhook in await converting.run(partial(server.webhooks, request)):
            if webhook.mutating is not mutating:
                continue
            asked = await converting.run(partial(request.in_version, webhook.asked_in))
            response = await _ask(webhook, asked, converting.services)
            warnings += response.get("warnings") or ()
            if mutating and response.get("patch"):
                prepared = await converting.run(partial(_mutated, server, prepared, webhook, response))
                request = await converting.run(prepared.request)
        # apiserver: admission runs before the strategy validates, so a webhook can add what the schema requires.
        prepared.check()
    return prepared, tuple(warnings)


def _mutated(server: ApiServer, prepared: Prepared, webhook: Webhook, response: Mapping[str, Any]) -> Prepared:
    try:
        return server.mutated(prepared, patch_of(response), webhook.asked_in)
    except ValueError as error:
        raise internal(f'Internal error occurred: admission webhook "{webhook.name}": {error}') from error


async def _ask(webhook: Webhook, request: AdmissionAttributes, services: Services) -> Mapping[str, Any]:
    """Send the write `request` to the webhook, and return the webhook's response.

    Raises ApiFailure if the webhook denies the request, or if it fails and its failurePolicy is not Ignore.
    """
    uid = str(uuid4())
    body = encode(request.review(uid, webhook.version))
    try:
        answer = await to_thread.run_sync(post, webhook.client, body, services)
        response = _response_of(answer, uid, webhook)
    except (OSError, http.client.HTTPException, ValueError) as error:
        refusal = unreachable(webhook, f"{type(error).__name__}: {error}")
        if refusal is not None:
            raise refusal from error
        return {"allowed": True}
    refusal = denial(webhook.name, response)
    if refusal is not None:
        raise refusal
    return response


def _response_of(answer: Any, uid: str, webhook: Webhook) -> Mapping[str, Any]:
    response = answer.get("response") if isinstance(answer, dict) else None
    if not isinstance(response, dict):
        raise ValueError("the webhook's answer holds no response")
    if response.get("uid") != uid:
        raise ValueError(f"expected response.uid={uid!r}, got {response.get('uid')!r}")
    # apiserver: admission/plugin/webhook/request/admissionreview.go, VerifyAdmissionResponse; the order is the same.
    desired = f"admission.k8s.io/{webhook.version}, Kind=AdmissionReview"
    got = f"{answer.get('apiVersion') or ''}, Kind={answer.get('kind') or ''}"
    if got != desired:
        raise ValueError(f"expected webhook response of {desired}, got {got}")
    if not webhook.mutating and response.get("patch"):
        raise ValueError("validating webhook may not return response.patch")
    return response
