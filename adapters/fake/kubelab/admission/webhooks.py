"""Admission webhooks without I/O: the webhooks to call for a write, their requests, and the meaning of their answers.

The HTTP handler calls the webhooks, and gives the outcome to the server, which stores the object (RUN-6). Match
conditions of a webhook (`matchConditions`) see `object`, `oldObject` and `request`; the `authorizer` of kube-apiserver
is missing.
"""

from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs
import msgspec

from kubelab.admission.admission_request import AdmissionAttributes
from kubelab.admission.matching import GROUP, conditions_hold, version_for
from kubelab.model.conversion import WebhookClient, client_of
from kubelab.model.failure import ApiFailure
from kubelab.model.records import GroupResource
from purekube.apimachinery.manifest import Manifest

# Within each resource the order is by the configuration's name (apiserver: admission/configuration, sorted).
CONFIGURATIONS: Final[tuple[GroupResource, GroupResource]] = (
    (GROUP, "mutatingwebhookconfigurations"),
    (GROUP, "validatingwebhookconfigurations"),
)
"""The resources that configure webhooks, in the order of calling: mutating before validating."""


@attrs.frozen
class Webhook:
    """An admission webhook to call for a write. `version` is the version of AdmissionReview that it receives.

    `mutating` says that it may change the object. `ignores_failure` says that the write goes on if the call fails.
    """

    name: str
    mutating: bool
    client: WebhookClient
    ignores_failure: bool
    version: str
    asked_in: str = ""
    """The API version in which the webhook receives the objects; empty if it is the version of the request."""


def webhooks_for(
    request: AdmissionAttributes, configurations: Iterable[tuple[bool, Manifest]], namespace_labels: Mapping[str, str]
) -> tuple[Webhook, ...]:
    """Return the webhooks to call for a write request, in the order of calling.

    Each of `configurations` is a pair: whether the configuration is mutating, and the configuration object.
    `namespace_labels` are the labels of the request's namespace.
    """
    return tuple(
        _webhook(declared, mutating, version)
        for mutating, configuration in configurations
        for declared in configuration.get("webhooks") or ()
        if (version := version_for(declared, request, namespace_labels))
        and conditions_hold(declared, request.in_version(version))
    )


def denial(name: str, response: Mapping[str, Any]) -> ApiFailure | None:
    """Return the refusal in `response`, the answer of the webhook `name`, or None if the webhook allows the request."""
    if response.get("allowed") is True:
        return None
    status = response.get("status") or {}
    code, details = status.get("code"), status.get("details")
    # apiserver: admission/plugin/webhook/errors/statuserror.go, ToStatusErr.
    said = status.get("message") or status.get("reason") or "without explanation"
    message = f'admission webhook "{name}" denied the request: {said}'
    if said == "without explanation":
        message = f'admission webhook "{name}" denied the request without explanation'
    # apiserver: admission/plugin/webhook/errors/statuserror.go, ToStatusErr: a code below 400, or none, becomes 400,
    # and a missing reason stays missing.
    status_code = code if isinstance(code, int) and 400 <= code < 600 else 400
    reason = str(status.get("reason") or "")
    return ApiFailure(status_code, reason, message, details=details if isinstance(details, Mapping) else None)


def unreachable(webhook: Webhook, why: str) -> ApiFailure | None:
    """Return the 500 failure for a webhook that cannot be called, or None if its failurePolicy is Ignore.

    `why` is the reason that the failure's message names.
    """
    if webhook.ignores_failure:
        return None
    message = f'Internal error occurred: failed calling webhook "{webhook.name}": failed to call webhook: {why}'
    return ApiFailure(500, "InternalError", message)


def patch_of(response: Mapping[str, Any]) -> Any:
    """Return the JSON patch in a mutating webhook's response, or None if the response has no patch.

    Raises ValueError for a patch of another type, or one that cannot be decoded.
    """
    patch = response.get("patch")
    if not patch:
        return None
    if response.get("patchType") != "JSONPatch" or not isinstance(patch, str):
        raise ValueError("the patch of an answer is a base64 text of type JSONPatch")
    try:
        return msgspec.json.decode(b64decode(patch, validate=True))
    except ValueError as error:  # neither base64 nor JSON
        raise ValueError(f"the patch of an answer cannot be read: {error}") from error


def _webhook(declared: Manifest, mutating: bool, version: str) -> Webhook:
    return Webhook(
        name=declared["name"],
        mutating=mutating,
        # kubernetes: apis/admissionregistration/v1/defaults.go: 10 seconds.
        client=client_of(declared["clientConfig"], float(declared.get("timeoutSeconds") or 10)),
        ignores_failure=declared.get("failurePolicy") == "Ignore",
        asked_in=version,
        version=next(
            (version for version in declared["admissionReviewVersions"] if version in ("v1", "v1beta1")), "v1"
        ),
    )
