"""The admission policies of an applied box (an OperatorBox object): its checks and computed values without a webhook
(PH-10).

A ValidatingAdmissionPolicy checks rules, and a MutatingAdmissionPolicy fills in computed values. Both see objects as
the box's webhooks do: in the stored version, with defaults, and times as text.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from purekube.apimachinery.definitions import BOX_DOMAIN, BOX_NAME
from purekube.apimachinery.manifest import Kind, Manifest, get_path
from purekube.boxes.box import Box, CompiledMutation
from purekube.boxes.webhooks.kind_webhooks import AdmissionRule, BoxAdmission
from purekube.boxes.webhooks.policy_expressions import patch_of

_GROUP: Final = "admissionregistration.k8s.io"
POLICY: Final = Kind(_GROUP, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False)
BINDING: Final = Kind(
    _GROUP, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False
)
MUTATING_POLICY: Final = Kind(_GROUP, "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", namespaced=False)
MUTATING_BINDING: Final = Kind(
    _GROUP, "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", namespaced=False
)
SINCE: Final[Mapping[Kind, str]] = {POLICY: "1.30", BINDING: "1.30", MUTATING_POLICY: "1.36", MUTATING_BINDING: "1.36"}
"""The first version of Kubernetes that serves each kind by default."""


def policy_of(box: Box) -> Mapping[Kind, Manifest]:
    """Return a box's admission policies and their bindings, by kind. The result is empty if the CRD can express all
    rules and defaults of the box.
    """
    admission = BoxAdmission.of(box)
    specs: dict[Kind, Mapping[str, Any]] = {}
    if admission.rules:
        specs |= {POLICY: _checking(box, admission.rules), BINDING: _binding(box, validationActions=["Deny"])}
    if admission.mutations:
        specs |= {MUTATING_POLICY: _filling(box, admission.mutations), MUTATING_BINDING: _binding(box)}
    meta = {"labels": {BOX_NAME: box.name}}
    return {kind: kind.manifest(_name(box), metadata=meta, spec=spec) for kind, spec in specs.items()}


def is_enforced_by(wanted: Manifest, live: Manifest | None) -> bool:
    """Report whether the live object exists and has exactly the spec of the policy or binding `wanted`."""
    spec = get_path(live, "spec")
    return isinstance(spec, Mapping) and {**spec} == wanted["spec"]


def _name(box: Box) -> str:
    return f"{box.name}.{BOX_DOMAIN}"


def _binding(box: Box, **more: Any) -> Mapping[str, Any]:
    return {"policyName": _name(box), **more}


def _checking(box: Box, rules: Sequence[AdmissionRule]) -> Mapping[str, Any]:
    # The API server refuses a message with a line break (admissionregistration: validation.go, validateValidation).
    told = [{"expression": _expression(rule), "message": " ".join(rule.message.split())} for rule in rules]
    return {**_common(box), "validations": told}


def _filling(box: Box, mutations: Sequence[CompiledMutation]) -> Mapping[str, Any]:
    """Return the spec of the mutating policy that fills in computed values. One patch sets them all, so that no value
    is computed from another.

    The API server does not invoke the policy again after later admission plugins, nor would it invoke the box's webhook
    again. A value is thus computed from what the user wrote.
    """
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": patch_of(mutations)}}
    return {**_common(box), "mutations": [mutation], "reinvocationPolicy": "Never"}


def _common(box: Box) -> Mapping[str, Any]:
    """Return the fields that the specs of the validating and of the mutating policy share.

    They include the fields that the API server would default, so that a spec can be compared with a live one. A write
    fails if the policy cannot be evaluated, as it does if a webhook is unreachable: without its computed values the
    object would be wrong for all expressions of the box.
    """
    reviewed = {
        "apiGroups": [box.kind.group],
        "apiVersions": [box.kind.version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [box.kind.plural],
        "scope": "Namespaced" if box.kind.namespaced else "Cluster",
    }
    return {
        "failurePolicy": "Fail",
        "matchConditions": [{"name": "stays", "expression": "!has(object.metadata.deletionTimestamp)"}],
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": dict(box.namespaces or {}),
            "objectSelector": {},
            "resourceRules": [reviewed],
        },
    }


def _expression(rule: AdmissionRule) -> str:
    """Return the rule as a CEL expression for a ValidatingAdmissionPolicy, with `self` and `oldSelf` as the rule
    expects them. The rule's text is followed by a line break, in case the text ends with a comment.
    """
    # A policy has the variables `object` and `oldObject` only; the macro gives them the names of the rule.
    if not rule.of_change:
        return f"[object].all(self, {rule.program.text}\n)"
    return f"oldObject == null || [object].all(self, [oldObject].all(oldSelf, {rule.program.text}\n))"
