"""Names in a HelmRelease: of the objects that it reads, and of the account that installs it (REC-3, REC-4)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import ObjectRef, content_hash
from purekube.apimachinery.names import closed_name
from purekube.ports import KubernetesEvent
from vworkspace_core.api.application_instance import ApplicationInstance, Release
from vworkspace_core.api.installation import RELEASE_ACCOUNT
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.instances.context import Settings

_HASH_DIGITS: Final = 8
_INTEGRATIONS: Final = "-integrations"
_CLOSED: Final = re.compile(r"-[0-9a-f]{8}\Z")


@attrs.frozen
class Names:
    """The names of the chart's Flux source, and of the ConfigMap with the values that integrations imply.

    The ConfigMap exists only if the instance references values that are not inline.
    """

    source: str
    fragment: str


def names_of(release: Release, fetched: Mapping[str, Any], fragment: Mapping[str, Any], uid: str) -> Names:
    """Return the names of the source and the ConfigMap of `release`.

    Each name contains a hash, since changed content needs a new object. `fetched` is the part of the source's spec that
    decides which artifact is fetched. `fragment` are the values in the ConfigMap. The hash in the ConfigMap's name
    includes the instance's `uid`, so that the name is unique.
    """
    return Names(
        source=closed_name(release.name, content_hash(fetched)[:_HASH_DIGITS]),
        fragment=closed_name(
            f"{release.name}{_INTEGRATIONS}", content_hash({"uid": uid, "values": fragment})[:_HASH_DIGITS]
        ),
    )


def former_names(release: Release) -> Names:
    """Return the names that earlier versions of the operator gave to the source and the ConfigMap of `release`.

    They have no hash, since those versions changed a source in place.
    """
    return Names(source=release.name, fragment=f"{release.name}{_INTEGRATIONS}")


def releases_of(name: str) -> Iterator[str]:
    """Yield the names of the releases for which the operator may have created an object named `name`.

    Several releases are possible, because different releases can lead to the same object name.
    """
    yield name
    bare = _CLOSED.sub("", name)
    if bare != name:
        yield bare
    if bare.endswith(_INTEGRATIONS):
        yield bare.removesuffix(_INTEGRATIONS)


def release_account(release: Release, settings: Settings) -> str:
    """Return the service account that Flux impersonates, or an empty string if there is none.

    It is the instance's own account if that is allowed, or else the operator's default.
    """
    given, usual = release.service_account_name, settings.default_service_account or ""
    return given if given and given in (usual, *settings.allowed_release_service_accounts) else usual


def unimpersonated(release: Release | None, settings: Settings) -> str:
    """Return a message if Flux would have to install the release with its own rights, which is not allowed.

    Return an empty string if the release has a service account, or if the settings permit Flux's own rights.
    """
    if release is None or release_account(release, settings) or settings.allow_unimpersonated_releases:
        return ""
    return (
        "no service account is set for Flux to install this release with, and with its own rights a chart could do "
        "anything in the cluster. To fix: an administrator starts the operator with --service-account "
        f"({RELEASE_ACCOUNT} is the one that is printed for managed namespaces), or, to let charts do anything, with "
        "--allow-unimpersonated-releases"
    )


def replaced_account(source: ApplicationInstance, release: Release, settings: Settings) -> tuple[KubernetesEvent, ...]:
    """Return an Event if a service account other than the requested one is used, at most one Event per generation."""
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
