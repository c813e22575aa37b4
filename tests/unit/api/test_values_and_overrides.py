"""RES-1, REC-9: layers of chart values, and what a helm Operation asks for on top of what another one has asked for."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import canonical_json, merge_patch, patch_between
from tests.support.instance_worlds import instance_manifest
from vworkspace_core.api.application_instance import ReleaseOverride, ReplacedOverride
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.release_override import (
    effective_override,
    inline_values,
    integration_values,
    is_overtaken,
    is_retry_request,
    overlay,
    spec_hash,
    summed_patch,
)

VALUES = {"a": 1, "deep": {"x": 1, "y": 2}}
PLAIN = read_application_instance(instance_manifest(values={"source": "inline", "inline": VALUES}))
HASH = spec_hash(PLAIN.spec)
LATER = read_application_instance(instance_manifest(values={"source": "inline", "inline": {"a": 2}}))


def override(uid: str, version: str | None = None, patch: Any = None, before: Any = None) -> ReleaseOverride:
    return ReleaseOverride(f"op-{uid}", uid, HASH, version, patch, before)


def replaced(one: ReleaseOverride) -> ReplacedOverride:
    return ReplacedOverride(one.operation, one.uid, one.spec_hash, one.version, one.values_patch)


def standing(one: ReleaseOverride | None, of: Any = PLAIN) -> Any:
    return attrs.evolve(of, status=attrs.evolve(of.status, release_override=one))


FORMER = override("1", "6.7.0", {"deep": None, "b": 1})


def test_a_request_comes_on_top_of_what_stands_and_keeps_it_as_replaced() -> None:
    asked = override("2", None, {"deep": {"z": 3}})
    found = effective_override(standing(FORMER), asked)

    assert found == override("2", "6.7.0", {"b": 1, "deep": {"x": None, "y": None, "z": 3}}, replaced(FORMER))
    newer = override("2", "6.8.0")
    assert effective_override(standing(FORMER), newer) == override(
        "2", "6.8.0", {"deep": None, "b": 1}, replaced(FORMER)
    )


@pytest.mark.parametrize(
    ("recorded", "asked", "withdrawn", "found"),
    [
        (None, None, (), None),
        (None, override("2", "6.8.0"), (), override("2", "6.8.0")),
        (FORMER, None, (), FORMER),
        (FORMER, override("2", "6.8.0"), ("2",), FORMER),
        (FORMER, override("1", "6.8.0"), (), FORMER),
        (FORMER, attrs.evolve(override("2", "6.8.0"), spec_hash="other-hash"), (), FORMER),
        (FORMER, None, ("1",), None),
        (override("2", "6.8.0", None, replaced(FORMER)), None, ("2",), FORMER),
        (override("2", "6.8.0", None, replaced(FORMER)), None, ("1", "2"), None),
        (override("2", "6.8.0", None, replaced(FORMER)), None, ("1",), override("2", "6.8.0", None, replaced(FORMER))),
    ],
)
def test_what_is_in_force(recorded: Any, asked: Any, withdrawn: tuple[str, ...], found: Any) -> None:
    assert effective_override(standing(recorded), asked, frozenset(withdrawn)) == found


def test_a_part_ends_with_what_it_was_about() -> None:
    assert effective_override(standing(FORMER, LATER), None) == override("1", "6.7.0")
    assert effective_override(standing(override("1", None, {"b": 1}), LATER), None) is None
    chart = attrs.evolve(PLAIN.spec.chart, version="9.9.9") if PLAIN.spec.chart is not None else None
    moved = attrs.evolve(standing(FORMER), spec=attrs.evolve(PLAIN.spec, chart=chart))
    assert effective_override(moved, None) == attrs.evolve(FORMER, version=None)
    assert effective_override(attrs.evolve(moved, status=standing(override("1", "6.7.0")).status), None) is None


@pytest.mark.parametrize(
    ("recorded", "patch", "summed"),
    [
        (None, {"b": 2}, {"b": 2}),
        (override("1", "6.7.0"), {"b": 2}, {"b": 2}),
        (override("1", None, {"b": 1, "c": 1}), {"b": 2}, {"b": 2, "c": 1}),
        (override("1", None, {"b": 1}), {"b": None}, {}),
        (override("1", None, {"a": None}), {"a": 1}, {}),
        (FORMER, {}, {"deep": None, "b": 1}),
        (None, {}, {}),
    ],
)
def test_a_patch_is_summed_with_the_one_in_force_and_goes_last(recorded: Any, patch: Any, summed: Any) -> None:
    assert summed_patch(standing(recorded), patch) == summed


def test_a_patch_that_has_ended_is_not_summed() -> None:
    assert summed_patch(standing(FORMER, LATER), {"b": 2}) == {"b": 2}


@pytest.mark.parametrize(
    ("version", "patch", "before", "is_retry"),
    [
        (None, None, None, True),
        (None, {}, None, True),
        ("6.6.0", None, None, True),
        ("6.7.0", None, None, False),
        (None, {"a": 1}, None, False),
        ("6.7.0", None, override("1", "6.7.0"), True),
        (None, None, override("1", "6.7.0"), False),
        ("6.7.0", {"a": 1}, override("1", "6.7.0", {"a": 1}), True),
        ("6.7.0", None, override("1", "6.7.0", {"a": 1}), False),
        ("6.6.0", {"a": 1}, override("1", None, {"a": 1}), True),
    ],
)
def test_a_request_that_changes_nothing_asks_for_another_try(
    version: str | None, patch: Any, before: ReleaseOverride | None, is_retry: bool
) -> None:
    asked = override("2", version, patch, None if before is None else replaced(before))
    assert is_retry_request(asked, "6.6.0") is is_retry


@pytest.mark.parametrize(
    ("version", "patch", "overtaken"),
    [(None, None, False), ("6.7.0", None, True), (None, {}, True), ("", None, False)],
)
def test_nothing_is_overtaken_where_nothing_was_asked_for(version: Any, patch: Any, overtaken: bool) -> None:
    assert is_overtaken(PLAIN.spec, "other-hash", version, patch) is overtaken
    assert is_overtaken(PLAIN.spec, "formerly", version, patch) is overtaken
    assert not is_overtaken(PLAIN.spec, HASH, version, patch)


@pytest.mark.parametrize(
    ("beneath", "above", "merged"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
        ({"a": {"x": 1}}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {"a": {"x": 2}}, {"a": {"x": 2}}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({"a": [1]}, {"a": [2]}, {"a": [2]}),
    ],
)
def test_layers_are_merged_as_helm_merges_files_of_values(beneath: Any, above: Any, merged: Any) -> None:
    assert overlay(beneath, above) == merged


@pytest.mark.parametrize(
    ("target", "desired", "patch"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {}, {"a": None}),
        ({}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": False}, {"a": 0}, {"a": 0}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1}}, {"a": {"y": None}}),
        ({"a": {"x": 1}}, {"a": {"x": True}}, {"a": {"x": True}}),
        ({"a": {"x": 1}}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": {"x": {"y": 0}}}, {"a": {"x": {"y": False}}}, {"a": {"x": {"y": False}}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}),
        ({"a": [1]}, {"a": [True]}, {"a": [True]}),
        ({"a": {}}, {"a": {}}, {}),
    ],
)
def test_a_patch_between_two_values_has_what_differs(target: Any, desired: Any, patch: Any) -> None:
    found = patch_between(target, desired)

    assert canonical_json(found) == canonical_json(patch)
    assert canonical_json(merge_patch(target, found)) == canonical_json(desired)


def integrated(**spec: Any) -> Any:
    return read_application_instance(instance_manifest(**spec)).spec


def test_integrations_are_values_beneath_those_of_the_spec() -> None:
    integrations = {
        "ingress": {"enabled": True, "host": "a.example"},
        "certManager": {"enabled": False},
        "externalSecrets": {"enabled": True},
    }
    spec = integrated(
        integrations=integrations, values={"source": "inline", "inline": {"ingress": {"host": "b.example"}, "z": 1}}
    )

    assert integration_values(spec.integrations) == integrations
    assert inline_values(spec) == {**integrations, "ingress": {"enabled": True, "host": "b.example"}, "z": 1}
    assert integration_values(integrated(integrations={"ingress": {"enabled": False}}).integrations) == {
        "ingress": {"enabled": False}
    }
    assert integration_values(None) == {}
    elsewhere = {"source": "secretRef", "secretRef": {"name": "s", "key": "k"}}
    assert inline_values(integrated(integrations=integrations, values=elsewhere)) == {}
    assert inline_values(integrated(integrations={"certManager": {"enabled": True}}, values=None)) == {
        "certManager": {"enabled": True}
    }
