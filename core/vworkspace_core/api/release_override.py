"""The release override of REC-9: what helm Operations ask for on top of the spec. They add up.

An Operation takes over what it does not name from the override in force, and what it replaces is kept whole: one that
fails goes back to exactly what ran, whether or not the Operation before it still exists. New intent wins, each over
its like: another chart ends the version, other values end the patch, so that a change of values never downgrades.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from vworkspace_core.api.application_instance import (
    ApplicationInstance,
    ApplicationInstanceSpec,
    ReleaseOverride,
    ReplacedOverride,
)
from vworkspace_core.api.codec import unstructure
from vworkspace_core.api.policy import Policy, is_forbidden
from vworkspace_core.api.values import inline_values, patch_between
from vworkspace_core.apimachinery.manifest import content_hash, merge_patch

_BETWEEN = "-"


def spec_hash(spec: ApplicationInstanceSpec) -> str:
    """Hashes of chart and of values: new intent is told by them, and suspend is not in it."""
    parts = (None if part is None else unstructure(part) for part in (spec.chart, spec.values))
    return _BETWEEN.join(content_hash(part) for part in parts)


def _former_hash(spec: ApplicationInstanceSpec) -> str:
    """The one hash of both that was recorded before."""
    chart, values = (None if part is None else unstructure(part) for part in (spec.chart, spec.values))
    return content_hash({"chart": chart, "values": values})


def _holds(recorded_hash: str, spec: ApplicationInstanceSpec) -> tuple[bool, bool]:
    """Whether chart and values of the spec are those of a hash."""
    chart, between, values = recorded_hash.partition(_BETWEEN)
    if not between:
        same = recorded_hash == _former_hash(spec)
        return same, same
    now_chart, _, now_values = spec_hash(spec).partition(_BETWEEN)
    return chart == now_chart, values == now_values


def is_overtaken(spec: ApplicationInstanceSpec, recorded_hash: str, version: Any, values_patch: Any) -> bool:
    """Whether new intent has ended something of what was asked for against the spec of that hash."""
    same_chart, same_values = _holds(recorded_hash, spec)
    return bool(version and not same_chart) or bool(values_patch is not None and not same_values)


def effective_override(
    source: ApplicationInstance, asked: ReleaseOverride | None, withdrawn: frozenset[str] = frozenset()
) -> ReleaseOverride | None:
    """The override in force: what stands, with what is asked for now on top."""
    standing = _left(_standing(source.status.release_override, withdrawn), source.spec)
    if asked is None or asked.uid in withdrawn or (standing is not None and asked.uid == standing.uid):
        return standing
    if is_overtaken(source.spec, asked.spec_hash, asked.version, asked.values_patch):
        return standing
    return asked if standing is None else _on_top(asked, standing, source.spec)


def _standing(recorded: ReleaseOverride | None, withdrawn: frozenset[str]) -> ReleaseOverride | None:
    if recorded is None or recorded.uid not in withdrawn:
        return recorded
    before = recorded.replaced
    return None if before is None or before.uid in withdrawn else _again(before)


def _again(before: ReplacedOverride) -> ReleaseOverride:
    return ReleaseOverride(before.operation, before.uid, before.spec_hash, before.version, before.values_patch)


def _left(override: ReleaseOverride | None, spec: ApplicationInstanceSpec) -> ReleaseOverride | None:
    """What new intent leaves of an override; None when that is nothing."""
    if override is None:
        return None
    same_chart, same_values = _holds(override.spec_hash, spec)
    if same_chart and same_values:
        return override
    version = override.version if same_chart else None
    patch = override.values_patch if same_values else None
    if version is None and patch is None:
        return None
    return attrs.evolve(override, version=version, values_patch=patch)


def _on_top(asked: ReleaseOverride, standing: ReleaseOverride, spec: ApplicationInstanceSpec) -> ReleaseOverride:
    """The sum: whoever comes later has the last word on what it names."""
    patch = _sum(standing.values_patch, asked.values_patch, spec)
    before = ReplacedOverride(
        standing.operation, standing.uid, standing.spec_hash, standing.version, standing.values_patch
    )
    return attrs.evolve(asked, version=asked.version or standing.version, values_patch=patch, replaced=before)


def _sum(
    first: Mapping[str, Any] | None, second: Mapping[str, Any] | None, spec: ApplicationInstanceSpec
) -> Mapping[str, Any] | None:
    """Two patches as one. They do not join by themselves: a null of the first hides what the second would have left."""
    if first is None or second is None:
        return second if first is None else first
    values = inline_values(spec)
    return patch_between(values, merge_patch(merge_patch(values, first), second))


def summed_patch(target: ApplicationInstance, patch: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values patch that would be in force with `patch` on top of what stands."""
    standing = _left(target.status.release_override, target.spec)
    return _sum(standing.values_patch if standing is not None else None, patch, target.spec) or {}


def asks_again(override: ReleaseOverride, version: str) -> bool:
    """Whether it changes nothing of what was in force: then it asks for another try. `version` is the spec's."""
    before = override.replaced
    version_before = before.version if before is not None and before.version else version
    patch_before = before.values_patch if before is not None else None
    return (override.version or version) == version_before and (override.values_patch or {}) == (patch_before or {})


def permitted_override(
    source: ApplicationInstance, override: ReleaseOverride | None, policy: Policy
) -> tuple[ReleaseOverride | None, str]:
    """The override as far as the cluster's policy lets it, and why not.

    One that is refused leaves in force what it would have replaced. What runs already is not taken back when it is
    forbidden later: an older version may not be able to read the data of a newer one.
    """
    chart, applied = source.spec.chart, source.status.last_applied_chart
    if chart is None or override is None or override.version is None:
        return override, ""
    if not is_forbidden(chart.name, override.version, policy):
        return override, ""
    message = f"Operation {override.operation} asks for version {override.version}, which is forbidden here"
    if applied is not None and override.version == applied.version:
        return override, f"{message}; it was applied before and goes on: ask for another version"
    before = None if override.replaced is None else _left(_again(override.replaced), source.spec)
    return permitted_override(source, before, policy)[0], message
