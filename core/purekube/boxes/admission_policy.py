"""The ValidatingAdmissionPolicy of an applied box, by which the API server checks the rules that no CRD can (PH-10).

It sees objects as the box's webhook does: in the stored version, with defaults, and times as text.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from purekube.apimachinery.definitions import BOX_DOMAIN, BOX_NAME
from purekube.apimachinery.manifest import Kind, Manifest, get_path
from purekube.boxes.box import Box
from purekube.boxes.kind_webhooks import AdmissionRule, BoxAdmission

_GROUP: Final = "admissionregistration.k8s.io"
POLICY: Final = Kind(_GROUP, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False)
BINDING: Final = Kind(
    _GROUP, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False
)


def policy_of(box: Box) -> Mapping[Kind, Manifest]:
    """Return a box's ValidatingAdmissionPolicy and its binding, by kind; empty if the CRD checks all rules of
    the box.
    """
    rules = BoxAdmission.of(box).rules
    specs = {POLICY: _policy(box, rules), BINDING: _binding(box)} if rules else {}
    return {kind: _made(kind, box, spec) for kind, spec in specs.items()}


def is_enforced_by(wanted: Manifest, live: Manifest | None) -> bool:
    """Report whether the live object exists and has exactly the spec of the policy or binding `wanted`."""
    spec = get_path(live, "spec")
    return isinstance(spec, Mapping) and {**spec} == wanted["spec"]


def _made(kind: Kind, box: Box, spec: Mapping[str, Any]) -> Manifest:
    manifest = kind.manifest(_name(box))
    manifest["metadata"]["labels"] = {BOX_NAME: box.name}
    return {**manifest, "spec": spec}


def _name(box: Box) -> str:
    return f"{box.name}.{BOX_DOMAIN}"


def _binding(box: Box) -> Mapping[str, Any]:
    return {"policyName": _name(box), "validationActions": ["Deny"]}


def _policy(box: Box, rules: Sequence[AdmissionRule]) -> Mapping[str, Any]:
    """Return the spec of the ValidatingAdmissionPolicy for `rules`. It includes fields that the API server would fill
    in, so that the spec can be compared with the live one.
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
        "validations": [{"expression": _expression(rule), "message": " ".join(rule.message.split())} for rule in rules],
    }


def _expression(rule: AdmissionRule) -> str:
    """Return the rule as a CEL expression for a ValidatingAdmissionPolicy, with `self` and `oldSelf` as the rule
    expects them. The rule's text is followed by a line break, in case the text ends with a comment.
    """
    if not rule.of_change:
        return f"[object].all(self, {rule.program.text}\n)"
    return f"oldObject == null || [object].all(self, [oldObject].all(oldSelf, {rule.program.text}\n))"
