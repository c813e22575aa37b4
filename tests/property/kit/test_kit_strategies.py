"""Strategies from the schema of a kind: what they draw, an API server takes (PH-7)."""

from typing import Any

import attrs
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from kubelab import ApiServer, InProcessKube, ManualClock, run_sync
from purekube import CUSTOM_RESOURCE_DEFINITION, Manifest
from purekube.apimachinery.manifest import ref_of
from purekube.boxes.schemas import CrdVersions
from purekube.reconcilers import resource
from purekube.schema import apply_defaults, compile_schema, validate
from purekube_kit import changes_of, objects_of
from purekube_run.examples.examples import NoExample
from tests.support.effort import effort

CLOCK = ManualClock()
ONE = settings(max_examples=effort(8.0), phases=[Phase.generate], database=None)
"""The first that is found will do."""


def definition(spec: dict[str, Any], **more: Any) -> Manifest:
    """A CRD of Things."""
    root = {"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object", **spec}}, **more}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}],
        },
    }


RICH = definition(
    {
        "required": ["name", "digest", "port"],
        "properties": {
            "name": {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "minLength": 2, "maxLength": 9},
            "digest": {"type": "string", "pattern": "^sha256:[a-f0-9]{64}$"},
            "host": {"type": "string", "pattern": r"\.example\.com$", "minLength": 20},
            "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "quantity": {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+(Ki|Mi|Gi)?$"},
            "ratio": {"type": "number", "minimum": 0, "exclusiveMaximum": True, "maximum": 1},
            "even": {"type": "integer", "minimum": 3, "maximum": 9, "multipleOf": 2},
            "below": {"type": "integer", "maximum": -3},
            "size": {"type": "string", "enum": ["s", "m"], "default": "s"},
            "maybe": {"type": "string", "nullable": True},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "whole": {"type": "object", "x-kubernetes-embedded-resource": True,
                      "x-kubernetes-preserve-unknown-fields": True},
            "labels": {"type": "object", "minProperties": 1, "maxProperties": 2,
                       "additionalProperties": {"type": "string", "maxLength": 3}},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "minItems": 2, "items": {"type": "string"}},
            "parts": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name", "protocol"],
                "minItems": 1,
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string", "enum": ["a", "b"]},
                        "protocol": {"type": "string", "enum": ["TCP", "UDP"], "default": "TCP"},
                    },
                },
            },
            "least": {"type": "integer", "minimum": 0, "maximum": 10},
            "most": {"type": "integer", "minimum": 0, "maximum": 10},
            "source": {
                "type": "object",
                "properties": {"git": {"type": "string"}, "oci": {"type": "string"}},
                "oneOf": [{"required": ["git"]}, {"required": ["oci"]}],
            },
        },
        "x-kubernetes-validations": [
            {"rule": "!has(self.least) || !has(self.most) || self.least <= self.most"},
            {"rule": "has(self.least) == has(self.most)"},
        ],
    }
)  # fmt: skip


def served(manifest: Manifest) -> InProcessKube:
    """An API server with this definition."""
    kube = InProcessKube(ApiServer(now=CLOCK.now))
    run_sync(kube.create(manifest, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="test"))
    return kube


KUBE = served(RICH)
KNOWN = CrdVersions.of(RICH).stored
THING, SCHEMA = KNOWN.kind, compile_schema(RICH["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


@pytest.mark.slow
@given(objects_of(RICH))
def test_kit_draws_what_an_api_server_takes(drawn: Manifest) -> None:
    run_sync(KUBE.create(drawn, kind=THING, field_manager="test"))
    run_sync(KUBE.delete(ref_of(drawn, THING)))


@given(objects_of(RICH, wide=True))
def test_kit_draws_odd_values_that_are_valid(drawn: Manifest) -> None:
    assert validate(SCHEMA, apply_defaults(SCHEMA, drawn)) == []


FIXED = definition(
    {
        "required": ["class", "size"],
        "properties": {
            "class": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
            "size": {"type": "integer", "minimum": 1, "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]},
            "more": {"type": "object", "properties": {"text": {"type": "string"}}},
        },
        "x-kubernetes-validations": [{"rule": "!has(oldSelf.more) || has(self.more)", "message": "more stays"}],
    }
)
FIXED_KUBE = served(FIXED)


@given(changes_of(FIXED))
def test_kit_draws_changes_that_rules_of_transition_let_through(pair: tuple[Manifest, Manifest]) -> None:
    old, new = pair
    live = run_sync(FIXED_KUBE.create(old, kind=THING, field_manager="test"))
    version = {"resourceVersion": live["metadata"]["resourceVersion"]}
    run_sync(FIXED_KUBE.update({**new, "metadata": {**new["metadata"], **version}}, kind=THING, field_manager="test"))
    run_sync(FIXED_KUBE.delete(ref_of(old, THING)))

    assert new["spec"]["class"] == old["spec"]["class"]


@pytest.mark.parametrize("field", ["size", "more"])
def test_kit_draws_changes_of_every_field_that_may_change(field: str) -> None:
    pair = find(changes_of(FIXED), lambda pair: pair[0]["spec"].get(field) != pair[1]["spec"].get(field), settings=ONE)

    assert pair[0]["metadata"] == pair[1]["metadata"]


@attrs.frozen
class DatabaseSpec:
    """A database, whose spec has a field with the name of an argument."""

    version: str


@attrs.frozen
class DatabaseStatus:
    """Nothing except the conditions."""


@pytest.mark.parametrize("version", ["17", st.sampled_from(["17", "18"])])
def test_kit_fixes_a_field_that_is_called_version(version: Any) -> None:
    databases = resource("tests.example", "v1", "Database", DatabaseSpec, DatabaseStatus)

    drawn = find(objects_of(databases, version=version), lambda _: True, settings=ONE)
    before, _ = find(changes_of(databases, version=version), lambda _: True, settings=ONE)

    assert {drawn.spec.version, before.spec.version} <= {"17", "18"}


def test_kit_says_which_rule_leaves_nothing() -> None:
    impossible = definition(
        {
            "required": ["size"],
            "properties": {"size": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.size > 99999", "message": "size must be huge"}],
        }
    )

    with pytest.raises(NoExample, match=r"things\.example\.com could be drawn .*size must be huge"):
        find(objects_of(impossible), lambda drawn: True, settings=ONE)

    drawn = find(objects_of(impossible, size=st.integers(100_000, 200_000)), lambda drawn: True, settings=ONE)
    assert drawn["spec"]["size"] >= 100_000


@pytest.mark.parametrize("version", ["v2", "v1alpha1"])
def test_kit_refuses_a_version_that_is_not_there(version: str) -> None:
    with pytest.raises(ValueError, match=rf"no version {version}: v1"):
        objects_of(RICH, version=version)
