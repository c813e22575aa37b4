"""Helm's own storage: the releases of one name, and the Secrets Helm keeps them in."""

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import attrs

from vworkspace_core.manifest import Manifest, canonical_json, dig
from vworkspace_core.moments import timestamp
from vworkspace_fake.flux.behaviour import ChartHook

__all__ = [
    "Release",
    "ReleaseStatus",
    "last_release",
    "prune",
    "release_from_secret",
    "release_secret",
    "replace",
    "secret_name",
]

_ZERO_TIME: Final = "0001-01-01T00:00:00Z"


class ReleaseStatus(StrEnum):
    """Status of a Helm release."""

    DEPLOYED = "deployed"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    UNINSTALLED = "uninstalled"
    UNINSTALLING = "uninstalling"
    PENDING_INSTALL = "pending-install"
    PENDING_UPGRADE = "pending-upgrade"
    PENDING_ROLLBACK = "pending-rollback"

    @property
    def pending(self) -> bool:
        """Whether an action was begun and never ended."""
        return self.value.startswith("pending-")


@attrs.frozen
class Release:
    """One revision of a Helm release. `chart_version` is the version with the digest Flux put into it."""

    name: str
    namespace: str
    version: int
    status: ReleaseStatus
    chart_name: str
    chart_version: str
    config: Mapping[str, Any]
    config_digest: str
    first_deployed: datetime
    last_deployed: datetime
    deleted: datetime | None = None
    description: str = ""
    hooks: tuple[ChartHook, ...] = ()

    @property
    def digest(self) -> str:
        """Checksum of the stored release, as Flux keeps it in the history."""
        return "sha256:" + hashlib.sha256(canonical_json(_document(self))).hexdigest()

    def with_status(self, status: ReleaseStatus, description: str = "", deleted: datetime | None = None) -> "Release":
        """This release after an action changed its status."""
        return attrs.evolve(
            self,
            status=status,
            description=description or self.description,
            deleted=deleted or self.deleted,
        )


def last_release(releases: Sequence[Release]) -> Release | None:
    """The newest revision."""
    return max(releases, key=lambda item: item.version, default=None)


def replace(releases: Sequence[Release], *changed: Release) -> tuple[Release, ...]:
    """`releases` with those revisions added or exchanged, oldest first."""
    by_version = {item.version: item for item in (*releases, *changed)}
    return tuple(by_version[version] for version in sorted(by_version))


def prune(releases: Sequence[Release], limit: int) -> tuple[Release, ...]:
    """Make room for one more revision: the oldest go until fewer than `limit` are left, 0 for no limit.

    The last deployed one stays in any case.
    """
    if limit <= 0:
        return tuple(releases)
    deployed = [item.version for item in releases if item.status is ReleaseStatus.DEPLOYED]
    keep = max(deployed, default=0)
    kept = list(releases)
    for item in releases:
        if len(kept) >= limit and item.version != keep:
            kept.remove(item)
    return tuple(kept)


def secret_name(release: Release) -> str:
    """Name of the Secret that Helm keeps this revision in."""
    return f"sh.helm.release.v1.{release.name}.v{release.version}"


def release_secret(release: Release, namespace: str) -> dict[str, Any]:
    """The Secret in `namespace` (Helm's storage namespace) that holds `release`, as Helm writes it."""
    packed = base64.b64encode(gzip.compress(json.dumps(_document(release)).encode(), mtime=0))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(release),
            "namespace": namespace,
            "labels": {
                "name": release.name,
                "owner": "helm",
                "status": release.status.value,
                "version": str(release.version),
                "modifiedAt": str(int(release.last_deployed.timestamp())),
            },
        },
        "type": "helm.sh/release.v1",
        "data": {"release": base64.b64encode(packed).decode()},
    }


def release_from_secret(secret: Manifest) -> Release:
    """The release in a Secret that `release_secret` made."""
    document = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))
    info, chart = document["info"], document["chart"]["metadata"]
    deleted = info["deleted"]
    return Release(
        name=document["name"],
        namespace=document["namespace"],
        version=document["version"],
        status=ReleaseStatus(info["status"]),
        chart_name=chart["name"],
        chart_version=chart["version"],
        config=document["config"],
        config_digest=dig(chart, "annotations", "config-digest") or "",
        first_deployed=datetime.fromisoformat(info["first_deployed"]),
        last_deployed=datetime.fromisoformat(info["last_deployed"]),
        deleted=None if deleted == _ZERO_TIME else datetime.fromisoformat(deleted),
        description=info["description"],
        hooks=tuple(
            ChartHook(hook["name"], hook["kind"], hook["manifest"], tuple(hook["events"])) for hook in document["hooks"]
        ),
    )


def _document(release: Release) -> dict[str, Any]:
    # The digest of the values rides in the chart's annotations: the values of valuesFrom are not in `config`.
    return {
        "name": release.name,
        "namespace": release.namespace,
        "version": release.version,
        "info": {
            "first_deployed": timestamp(release.first_deployed),
            "last_deployed": timestamp(release.last_deployed),
            "deleted": timestamp(release.deleted) if release.deleted else _ZERO_TIME,
            "description": release.description,
            "status": release.status.value,
        },
        "chart": {
            "metadata": {
                "apiVersion": "v2",
                "name": release.chart_name,
                "version": release.chart_version,
                "annotations": {"config-digest": release.config_digest},
            },
            "templates": [],
            "values": {},
        },
        "config": dict(release.config),
        "manifest": "",
        "hooks": [
            {
                "name": hook.name,
                "kind": hook.kind,
                "path": f"{release.chart_name}/templates/{hook.name}.yaml",
                "manifest": hook.manifest,
                "events": list(hook.events),
            }
            for hook in release.hooks
        ],
        "apply_method": "ssa",
    }
