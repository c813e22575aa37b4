"""ValidatingAdmissionPolicies, measured on a kube-apiserver: what is refused, in which words (RUN-8, RUN-9)."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import pytest

from tests.support.effort import unused_name
from tests.support.patience import PATIENCE
from tests.support.plain_http import WIRES
from tests.support.server_thread import Answer, Wire

GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
IS_GOOD: Final = "object.data.value == 'good'"
MAPS: Final = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["configmaps"],
}


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


@attrs.frozen
class Place:
    """A namespace of the test's own, whose name is that of its policies too."""

    wire: Wire
    name: str

    def policy(self, case: Case) -> str:
        return f"{self.name}-{case.name}"

    def establish(self, case: Case) -> None:
        selected = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.name}}}
        chosen = {**selected, "objectSelector": {"matchLabels": {"case": case.name}}, "resourceRules": [MAPS]}
        spec = {"matchConstraints": chosen, "validations": [case.validation], **case.spec}
        self._post("ValidatingAdmissionPolicy", "validatingadmissionpolicies", case, spec)
        bound = {"policyName": self.policy(case), "validationActions": ["Deny"], **case.binding}
        self._post("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", case, bound)

    def _post(self, kind: str, plural: str, case: Case, spec: Mapping[str, Any]) -> None:
        meta = {"name": self.policy(case)}
        body = {"apiVersion": GROUP.removeprefix("/apis/"), "kind": kind, "metadata": meta, "spec": spec}
        answer = self.wire.send("POST", f"{GROUP}/{plural}", body)
        assert answer.status == 201, answer

    def create(self, case: Case, value: str) -> Answer:
        meta = {"name": case.name, "labels": {"case": case.name}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"value": value}}
        return self.wire.send("POST", f"/api/v1/namespaces/{self.name}/configmaps?dryRun=All", body)

    def refusal(self, case: Case) -> Answer:
        """The answer to a bad object, once the policy is in force."""
        until = time.monotonic() + PATIENCE
        while (answer := self.create(case, "bad")).status == 201:
            assert time.monotonic() < until, case.name
            time.sleep(0.1)
        return answer


@pytest.fixture(params=WIRES)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with request.param() as wire:
        name = unused_name("policies")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert wire.send("POST", "/api/v1/namespaces", body).status == 201
        place = Place(wire, name)
        for case in (*ADMITTED, *REFUSED):
            place.establish(case)
        yield place
        for case in (*ADMITTED, *REFUSED):
            for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
                wire.send("DELETE", f"{GROUP}/{plural}/{place.policy(case)}")


def test_a_policy_refuses_what_its_binding_says_in_the_words_of_kube_apiserver(place: Place) -> None:
    for case, (status, reason, message) in REFUSED.items():
        answer, policy = place.refusal(case), place.policy(case)
        told = f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {message}"
        assert (answer.status, answer.json["reason"]) == (status, reason)
        assert answer.json["message"] == f'configmaps "{case.name}" is forbidden: {told}'
        assert answer.json["details"] == {"name": case.name, "kind": "configmaps", "causes": [{"message": told}]}
    (good, *_) = REFUSED
    assert place.create(good, "good").status == 201
    for case in ADMITTED:
        assert place.create(case, "bad").status == 201, case.name


def test_a_policy_is_stored_with_what_is_left_out(place: Place) -> None:
    (case, *_) = REFUSED
    spec = place.wire.send("GET", f"{GROUP}/validatingadmissionpolicies/{place.policy(case)}").json["spec"]
    constraints = spec["matchConstraints"]
    assert (spec["failurePolicy"], constraints["matchPolicy"]) == ("Fail", "Equivalent")
    assert constraints["resourceRules"] == [{**MAPS, "scope": "*"}]
    (bound,) = (case for case in ADMITTED if case.name == "narrow")
    live = place.wire.send("GET", f"{GROUP}/validatingadmissionpolicybindings/{place.policy(bound)}").json["spec"]
    assert live["matchResources"] == {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {"matchLabels": {"more": "x"}},
    }


def test_an_expression_that_does_not_compile_is_refused(place: Place) -> None:
    spec = {"matchConstraints": {"resourceRules": [MAPS]}, "validations": [{"expression": "object.data. =="}]}
    meta = {"name": f"{place.name}-broken"}
    body = {"apiVersion": GROUP.removeprefix("/apis/"), "kind": "ValidatingAdmissionPolicy", "metadata": meta}
    answer = place.wire.send("POST", f"{GROUP}/validatingadmissionpolicies", {**body, "spec": spec})
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == ["spec.validations[0].expression"]
