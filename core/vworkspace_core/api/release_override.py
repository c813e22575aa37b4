"""The layers of chart values: integrations, explicit values over them, and patches of helm Operations over both.

See RES-1 and REC-9.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from purekube.apimachinery.manifest import content_hash, merge_patch, patch_between
from purekube.apimachinery.problems import join
from purekube.apimachinery.structuring import unstructure
from vworkspace_core.api.application_instance import (
    ApplicationInstance,
    ApplicationInstanceSpec,
    Integrations,
    ReleaseOverride,
    ReplacedOverride,
    ValuesSource,
)
from vworkspace_core.api.chart import Policy, is_forbidden


def integration_values(integrations: Integrations | None) -> dict[str, Any]:
    """Return the chart values that the instance's integrations imply, or an empty mapping if there are none."""
    if integrations is None:
        return {}
    fragment: dict[str, Any] = {}
    if integrations.ingress is not None:
        ingress: dict[str, Any] = {"enabled": integrations.ingress.enabled}
        if integrations.ingress.host is not None:
            ingress["host"] = integrations.ingress.host
        fragment["ingress"] = ingress
    if integrations.cert_manager is not None:
        fragment["certManager"] = {"enabled": integrations.cert_manager.enabled}
    if integrations.external_secrets is not None:
        fragment["externalSecrets"] = {"enabled": integrations.external_secrets.enabled}
    return fragment


def inline_values(spec: ApplicationInstanceSpec) -> dict[str, Any]:
    """Return the HelmRelease's inline values without any Operation's patch.

    They are empty if `spec.values` refers to a Secret or ConfigMap.
    """
    if spec.values is not None and spec.values.source is not ValuesSource.INLINE:
        return {}
    explicit = (spec.values.inline if spec.values is not None else None) or {}
    return overlay(integration_values(spec.integrations), explicit)


