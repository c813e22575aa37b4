"""ValidatingAdmissionPolicies, measured on a kube-apiserver: what is refused, in which words (RUN-8, RUN-9)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import pytest

from purekube.boxes.webhooks.admission_policy import BINDING, POLICY
from tests.support.plain_http import WIRES
from tests.support.policy_place import GROUP, MAPS, PolicyPlace, policy_place

IS_GOOD: Final = "object.data.value == 'good'"


@attrs.frozen(eq=False)
class Case:
    """A policy on ConfigMaps with a label of the case's name."""

    name: str
    validation: Mapping[str, Any] = attrs.field(factory=lambda: {"expression": IS_GOOD, "message": "be good"})
    spec: Mapping[str, Any] = attrs.field(factory=dict)
    binding: Mapping[str, Any] = attrs.field(factory=dict)


ADMITTED: Final = (
    Case("audit", binding={"validationActions": ["Audit"]}),
    Case("condition", spec={"matchConditions": [{"name": "never", "expression": "object.data.value == 'other'"}]}),
    Case("ignored", {"expression": "object.data.nothing == 'x'"}, {"failurePolicy": "Ignore"}),
    Case("narrow", binding={"matchResources": {"objectSelector": {"matchLabels": {"more": "x"}}}}),
)
REFUSED: Final = {
    Case("bound", {"expression": "[object].all(self, self.data.value == 'good' // so\n)", "message": "be good"}): (
        422,
        "Invalid",
        "be good",
    ),
    Case("silent", {"expression": IS_GOOD}): (422, "Invalid", f"failed expression: {IS_GOOD}"),
    Case("reason", {"expression": IS_GOOD, "message": "no", "reason": "Forbidden"}): (403, "Forbidden", "no"),
    Case("error", {"expression": "object.data.nothing == 'x'"}): (
        422,
        "Invalid",
        "expression 'object.data.nothing == 'x'' resulted in error: no such key: nothing",
    ),
}


@pytest.fixture(params=WIRES)
def place(request: pytest.FixtureRequest) -> Iterator[PolicyPlace]:
    with policy_place(request.param, "policies") as place:
        for case in (*ADMITTED, *REFUSED):
            binding = {"validationActions": ["Deny"], **case.binding}
            place.bind(case.name, (POLICY, BINDING), {"validations": [case.validation], **case.spec}, binding)
        yield place


def test_a_policy_refuses_what_its_binding_says_in_the_words_of_kube_apiserver(place: PolicyPlace) -> None:
    for case, (status, reason, message) in REFUSED.items():
        answer, policy = place.until(case.name, value="bad"), place.policy(case.name)
        told = f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {message}"
        assert (answer.status, answer.json["reason"]) == (status, reason)
        assert answer.json["message"] == f'configmaps "{case.name}" is forbidden: {told}'
        assert answer.json["details"] == {"name": case.name, "kind": "configmaps", "causes": [{"message": told}]}
    (good, *_) = REFUSED
    assert place.config(good.name, value="good").status == 201
    for case in ADMITTED:
        assert place.config(case.name, value="bad").status == 201, case.name


def test_a_policy_is_stored_with_what_is_left_out(place: PolicyPlace) -> None:
    (case, *_) = REFUSED
    spec = place.wire.send("GET", f"{GROUP}/validatingadmissionpolicies/{place.policy(case.name)}").json["spec"]
    constraints = spec["matchConstraints"]
    assert (spec["failurePolicy"], constraints["matchPolicy"]) == ("Fail", "Equivalent")
    assert constraints["resourceRules"] == [{**MAPS, "scope": "*"}]
    (bound,) = (case for case in ADMITTED if case.name == "narrow")
    live = place.wire.send("GET", f"{GROUP}/validatingadmissionpolicybindings/{place.policy(bound.name)}").json["spec"]
    assert live["matchResources"] == {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {"matchLabels": {"more": "x"}},
    }


def test_an_expression_that_does_not_compile_is_refused(place: PolicyPlace) -> None:
    spec = {"matchConstraints": {"resourceRules": [MAPS]}, "validations": [{"expression": "object.data. =="}]}
    answer = place.create(POLICY, {**POLICY.manifest(place.policy("broken")), "spec": spec})
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == ["spec.validations[0].expression"]
