"""The admission policies that apply to a write through their bindings: some refuse the write, some change its object.

Expressions see `object`, `oldObject` and `request`; there are no parameters, no variables and no `authorizer`. A
MutatingAdmissionPolicy patches by JSONPatch, and is invoked once.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from kubelab.admission.admission_request import AdmissionAttributes
from kubelab.admission.matching import GROUP, compile_condition, conditions_hold, version_for
from kubelab.model.failure import ApiFailure, resource_of
from kubelab.model.records import GroupResource
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest
from purekube.cel import CelError

PolicyKinds = tuple[GroupResource, GroupResource]
VALIDATING: Final[PolicyKinds] = ((GROUP, "validatingadmissionpolicies"), (GROUP, "validatingadmissionpolicybindings"))
"""The resources of policies that refuse writes, and of their bindings."""
MUTATING: Final[PolicyKinds] = (GROUP, "mutatingadmissionpolicies"), (GROUP, "mutatingadmissionpolicybindings")
"""The resources of policies that change objects, and of their bindings."""
_ALL: Final = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
"""The rule that matches every request, for policies and bindings that have selectors but no rules."""
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}
"""The HTTP status of a refusal by its reason; 422 for all other reasons."""


@attrs.frozen
class BoundPolicy:
    """An admission policy with one of its bindings: `spec` is the policy's spec, `binding` is the binding's spec."""

    spec: Manifest
    binding: Manifest
    title: str
    """The part of a refusal's message that names policy and binding: `'p' with binding 'b' denied request`."""

    def seen(self, request: AdmissionAttributes, namespace_labels: Mapping[str, str]) -> AdmissionAttributes | None:
        """Return `request` with its objects in the version that the policy asks for, or None.

        The result is None if the policy does not apply, because its constraints, those of the binding or its match
        conditions do not match the request. `namespace_labels` are the labels of the request's namespace.
        """
        constraints = (self.spec.get("matchConstraints") or {}, self.binding.get("matchResources"))
        matched = _matched(request, constraints, namespace_labels)
        return matched if matched is not None and conditions_hold(self.spec, matched) else None

    @property
    def expressions(self) -> tuple[str, ...]:
        """The CEL expressions that make the policy's JSON patches, in order; empty for a policy that only refuses."""
        return tuple(mutation["jsonPatch"]["expression"] for mutation in self.spec.get("mutations") or ())

    def patch(self, expression: str, request: AdmissionAttributes) -> Any:
        """Return the JSON patch that `expression` makes for the object of `request`.

        If the expression cannot be evaluated, the policy's failurePolicy decides: Ignore returns an empty patch, Fail
        raises ApiFailure.
        """
        try:
            return compile_condition(expression, patches=True).evaluate(request.variables())
        except CelError as error:
            if self.spec.get("failurePolicy") == "Ignore":
                return []
            told = f"policy {self.title}: expression '{expression}' resulted in error: {error}"
            raise _refusal(request, told, "Invalid", told, 403) from error


def bound_policies(policies: Iterable[Manifest], bindings: Iterable[Manifest]) -> Iterator[BoundPolicy]:
    """Yield each of `bindings` together with its policy, one of `policies`, in the order of the bindings.

    A binding whose policy does not exist is left out.
    """
    named = {policy["metadata"]["name"]: policy["spec"] for policy in policies}
    for binding in bindings:
        policy, name = binding["spec"].get("policyName"), binding["metadata"]["name"]
        if policy in named:
            yield BoundPolicy(named[policy], binding["spec"], f"'{policy}' with binding '{name}' denied request")


def check_policies(
    request: AdmissionAttributes, bound: Iterable[BoundPolicy], namespace_labels: Mapping[str, str]
) -> None:
    """Raise the ApiFailure of the first policy in `bound` that denies the write `request`, or return if none does.

    `namespace_labels` are the labels of the request's namespace.
    """
    for policy in bound:
        if "Deny" not in policy.binding.get("validationActions", ()):
            continue
        if (matched := policy.seen(request, namespace_labels)) is None:
            continue
        for message, reason in _denials(policy.spec, matched):
            told = f"ValidatingAdmissionPolicy {policy.title}: {message}"
            resource = resource_of(request.target.resource.group, request.target.resource.plural)
            raise _refusal(request, told, reason, f'{resource} "{request.name}" is forbidden: {told}')


def _matched(
    request: AdmissionAttributes, constraints: Iterable[Manifest | None], namespace_labels: Mapping[str, str]
) -> AdmissionAttributes | None:
    """Return `request` in the API version that `constraints` ask for, or None if one of them does not match it.

    Each constraint is the `matchConstraints` of a policy or the `matchResources` of a binding. A constraint of None
    matches every request.
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
                # apiserver: admission/plugin/policy/validating/validator.go: with failurePolicy Ignore an expression
                # that cannot be evaluated counts as true.
                yield f"expression '{text}' resulted in error: {error}", "Invalid"
            continue
        if not holds:
            yield validation.get("message") or f"failed expression: {text.strip()}", reason


def _refusal(request: AdmissionAttributes, told: str, reason: str, message: str, status: int = 0) -> ApiFailure:
    resource = request.target.resource
    # apiserver: admission/plugin/policy/validating/dispatcher.go: the code follows from the reason, and the status has
    # a cause without a field.
    return ApiFailure(
        status or _CODES.get(reason, 422),
        reason,
        message,
        causes=[StatusCause("", told, "")],
        details={"name": request.name, "group": resource.group, "kind": resource.plural},
    )