def overlay(beneath: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return two layers of chart values merged as Helm merges values files.

    Mappings are merged by key; any other value in `above` replaces the value in `beneath`.
    """
    merged = dict(beneath)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            value = overlay(under, value)
        merged[key] = value
    return merged


_BETWEEN = "-"


def spec_hash(spec: ApplicationInstanceSpec) -> str:
    """Return a string with two hashes, of the spec's chart and of its values, by which a later change of either is
    recognized.

    The field `suspend` is not included.
    """
    parts = (None if part is None else unstructure(part) for part in (spec.chart, spec.values))
    return _BETWEEN.join(content_hash(part) for part in parts)


def _former_hash(spec: ApplicationInstanceSpec) -> str:
    """Return the single hash over the spec's chart and values that earlier versions of the operator recorded."""
    chart, values = (None if part is None else unstructure(part) for part in (spec.chart, spec.values))
    return content_hash({"chart": chart, "values": values})


def _holds(recorded_hash: str, spec: ApplicationInstanceSpec) -> tuple[bool, bool]:
    """Return a pair: whether the spec's chart, and whether its values, are unchanged since `recorded_hash` was made.

    `recorded_hash` is an earlier result of `spec_hash`.
    """
    chart, between, values = recorded_hash.partition(_BETWEEN)
    if not between:
        same = recorded_hash == _former_hash(spec)
        return same, same
    now_chart, _, now_values = spec_hash(spec).partition(_BETWEEN)
    return chart == now_chart, values == now_values


def is_overtaken(spec: ApplicationInstanceSpec, recorded_hash: str, version: Any, values_patch: Any) -> bool:
    """Report whether the spec has changed since a request, so that part of the request no longer applies.

    A changed chart invalidates the requested `version`, and changed values invalidate the requested `values_patch`.
    `recorded_hash` is the `spec_hash` at the time of the request.
    """
    same_chart, same_values = _holds(recorded_hash, spec)
    return bool(version and not same_chart) or bool(values_patch is not None and not same_values)


def effective_override(
    source: ApplicationInstance, asked: ReleaseOverride | None, withdrawn: frozenset[str] = frozenset()
) -> ReleaseOverride | None:
    """Return the override (the changes that helm Operations request on top of the spec) in force, or None if there is
    none.

    It is the override in the status, with the requested override `asked` merged over it. `withdrawn` has the uids of
    Operations whose changes are left out.
    """
    standing = _remaining_override(_standing(source.status.release_override, withdrawn), source.spec)
    if asked is None or asked.uid in withdrawn or (standing is not None and asked.uid == standing.uid):
        return standing
    if is_overtaken(source.spec, asked.spec_hash, asked.version, asked.values_patch):
        return standing
    return asked if standing is None else _on_top(asked, standing, source.spec)


def _standing(recorded: ReleaseOverride | None, withdrawn: frozenset[str]) -> ReleaseOverride | None:
    if recorded is None or recorded.uid not in withdrawn:
        return recorded
    before = recorded.replaced
    return None if before is None or before.uid in withdrawn else _repeated_override(before)


def _repeated_override(before: ReplacedOverride) -> ReleaseOverride:
    return ReleaseOverride(before.operation, before.uid, before.spec_hash, before.version, before.values_patch)


def _remaining_override(override: ReleaseOverride | None, spec: ApplicationInstanceSpec) -> ReleaseOverride | None:
    """Return the part of `override` (changes that helm Operations request) that is still in force.

    Return None if nothing is left. A part ends if the chart or the values in `spec` have changed since the override was
    recorded.
    """
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
    """Return the override `asked` (changes that a helm Operation requests) combined with `standing`.

    `standing` is the override in force before. Where they conflict, `asked` takes precedence. `standing` is recorded in
    the result as replaced.
    """
    patch = _sum(standing.values_patch, asked.values_patch, spec)
    before = ReplacedOverride(
        standing.operation, standing.uid, standing.spec_hash, standing.version, standing.values_patch
    )
    return attrs.evolve(asked, version=asked.version or standing.version, values_patch=patch, replaced=before)


def _sum(
    first: Mapping[str, Any] | None, second: Mapping[str, Any] | None, spec: ApplicationInstanceSpec
) -> Mapping[str, Any] | None:
    """Return one merge patch with the same effect on the spec's values as `first` followed by `second`.

    Patches cannot simply be merged with each other. If `first` removes a key by null and `second` sets keys below it,
    the removal would be lost.
    """
    if first is None or second is None:
        return second if first is None else first
    values = inline_values(spec)
    return patch_between(values, merge_patch(merge_patch(values, first), second))


def summed_patch(target: ApplicationInstance, patch: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values patch that would be in force if `patch` were merged over the one in the status of `target`.

    `target` is the ApplicationInstance that a helm Operation changes.
    """
    standing = _remaining_override(target.status.release_override, target.spec)
    return _sum(standing.values_patch if standing is not None else None, patch, target.spec) or {}


def ineffective_removals(target: ApplicationInstance, patch: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the path of each null in `patch`, a values patch at `path`, that can remove nothing from `target`.

    Values in a Secret or ConfigMap are never read (RES-1). Flux merges those of the HelmRelease over them, so that a
    null removes only what an earlier Operation has set.
    """
    if target.spec.values is None or target.spec.values.source is ValuesSource.INLINE:
        return
    standing = _remaining_override(target.status.release_override, target.spec)
    yield from _removals_of_absent(merge_patch({}, (standing.values_patch if standing else None) or {}), patch, path)


def _removals_of_absent(values: Any, patch: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in patch.items():
        beneath = values.get(key) if isinstance(values, Mapping) else None
        if value is None and beneath is None:
            yield join(path, key)
        elif isinstance(value, Mapping):
            yield from _removals_of_absent(beneath, value, join(path, key))


def is_retry_request(override: ReleaseOverride, version: str) -> bool:
    """Report whether `override` changes nothing, so that it only requests a retry. `version` is the spec's version."""
    before = override.replaced
    version_before = before.version if before is not None and before.version else version
    patch_before = before.values_patch if before is not None else None
    return (override.version or version) == version_before and (override.values_patch or {}) == (patch_before or {})


def permitted_override(
    source: ApplicationInstance, override: ReleaseOverride | None, policy: Policy
) -> tuple[ReleaseOverride | None, str]:
    """Return a pair: the part of `override` that the policy permits, and a message why the rest is refused.

    `policy` are the cluster's limits on charts. A refused part leaves in force what it would have replaced. A running
    version that becomes forbidden is not reverted, because an older version may be unable to read the data of a newer
    one.
    """
    chart, applied = source.spec.chart, source.status.last_applied_chart
    if chart is None or override is None or override.version is None:
        return override, ""
    if not is_forbidden(chart.name, override.version, policy):
        return override, ""
    message = f"Operation {override.operation} asks for version {override.version}, which is forbidden here"
    if applied is not None and override.version == applied.version:
        return override, f"{message}; it was applied before and goes on: ask for another version"
    before = (
        None if override.replaced is None else _remaining_override(_repeated_override(override.replaced), source.spec)
    )
    return permitted_override(source, before, policy)[0], message
