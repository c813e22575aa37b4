"""REC-9 as values: which override is in force, whatever was recorded, asked, withdrawn, changed or forbidden."""

from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from tests.support.instance_worlds import instance_manifest
from vworkspace_core.api.application_instance import ApplicationInstance, ReleaseOverride, ReplacedOverride
from vworkspace_core.api.chart import AppliedChart, Policy, SourceType
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.release_override import effective_override, is_overtaken, permitted_override, spec_hash

PLAIN = read_application_instance(instance_manifest())
assert PLAIN.spec.chart is not None
NEW_CHART = attrs.evolve(PLAIN.spec, chart=attrs.evolve(PLAIN.spec.chart, version="9.9.9"))
NEW_VALUES = attrs.evolve(
    PLAIN.spec,
    values=read_application_instance(instance_manifest(values={"source": "inline", "inline": {"z": 1}})).spec.values,
)
SPECS = st.sampled_from([PLAIN.spec, NEW_CHART, NEW_VALUES])
HASH = spec_hash(PLAIN.spec)
VERSIONS = st.sampled_from([None, "6.7.0", "6.8.0"])
PATCHES = st.sampled_from([None, {"a": 1}, {"b": None}])


def override(uid: str, version: str | None, patch: Any, before: ReleaseOverride | None = None) -> ReleaseOverride:
    replaced = None
    if before is not None:
        replaced = ReplacedOverride(before.operation, before.uid, HASH, before.version, before.values_patch)
    return ReleaseOverride(f"op-{uid}", uid, HASH, version, patch, replaced)


def part_in_force(one: ReleaseOverride | None, instance: ApplicationInstance) -> tuple[Any, Any]:
    """The version and the patch that the spec leaves in force; an oracle of its own."""
    if one is None:
        return None, None
    same_chart, same_values = instance.spec.chart == PLAIN.spec.chart, instance.spec.values == PLAIN.spec.values
    return (one.version if same_chart else None), (one.values_patch if same_values else None)


@given(SPECS, VERSIONS, PATCHES, st.booleans(), st.sets(st.sampled_from(["1", "2"])))
def test_what_is_withdrawn_leaves_in_force_what_it_replaced_REC_9(
    spec: Any, version: str | None, patch: Any, has_former: bool, withdrawn: set[str]
) -> None:
    former = override("1", "6.6.5", {"c": 1}) if has_former else None
    recorded = override("2", version, patch, former)
    status = attrs.evolve(PLAIN.status, release_override=recorded)
    instance = attrs.evolve(PLAIN, spec=spec, status=status)

    found = effective_override(instance, None, frozenset(withdrawn))

    stands = recorded if "2" not in withdrawn else former if "1" not in withdrawn else None
    expected = part_in_force(stands, instance)
    assert ((found.version, found.values_patch) if found else (None, None)) == expected
    assert stands is None or found is None or found.uid == stands.uid


@given(SPECS, VERSIONS, PATCHES)
def test_a_request_is_overtaken_by_a_change_of_what_it_is_about_REC_9(
    spec: Any, version: str | None, patch: Any
) -> None:
    found = is_overtaken(spec, HASH, version, patch)
    new_chart, new_values = spec is NEW_CHART, spec is NEW_VALUES
    assert found is ((version is not None and new_chart) or (patch is not None and new_values))


@given(VERSIONS, VERSIONS, PATCHES, st.sets(st.sampled_from(["6.7.0", "6.8.0"])), VERSIONS)
def test_a_forbidden_version_leaves_in_force_what_it_would_replace_unless_it_runs_RES_3(
    former: str | None, version: str | None, patch: Any, forbidden: set[str], applied: str | None
) -> None:
    before = None if former is None else override("1", former, None)
    asked = override("2", version, patch, before)
    ran = None if applied is None else AppliedChart(SourceType.OCI, "oci://x", "nextcloud", applied)
    instance = attrs.evolve(PLAIN, status=attrs.evolve(PLAIN.status, last_applied_chart=ran))

    found, refusal = permitted_override(instance, asked, Policy(forbidden_versions=tuple(forbidden)))

    is_forbidden = version in forbidden
    assert bool(refusal) is is_forbidden
    if not is_forbidden or version == applied:
        assert found == asked
    elif former is None or (former in forbidden and former != applied):
        assert found is None
    else:
        assert found is not None
        assert (found.uid, found.version) == ("1", former)
    assert permitted_override(instance, None, Policy(forbidden_versions=("6.7.0",))) == (None, "")
    chartless = attrs.evolve(instance, spec=attrs.evolve(instance.spec, chart=None))
    assert permitted_override(chartless, asked, Policy(forbidden_versions=tuple(forbidden))) == (asked, "")
