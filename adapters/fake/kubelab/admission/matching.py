"""The matching of a write request with a webhook's rules, selectors and match conditions."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from kubelab.admission.admission_request import AdmissionAttributes
from kubelab.model.failure import forbidden
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.meta import selects_labels
from purekube.cel import DYN, FUNCTIONS, LIMITS, CelError, Environment, Limits, Program, compile_expression
from purekube.cel.json_values import as_json
from purekube.cel.signatures import function, table
from purekube.cel.syntax import constructor

GROUP: Final = "admissionregistration.k8s.io"
"""The API group of webhook configurations and policies."""
# apiserver: apis/cel/config.go gives match conditions a budget of their own (RuntimeCELCostBudgetMatchConditions); here
# the number of steps is limited.
_LIMITS: Final = Limits(text=100_000, steps=10 * LIMITS.steps)
_PATCH: Final = table([function(f"{constructor('JSONPatch')}(dyn) -> dyn", as_json)])


def version_for(declared: Manifest, request: AdmissionAttributes, namespace_labels: Mapping[str, str]) -> str:
    """Return the API version in which a webhook or policy receives the objects of `request`.

    Return an empty string if the webhook or policy does not match the request. `declared` is the webhook's entry in its
    configuration, or the policy's `matchConstraints`. `namespace_labels` are the labels of the request's namespace.
    With `matchPolicy: Equivalent` the result may differ from the version of the request; the objects must then be
    converted. As in kube-apiserver, nothing matches writes of webhook configurations and policies, because a broken one
    could otherwise lock out every user.
    """
    if request.target.resource.group == GROUP:
        return ""
    definition = request.target.resource.definition
    own = request.target.resource.version
    others = () if definition.versions is None else sorted(definition.served_versions)
    equivalent = (name.rpartition("/")[2] for name in others if declared.get("matchPolicy") != "Exact")
    rules = declared.get("rules") or ()
    if not _selected(declared, request, namespace_labels):
        return ""
    # apiserver: admission/plugin/webhook/generic/webhook.go, ShouldCallHook: the version of the request is tried with
    # every rule before any other version is.
    return next((v for v in (own, *equivalent) if any(_rule_matches(rule, request, v) for rule in rules)), "")


def _selected(declared: Manifest, request: AdmissionAttributes, namespace_labels: Mapping[str, str]) -> bool:
    target = request.target
    # apiserver: admission/plugin/webhook/predicates/namespace/matcher.go, MatchNamespaceSelector: a cluster-scoped
    # object that is no namespace has no namespace to exempt it.
    exempt = not target.resource.namespaced and target.resource.storage != ("", "namespaces")
    return (exempt or selects_labels(declared.get("namespaceSelector") or {}, namespace_labels)) and any(
        selects_labels(declared.get("objectSelector") or {}, labels) for labels in request.labels or ({},)
    )


def conditions_hold(declared: Manifest, request: AdmissionAttributes) -> bool:
    """Report whether every `matchCondition` of the webhook `declared` is true for the request.

    If no condition is false but one cannot be evaluated, failurePolicy decides: Ignore returns False, so that the
    webhook is skipped, and Fail raises ApiFailure.
    """
    conditions = declared.get("matchConditions") or ()
    if not conditions:
        return True
    variables = request.variables()
    failed = ""
    for condition in conditions:
        try:
            if compile_condition(condition["expression"]).evaluate(variables) is not True:
                return False
        except CelError as error:
            # apiserver: admission/plugin/webhook/matchconditions/matcher.go, Match: one false condition decides, even
            # if another cannot be evaluated.
            failed = failed or f"{condition['name']}: {error}"
    if failed and declared.get("failurePolicy") != "Ignore":
        resource, why = request.target.resource, f"failed to evaluate match conditions: {failed}"
        # A match condition that fails is 403, although a webhook that fails is 500 (ShouldCallHook).
        raise forbidden(resource.group, resource.plural, request.name, why)
    return not failed


@cache
def compile_condition(expression: str, *, patches: bool = False) -> Program:
    """Compile the CEL expression of a match condition without checking its types. Raises CelSyntaxError.

    With `patches`, the expression may make operations of a JSON patch: `JSONPatch{op: "add", path: "/a", value: 1}`.
    """
    variables = dict.fromkeys(("object", "oldObject", "request", "authorizer"), DYN)
    functions = {**FUNCTIONS, **_PATCH} if patches else FUNCTIONS
    return compile_expression(expression, Environment(variables, functions, _LIMITS), checked=False)


def _rule_matches(rule: Manifest, request: AdmissionAttributes, version: str) -> bool:
    resource = request.target.resource
    desired = (("operations", request.operation), ("apiGroups", resource.group), ("apiVersions", version))
    scope = "Namespaced" if resource.namespaced else "Cluster"
    return (
        all("*" in rule.get(key, ()) or value in rule.get(key, ()) for key, value in desired)
        and rule.get("scope", "*") in ("*", scope)
        and any(name in rule.get("resources", ()) for name in _names(resource.plural, request.target.subresource))
    )


def _names(plural: str, subresource: str) -> Iterator[str]:
    # apiserver: admission/plugin/webhook/predicates/rules/rules.go, Matcher.resource: `pods/*` names the pods, too.
    yield from ("*/*", f"{plural}/*")
    if subresource:
        yield from (f"{plural}/{subresource}", f"*/{subresource}")
    else:
        yield from (plural, "*")
