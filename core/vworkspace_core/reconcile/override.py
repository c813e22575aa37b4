"""The release override of REC-9: what a helm Operation asks for on top of the spec."""

from vworkspace_core.kinds.application_instance import ApplicationInstance, ApplicationInstanceSpec, ReleaseOverride
from vworkspace_core.kinds.border import unstructure
from vworkspace_core.manifest import content_hash
from vworkspace_core.reconcile.decision import Observed, Policy

__all__ = ["effective_override", "is_forbidden", "spec_hash"]


def spec_hash(spec: ApplicationInstanceSpec) -> str:
    """Hash of chart and values: when it changes, new intent wins over an older override; suspend is not in it."""
    return content_hash(
        {
            "chart": None if spec.chart is None else unstructure(spec.chart),
            "values": None if spec.values is None else unstructure(spec.values),
        }
    )


def effective_override(source: ApplicationInstance, observed: Observed) -> ReleaseOverride | None:
    """The override in force: asked for now or recorded before, neither withdrawn nor overtaken by new intent."""
    override = observed.override or source.status.release_override
    if override is None or override.uid in observed.withdrawn:
        return None
    return override if override.spec_hash == spec_hash(source.spec) else None


def is_forbidden(chart: str, version: str, policy: Policy) -> bool:
    """Whether the cluster's policy forbids that version, of every chart or of this one (`<chart>@<version>`)."""
    return version in policy.forbidden_versions or f"{chart}@{version}" in policy.forbidden_versions
