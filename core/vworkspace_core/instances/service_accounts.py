"""The service account with which Flux installs a release (REC-4): Flux's own only if the cluster permits it.

Without an account helm-controller applies the chart's objects with its own rights, as a rule the whole cluster's.
Anyone who may create an instance would then have these rights.
"""

from purekube.apimachinery.manifest import ObjectRef
from purekube.ports import KubernetesEvent
from vworkspace_core.api.application_instance import ApplicationInstance, Release
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.instances.context import RELEASE_ACCOUNT, Settings


def release_account(release: Release, settings: Settings) -> str:
    """Return the account that Flux impersonates: the instance's if allowed, else the setting's; else empty."""
    given, usual = release.service_account_name, settings.default_service_account or ""
    return given if given and given in (usual, *settings.allowed_release_service_accounts) else usual


def unimpersonated(release: Release | None, settings: Settings) -> str:
    """Return why Flux may not install a release with its own rights; empty if it has an account, or is permitted to."""
    if release is None or release_account(release, settings) or settings.allow_unimpersonated_releases:
        return ""
    return (
        "no service account is set for Flux to install this release with, and with its own rights a chart could do "
        "anything in the cluster. To fix: an administrator starts the operator with --service-account "
        f"({RELEASE_ACCOUNT} is the one that is printed for gated namespaces), or, to let charts do anything, with "
        "--allow-unimpersonated-releases"
    )


def replaced_account(source: ApplicationInstance, release: Release, settings: Settings) -> tuple[KubernetesEvent, ...]:
    """Report once per generation that another account than the requested one is used."""
    meta, given, used = source.metadata, release.service_account_name, release_account(release, settings)
    if not given or given == used or source.status.observed_generation == meta.generation:
        return ()
    note = (
        f"spec.release.serviceAccountName: {given} is not among the accounts that this cluster allows for releases; "
        f"{used or 'no account'} is used. An administrator allows it with --allowed-release-service-accounts={given}"
    )
    return (
        KubernetesEvent(
            regarding=ObjectRef(APPLICATION_INSTANCE, meta.namespace, meta.name),
            regarding_uid=meta.uid,
            type="Warning",
            reason="ServiceAccountReplaced",
            action="Reconcile",
            note=note,
        ),
    )
