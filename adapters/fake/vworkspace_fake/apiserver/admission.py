"""Admission webhooks without I/O: who has to be asked about a write, what to ask, what the answer means.

A face that can make requests asks; the server only needs to know the outcome (RUN-6). Conditions of a webhook
(`matchConditions`) see `object`, `oldObject` and `request`; the `authorizer` of a real server is not there.
"""

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import attrs
import msgspec

from vworkspace_core.manifest import dig
from vworkspace_fake.apiserver.calls import Caller, Target
from vworkspace_fake.apiserver.cel.evaluate import Program, build
from vworkspace_fake.apiserver.cel.parser import parse
from vworkspace_fake.apiserver.cel.values import CelError
from vworkspace_fake.apiserver.failure import ApiFailure, forbidden
from vworkspace_fake.apiserver.store import GroupResource

__all__ = [
    "CONFIGURATIONS",
    "AdmissionRequest",
    "Webhook",
    "denial",
    "patch_of",
    "unreachable",
    "webhooks_for",
]

_GROUP: Final = "admissionregistration.k8s.io"
CONFIGURATIONS: Final[tuple[GroupResource, GroupResource]] = (
    (_GROUP, "mutatingwebhookconfigurations"),
    (_GROUP, "validatingwebhookconfigurations"),
)
"""Where webhooks are configured: the mutating ones are asked first."""

Manifest = Mapping[str, Any]


