"""Helm's storage of all releases: in memory, and mirrored into Secrets if `FluxBehaviour.release_secrets` is set."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import attrs

from kubelab.flux.storage import (
    HelmReleaseStatus,
    StoredRelease,
    last_release,
    readable_releases,
    release_secret,
    secret_name,
)
from purekube.apimachinery.errors import AlreadyExists, KindMissing, NotFound
from purekube.apimachinery.manifest import ObjectRef, metadata
from purekube.apimachinery.resources import SECRET
from purekube.ports import KubeApi, PatchType

_GONE = (HelmReleaseStatus.UNINSTALLED, HelmReleaseStatus.UNINSTALLING)
_MANAGER = "helm-controller"


@attrs.frozen
class ReleasedWorkload:
    """A workload that Helm has installed with a release: its chart and version, and the HelmRelease of the release."""

    namespace: str
    release: str
    chart: str
    version: str
    owner: ObjectRef


class HelmStorage:
    """Helm's stored revisions by storage namespace and release name.

    If Secrets are used, a release that is not known yet, or whose newest Secret is gone, is first read from the
    cluster. A restarted simulator thus knows the installed releases, and notices Secrets that were deleted by hand.
    """

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._releases: dict[tuple[str, str], tuple[StoredRelease, ...]] = {}
        self._owners: dict[tuple[str, str], ObjectRef] = {}

    async def load(self, namespace: str, name: str, owner: ObjectRef, *, secrets: bool) -> tuple[StoredRelease, ...]:
        """Return the revisions of the release `name` in the storage namespace `namespace`, oldest first.

        `owner` is its HelmRelease. With `secrets`, revisions that are not known yet are read from Helm's Secrets in the
        cluster.
        """
        key = (namespace, name)
        self._owners.setdefault(key, owner)
        known = self._releases.get(key)
        if secrets and (known is None or not await self._are_kept(namespace, known)):
            self._releases[key] = await self._from_secrets(namespace, name)
        return self._releases.get(key, ())

    async def store(
        self, namespace: str, name: str, owner: ObjectRef, releases: Sequence[StoredRelease], *, secrets: bool
    ) -> None:
        """Make `releases` the only revisions of the release `name` in the storage namespace `namespace`.

        `owner` is its HelmRelease. With `secrets`, Helm's Secrets in the cluster are changed to match.
        """
        before = self._releases.get((namespace, name), ())
        self._releases[namespace, name] = tuple(releases)
        self._owners[namespace, name] = owner
        if secrets:
            await self._mirror(namespace, before, releases)

    def workloads(self) -> Iterator[ReleasedWorkload]:
        """Yield every installed workload, even those without a HelmRelease."""
        for key, releases in sorted(self._releases.items()):
            newest = last_release(releases)
            running = [item for item in releases if item.status is HelmReleaseStatus.DEPLOYED] or releases[-1:]
            if newest is not None and newest.status not in _GONE:
                item = running[-1]
                yield ReleasedWorkload(
                    item.namespace, item.name, item.chart_name, item.chart_version, self._owners[key]
                )

    async def _are_kept(self, namespace: str, releases: Sequence[StoredRelease]) -> bool:
        """Report whether the Secret of the newest known revision still exists. Users may have deleted the Secret."""
        newest = last_release(releases)
        if newest is None:
            return True
        try:
            return bool(await self._api.get(ObjectRef(SECRET, namespace, secret_name(newest))))
        except KindMissing:
            return True
        except NotFound:
            return False

    async def _from_secrets(self, namespace: str, name: str) -> tuple[StoredRelease, ...]:
        try:
            # The labels by which Helm finds the records (Helm: storage/driver/secrets.go, newSecretsObject); names are
            # not parsed.
            page = await self._api.list(SECRET, namespace=namespace, label_selector=f"owner=helm,name={name}")
        except KindMissing:
            return ()
        return tuple(sorted(readable_releases(page.items), key=lambda item: item.version))

    async def _mirror(self, namespace: str, before: Sequence[StoredRelease], after: Sequence[StoredRelease]) -> None:
        known = {item.version: item for item in before}
        for release in after:
            earlier = known.pop(release.version, None)
            if earlier is None:
                await self._create(namespace, release)
            elif earlier != release:
                await self._update(namespace, release)
        for release in known.values():
            try:
                await self._api.delete(ObjectRef(SECRET, namespace, secret_name(release)))
            except NotFound:
                continue

    async def _create(self, namespace: str, release: StoredRelease) -> None:
        try:
            await self._api.create(release_secret(release, namespace), kind=SECRET, field_manager=_MANAGER)
        except AlreadyExists:
            await self._update(namespace, release)

    async def _update(self, namespace: str, release: StoredRelease) -> None:
        """Update the Secret of a revision.

        If the Secret has been deleted, nothing happens. It is not created again, because its namespace may be gone too.
        """
        secret = release_secret(release, namespace)
        ref = ObjectRef(SECRET, namespace, secret_name(release))
        patch = {"metadata": {"labels": metadata(secret)["labels"]}, "data": secret["data"]}
        with suppress(NotFound):
            await self._api.patch(ref, patch, patch_type=PatchType.MERGE, field_manager=_MANAGER)
