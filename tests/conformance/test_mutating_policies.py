"""MutatingAdmissionPolicies, measured on a kube-apiserver: what they make of objects, in which order (RUN-8, PH-10)."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import pytest

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.boxes.webhooks.admission_policy import MUTATING_BINDING, MUTATING_POLICY, is_enforced_by, policy_of
from purekube.cel import API_SERVER, LIBRARIES, CelType
from purekube.cel.signatures import Function
from tests.support.filled_objects import VALUES, Shops, filling, shop
from tests.support.patience import PATIENCE
from tests.support.plain_http import WIRES
from tests.support.policy_place import GROUP, MAPS, PolicyPlace, policy_place

_SETS: Final = '[JSONPatch{op: "add", path: "/data/%s", value: %s}]'


def _patching(expression: str) -> Manifest:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def establish(place: PolicyPlace, case: str, *expressions: str, **more: Any) -> None:
    """Let a policy and its binding patch the case's ConfigMaps."""
    spec = {"mutations": [*map(_patching, expressions)], "reinvocationPolicy": "Never", **more}
    place.bind(case, (MUTATING_POLICY, MUTATING_BINDING), spec, {})


@pytest.fixture(params=WIRES)
def place(request: pytest.FixtureRequest) -> Iterator[PolicyPlace]:
    with policy_place(request.param, "mutating") as place:
        yield place


DEEP: Final[tuple[Any, ...]] = (None, 3, "x", [], {}, {"name": None})
SPECS: Final[tuple[Any, ...]] = (
    {"image": "i", "parts": []},
    {"image": "ü", "parts": [{"name": "p"}], "host": None, "free": None, "port": "http", "replicas": 0},
    {"image": "i", "parts": [], "host": "", "free": {}, "ratio": 0},
    *({"image": "i", "parts": [], "free": {"deep": deep}} for deep in DEEP),
    {
        "image": "i",
        "parts": [],
        "host": "mine",
        "free": {"deep": {"name": "own", "other": 0}, "more": "m"},
        "ratio": 2.5,
    },
    {"parts": []},
    {"image": "i", "parts": [], "free": 3},
    None,
)
LABELS: Final[tuple[Mapping[str, str], ...]] = ({}, {"a": "x", "b": "y", "n": "1.5"}, {"n": "no number"})


@pytest.mark.slow
def test_values_of_a_box_are_those_that_its_webhook_would_fill_in_PH_10(place: PolicyPlace) -> None:
    box = attrs.evolve(filling(VALUES, f"{place.name}.example.com"), name=place.name)
    shops = f"/apis/{box.kind.api_version}/namespaces/default/shops?dryRun=All"
    assert place.create(CUSTOM_RESOURCE_DEFINITION, box.crd).status == 201
    for kind, manifest in policy_of(box).items():
        assert place.create(kind, manifest).status == 201
        live = place.wire.send("GET", place.made[-1]).json
        assert is_enforced_by(manifest, live), "what the API server defaults is written out"
    until = time.monotonic() + PATIENCE
    while (answer := place.wire.send("POST", shops, shop(box, SPECS[0], {}))).status != 201 or (
        "host" not in answer.json["spec"]
    ):
        assert time.monotonic() < until, answer
        time.sleep(0.1)
    wrong = []
    for written in (shop(box, spec, labels) for spec in SPECS for labels in LABELS):
        answer = place.wire.send("POST", shops, written)
        found = (201, answer.json["spec"]) if answer.status == 201 else (0, None)
        if [found] != Shops(box).with_webhook().outcome(written):
            wrong.append((written, found, answer.json.get("message")))
    assert not wrong


def test_each_mutation_sees_what_the_one_before_made_and_validation_sees_all_PH_10(place: PolicyPlace) -> None:
    establish(place, "order", _SETS % ("a", "'1'"), _SETS % ("b", "object.data.a + object.data.c"))
    assert place.until("order", c="2").json["data"] == {"a": "1", "b": "12", "c": "2"}
    establish(place, "again", _SETS % ("a", "has(object.data.a) ? 'twice' : 'once'"))
    assert place.until("again", c="2").json["data"] == {"a": "once", "c": "2"}
    establish(place, "never", _SETS % ("a", "'1'"), matchConditions=[{"name": "never", "expression": "false"}])
    assert place.config("never", c="2").json["data"] == {"c": "2"}


