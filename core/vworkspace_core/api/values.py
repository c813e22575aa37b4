"""Chart values: integrations at the bottom, explicit values above, an Operation's patch on top (RES-1, REC-9)."""

from collections.abc import Mapping
from typing import Any

from vworkspace_core.api.application_instance import ApplicationInstanceSpec, Integrations, ValuesSource


def integration_values(integrations: Integrations | None) -> dict[str, Any]:
    """Return the values fragment that follows from the integrations; empty if there are none."""
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
    """Return the values in the HelmRelease itself, before an Operation's patch; none if they are referenced."""
    if spec.values is not None and spec.values.source is not ValuesSource.INLINE:
        return {}
    explicit = (spec.values.inline if spec.values is not None else None) or {}
    return overlay(integration_values(spec.integrations), explicit)


def overlay(beneath: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two values as Helm merges values files: mappings key by key, everything else replaced by `above`."""
    merged = dict(beneath)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            value = overlay(under, value)
        merged[key] = value
    return merged


def patch_between(target: Mapping[str, Any], desired: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch that turns `target` into `desired`, itself the result of a merge patch."""
    patch: dict[str, Any] = {key: None for key in target if key not in desired}
    for key, value in desired.items():
        under = target.get(key)
        if key in target and under == value and isinstance(under, bool) == isinstance(value, bool):
            continue
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            patch[key] = patch_between(under, value)
        else:
            patch[key] = value
    return patch