@attrs.frozen
class AdmissionRequest:
    """One write as webhooks see it: `operation` is CREATE, UPDATE or DELETE.

    `object` is None for a DELETE, `old_object` for a CREATE.
    """

    operation: str
    target: Target
    name: str
    caller: Caller
    object: Manifest | None
    old_object: Manifest | None
    dry_run: bool = False

    @property
    def labels(self) -> tuple[Mapping[str, str], ...]:
        """Labels of the object before and after: a selector may match either."""
        states = (self.object, self.old_object)
        return tuple(dig(state, "metadata", "labels") or {} for state in states if state is not None)

    def variables(self) -> dict[str, Any]:
        """What the conditions of a webhook see."""
        return {"object": self.object, "oldObject": self.old_object, "request": self.review("", "v1")["request"]}

    def review(self, uid: str, version: str) -> dict[str, Any]:
        """The AdmissionReview to send, in a version the webhook understands."""
        resource = self.target.resource
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        place = {"group": resource.group, "version": resource.version, "resource": resource.plural}
        request = {
            "uid": uid,
            "kind": kind,
            "resource": place,
            "subResource": self.target.subresource,
            "requestKind": kind,
            "requestResource": place,
            "requestSubResource": self.target.subresource,
            "name": self.name,
            "namespace": self.target.namespace or "",
            "operation": self.operation,
            "userInfo": {"username": self.caller.user, "groups": list(self.caller.groups)},
            "object": self.object,
            "oldObject": self.old_object,
            "dryRun": self.dry_run,
            "options": None,
        }
        kept = {key: value for key, value in request.items() if value != ""}
        return {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview", "request": kept}


@attrs.frozen
class Webhook:
    """One webhook to ask. `ca` is the PEM bundle it is trusted by; `service` (namespace, name) when it is no URL."""

    name: str
    mutating: bool
    url: str
    service: tuple[str, str] | None
    ca: str
    ignores_failure: bool
    timeout: float
    version: str


def webhooks_for(
    request: AdmissionRequest,
    configurations: Iterable[tuple[bool, Manifest]],
    namespace_labels: Mapping[str, str],
) -> tuple[Webhook, ...]:
    """The webhooks that must agree to a request, in the order they are asked.

    `configurations` are (whether mutating, configuration object), in order. Webhooks themselves are never
    asked about their own configurations: they could lock everybody out.
    """
    if request.target.resource.group == _GROUP:
        return ()
    return tuple(
        _webhook(declared, mutating)
        for mutating, configuration in configurations
        for declared in configuration.get("webhooks") or ()
        if _concerns(declared, request, namespace_labels) and _conditions_hold(declared, request)
    )


def denial(webhook: Webhook, response: Mapping[str, Any]) -> ApiFailure | None:
    """The refusal that a webhook's answer means; None when it agrees."""
    if response.get("allowed") is True:
        return None
    status = response.get("status") or {}
    code, details = status.get("code"), status.get("details")
    said = status.get("message") or status.get("reason") or "without explanation"
    message = f'admission webhook "{webhook.name}" denied the request: {said}'
    if said == "without explanation":
        message = f'admission webhook "{webhook.name}" denied the request without explanation'
    reason = status.get("reason") or "Forbidden"
    status_code = code if isinstance(code, int) and 400 <= code < 600 else 403
    return ApiFailure(status_code, str(reason), message, details=details if isinstance(details, Mapping) else None)


def unreachable(webhook: Webhook, why: str) -> ApiFailure | None:
    """The refusal when a webhook cannot be asked; None when its policy is to ignore that."""
    if webhook.ignores_failure:
        return None
    message = f'Internal error occurred: failed calling webhook "{webhook.name}": failed to call webhook: {why}'
    return ApiFailure(500, "InternalError", message)


def patch_of(response: Mapping[str, Any]) -> Any:
    """The JSON patch of a mutating webhook's answer, None without one. Raises ValueError for what is none."""
    patch = response.get("patch")
    if not patch:
        return None
    if response.get("patchType") != "JSONPatch" or not isinstance(patch, str):
        raise ValueError("the patch of an answer is a base64 text of type JSONPatch")
    try:
        return msgspec.json.decode(b64decode(patch, validate=True))
    except ValueError as error:  # what is no base64, and what is no JSON
        raise ValueError(f"the patch of an answer cannot be read: {error}") from error


def _webhook(declared: Manifest, mutating: bool) -> Webhook:
    client = declared["clientConfig"]
    service = client.get("service")
    where = (service["namespace"], service["name"]) if service else None
    path = f":{service.get('port', 443)}{service.get('path') or '/'}" if service else ""
    return Webhook(
        name=declared["name"],
        mutating=mutating,
        url=client.get("url") or path,
        service=where,
        ca=b64decode(client.get("caBundle") or "").decode(),
        ignores_failure=declared.get("failurePolicy") == "Ignore",
        timeout=float(declared.get("timeoutSeconds") or 10),
        version=next((one for one in declared["admissionReviewVersions"] if one in ("v1", "v1beta1")), "v1"),
    )


def _concerns(declared: Manifest, request: AdmissionRequest, namespace_labels: Mapping[str, str]) -> bool:
    return (
        any(_rule_matches(rule, request) for rule in declared.get("rules") or ())
        and _selects(declared.get("namespaceSelector") or {}, namespace_labels)
        and any(_selects(declared.get("objectSelector") or {}, labels) for labels in request.labels or ({},))
    )


def _conditions_hold(declared: Manifest, request: AdmissionRequest) -> bool:
    """Whether every `matchCondition` is true. A false one decides; else one that fails counts by failurePolicy.

    Raises ApiFailure where that is Fail.
    """
    conditions = declared.get("matchConditions") or ()
    if not conditions:
        return True
    variables = request.variables()
    failed = ""
    for one in conditions:
        try:
            if _program(one["expression"])(variables) is not True:
                return False
        except CelError as error:
            failed = failed or f"{one['name']}: {error}"
    if failed and declared.get("failurePolicy") != "Ignore":
        name = request.name
        raise forbidden(request.target.resource.group, request.target.resource.plural, name, _unevaluated(failed))
    return not failed


def _unevaluated(why: str) -> str:
    return f"failed to evaluate match conditions: {why}"


@cache
def _program(expression: str) -> Program:
    return build(parse(expression))


def _rule_matches(rule: Manifest, request: AdmissionRequest) -> bool:
    resource = request.target.resource
    wanted = (
        ("operations", request.operation),
        ("apiGroups", resource.group),
        ("apiVersions", resource.version),
    )
    scope = "Namespaced" if resource.namespaced else "Cluster"
    return (
        all("*" in rule.get(key, ()) or value in rule.get(key, ()) for key, value in wanted)
        and rule.get("scope", "*") in ("*", scope)
        and any(one in rule.get("resources", ()) for one in _names(resource.plural, request.target.subresource))
    )


def _names(plural: str, subresource: str) -> Iterator[str]:
    yield "*/*"
    if subresource:
        yield from (f"{plural}/{subresource}", f"{plural}/*", f"*/{subresource}")
    else:
        yield from (plural, "*")


def _selects(selector: Manifest, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector object selects these labels."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression_holds(one, labels) for one in selector.get("matchExpressions") or ())


def _expression_holds(expression: Manifest, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None
