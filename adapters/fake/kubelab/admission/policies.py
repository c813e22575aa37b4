"""ValidatingAdmissionPolicies: the policies that refuse a write, selected by their bindings.

Expressions see `object`, `oldObject` and `request`; there are no parameters, no variables and no `authorizer`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kubelab.admission.admission_request import AdmissionAttributes
from kubelab.admission.matching import GROUP, compile_condition, conditions_hold, version_for
from kubelab.model.failure import ApiFailure, FailureCause, resource_of
from kubelab.model.records import GroupResource
from purekube.cel import CelError

POLICIES: Final[GroupResource] = (GROUP, "validatingadmissionpolicies")
BINDINGS: Final[GroupResource] = (GROUP, "validatingadmissionpolicybindings")
_ALL: Final = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
"""The rule of a binding that narrows its policy by selectors only."""
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}
"""The HTTP status by the reason of a refusal; 422 for any other."""

Manifest = Mapping[str, Any]


def check_policies(
    request: AdmissionAttributes,
    policies: Iterable[Manifest],
    bindings: Iterable[Manifest],
    namespace_labels: Mapping[str, str],
) -> None:
    """Raise the ApiFailure of the first policy that denies the write `request`."""
    named = {policy["metadata"]["name"]: policy["spec"] for policy in policies}
    for binding in bindings:
        bound, name = binding["spec"], binding["metadata"]["name"]
        spec = named.get(bound.get("policyName"))
        if spec is None or "Deny" not in bound.get("validationActions", ()):
            continue
        matched = _matched(request, (spec.get("matchConstraints") or {}, bound.get("matchResources")), namespace_labels)
        if matched is None or not conditions_hold(spec, matched):
            continue
        for message, reason in _denials(spec, matched):
            told = f"ValidatingAdmissionPolicy '{bound['policyName']}' with binding '{name}' denied request: {message}"
            raise _refusal(request, told, reason)


def _matched(
    request: AdmissionAttributes, constraints: Iterable[Manifest | None], namespace_labels: Mapping[str, str]
) -> AdmissionAttributes | None:
    """Return `request`, converted to the API version that `constraints` name.

    Each constraint is the `matchConstraints` or `matchResources` of a policy or binding. Return None if one does not
    match the request.
    """
    found: AdmissionAttributes | None = request
    for declared in constraints:
        if declared is not None and found is not None:
            rules = declared.get("resourceRules") or [_ALL]
            version = version_for({**declared, "rules": rules}, request, namespace_labels)
            found = found.in_version(version) if version else None
    return found


def _denials(spec: Manifest, request: AdmissionAttributes) -> Iterator[tuple[str, str]]:
    """Yield the message and the reason of each validation in the policy's `spec` that is false for the request."""
    variables = request.variables()
    for validation in spec.get("validations") or ():
        text, reason = validation["expression"], validation.get("reason") or "Invalid"
        try:
            holds = compile_condition(text).evaluate(variables) is True
        except CelError as error:
            if spec.get("failurePolicy") != "Ignore":
                yield f"expression '{text}' resulted in error: {error}", "Invalid"
            continue
        if not holds:
            yield validation.get("message") or f"failed expression: {text.strip()}", reason


def _refusal(request: AdmissionAttributes, told: str, reason: str) -> ApiFailure:
    resource = request.target.resource
    what = resource_of(resource.group, resource.plural)
    return ApiFailure(
        _CODES.get(reason, 422),
        reason,
        f'{what} "{request.name}" is forbidden: {told}',
        causes=[FailureCause("", told, "")],
        details={"name": request.name, "group": resource.group, "kind": resource.plural},
    )
