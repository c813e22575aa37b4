"""Chart values: integrations beneath, explicit values above, an Operation's patch on top (RES-1, REC-9)."""

from collections.abc import Mapping
from typing import Any

from vworkspace_core.kinds.application_instance import Integrations

__all__ = ["integration_values", "merge_patch", "overlay"]


def integration_values(integrations: Integrations | None) -> dict[str, Any]:
    """The values fragment that the integrations stand for; empty when none is given."""
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


def overlay(beneath: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both merged as Helm merges values files: mappings key by key, everything else replaced by `above`."""
    merged = dict(beneath)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            value = overlay(under, value)
        merged[key] = value
    return merged


def merge_patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """JSON merge patch (RFC 7396): null removes, mappings merge, everything else replaces."""
    patched = dict(target)
    for key, value in patch.items():
        if value is None:
            patched.pop(key, None)
        elif isinstance(value, Mapping):
            under = patched.get(key)
            patched[key] = merge_patch(under if isinstance(under, Mapping) else {}, value)
        else:
            patched[key] = value
    return patched