def test_a_value_that_cannot_be_computed_refuses_the_object_unless_it_may_be_ignored_PH_10(place: PolicyPlace) -> None:
    expression = _SETS % ("a", "object.data.nothing")
    establish(place, "ignored", expression, _SETS % ("b", "'1'"), failurePolicy="Ignore")
    assert place.until("ignored", c="2").json["data"] == {"b": "1", "c": "2"}
    establish(place, "fails", expression)
    answer, policy = place.until("fails", c="2"), place.policy("fails")
    told = f"expression '{expression}' resulted in error: no such key: nothing"
    message = f"policy '{policy}' with binding '{policy}' denied request: {told}"
    assert (answer.status, answer.json["reason"], answer.json["message"]) == (403, "Invalid", message)
    assert answer.json["details"] == {"name": "fails", "kind": "configmaps", "causes": [{"message": message}]}


@pytest.mark.parametrize(
    ("mutations", "field"),
    [
        ([_patching("[JSONPatch{op: }]")], "spec.mutations[0].jsonPatch.expression"),
        ([{"patchType": "JSONPatch"}], "spec.mutations[0].jsonPatch"),
        ([], "spec.mutations"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(place: PolicyPlace, mutations: list[Any], field: str) -> None:
    spec = {"matchConstraints": {"resourceRules": [MAPS]}, "mutations": mutations, "reinvocationPolicy": "Never"}
    answer = place.create(MUTATING_POLICY, {**MUTATING_POLICY.manifest(place.policy("broken")), "spec": spec})
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == [field]


# --- functions --------------------------------------------------------------------------------------------------------

SAMPLES: Final = {
    "string": "'1'",
    "int": "1",
    "uint": "1u",
    "double": "1.0",
    "bool": "true",
    "bytes": "b'a'",
    "timestamp": "timestamp('2026-01-01T00:00:00Z')",
    "duration": "duration('1s')",
    "quantity": "quantity('1')",
    "url": "url('https://a')",
    "ip": "ip('10.0.0.1')",
    "cidr": "cidr('10.0.0.0/8')",
    "semver": "semver('1.2.3')",
}
CALLS: Final = {
    "timestamp(string) -> timestamp": "timestamp('2026-01-01T00:00:00Z')",
    "duration(string) -> duration": "duration('1s')",
    "string.format(list(dyn)) -> string": "'%d'.format([1])",
    "list($A).flatten() -> list(dyn)": "[[1]].flatten()",
}
"""Calls whose literals are checked too."""


def _sample(kind: CelType) -> str:
    match kind.name:
        case "list":
            return f"[{_sample(kind.item)}]"
        case "map":
            return "{'a': 1}"
        case "optional":
            return f"optional.of({_sample(kind.item)})"
        case name:
            return SAMPLES.get(name, "1")


def _calls(function: Function) -> Iterator[tuple[str, str]]:
    for signature in function.signatures:
        arguments = [_sample(kind) for kind in signature.parameters]
        target = f"{arguments.pop(0)}." if function.method else ""
        yield signature.text, CALLS.get(signature.text) or f"{target}{function.name}({', '.join(arguments)})"


@pytest.mark.parametrize("connected", WIRES[1:])
def test_an_applied_box_may_use_the_functions_that_the_api_server_has_PH_10(connected: Any) -> None:
    known = {signature.text for function in API_SERVER.values() for signature in function.signatures}
    wrong = []
    calls = (pair for library in LIBRARIES.values() for one in library for pair in _calls(one))
    with connected() as wire:
        for text, call in calls:
            spec = {"matchConstraints": {"resourceRules": [MAPS]}, "mutations": [_patching(_SETS % ("a", call))]}
            policy = {**MUTATING_POLICY.manifest("any"), "spec": {**spec, "reinvocationPolicy": "Never"}}
            answer = wire.send("POST", f"{GROUP}/{MUTATING_POLICY.plural}?dryRun=All", policy)
            if (answer.status == 201) is not (text in known):
                wrong.append((text, call, answer.json.get("message", "")[-300:]))
    assert not wrong
